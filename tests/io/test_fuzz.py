"""Random and mutated bytes to every reader: nothing but errors of ours comes out, and memory stays bounded."""

import gzip
import tracemalloc
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings

import hmom_jax as hm
from hmom_jax.io import write_counts

_LIMIT = 200 * 2**20  # far above what files of a few kilobytes need, far below what they may claim


def _seed_files(folder):
    """Write a small sound file of every format; returns {name: bytes}."""
    counts = np.random.default_rng(0).poisson(0.7, (12, 9))
    corpus = hm.Corpus.from_counts(counts, [f"w{i}" for i in range(9)])
    for name in ("a.npz", "a.mtx", "docword.a.txt", "a.svmlight", "a.ldac"):
        write_counts(corpus, folder / name)
    sp.save_npz(folder / "coo.npz", sp.coo_array(counts))
    (folder / "a.jsonl").write_text('{"text": "red apple"}\n{"text": "green apple", "n": [1, {"a": null}]}\n')
    (folder / "a.jsonl.gz").write_bytes(gzip.compress((folder / "a.jsonl").read_bytes()))
    (folder / "a.csv").write_text('id,text\n1,"red, apple"\n2,green apple\n')
    (folder / "rows.csv").write_text('"","a","b"\n"red",1,2\n"blue",0,1\n')
    (folder / "a.tsv").write_text("id\ttext\n1\tred apple\n")
    (folder / "a.mallet").write_text("one en red apple\ntwo en green\n")
    (folder / "a.txt").write_text("red apple\ngreen apple\n")
    hm.grow_tree(hm.Corpus.from_counts(counts), depth=1).save(folder / "paper.hmom")
    return {path.name: path.read_bytes() for path in folder.iterdir() if "vocab" not in path.name}


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    return _seed_files(tmp_path_factory.mktemp("seeds"))


NAMES = [
    "a.npz", "coo.npz", "a.mtx", "docword.a.txt", "a.svmlight", "a.ldac", "a.jsonl", "a.jsonl.gz", "a.csv", "rows.csv",
    "a.tsv", "a.mallet", "a.txt", "paper.hmom",
]  # fmt: skip


def _read(path, skip_bad):
    if path.suffix == ".hmom":
        return hm.load_tree(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hm.read_corpus(path, min_df=1, skip_bad=skip_bad)


def _only_ours(path, content, skip_bad):
    path.write_bytes(content)
    tracemalloc.start()
    try:
        _read(path, skip_bad)
    except hm.InputError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < _LIMIT


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutated_files_give_errors_of_ours(name, seeds, tmp_path, data):
    content = bytearray(seeds[name])
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["set", "insert", "cut", "digits", "repeat"]))
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        if kind == "set" and content:
            content[at] = data.draw(st.integers(0, 255))
        elif kind == "insert":
            content[at:at] = data.draw(st.binary(max_size=8))
        elif kind == "cut":
            del content[at : at + data.draw(st.integers(1, 40))]
        elif kind == "digits":
            content[at:at] = data.draw(st.sampled_from([b"9" * 12, b"-1", b"1e400", b"nan", b" ", b"\n", b'"']))
        else:
            content += content[at : at + 50]
    _only_ours(tmp_path / name, bytes(content), data.draw(st.booleans()))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300), skip_bad=st.booleans())
def test_random_bytes_give_errors_of_ours(name, tmp_path, content, skip_bad):
    _only_ours(tmp_path / name, content, skip_bad)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutated_parquet_gives_errors_of_ours(tmp_path, data):
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table({"text": ["red apple", "green"] * 20}), path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    _only_ours(path, bytes(content[: data.draw(st.integers(0, len(content)))]), data.draw(st.booleans()))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_saved_tree_with_mutated_members_is_refused_or_sound(tmp_path, seeds, data):
    """Mutations inside the zip, which its checksums would otherwise catch first."""
    from hmom_jax.io.npz import read_members
    from hmom_jax.io.write import write_npz

    path = tmp_path / "tree.hmom"
    path.write_bytes(seeds["paper.hmom"])
    members = read_members(path)
    name = data.draw(st.sampled_from(sorted(members)))
    content = bytearray(members[name])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
    write_npz(path, {}, {**members, name: bytes(content)})
    try:
        tree = hm.load_tree(path)
    except hm.InputError:
        return
    tree.to_json()
    tree.labels()
    str(tree)
