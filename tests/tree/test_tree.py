"""What can be asked of a tree: labels that nest, assignment, keywords, JSON, drawings."""

import json
import os
import stat

import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax import files

DATA = hm.datasets.hierarchical_topics(0)


@pytest.fixture(scope="module")
def corpus():
    return hm.Corpus.from_counts(DATA.counts, DATA.vocabulary)


@pytest.fixture(scope="module")
def tree(corpus):
    return hm.grow_tree(corpus, 3)


def test_leaves_are_numbered_depth_first(tree):
    labels = tree.labels()
    assert labels.dtype.kind == "i"
    assert sorted(set(labels)) == list(range(tree.n_leaves))
    assert [leaf.n_docs for leaf in tree.leaves] == np.bincount(labels).tolist()

    def below(node):
        return [node.id] + [i for child in node.children for i in below(tree.nodes[child])]

    assert below(tree.root) == list(range(len(tree.nodes)))


def test_children_add_up_to_their_parents_in_descending_size(tree):
    assert tree.root.n_docs == 400
    for node in tree.nodes:
        if node.children:
            sizes = [tree.nodes[child].n_docs for child in node.children]
            assert sum(sizes) == node.n_docs
            assert sizes == sorted(sizes, reverse=True)
            assert all(tree.nodes[child].parent == node.id for child in node.children)
            np.testing.assert_allclose(sum(tree.nodes[child].weight for child in node.children), 1, rtol=1e-5)
            assert all(tree.nodes[child].depth == node.depth + 1 for child in node.children)


def test_labels_of_different_levels_nest(tree):
    finest = tree.labels()
    assert np.all(tree.labels(level=0) == 0)
    assert np.array_equal(tree.labels(level=tree.depth), finest)
    assert np.array_equal(tree.labels(level=99), finest)
    for level in range(tree.depth):
        coarse, fine = tree.labels(level=level), tree.labels(level=level + 1)
        assert len(set(zip(coarse, fine, strict=True))) == len(set(fine))
        assert set(coarse) == set(range(coarse.max() + 1))


def test_assigning_the_training_documents_gives_their_labels(tree, corpus):
    np.testing.assert_array_equal(tree.assign(corpus), tree.labels())
    np.testing.assert_array_equal(tree.assign(corpus, level=1), tree.labels(level=1))


def test_assigning_training_documents_gives_labels_on_ragged_trees():
    rng = np.random.default_rng(1)
    counts = rng.poisson(0.4, (80, 30))
    counts[0] = 0
    corpus = hm.Corpus.from_counts(counts)
    tree = hm.grow_tree(corpus, 4)
    assert len({leaf.depth for leaf in tree.leaves}) > 1
    np.testing.assert_array_equal(tree.assign(corpus), tree.labels())


def test_ties_fall_as_they_fell_while_growing():
    counts = np.zeros((13, 8), int)
    counts[:6, 0] = counts[6:12, 1] = 4  # two halves that mirror each other, and an empty document between them
    corpus = hm.Corpus.from_counts(counts)
    tree = hm.grow_tree(corpus, 1)
    assert tree.nodes[1].weight == tree.nodes[2].weight
    np.testing.assert_array_equal(tree.assign(corpus), tree.labels())


def test_new_documents_go_to_the_leaf_of_their_like(tree, corpus):
    fresh = hm.datasets.hierarchical_topics(0, n_docs=400).counts[:50]
    new = hm.Corpus.from_counts(2 * fresh, DATA.vocabulary)  # twice the length: the evidence only grows
    assert (tree.assign(new) == tree.labels()[:50]).mean() > 0.9


def test_assigning_over_another_vocabulary_is_refused(tree):
    with pytest.raises(hm.InputError, match=r"tree's vocabulary \(100 words.*got 4 words"):
        tree.assign(hm.Corpus.from_counts(np.ones((2, 4))))
    with pytest.raises(hm.InputError, match="vocabulary"):
        tree.assign(hm.Corpus.from_counts(DATA.counts))  # as many words, but others


def test_keywords_are_ranked_by_relevance(tree):
    node = tree.leaves[0]
    p, q = node.topic.astype(float), tree.word_probability
    score = 0.7 * np.log(p) + 0.3 * np.log(p / q)
    expected = DATA.vocabulary[np.argsort(-score, kind="stable")[:10]].tolist()
    assert tree.keywords(node) == tree.keywords(node.id) == expected
    assert tree.keywords(node, relevance=1.0)[0] == DATA.vocabulary[np.argmax(p)]
    assert tree.keywords(node, relevance=0.0)[0] == DATA.vocabulary[np.argmax(p / q)]
    assert len(tree.keywords(node, n=3)) == 3
    assert tree.keywords(node, n=0) == []
    assert len(tree.keywords(node, n=1000)) == 100


def test_keywords_are_ranked_against_the_parent_too(tree):
    node = next(node for node in tree.nodes if node.depth == 2)
    above = tree.nodes[node.parent]
    p, q, corpus = (np.log(x.astype(float)) for x in (node.topic, above.topic, tree.word_probability))
    q = np.maximum(q, p + np.log(node.n_docs / above.n_docs))
    # No lift exceeds exp(reach) here; compared with both, it is stretched to what a small leaf has.
    reach = 0.5 * np.log(tree.root.n_docs / node.n_docs) + 0.5 * np.log(above.n_docs / node.n_docs)
    assert 0.25 < reach < 2
    for contrast, base, stretch in (("corpus", corpus, 1), ("parent", q, 1), ("both", (corpus + q) / 2, 2 / reach)):
        score = 0.4 * p + 0.6 * stretch * (p - base)
        expected = DATA.vocabulary[np.argsort(-score, kind="stable")[:10]].tolist()
        assert tree.keywords(node, relevance=0.4, contrast=contrast) == expected
    assert tree.keywords(0, contrast="parent") == tree.keywords(0)  # the root has no parent


