"""The documentation: its Python runs, and it is built without a warning and with every public name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "notebooks" / "docs"
GUIDES = sorted((DOCS / "guides").glob("*.md"))
WITH_CODE = [path for path in GUIDES if "```python\n" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: path.stem)
def test_python_of_the_guide_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": path.stem}  # the blocks of a guide build on each other
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)):
        exec(compile(block, f"{path.name}, block {number + 1}", "exec"), names)


def test_every_guide_is_reached_from_the_first_page():
    first = (DOCS / "index.md").read_text(encoding="utf-8")
    assert GUIDES
    assert all(f"guides/{path.stem}\n" in first for path in GUIDES)


def build(source: Path, out: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", source, out]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_docs_are_built_without_a_warning_and_need_no_network(tmp_path):
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    done = build(DOCS, tmp_path)
    assert done.returncode == 0, done.stderr
    pages = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert {path.stem for path in GUIDES} <= set(pages)
    assert "<math" in pages["moments"]
    assert "<math" in pages["reference"]  # the dollars of docstrings too
    assert 'id="hmom_jax.Tree.plot"' in pages["reference"]
    for page in pages.values():
        fetched = re.findall(r"<(?:script|link|img)\b[^>]*?(?:src|href)=\"(\w+://[^\"]*)", page)
        assert fetched == []


@pytest.mark.slow
def test_an_undocumented_public_name_stops_the_build(tmp_path):
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "conf.py").write_text((DOCS / "conf.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "docs" / "index.md").write_text(
        "# All but one\n\n```{eval-rst}\n.. autofunction:: hmom_jax.sidiwo\n```\n", encoding="utf-8"
    )
    done = build(tmp_path / "docs", tmp_path / "out")
    assert done.returncode != 0
    assert "undocumented public name: hmom_jax.grow_tree" in done.stderr
    assert "undocumented public name: hmom_jax.Tree.keywords" in done.stderr
    assert "undocumented public name: hmom_jax.metrics.perplexity" in done.stderr
    assert "undocumented public name: hmom_jax.sidiwo" not in done.stderr
