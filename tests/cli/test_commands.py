"""The command line: what it prints, writes and returns; and every example of its help, run as it stands."""

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax import cli
from hmom_jax.cli.machine import memory_needed
from tests.helpers import HEARING_COMMAND

TOPICS = [
    "kitchen recipe butter flour sugar oven baking",
    "engine wheel motor brake gearbox driver road",
    "violin melody orchestra concert piano rhythm chorus",
    "glacier mountain valley river summit climbing snow",
]


def texts(seed, n_docs=120):
    """Draw documents on four subjects."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(TOPICS[i % 4].split(), 25)) for i in range(n_docs)]


def write_jsonl(path, values):
    path.write_text("".join(json.dumps({"text": value}) + "\n" for value in values))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder with the files that the examples name; compiled code is kept for all tests together."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "use_compilation_cache", lambda: None)
    write_jsonl(tmp_path / "articles.jsonl", texts(0))
    (tmp_path / "articles.jsonl.gz").write_bytes(gzip.compress((tmp_path / "articles.jsonl").read_bytes()))
    write_jsonl(tmp_path / "new.jsonl", texts(1, 10))
    (tmp_path / "articles.csv").write_text("id,body\n" + "".join(f"{i},{t}\n" for i, t in enumerate(texts(0))))
    assert cli.main(["convert", "articles.jsonl", "docword.kos.txt", "--quiet"]) == 0
    return tmp_path


def test_assign_gives_the_labels_that_the_tree_has(folder, capsys):
    assert cli.main(["tree", "articles.jsonl.gz", "--leaves", "4", "--save", "a.hmom", "--quiet"]) == 0
    drawn = capsys.readouterr()
    assert drawn.err == ""
    assert len(drawn.out.splitlines()) == 7
    assert cli.main(["assign", "a.hmom", "articles.jsonl.gz", "--quiet"]) == 0
    labels = [int(line) for line in capsys.readouterr().out.splitlines()]
    tree = hm.load_tree("a.hmom")
    assert labels == tree.labels().tolist()
    assert hm.metrics.adjusted_rand_score(np.arange(120) % 4, labels) == 1.0
    assert cli.main(["assign", "a.hmom", "docword.kos.txt", "--level", "1", "--quiet"]) == 0
    assert [int(line) for line in capsys.readouterr().out.splitlines()] == tree.labels(1).tolist()


def test_json_is_for_machines(folder, capsys):
    assert cli.main(["tree", "articles.jsonl", "--depth", "2", "--save", "a.hmom", "--quiet", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["method"] == "paper"
    assert cli.main(["show", "a.hmom", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == printed
    assert cli.main(["assign", "a.hmom", "new.jsonl", "--json", "--quiet"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["document"] for record in records] == list(range(10))
    assert all(0 < record["probability"] <= 1 and len(record["keywords"]) == 5 for record in records)
    assert all(name in cli._ASSIGN_JSON for name in records[0])


def test_phrases_and_stop_words_of_a_tree_are_used_again(folder, capsys):
    (folder / "stop.txt").write_text("oven\n")
    options = ["--ngrams", "2", "--stop-words", "stop.txt", "--min-df", "2", "--leaves", "4", "--save", "a.hmom"]
    assert cli.main(["tree", "articles.jsonl", *options, "--quiet"]) == 0
    tree = hm.load_tree("a.hmom")
    assert "oven" not in tree.vocabulary.tolist()
    assert any("_" in word for word in tree.vocabulary.tolist())
    capsys.readouterr()
    assert cli.main(["assign", "a.hmom", "articles.jsonl", "--quiet"]) == 0
    assert [int(line) for line in capsys.readouterr().out.splitlines()] == tree.labels().tolist()


def test_trees_of_shards_know_how_their_text_was_counted(folder, capsys):
    (folder / "stop.txt").write_text("oven\n")
    options = ["--ngrams", "2", "--stop-words", "stop.txt", "--min-df", "2", "--quiet"]
    assert cli.main(["convert", "articles.jsonl", "a.shards", *options]) == 0
    assert cli.main(["convert", "a.shards", "b.shards", "--quiet"]) == 0
    for shards in ("a.shards", "b.shards"):
        assert cli.main(["tree", shards, "--leaves", "4", "--save", "a.hmom", "--quiet"]) == 0
        tree = hm.load_tree("a.hmom")
        assert tree.metadata["text"] == {"stop_words": ["oven"], "ngrams": 2}
        capsys.readouterr()
        assert cli.main(["assign", "a.hmom", "articles.jsonl", "--quiet"]) == 0
        said = capsys.readouterr()
        assert [int(line) for line in said.out.splitlines()] == tree.labels().tolist()
        assert said.err == ""


def test_trees_of_counts_say_that_they_do_not_know_text(folder, capsys):
    assert cli.main(["convert", "docword.kos.txt", "k.shards", "--quiet"]) == 0
    assert cli.main(["convert", "articles.jsonl", "text.shards", "--quiet"]) == 0
    for counts in ("docword.kos.txt", "k.shards"):
        assert cli.main(["tree", counts, "--leaves", "4", "--save", "a.hmom", "--quiet"]) == 0
        assert "text" not in hm.load_tree("a.hmom").metadata
        capsys.readouterr()
        for same in ("docword.kos.txt", "text.shards"):
            assert cli.main(["assign", "a.hmom", same, "--quiet"]) == 0
            assert capsys.readouterr().err == ""
        assert cli.main(["assign", "a.hmom", "new.jsonl", "--quiet"]) == 0
        assert "hmom: warning: a.hmom was grown from counts" in capsys.readouterr().err


def test_shards_have_the_size_that_is_asked_for(folder, capsys):
    assert cli.main(["convert", "articles.jsonl", "a.shards", "--quiet"]) == 0
    assert len(hm.Corpus.open("a.shards").shards) == 1
    assert cli.main(["convert", "articles.jsonl", "a.shards", "--shard-size", "100", "--quiet"]) == 0
    shards = hm.Corpus.open("a.shards").shards
    assert len(shards) > 3
    assert max(shard.nnz for shard in shards) <= 100


def test_what_needs_memory_loads_shards(folder, capsys):
    assert cli.main(["convert", "articles.jsonl", "a.shards", "--quiet"]) == 0
    printed = []
    for name in ("articles.jsonl", "a.shards"):
        assert cli.main(["tree", name, "--depth", "2", "--json", "--quiet"]) == 0
        printed.append(json.loads(capsys.readouterr().out))
    assert printed[0] == printed[1]
    assert cli.main(["bench", "a.shards", "--leaves", "2", "--repeats", "1", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 120


def test_scratch_goes_where_it_is_told(folder, capsys, monkeypatch):
    assert cli.main(["convert", "articles.jsonl", "a.shards", "--quiet"]) == 0
    (folder / "fast").mkdir()
    seen, lay_down = [], hm.parallel.stream._lay_down
    monkeypatch.setattr(
        "hmom_jax.parallel.stream._lay_down", lambda file, *a: (seen.append(file), lay_down(file, *a))[1]
    )
    assert cli.main(["tree", "a.shards", "--leaves", "2", "--scratch", "fast", "--quiet"]) == 0
    assert {file.parent.parent.name for file in seen} == {"fast"}
    capsys.readouterr()
    assert cli.main(["tree", "a.shards", "--scratch", "nowhere", "--quiet"]) == 2
    assert "there is no folder nowhere" in capsys.readouterr().err
    assert cli.main(["tree", "articles.jsonl", "--scratch", "fast", "--quiet"]) == 2
    assert "NAME.shards" in capsys.readouterr().err


def test_what_goes_on_is_told_on_standard_error(folder, capsys):
    assert cli.main(["tree", "articles.jsonl", "--leaves", "4"]) == 0
    error = capsys.readouterr().err
    assert re.search(r"120 documents, 28 words, \d+ nonzeros; on cpu", error)
    assert re.search(r"4 leaves; read [\d.]+ s, compile [\d.]+ s, run [\d.]+ s; not saved", error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("tree nothing.jsonl", "hmom: nothing.jsonl: there is no such file or folder"),
        ("tree broken.jsonl", "broken.jsonl, line 2: not JSON"),
        ("tree broken.jsonl", "(--skip-bad leaves out broken lines)"),
        ("tree nothing.jsonl --method paper", "--depth N"),
        ("tree nothing.jsonl --method paper --leaves 4", "--depth N"),
        ("tree articles.jsonl --field body", "no text in field 'body'"),
        ("tree articles.jsonl --stop-words klingon", "klingon"),
        ("tree articles.jsonl --save no/such/folder/x.hmom", "no folder"),
        ("show articles.jsonl", "articles.jsonl: not a tree saved by `hmom tree --save`"),
        ("show nothing.hmom", "hmom: nothing.hmom: there is no such file or folder"),
        ("assign articles.hmom articles.jsonl", "articles.hmom"),
        ("convert articles.jsonl out.docx", "known endings"),
    ],
)
def test_wrong_input_gives_one_line_and_code_two(folder, capsys, arguments, message):
    (folder / "broken.jsonl").write_text('{"text": "red"}\n{"text": \n')
    assert cli.main(arguments.split()) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("hmom: ")
    assert len(error.splitlines()) == 1


def test_bad_lines_are_left_out_with_a_warning(folder, capsys):
    with open("articles.jsonl", "a") as file:
        file.write("not json\n")
    assert cli.main(["convert", "articles.jsonl", "a.npz", "--skip-bad"]) == 0
    assert (
        "hmom: warning: 1 broken line(s) were left out; the first: articles.jsonl, line 121" in capsys.readouterr().err
    )
    assert hm.read_corpus("a.npz").n_docs == 120


def test_wrong_usage_is_told_by_the_parser(capsys):
    for leaves in ("many", "0", "-3"):
        with pytest.raises(SystemExit) as caught:
            cli.main(["tree", "a.jsonl", "--leaves", leaves])
        assert caught.value.code == 2
    with pytest.raises(SystemExit) as caught:
        cli.main(["tree", "a.jsonl", "--leaves", "4", "--depth", "2"])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "tree a.jsonl --leaves abc",
            "argument --leaves: a whole number of at least 1 or auto was expected; got 'abc'",
        ),
        ("tree a.jsonl --depth 1.5", "argument --depth: a whole number of at least 1 was expected"),
        ("tree a.jsonl --min-df x", "argument --min-df: a number of documents"),
        ("tree a.jsonl --max-df 0.x", "argument --max-df: a number of documents"),
        ("tree a.jsonl --seed 99999999999999999999", "argument --seed: a whole number from 0 to 4294967295 was"),
        ("tree a.jsonl --seed -1", "argument --seed: a whole number from 0"),
        ("tree a.jsonl --words -1", "argument --words: a whole number of at least 0"),
        ("show a.hmom --words x", "argument --words: a whole number of at least 0"),
        ("tree a.jsonl --max-words 0", "argument --max-words: a whole number of at least 1"),
    ],
)
def test_wrong_values_name_the_option_and_what_was_expected(capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments.split())
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("size", ["--leaves 4 --seed 4294967295", "--depth 2"])
def test_documents_without_words_are_counted(folder, capsys, size):
    topics = TOPICS[0].split()
    write_jsonl(folder / "some.jsonl", ["", *texts(0), *[" ".join(topics)] * 60, "xx of the"])
    assert cli.main(["tree", "some.jsonl", *size.split(), "--save", "a.hmom"]) == 0
    message = r"2 documents have no words of the vocabulary; they go to the largest leaf, (\d)"
    label = int(re.search(message, capsys.readouterr().err)[1])
    tree = hm.load_tree("a.hmom")
    assert tree.labels()[[0, -1]].tolist() == [label, label]
    assert tree.leaves[label].n_docs == max(leaf.n_docs for leaf in tree.leaves)
    write_jsonl(folder / "other.jsonl", ["kitchen", "nothing"])
    assert cli.main(["assign", "a.hmom", "other.jsonl"]) == 0
    out, err = capsys.readouterr()
    assert f"1 document has no words of the vocabulary; it goes to the largest leaf, {label}\n" in err
    assert out.splitlines()[1] == str(label)
    assert cli.main(["assign", "a.hmom", "other.jsonl", "--level", "1"]) == 0
    assert re.search(r"it goes to the largest group, \d\n", capsys.readouterr().err)
    assert cli.main(["assign", "a.hmom", "other.jsonl", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_memory_is_estimated_for_the_space_that_is_used():
    corpus = hm.Corpus.from_counts(np.ones((10, 40)))
    assert memory_needed(corpus, 20) == memory_needed(corpus, 1000)


def test_running_out_of_memory_is_readable(folder, capsys, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9999999999 bytes.")

    monkeypatch.setattr("hmom_jax.cli.commands.grow_tree", fail)
    assert cli.main(["tree", "articles.jsonl", "--quiet"]) == 3
    assert "out of memory. Try fewer words" in capsys.readouterr().err
    monkeypatch.setattr("hmom_jax.cli.commands.grow_tree", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    assert cli.main(["tree", "articles.jsonl", "--quiet"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_large_runs_say_what_they_need(folder, capsys, monkeypatch):
    monkeypatch.setattr("hmom_jax.cli.commands.memory_needed", lambda *_: 5 * 10**12)
    assert cli.main(["tree", "articles.jsonl", "--leaves", "2"]) == 0
    assert re.search(r"this takes about 5000\.0 GB of [\d.]+ GB memory", capsys.readouterr().err)


def test_the_tree_is_drawn_in_ascii_where_the_terminal_has_no_more(folder, capsys):
    assert cli.main(["tree", "articles.jsonl", "--leaves", "4", "--save", "a.hmom", "--quiet"]) == 0
    result = _run("show a.hmom", folder, PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert b"`- " in result.stdout


EXAMPLES = [line for lines in cli.EXAMPLES.values() for line in lines]


def test_every_example_of_the_help_runs(folder, monkeypatch, capfd):
    """In the order of the help, since some examples read what others have written."""
    small = hm.datasets.hierarchical_topics(0)
    monkeypatch.setattr(hm.datasets, "docstrings", lambda: small)
    for line in EXAMPLES:
        command, _, rest = line.partition(" | ")
        if command.startswith("cat "):
            text = io.TextIOWrapper(io.BytesIO((folder / command.split()[1]).read_bytes()))
            monkeypatch.setattr("sys.stdin", text)
            command = rest
        command, _, target = command.partition(" > ")
        assert command.split()[0] == "hmom"
        assert cli.main([*command.split()[1:], "--quiet"]) == 0, line
        printed = capfd.readouterr().out
        assert printed or command.split()[1] == "convert", line
        if target:
            (folder / target).write_text(printed)
    json.loads((folder / "tree.json").read_text())
    assert (folder / "articles.nwk").read_text().endswith(";\n")
    assert set((folder / "leaves.txt").read_text().split()) <= {str(i) for i in range(32)}


def test_help_shows_the_examples(capsys):
    for name in ("", *cli.EXAMPLES):
        with pytest.raises(SystemExit) as caught:
            cli.main([*name.split(), "--help"])
        assert caught.value.code == 0
        shown = capsys.readouterr().out
        for line in cli.EXAMPLES.get(name, []):
            assert line in shown


def _environment(**extra):
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **extra}


def _run(arguments, folder, **extra):
    return subprocess.run(
        [sys.executable, "-m", "hmom_jax.cli", *arguments.split()],
        cwd=folder, env=_environment(**extra), capture_output=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_closed_pipe_is_no_error_and_the_cache_is_filled(folder):
    cache = folder / "cache"
    with open("articles.jsonl") as source, _start("tree - --leaves 4 --quiet", folder, source, cache) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=120) == 0
    assert len(list(cache.iterdir())) > 3


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to a single process")
def test_ctrl_c_leaves_quietly_and_no_half_files(folder):
    with _start("tree - --save a.hmom --no-cache", folder, subprocess.PIPE, folder / "cache") as process:
        process.stdin.write(b'{"text": "red apple"}\n' * 5000)  # more than a pipe holds: once written, it is being read
        process.stdin.flush()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"hmom: interrupted; nothing was written\n"
        assert process.wait(timeout=60) == 130
    assert not (folder / "a.hmom").exists()
    assert not (folder / "cache").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal that asks a process to end")
def test_a_terminated_command_takes_its_scratch_along(folder):
    assert cli.main(["convert", "articles.jsonl", "a.shards", "--quiet"]) == 0
    with _start("tree a.shards --no-cache --quiet", folder, subprocess.DEVNULL, folder / "cache") as process:
        deadline = time.monotonic() + 100
        while not list(folder.glob("a.shards/.scratch-*/0*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 143
    assert not list(folder.glob("a.shards/.*"))


def test_signals_are_left_alone_by_threads_and_given_back(folder, capsys):
    before = signal.getsignal(signal.SIGTERM)
    codes = []
    convert = lambda: codes.append(cli.main(["convert", "articles.jsonl", "a.npz", "--quiet"]))
    worker = threading.Thread(target=convert)
    worker.start()
    worker.join()
    convert()
    assert codes == [0, 0]
    assert signal.getsignal(signal.SIGTERM) is before


def _start(arguments, folder, stdin, cache):
    return subprocess.Popen(
        [sys.executable, "-c", HEARING_COMMAND, *arguments.split()],
        cwd=folder, env=_environment(JAX_COMPILATION_CACHE_DIR=str(cache)),
        stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_html_shows_the_documents_of_text_and_none_of_counts(folder, capsys):
    stored = lambda name: json.loads(
        re.search(r'id="data">(.*?)</script>', (folder / name).read_text(encoding="utf-8"), re.DOTALL)[1]
    )
    assert cli.main(["tree", "articles.jsonl.gz", "--leaves", "4", "--html", "a.html", "--save", "a.hmom"]) == 0
    assert "<title>articles</title>" in (folder / "a.html").read_text(encoding="utf-8")
    assert "a.html" in capsys.readouterr().err
    documents = stored("a.html")["documents"]
    assert sorted(documents["text"]) == sorted(texts(0))
    place = {text: node for text, node in zip(texts(0), hm.load_tree("a.hmom").doc_node.tolist(), strict=True)}
    assert [place[text] for text in documents["text"]] == documents["leaf"]
    assert cli.main(["tree", "docword.kos.txt", "--leaves", "2", "--html", "b.html", "--quiet"]) == 0
    assert "documents" not in stored("b.html")
    assert cli.main(["show", "a.hmom", "--leaves", "2", "--html", "c.html"]) == 0
    assert len(stored("c.html")["nodes"]) == 3
    assert cli.main(["show", "a.hmom", "--html", "no/such/folder/c.html"]) == 2
