"""``hmom demo``: what it prints and writes, and that errors are one line and exit code 2."""

import io
import json
import subprocess
import sys

import pytest

import hmom_jax as hm
from hmom_jax import cli


@pytest.fixture
def small(monkeypatch):
    """Let the demo run on the synthetic corpus."""
    data = hm.datasets.hierarchical_topics(0)
    monkeypatch.setattr(hm.datasets, "docstrings", lambda: data)
    monkeypatch.setattr(cli, "use_compilation_cache", lambda: None)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_demo_prints_the_tree_and_writes_json(small, capsys, tmp_path):
    assert cli.main(["demo", "--leaves", "8"]) == 0
    out, err = capsys.readouterr()
    stored = json.loads((tmp_path / "tree.json").read_text(encoding="utf-8"))
    assert stored["method"] == "robust"
    assert len(out.splitlines()) == 15
    assert "400 (all documents)" in out
    assert " ".join(stored["root"]["children"][0]["keywords"][:8]) in out
    for word in ("400 documents", "compile", "run", "tree.json", "tree.html"):
        assert word in err
    assert "Traceback" not in err
    page = (tmp_path / "tree.html").read_text(encoding="utf-8")
    assert " ".join(stored["root"]["children"][0]["keywords"][:8]) in page


def test_demo_takes_depth_file_and_quiet(small, capsys, tmp_path):
    assert cli.main(["demo", "--depth", "3", "--json", "other.json", "--html", "other.html", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 15
    assert err == ""
    assert json.loads((tmp_path / "other.json").read_text())["n_leaves"] == 8
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other.html", "other.json"]


def test_tree_is_drawn_in_ascii_where_the_terminal_knows_no_more(small, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert cli.main(["demo", "--quiet"]) == 0
    stream.flush()
    text = stream.buffer.getvalue().decode("ascii")
    assert "|- " in text
    assert "`- " in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--depth", "1", "--json", "no/such/folder/tree.json"], "no/such/folder"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_two(small, capsys, arguments, message):
    assert cli.main([*arguments, "--quiet"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("hmom: ")


@pytest.mark.parametrize(
    "arguments", [[], ["nothing"], ["demo", "--depth", "many"], ["demo", "--depth", "0"], ["demo", "--colour"]]
)
def test_unknown_arguments_exit_with_code_two(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "usage: hmom" in capsys.readouterr().err


SMALL_DEMO = """
import sys
import hmom_jax as hm
data = hm.datasets.hierarchical_topics(0)
hm.datasets.docstrings = lambda: data
from hmom_jax.cli import main
sys.exit(main(["demo", "--depth", "1", "--quiet", "--no-cache"]))
"""


def test_closed_pipe_is_not_an_error(tmp_path):
    """As in ``hmom demo | head -0``: the reader is gone before the tree is printed."""
    run = subprocess.Popen(
        [sys.executable, "-c", SMALL_DEMO], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    run.stdout.close()
    err = run.stderr.read()
    run.stderr.close()
    assert run.wait(timeout=60) == 0
    assert err == b""
    assert (tmp_path / "tree.json").exists()


@pytest.mark.slow
def test_demo_runs_from_a_cold_start(tmp_path):
    command = [
        sys.executable,
        "-c",
        "import sys; from hmom_jax.cli import main; sys.exit(main(['demo', '--no-cache']))",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=True)
    out = done.stdout.decode("utf-8")
    assert len(out.splitlines()) == 2 * json.loads((tmp_path / "tree.json").read_text("utf-8"))["n_leaves"] - 1
    assert b"Traceback" not in done.stderr