def test_words_that_never_occur_are_no_keywords():
    counts = np.zeros((60, 30), int)
    counts[:, :28] = np.random.default_rng(2).poisson(0.5, (60, 28))
    tree = hm.grow_tree(hm.Corpus.from_counts(counts), 1)
    for node in tree.nodes:
        assert not {"28", "29"} & set(tree.keywords(node, n=100, relevance=0.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda tree: tree.keywords(99), "no node 99; the tree has nodes 0 to 14"),
        (lambda tree: tree.keywords(-1), "no node -1"),
        (lambda tree: tree.keywords(0, relevance=1.5), "between 0 and 1; got 1.5"),
        (lambda tree: tree.keywords(0, contrast="uncle"), "one of corpus, both, parent; got 'uncle'"),
        (lambda tree: tree.keywords(0, n=-1), "not be negative; got -1"),
        (lambda tree: tree.labels(level=-1), "level must be at least 0; got -1"),
    ],
)
def test_bad_questions_are_refused(tree, call, message):
    with pytest.raises(hm.InputError, match=message):
        call(tree)


def test_diagnostics_are_recorded_for_every_split(tree):
    for node in tree.nodes:
        values = (node.spectral_gap, node.off_diagonal, node.simplex_violation)
        if node.is_leaf:
            assert values == (None, None, None)
        else:
            assert np.all(np.isfinite(values))
            assert 0 <= node.off_diagonal <= 1
            assert node.spectral_gap <= 1.5
            assert node.simplex_violation >= 0
            assert node.converged is True


def test_json_holds_what_the_tree_holds(tree, tmp_path):
    path = tmp_path / "tree.json"
    text = tree.to_json(path)
    assert json.loads(path.read_text(encoding="utf-8")) == json.loads(text) == tree.to_dict()
    root = tree.to_dict()["root"]
    assert (root["n_docs"], len(root["children"])) == (400, 2)
    assert root["children"][0]["keywords"] == tree.keywords(tree.root.children[0])

    def leaves(node):
        return [leaf for child in node["children"] for leaf in leaves(child)] or [node["n_docs"]]

    assert leaves(root) == [leaf.n_docs for leaf in tree.leaves]


def test_json_keeps_words_of_every_script(tmp_path):
    words = ["größe", "数学", "мир", 'quote"', "emoji 🌲"]
    tree = hm.grow_tree(hm.Corpus.from_counts(np.random.default_rng(3).poisson(2, (20, 5)), words), 1)
    tree.to_json(tmp_path / "tree.json")
    stored = json.loads((tmp_path / "tree.json").read_text(encoding="utf-8"))
    assert set(stored["root"]["keywords"]) == set(words)


def test_failed_write_leaves_the_old_file_and_no_litter(tree, tmp_path, monkeypatch):
    path = tmp_path / "tree.json"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        tree.to_json(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["tree.json"]


@pytest.mark.skipif(os.name == "nt", reason="permissions are a POSIX matter")
def test_written_files_have_ordinary_permissions(tree, tmp_path):
    plain, written = tmp_path / "plain", tmp_path / "tree.json"
    plain.write_text("")
    tree.to_json(written)
    assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_drawing_has_a_line_per_node_and_an_ascii_form(tree):
    lines = str(tree).splitlines()
    assert len(lines) == len(tree.nodes)
    assert "400 (all documents)" in lines[0]
    assert any("├─ " in line for line in lines)
    plain = tree.format(ascii_only=True)
    assert plain.isascii()
    assert len(plain.splitlines()) == len(lines)
    assert " ".join(tree.keywords(1, 8)) in lines[1]


def test_words_of_a_large_node_are_its_own_and_not_the_most_frequent():
    # Three quarters of the documents, nearly all words of which are shared with the rest.
    shared = np.array([0.4, 0.3, 0.0, 0.0]) + 0.01
    inside, outside = shared + np.array([0.0, 0.05, 0.2, 0.0]), shared + np.array([0.05, 0.0, 0.0, 0.2])
    inside, outside = inside / inside.sum(), outside / outside.sum()
    nodes = [
        hm.Node(0, None, 0, 100, 100.0, 0.75 * inside + 0.25 * outside, children=(1, 2)),
        hm.Node(1, 0, 1, 75, 75.0, inside),
        hm.Node(2, 0, 1, 25, 25.0, outside),
    ]
    words = np.array(["the", "and", "cat", "dog"])
    tree = hm.Tree(nodes, words, np.repeat([1, 2], [75, 25]), nodes[0].topic, "robust")
    assert tree.keywords(1, 1, 0.4, "both") == ["cat"]
    assert tree.keywords(2, 1, 0.4, "both") == ["dog"]
    assert tree.keywords(1, 1, 0.4, "corpus") == ["the"]
    assert tree.keywords(1, 4, 1.0, "both") == tree.keywords(1, 4, 1.0)  # frequent words are what they were
    assert tree.lift_stretch(nodes[0]) == 1
    assert tree.lift_stretch(nodes[1]) > tree.lift_stretch(nodes[2]) > 1
