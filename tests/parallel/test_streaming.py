"""Trees of a corpus that stays on disk: the same as in memory, in less memory."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hmom_jax as hm
from tests.parallel.test_mesh import REAL, SMALL, check_agree
from tests.parallel.test_shards import written
from tests.parallel.worker import corpus_of, grow, mesh_of


def on_disk(folder, corpus: hm.Corpus, n_shards: int) -> hm.Corpus:
    """Write a corpus as about so many shards, and open it."""
    n_nonzeros = -(-corpus.nnz // n_shards)
    return hm.Corpus.open(written(folder, corpus.counts, corpus.vocabulary, n_nonzeros, batch=corpus.n_docs))


@pytest.mark.parametrize("name", SMALL)
def test_the_tree_is_that_of_plain_memory(name, tmp_path):
    corpus = corpus_of(name)
    tree = hm.grow_tree(corpus, n_leaves=8)
    streamed = on_disk(tmp_path / "x.shards", corpus, 4)
    assert len(streamed.shards) >= 4
    found = hm.grow_tree(streamed, n_leaves=8)
    check_agree(found.labels(), tree, corpus)
    for mine, theirs in zip(found.nodes, tree.nodes, strict=True):
        np.testing.assert_allclose(mine.topic, theirs.topic, rtol=1e-3, atol=1e-7)
    np.testing.assert_array_equal(found.assign(streamed), found.labels())
    np.testing.assert_allclose(found.model.scores(streamed), found.model.scores(corpus), rtol=1e-4, atol=1e-4)


def test_weights_and_an_open_number_of_leaves(tmp_path):
    corpus = corpus_of("synthetic")
    weight = np.random.default_rng(0).integers(0, 3, corpus.n_docs)
    tree = hm.grow_tree(corpus, n_leaves="auto", sample_weight=weight)
    streamed = on_disk(tmp_path / "x.shards", corpus, 4)
    check_agree(hm.grow_tree(streamed, n_leaves="auto", sample_weight=weight).labels(), tree, corpus)


def test_a_mesh_takes_the_documents_into_memory(tmp_path):
    corpus = corpus_of("synthetic")
    streamed = on_disk(tmp_path / "x.shards", corpus, 4)
    found = hm.grow_tree(streamed, n_leaves=8, mesh=mesh_of(1))
    check_agree(found.labels(), hm.grow_tree(corpus, n_leaves=8), corpus)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_corpora_from_disk(name, tmp_path, request):
    if name != "docstrings":
        request.getfixturevalue("data_folder")
    corpus = corpus_of(name)
    found = grow(name, on_disk(tmp_path / "x.shards", corpus, 3))
    check_agree(found.labels(), grow(name, corpus), corpus)


MEASURE = """
import re, sys, threading, jax
import hmom_jax as hm
def anonymous():
    return int(re.search(r"Anonymous:\\s+(\\d+)", open("/proc/self/smaps_rollup").read())[1]) / 1024
jax.block_until_ready(jax.numpy.ones(3) + 1)
corpus = hm.Corpus.open(sys.argv[1])
if sys.argv[2] == "memory":
    corpus = corpus.load()
before, peak, done = anonymous(), [0.0], threading.Event()
def watch():
    while not done.wait(0.02):
        peak[0] = max(peak[0], anonymous())
watcher = threading.Thread(target=watch)
watcher.start()
tree = hm.grow_tree(corpus, n_leaves=4)
done.set()
watcher.join()
print(tree.n_leaves, peak[0])
"""


@pytest.mark.slow
def test_anonymous_memory_stays_below_that_of_plain_memory(tmp_path):
    """Mapped files are not counted: the system takes them back when memory is short."""
    if not Path("/proc/self/smaps_rollup").exists():
        pytest.skip("needs smaps_rollup, which Linux has")
    counts = hm.datasets.hierarchical_topics(0, n_docs=30_000, n_words=400, doc_length=400).counts  # 7 million nonzeros
    written(tmp_path / "x.shards", counts, n_nonzeros=1 << 19, batch=2000)
    peak = {}
    for mode in ("memory", "disk"):
        command = [sys.executable, "-c", MEASURE, str(tmp_path / "x.shards"), mode]
        found = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True, env=os.environ)
        leaves, megabytes = found.stdout.split()
        assert int(leaves) == 4
        peak[mode] = float(megabytes)
    assert peak["disk"] < 0.6 * peak["memory"], peak
