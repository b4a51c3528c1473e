"""Trees that were cut short go on from their last complete round, and come out the same."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax import files
from hmom_jax.errors import InputError
from hmom_jax.parallel.checkpoint import STAGES, Checkpoint
from tests.helpers import HEARING_COMMAND
from tests.parallel.test_streaming import on_disk
from tests.parallel.worker import corpus_of, mesh_of


def same(first: hm.Tree, second: hm.Tree) -> None:
    """Compare bit for bit."""
    np.testing.assert_array_equal(first.labels(), second.labels())
    for mine, theirs in zip(first.nodes, second.nodes, strict=True):
        np.testing.assert_array_equal(mine.topic, theirs.topic)
        assert (mine.weight, mine.children, mine.split_order) == (theirs.weight, theirs.children, theirs.split_order)
    for mine, theirs in zip(first.model.mixture, second.model.mixture, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def cut_short(monkeypatch, stage: str, **how) -> None:
    """Grow a tree until a round is about to be written."""
    write = Checkpoint._write

    def stop(self, record, arrays):
        if record.stem == stage:
            raise KeyboardInterrupt
        write(self, record, arrays)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "_write", stop)
        with pytest.raises(KeyboardInterrupt):
            hm.grow_tree(**how)


@pytest.fixture(params=["memory", "mesh", "disk"])
def how(request, tmp_path):
    corpus = corpus_of("synthetic")
    options = {"corpus": corpus, "n_leaves": 6, "checkpoint": tmp_path / "rounds"}
    if request.param == "mesh":
        options["mesh"] = mesh_of(1)
    elif request.param == "disk":
        options["corpus"] = on_disk(tmp_path / "x.shards", corpus, 3)
    return options


def test_a_tree_cut_short_anywhere_comes_out_the_same(how, monkeypatch):
    whole = hm.grow_tree(**how)
    assert {path.stem for path in how["checkpoint"].glob("*.json")} == {"checkpoint", *STAGES}
    same(hm.grow_tree(**{**how, "checkpoint": None}), whole)
    for number, stage in enumerate(STAGES):
        cut_short(monkeypatch, stage, **how)
        assert {path.stem for path in how["checkpoint"].glob("*.json")} == {"checkpoint", *STAGES[:number]}
        kept = [(how["checkpoint"] / f"{name}.json").stat().st_mtime_ns for name in STAGES[:number]]
        same(hm.grow_tree(**how, resume=True), whole)
        assert kept == [(how["checkpoint"] / f"{name}.json").stat().st_mtime_ns for name in STAGES[:number]]


def test_another_corpus_or_option_is_refused(tmp_path):
    corpus = corpus_of("synthetic")
    how = {"n_leaves": 2, "checkpoint": tmp_path / "rounds"}
    with pytest.raises(InputError, match="no checkpoint to go on from"):
        hm.grow_tree(corpus, **how, resume=True)
    hm.grow_tree(corpus, **how)
    with pytest.raises(InputError, match="n_leaves was 2, and is 3 now"):
        hm.grow_tree(corpus, n_leaves=3, checkpoint=how["checkpoint"], resume=True)
    with pytest.raises(InputError, match="corpus was '400 x 100"):
        hm.grow_tree(corpus.take(np.arange(399)), **how, resume=True)
    with pytest.raises(InputError, match="key was"):
        hm.grow_tree(corpus, **how, key=jax.random.key(1), resume=True)
    with pytest.raises(InputError, match="sample_weight was"):
        hm.grow_tree(corpus, **how, sample_weight=np.arange(1, 401), resume=True)
    with pytest.raises(InputError, match="needs checkpoint"):
        hm.grow_tree(corpus, n_leaves=2, resume=True)
    with pytest.raises(InputError, match="robust"):
        hm.grow_tree(corpus, depth=1, checkpoint=how["checkpoint"])


def test_another_release_or_type_is_refused(tmp_path, monkeypatch):
    corpus = corpus_of("synthetic")
    how = {"n_leaves": 2, "checkpoint": tmp_path / "rounds"}
    hm.grow_tree(corpus, **how)
    with monkeypatch.context() as patch:
        patch.setattr(hm, "__version__", "99.0")
        with pytest.raises(InputError, match=r"begun by hmom_jax \S+, and this is 99\.0"):
            hm.grow_tree(corpus, **how, resume=True)
    with jax.enable_x64(True):
        double = hm.io.write_shards(hm.Corpus.from_counts(corpus.counts.astype(float)), tmp_path / "x.shards")
        assert double.dtype == np.float64
        hm.grow_tree(double, **how)
    with pytest.raises(InputError, match="dtype was 'float64', and is 'float32' now"):
        hm.grow_tree(hm.Corpus.open(tmp_path / "x.shards"), **how, resume=True)
    about = json.loads((how["checkpoint"] / "checkpoint.json").read_text())
    del about["hmom_jax"]
    (how["checkpoint"] / "checkpoint.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="an earlier hmom_jax"):
        hm.grow_tree(corpus, **how, resume=True)


def test_damage_is_named_and_other_folders_are_left_alone(tmp_path):
    corpus, rounds = corpus_of("synthetic"), tmp_path / "rounds"
    hm.grow_tree(corpus, n_leaves=2, checkpoint=rounds)
    file = rounds / "plan.leaf.npy"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"plan\.leaf\.npy: missing or damaged"):
        hm.grow_tree(corpus, n_leaves=2, checkpoint=rounds, resume=True)
    (rounds / ".plan.json.abc.tmp").write_text("of a process that was killed")
    hm.grow_tree(corpus, n_leaves=2, checkpoint=rounds)
    assert not (rounds / ".plan.json.abc.tmp").exists()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / ".checkpoint.json.abc.tmp").write_text("of a process that was killed")
    hm.grow_tree(corpus, n_leaves=2, checkpoint=tmp_path / "begun")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.json").write_text("{}")
    with pytest.raises(InputError, match=r"notes\.json"):
        hm.grow_tree(corpus, n_leaves=2, checkpoint=tmp_path / "mine")


@pytest.mark.parametrize(
    "name", ["thesis.txt", "results.npy", "plan.npy", "cells.csv", "process-0/thesis.txt", "notes"]
)
def test_beginning_anew_takes_away_only_what_we_wrote(tmp_path, name):
    corpus, rounds = corpus_of("synthetic"), tmp_path / "rounds"
    hm.grow_tree(corpus, n_leaves=2, checkpoint=rounds)
    before = {path.name: path.read_bytes() for path in rounds.iterdir()}
    mine = rounds / name
    if name == "notes":
        mine.mkdir()
    else:
        mine.parent.mkdir(exist_ok=True)
        mine.write_text("mine")
    with pytest.raises(InputError, match=rf"holds other files \('{mine.name}'\)"):
        hm.grow_tree(corpus, n_leaves=3, checkpoint=rounds)
    assert mine.is_dir() or mine.read_text() == "mine"
    assert {path.name: path.read_bytes() for path in rounds.iterdir() if path.name in before} == before
    hm.grow_tree(corpus, n_leaves=2, checkpoint=rounds, resume=True)


def test_rounds_of_several_processes_are_cleared_by_one(tmp_path):
    corpus, rounds = corpus_of("synthetic"), tmp_path / "rounds"
    rounds.mkdir()
    for number in (0, 1):
        hm.grow_tree(corpus, n_leaves=2, checkpoint=rounds / f"process-{number}")
    hm.grow_tree(corpus, n_leaves=2, checkpoint=rounds)
    assert not list(rounds.glob("process-*"))
    hm.grow_tree(corpus, n_leaves=2, checkpoint=rounds, resume=True)


COMMAND = [sys.executable, "-m", "hmom_jax.cli", "tree"]
LIMITED = """
import resource, signal, sys
from hmom_jax.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def counts(tmp_path):
    """Write a corpus; return the arguments that grow its tree."""
    corpus = corpus_of("synthetic")
    path = tmp_path / "x.npz"
    hm.io.write_counts(corpus, path)
    return [str(path), "--leaves", "4", "--no-cache", "--checkpoint", str(tmp_path / "rounds")]


