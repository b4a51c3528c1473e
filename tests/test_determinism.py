"""The determinism contract: same input, same bits; permuted or repeated rows, same labels but for near ties."""

import numpy as np
import pytest
import scipy.sparse as sp

import hmom_jax as hm
from bench.corpora import load_counts
from tests.helpers import NEAR_TIE, near_ties, smallest_lead


def docstrings():
    data = hm.datasets.docstrings()
    return data.counts


CORPORA = {
    "synthetic": lambda: hm.datasets.hierarchical_topics(4).counts,
    "docstrings": docstrings,
}


@pytest.fixture(scope="module", params=CORPORA)
def grown(request):
    counts = sp.csr_array(CORPORA[request.param]())
    tree = hm.grow_tree(hm.Corpus.from_counts(counts), 3)
    return counts, tree, smallest_lead(tree, counts) < NEAR_TIE


def check_agree(found, grown):
    counts, tree, near = grown
    differ = found != tree.labels()
    assert not np.any(differ & ~near), (
        f"{(differ & ~near).sum()} of {len(near)} documents moved, {near.sum()} near ties"
    )


def test_same_input_gives_the_same_bits(grown):
    counts, tree, _ = grown
    again = hm.grow_tree(hm.Corpus.from_counts(counts.copy()), 3)
    np.testing.assert_array_equal(again.labels(), tree.labels())
    for mine, theirs in zip(again.nodes, tree.nodes, strict=True):
        assert np.array_equal(mine.topic, theirs.topic)
        assert (mine.weight, mine.off_diagonal, mine.spectral_gap) == (
            theirs.weight,
            theirs.off_diagonal,
            theirs.spectral_gap,
        )


def test_permuting_documents_permutes_labels(grown):
    counts = grown[0]
    order = np.random.default_rng(0).permutation(counts.shape[0])
    permuted = hm.grow_tree(hm.Corpus.from_counts(sp.csr_array(counts[order])), 3)
    found = np.empty(len(order), int)
    found[order] = permuted.labels()
    check_agree(found, grown)


def test_permuting_words_changes_nothing(grown):
    counts = grown[0]
    order = np.random.default_rng(1).permutation(counts.shape[1])
    permuted = hm.grow_tree(hm.Corpus.from_counts(sp.csr_array(counts[:, order])), 3)
    check_agree(permuted.labels(), grown)


def test_repeating_every_document_changes_nothing(grown):
    counts = grown[0]
    repeated = hm.grow_tree(hm.Corpus.from_counts(sp.csr_array(sp.vstack([counts, counts]))), 3).labels()
    n_docs = counts.shape[0]
    np.testing.assert_array_equal(repeated[:n_docs], repeated[n_docs:])
    check_agree(repeated[:n_docs], grown)


def test_few_documents_are_near_ties(grown):
    assert grown[2].mean() < 0.01


ROBUST = {"docstrings": 8, "bbc_news": 8, "m10_titles": 16, "20newsgroups": 32, "planetmath": 64}


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.slow) for name in ROBUST])
def robust(request):
    if request.param == "docstrings":
        counts = docstrings()
    else:
        request.getfixturevalue("data_folder")
        counts = load_counts(request.param)[0]
    corpus, n_leaves = hm.Corpus.from_counts(counts), ROBUST[request.param]
    tree = hm.grow_tree(corpus, n_leaves=n_leaves)
    return (corpus.counts, tree, near_ties(tree, corpus)), n_leaves


def test_rounding_moves_no_document_of_a_robust_tree(robust, monkeypatch):
    """Documents in another order, without the sorting that would undo it: every sum is rounded otherwise."""
    monkeypatch.setattr("hmom_jax.tree.robust._SORTED_NONZEROS", 0)
    grown, n_leaves = robust
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(grown[0].shape[0])
        found = np.empty(len(order), int)
        found[order] = hm.grow_tree(hm.Corpus.from_counts(grown[0][order]), n_leaves=n_leaves).labels()
        check_agree(found, grown)


def test_repeating_every_document_changes_no_robust_tree(robust):
    grown, n_leaves = robust
    repeated = hm.Corpus.from_counts(sp.csr_array(sp.vstack([grown[0], grown[0]])))
    found = hm.grow_tree(repeated, n_leaves=n_leaves, min_leaf=6).labels()  # the least leaf counts documents
    n_docs = grown[0].shape[0]
    np.testing.assert_array_equal(found[:n_docs], found[n_docs:])
    check_agree(found[:n_docs], grown)
