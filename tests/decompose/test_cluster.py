"""Flat clustering."""

from functools import partial

import numpy as np
import pytest

import hmom_jax as hm
from bench.common import METHODS
from hmom_jax.metrics import adjusted_rand_score


@pytest.fixture(scope="module")
def corpus_of_blocks():
    """Return three topics on words of their own: an obvious answer."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat([0, 1, 2], [50, 30, 20]))
    topics = np.kron(np.eye(3), np.full((1, 5), 0.2))
    return hm.Corpus.from_counts(np.array([rng.multinomial(12, topics[label]) for label in labels])), labels


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_obvious_groups_are_found(method, corpus_of_blocks):
    corpus, truth = corpus_of_blocks
    labels, found = hm.cluster(corpus, 3, decompose=method)
    assert labels.dtype.kind == "i"
    assert adjusted_rand_score(truth, labels) == 1
    np.testing.assert_array_equal(labels, truth)  # topics stand in descending weight, as do these groups
    np.testing.assert_allclose(found.weights, [0.5, 0.3, 0.2], atol=0.1)


def test_default_is_sidiwo_and_repeatable(corpus_of_blocks):
    corpus, _ = corpus_of_blocks
    first, second = hm.cluster(corpus, 3), hm.cluster(corpus, 3, decompose=partial(hm.sidiwo, solver="cayley"))
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.decomposition.topics, second.decomposition.topics)


def test_one_cluster(corpus_of_blocks):
    labels, found = hm.cluster(corpus_of_blocks[0], 1)
    assert not labels.any()
    assert len(labels) == 100
    assert found.topics.shape == (15, 1)


@pytest.mark.parametrize("k", [0, -1, 16, True])
def test_impossible_numbers_of_clusters(k, corpus_of_blocks):
    with pytest.raises(hm.InputError, match="k must be a whole number from 1 to the 15 words"):
        hm.cluster(corpus_of_blocks[0], k)


def test_more_clusters_than_the_moments_hold():
    with pytest.raises(hm.InputError, match="positive eigenvalue"):
        hm.cluster(hm.Corpus.from_counts(np.full((4, 3), 2)), 3)