def resumed(counts, tmp_path) -> hm.Tree:
    """Go on from the checkpoint by the command line."""
    saved = tmp_path / "resumed.hmom"
    subprocess.run([*COMMAND, *counts, "--resume", "--quiet", "--save", str(saved)], check=True, timeout=120)
    return hm.load_tree(saved)


def test_an_interrupt_right_after_a_file_is_in_place_stays_an_interrupt(tmp_path, monkeypatch):
    replace = os.replace

    def interrupted(*paths):
        replace(*paths)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_text(tmp_path / "round.json", "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["round.json"]


def test_a_full_disk_leaves_the_rounds_before_it(counts, tmp_path):
    pytest.importorskip("resource")
    full = subprocess.run(
        [sys.executable, "-c", LIMITED, "30000", "tree", *counts], capture_output=True, text=True, timeout=120
    )  # z has 400 x 32 x 4 bytes
    assert full.returncode == 2, full.stderr
    assert "embedding.json" in full.stderr
    assert "intact" in full.stderr
    assert [path.name for path in (tmp_path / "rounds").iterdir()] == ["checkpoint.json"]
    expected = hm.grow_tree(hm.read_corpus(counts[0]), n_leaves=4)
    np.testing.assert_array_equal(resumed(counts, tmp_path).labels(), expected.labels())


def test_an_interrupt_leaves_the_rounds_before_it(counts, tmp_path):
    if sys.platform == "win32":
        pytest.skip("signals are another matter there")
    rounds = tmp_path / "rounds"
    for _ in range(5):  # a tree this small can be done before the signal is sent
        worker = subprocess.Popen(
            [sys.executable, "-c", HEARING_COMMAND, "tree", *counts],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        try:
            deadline = time.monotonic() + 100
            while not (rounds / "embedding.json").exists() and time.monotonic() < deadline and worker.poll() is None:
                time.sleep(0.005)
            os.kill(worker.pid, signal.SIGINT)
            _, said = worker.communicate(timeout=60)
        finally:
            worker.kill()
            worker.wait()
        if worker.returncode != 0:
            break
        shutil.rmtree(rounds)
    assert worker.returncode == 130, said
    assert "--resume" in said
    assert (rounds / "embedding.json").exists()
    assert not (rounds / "polish.json").exists()
    assert json.loads((rounds / "checkpoint.json").read_text())["n_leaves"] == 4
    expected = hm.grow_tree(hm.read_corpus(counts[0]), n_leaves=4)
    np.testing.assert_array_equal(resumed(counts, tmp_path).labels(), expected.labels())
    assert Path(counts[0]).exists()
