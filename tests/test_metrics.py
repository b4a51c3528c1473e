"""Scores against scikit-learn, tomotopy and hand counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hmom_jax as hm
from hmom_jax import metrics

LABELS = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 4), min_size=n, max_size=n), st.lists(st.integers(0, 6), min_size=n, max_size=n)
    )
)


@given(LABELS)
def test_partition_scores_equal_scikit_learns(pair):
    peer = pytest.importorskip("sklearn.metrics")
    truth, labels = pair
    assert metrics.adjusted_rand_score(truth, labels) == pytest.approx(peer.adjusted_rand_score(truth, labels))
    expected = peer.normalized_mutual_info_score(truth, labels)
    assert metrics.normalized_mutual_info_score(truth, labels) == pytest.approx(expected, abs=1e-9)


def test_purity_counts_the_majority():
    assert metrics.purity_score([0, 0, 1, 2], [5, 5, 5, 7]) == 0.75


def _tree(children, doc_node):
    nodes = [hm.Node(i, None, 0, 0, 0.0, np.ones(1), children=kids) for i, kids in enumerate(children)]
    for node in nodes:
        for child in node.children:
            nodes[child].parent = node.id
    return hm.Tree(nodes, np.array(["w"]), np.asarray(doc_node), np.ones(1), "test")


def test_dendrogram_purity_equals_the_mean_over_all_pairs():
    rng = np.random.default_rng(0)
    children = [(1, 4), (2, 3), (), (), (5, 6), (), ()]
    leaves = [2, 3, 5, 6]
    doc_node, truth = rng.choice(leaves, 40), rng.integers(0, 3, 40)
    tree = _tree(children, doc_node)
    below = {i: set() for i in range(7)}
    for doc, node in enumerate(doc_node):
        while node is not None:
            below[node].add(doc)
            node = tree.nodes[node].parent
    scores = []
    for i in range(40):
        for j in range(i):
            if truth[i] == truth[j]:
                smallest = min((docs for docs in below.values() if i in docs and j in docs), key=len)
                scores.append(np.mean([truth[d] == truth[i] for d in smallest]))
    assert metrics.dendrogram_purity(tree, truth) == pytest.approx(np.mean(scores))


def test_dendrogram_purity_is_one_where_classes_are_leaves():
    tree = _tree([(1, 2), (), ()], [1, 1, 2, 2])
    assert metrics.dendrogram_purity(tree, [0, 0, 1, 1]) == 1.0
    assert metrics.dendrogram_purity(tree, [0, 0, 1, -1]) == 1.0


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(1)
    counts = (rng.random((60, 8)) < np.linspace(0.1, 0.7, 8)).astype(int)
    counts = counts[counts.any(1)]  # tomotopy does not count empty documents
    return hm.Corpus.from_counts(counts, vocabulary=[f"w{i}" for i in range(8)])


def test_coherence_equals_tomotopys(corpus):
    tomotopy = pytest.importorskip("tomotopy")
    coherence = pytest.importorskip("tomotopy.coherence")
    documents = tomotopy.utils.Corpus()
    for row in corpus.counts.toarray():
        documents.add_doc([f"w{i}" for i in np.flatnonzero(row)])
    words = ["w7", "w5", "w3"]
    one_one = (coherence.ProbEstimation.DOCUMENT, coherence.Segmentation.ONE_ONE, coherence.ConfirmMeasure.NPMI)
    peer = coherence.Coherence(documents, coherence=one_one, targets=words).get_score(words=words)
    assert metrics.npmi_coherence([words], corpus) == pytest.approx(peer, abs=1e-6)
    peer = coherence.Coherence(documents, coherence="u_mass", targets=words).get_score(words=words)
    assert metrics.umass_coherence([words], corpus, smoothing=1e-9) == pytest.approx(peer, abs=1e-6)


def test_coherence_is_defined_where_words_never_meet():
    corpus = hm.Corpus.from_counts(np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0]]), vocabulary=["a", "b", "never"])
    assert metrics.npmi_coherence([["a", "b"]], corpus) == -1.0
    assert metrics.npmi_coherence([["a", "never"]], corpus) == -1.0
    assert np.isfinite(metrics.umass_coherence([["a", "b", "never"]], corpus))
    with pytest.raises(hm.InputError, match="not in the vocabulary"):
        metrics.npmi_coherence([["a", "zzz"]], corpus)


def test_diversity_is_the_share_of_distinct_words():
    assert metrics.topic_diversity([["a", "b"], ["a", "c"]]) == 0.75


def test_perplexity_of_one_leaf_is_that_of_its_unigrams():
    data = hm.datasets.hierarchical_topics(0)
    corpus = hm.Corpus.from_counts(data.counts)
    one, eight = hm.grow_tree(corpus, n_leaves=1), hm.grow_tree(corpus, n_leaves=8)
    p = np.asarray(data.counts.sum(0)).ravel() / data.counts.sum()
    entropy = -(np.asarray(data.counts.sum(0)).ravel() * np.log(p)).sum() / data.counts.sum()
    assert metrics.perplexity(one, corpus) == pytest.approx(np.exp(entropy), rel=0.01)
    assert metrics.perplexity(eight, corpus) < 0.98 * metrics.perplexity(one, corpus)
