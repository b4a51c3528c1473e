"""Trees in files: what comes back, and what is refused."""

import json
import zipfile

import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.io import write_counts
from hmom_jax.io.npz import read_members


@pytest.fixture(scope="module")
def corpus():
    data = hm.datasets.hierarchical_topics(seed=1)
    return hm.Corpus.from_counts(data.counts, [f"word <{i}> é" for i in range(100)])


@pytest.fixture(scope="module", params=["robust", "paper"])
def tree(request, corpus):
    grown = hm.grow_tree(corpus, n_leaves=6) if request.param == "robust" else hm.grow_tree(corpus, depth=2)
    grown.metadata["note"] = ["anything", 1]
    return grown


@pytest.fixture
def saved(tree, tmp_path):
    tree.save(tmp_path / "tree.hmom")
    return tmp_path / "tree.hmom"


def test_a_tree_survives_a_round_trip(tree, saved, corpus):
    loaded = hm.load_tree(saved)
    assert loaded.to_json() == tree.to_json()
    assert str(loaded) == str(tree)
    assert loaded.metadata == tree.metadata
    np.testing.assert_array_equal(loaded.labels(), tree.labels())
    np.testing.assert_array_equal(loaded.assign(corpus), tree.labels())
    np.testing.assert_array_equal(loaded.cut(3).labels(), tree.cut(3).labels())
    np.testing.assert_array_equal(loaded.probabilities(corpus), tree.probabilities(corpus))


def test_the_same_tree_gives_the_same_bytes(tree, saved, tmp_path):
    tree.save(tmp_path / "again.hmom")
    assert (tmp_path / "again.hmom").read_bytes() == saved.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.hmom", "tree.hmom"]


def test_a_failed_save_leaves_the_old_file(tree, saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr("zipfile.ZipFile.writestr", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tree.save(saved)
    assert saved.read_bytes() == before
    assert len(list(saved.parent.iterdir())) == 1


def rewrite(path, change):
    """Write the file anew after ``change`` has had its way with the members."""
    members = read_members(path)
    change(members)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)


def change_meta(path, change):
    def apply(members):
        meta = json.loads(members["tree.json"])
        change(meta)
        members["tree.json"] = json.dumps(meta).encode()

    rewrite(path, apply)


def test_a_newer_format_says_upgrade(saved):
    change_meta(saved, lambda meta: meta.update(version=2))
    with pytest.raises(hm.InputError, match="newer hmom_jax.*upgrade"):
        hm.load_tree(saved)


@pytest.mark.parametrize("name", ["text.hmom", "counts.npz"])
def test_what_is_no_tree_says_where_trees_come_from(name, tmp_path, corpus):
    write_counts(corpus, tmp_path / "counts.npz")
    (tmp_path / "text.hmom").write_text('{"text": "red"}\n')
    with pytest.raises(hm.InputError, match="not a tree saved by `hmom tree --save`") as caught:
        hm.load_tree(tmp_path / name)
    assert "zip" not in str(caught.value)


META = {
    "another program's": lambda meta: meta.update(format="other"),
    "no version": lambda meta: meta.pop("version"),
    "unknown method": lambda meta: meta.update(method="magic"),
    "no nodes": lambda meta: meta.update(nodes=[]),
    "nodes of another type": lambda meta: meta.update(nodes={"0": 1}),
    "a cycle": lambda meta: meta["nodes"][1].update(parent=2),
    "a foreign child": lambda meta: meta["nodes"][0].update(children=[1, 2]),
    "an only child": lambda meta: meta["nodes"][0].update(children=[1]),
    "a child too many": lambda meta: meta["nodes"][-1].update(children=[1, 2], split_order=9),
    "wrong depth": lambda meta: meta["nodes"][1].update(depth=7),
    "an infinite mass": lambda meta: meta["nodes"][1].update(mass=float("inf")),
    "a huge number": lambda meta: meta["nodes"][1].update(n_docs=10**300),
    "a true number": lambda meta: meta["nodes"][1].update(n_docs=True),
    "a field too many": lambda meta: meta["nodes"][1].update(exec="print()"),
    "a list as reason": lambda meta: meta["nodes"][1].update(reason=["x"]),
    "metadata of another type": lambda meta: meta.update(metadata=[1]),
    "no model, or one too many": lambda meta: meta.update(
        model=None if meta["model"] else {"bursty": True, "words": 1.0}
    ),
}


@pytest.mark.parametrize("name", META)
def test_what_is_not_a_tree_is_refused(name, saved):
    change_meta(saved, META[name])
    with pytest.raises(hm.InputError, match=r"tree\.hmom"):
        hm.load_tree(saved)


def array_bytes(array):
    import io

    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["topics", "doc_node", "word_probability"])
@pytest.mark.parametrize(
    "array",
    [
        np.full((3, 3), 0.5),
        np.array([None, 1]),
        np.full(100, np.nan),
        np.full(400, 10**6),
        np.full(400, -1),
        np.full(100, 5.0),
        np.zeros(0),
        np.array(["a"]),
    ],
    ids=["shape", "objects", "nan", "large", "negative", "no probabilities", "empty", "strings"],
)
def test_arrays_that_do_not_fit_are_refused(name, array, saved):
    rewrite(saved, lambda members: members.update({f"{name}.npy": array_bytes(array)}))
    with pytest.raises(hm.InputError, match=r"tree\.hmom"):
        hm.load_tree(saved)


@pytest.mark.parametrize("name", ["tree.json", "vocabulary.json", "topics.npy", "doc_node.npy"])
def test_missing_parts_are_told(name, saved):
    rewrite(saved, lambda members: members.pop(name))
    with pytest.raises(hm.InputError, match=name):
        hm.load_tree(saved)


def test_repeated_words_are_refused(saved):
    rewrite(saved, lambda members: members.update({"vocabulary.json": json.dumps(["a"] * 100).encode()}))
    with pytest.raises(hm.InputError, match="repeats"):
        hm.load_tree(saved)


def test_a_cut_off_file_is_refused(saved):
    content = saved.read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:length])
        with pytest.raises(hm.InputError):
            hm.load_tree(saved)
