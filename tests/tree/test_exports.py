"""The tree in other forms, leaf probabilities, and splits by hand."""

import numpy as np
import pytest

import hmom_jax as hm

DATA = hm.datasets.hierarchical_topics(seed=3)


@pytest.fixture(scope="module")
def corpus():
    return hm.Corpus.from_counts(DATA.counts, [f"it's {i}" for i in range(100)])


@pytest.fixture(scope="module", params=["robust", "paper"])
def tree(request, corpus):
    return hm.grow_tree(corpus, n_leaves=4) if request.param == "robust" else hm.grow_tree(corpus, depth=2)


def test_newick_nests_as_the_tree_does(tree):
    text = tree.to_newick(n_words=1)
    assert text.count("(") == text.count(")") == sum(not node.is_leaf for node in tree.nodes)
    assert text.count(",") == len(tree.nodes) - 1 - text.count("(")
    assert text.endswith(";")
    assert "'0 it''s" in text


def test_networkx_has_an_edge_per_child(tree):
    networkx = pytest.importorskip("networkx")
    graph = tree.to_networkx()
    assert networkx.is_arborescence(graph)
    assert sorted(graph.edges) == sorted((n.parent, n.id) for n in tree.nodes if n.parent is not None)
    assert graph.nodes[0]["n_docs"] == 400


def test_pandas_tables(tree):
    pytest.importorskip("pandas")
    nodes, topics, documents = (tree.to_pandas(table) for table in ("nodes", "topics", "documents"))
    assert nodes.index.tolist() == [node.id for node in tree.nodes]
    assert nodes["parent"].isna().tolist() == [True] + [False] * (len(tree.nodes) - 1)
    assert topics.columns.tolist() == tree.vocabulary.tolist()
    np.testing.assert_allclose(topics.sum(axis=1), 1, atol=1e-4)
    assert documents["leaf"].tolist() == tree.labels().tolist()
    with pytest.raises(hm.InputError, match="topics, nodes, documents"):
        tree.to_pandas("trees")


@pytest.mark.parametrize(("extra", "export"), [("networkx", "to_networkx"), ("pandas", "to_pandas")])
def test_a_missing_extra_is_named(tree, monkeypatch, extra, export):
    monkeypatch.setitem(__import__("sys").modules, extra, None)
    with pytest.raises(ImportError, match=rf"hmom-jax\[{extra}\]"):
        getattr(tree, export)()


def test_a_leaf_is_split_by_hand(tree, corpus):
    leaf = max(tree.leaves, key=lambda node: node.n_docs)
    finer = tree.split(leaf, corpus)
    assert finer.n_leaves == tree.n_leaves + 1
    np.testing.assert_array_equal(finer.assign(corpus), finer.labels())
    inside = tree.doc_node == leaf.id
    assert len(np.unique(finer.labels()[inside])) >= 2
    np.testing.assert_array_equal(finer.cut(tree.n_leaves).labels(), tree.labels())
    assert [node.id for node in finer.nodes] == list(range(len(finer.nodes)))
    assert sum(node.n_docs for node in finer.leaves) == 400
    with pytest.raises(hm.InputError, match="not a leaf"):
        tree.split(0, corpus)
    with pytest.raises(hm.InputError, match="400 documents"):
        tree.split(leaf, hm.Corpus.from_counts(DATA.counts[:9], corpus.vocabulary))


def test_probabilities_agree_with_assignment(tree, corpus):
    probability = tree.probabilities(corpus)
    np.testing.assert_allclose(probability.sum(1), 1, atol=1e-5)
    assert (probability.argmax(1) == tree.labels()).mean() > 0.98
    with pytest.raises(hm.InputError, match="with_vocabulary"):
        tree.probabilities(hm.Corpus.from_counts(DATA.counts))
