"""Counts in a folder: written, read back, damaged."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import hmom_jax as hm
from hmom_jax.errors import InputError
from hmom_jax.parallel.scratch import OWNER, make_scratch
from hmom_jax.parallel.shards import ShardWriter, read_manifest
from tests.helpers import random_corpus


def written(folder, counts, words=None, n_nonzeros=40, batch=7):
    """Write counts as shards, some documents at a time."""
    counts = sp.csr_array(counts)
    writer = ShardWriter(folder, n_nonzeros)
    for first in range(0, counts.shape[0], batch):
        writer.add(counts[first : first + batch])
    writer.finish(np.arange(counts.shape[1]).astype(str) if words is None else words)
    return folder


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path / "corpus.shards", random_corpus(0))


def test_a_round_trip_gives_the_same_corpus(folder):
    counts = random_corpus(0)
    corpus = hm.Corpus.open(folder)
    expected = hm.Corpus.from_counts(counts)
    assert len(corpus.shards) > 2
    assert max(shard.nnz for shard in corpus.shards) <= 40
    assert (corpus.n_docs, corpus.n_words, corpus.nnz) == (*counts.shape, expected.nnz)
    np.testing.assert_array_equal(corpus.load().counts.toarray(), expected.counts.toarray())
    np.testing.assert_array_equal(corpus.length, expected.length)


def test_sums_are_those_of_plain_memory(folder):
    on_disk, corpus = hm.Corpus.open(folder), hm.Corpus.from_counts(random_corpus(0))
    rng = np.random.default_rng(1)
    weights, labels = rng.random(corpus.n_docs), rng.integers(3, size=corpus.n_docs)
    chosen = np.flatnonzero(rng.random(corpus.n_docs) < 0.6)
    logarithm = lambda counts: np.log2(1 + counts)
    for here, there in (
        (on_disk, corpus),
        (on_disk.map_counts(logarithm), corpus.map_counts(logarithm)),
        (on_disk.take(chosen), corpus.take(chosen)),
        (on_disk.take(chosen).take(np.arange(4, 9)), corpus.take(chosen).take(np.arange(4, 9))),
    ):
        w, k = weights[: there.n_docs], labels[: there.n_docs]
        np.testing.assert_allclose(here.length, there.length, rtol=1e-6)
        np.testing.assert_allclose(here.square_length, there.square_length, rtol=1e-6)
        np.testing.assert_allclose(here.word_sums(w), there.word_sums(w), rtol=1e-6)
        np.testing.assert_allclose(here.word_sums(w, squares=True), there.word_sums(w, squares=True), rtol=1e-6)
        np.testing.assert_allclose(here.label_sums(k, w, 3), there.label_sums(k, w, 3), rtol=1e-5)


def test_parts_are_the_documents_of_processes(folder):
    corpus = hm.Corpus.open(folder)
    parts = [corpus.part(number, 3) for number in range(3)]
    joined = sp.vstack([part.load().counts for part in parts])
    np.testing.assert_array_equal(joined.toarray(), corpus.load().counts.toarray())
    with pytest.raises(InputError, match="100 parts cannot be had of them.*--shard-size"):
        corpus.part(0, 100)
    with pytest.raises(InputError, match="from 0 to 2; got 3"):
        corpus.part(3, 3)
    with pytest.raises(InputError, match="no parts"):
        corpus.take(np.arange(3)).part(0, 1)


def test_whole_counts_take_a_byte_and_others_what_they_need(tmp_path):
    for counts, dtype in ((np.eye(4), np.uint8), (300 * np.eye(4), np.uint16), (0.5 * np.eye(4, dtype="f4"), "f4")):
        written(tmp_path / "x.shards", counts)
        assert np.load(tmp_path / "x.shards" / "00000.data.npy").dtype == dtype
        np.testing.assert_array_equal(hm.Corpus.open(tmp_path / "x.shards").load().counts.toarray(), counts)


def test_a_truncated_shard_is_named(folder):
    file = folder / "00001.indices.npy"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(InputError, match=r"00001\.indices\.npy.*cut off"):
        hm.Corpus.open(folder)


@pytest.mark.parametrize("part", ["indptr", "indices", "data"])
def test_a_flipped_bit_is_named(folder, part):
    file = folder / f"00002.{part}.npy"
    content = bytearray(file.read_bytes())
    content[-3] ^= 16
    file.write_bytes(content)
    with pytest.raises(InputError, match=rf"00002\.{part}\.npy: the checksum"):
        hm.grow_tree(hm.Corpus.open(folder), n_leaves=2)


def test_missing_parts_are_named(folder):
    (folder / "00001.data.npy").unlink()
    with pytest.raises(InputError, match=r"00001\.data\.npy.*missing"):
        hm.Corpus.open(folder)
    (folder / "vocabulary.json").unlink()
    with pytest.raises(InputError, match=r"vocabulary\.json.*missing"):
        hm.Corpus.open(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match="not finished"):
        hm.Corpus.open(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about: about.update(version=2), "version 2"),
        (lambda about: about.update(format="zip"), "format is 'zip'"),
        (lambda about: about.update(n_words=3), "do not fit"),
        (lambda about: about["shards"][0].update(name="../00000"), "proper name"),
        (lambda about: about.pop("shards"), "damaged"),
        (lambda about: about["shards"][0]["files"]["data"].pop("bytes"), r"manifest\.json.*damaged.*bytes"),
        (lambda about: about["shards"][0]["files"]["data"].update(bytes="many"), r"manifest\.json.*damaged.*bytes"),
        (lambda about: about["shards"][0]["files"]["data"].pop("crc32"), r"manifest\.json.*damaged.*crc32"),
        (lambda about: about["shards"][0]["files"].update(data=[]), r"manifest\.json.*damaged"),
        (lambda about: about.update(text={"stop_words": 3, "ngrams": 1}), "settings for reading text"),
        (lambda about: about["shards"][1].update(n_docs=10**6), "not those of the manifest"),
    ],
)
def test_a_manifest_that_lies_is_refused(folder, change, message):
    about = json.loads((folder / "manifest.json").read_text())
    change(about)
    (folder / "manifest.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=message):
        hm.Corpus.open(folder).load()


def test_words_that_do_not_exist_are_refused_though_the_checksum_is_right(folder):
    shards, _, _ = read_manifest(folder)
    indices = np.load(shards[0].path("indices"))
    indices[0] = 10**6
    np.save(shards[0].path("indices"), indices)
    about = json.loads((folder / "manifest.json").read_text())
    from hmom_jax.parallel.shards import checksum

    about["shards"][0]["files"]["indices"]["crc32"] = checksum(shards[0].path("indices"))
    (folder / "manifest.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="not counts"):
        hm.Corpus.open(folder).load()


def test_a_folder_of_other_files_is_not_written_over(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt"):
        ShardWriter(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_writing_again_replaces_the_shards(folder):
    (folder / ".scratch-old").mkdir()
    (folder / ".00000.data.npy.abc.tmp").write_text("of a process that was killed")
    written(folder, np.eye(3))
    assert hm.Corpus.open(folder).n_docs == 3
    assert sorted(path.name for path in folder.iterdir())[0] == "00000.data.npy"


def test_a_corpus_on_disk_says_what_it_cannot_do(folder):
    corpus = hm.Corpus.open(folder)
    with pytest.raises(InputError, match="load"):
        _ = corpus.counts
    with pytest.raises(InputError, match="paper"):
        hm.grow_tree(corpus, depth=2)
    with pytest.raises(InputError, match="own order"):
        corpus.take(np.array([3, 1]))
    blocked = folder.parent / "file"
    blocked.write_text("")
    with pytest.raises(InputError, match="scratch"):
        _ = hm.Corpus.open(folder, scratch=blocked).folder


def test_scratch_goes_with_the_corpus(folder):
    corpus = hm.Corpus.open(folder)
    scratch = corpus.folder
    assert scratch.is_dir()
    del corpus
    assert not scratch.exists()
    shutil.rmtree(folder)


def _left_behind(parent, name, **owner):
    """Make a scratch folder as if by another process."""
    folder = make_scratch(parent)
    about = json.loads((folder / OWNER).read_text()) | owner
    (folder / OWNER).write_text(json.dumps(about))
    (folder / "00000").write_text("counts")
    return folder.rename(parent / f".scratch-{name}")


@pytest.mark.skipif(os.name != "posix", reason="nobody can be asked there")
def test_scratch_of_processes_that_are_no_more_is_removed(folder):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    _left_behind(folder, "elsewhere", pid=gone.pid, host="elsewhere")
    _left_behind(folder, "container", pid=gone.pid, space="pid:[1]")
    _left_behind(folder, "alive", pid=os.getppid())
    _left_behind(folder, "nonsense", pid="x")
    (folder / ".scratch-unknown").mkdir()
    _left_behind(folder, "gone", pid=gone.pid)
    corpus = hm.Corpus.open(folder)
    before = {path.name for path in folder.glob(".scratch-*")}
    assert len(before) == 6
    own = corpus.folder.name
    assert {path.name for path in folder.glob(".scratch-*")} == before - {".scratch-gone"} | {own}
    written(folder, np.eye(3))  # whoever may be at work is left alone
    left = {path.name for path in folder.glob(".scratch-*")}
    assert left == {own, ".scratch-elsewhere", ".scratch-container", ".scratch-alive"}
    assert not (folder / OWNER).exists()
