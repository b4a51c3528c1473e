"""Sums that add up, and the eigenpairs read from them."""

from functools import reduce

import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.errors import InputError
from hmom_jax.models.sketch import add_sketches, random_block, sketch_moments, sketched_eigenpairs
from tests.helpers import random_corpus


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_sketches_of_parts_add_up_to_that_of_all(beta):
    counts, block = random_corpus(0, n_docs=40), random_block(12, 4)
    whole = sketch_moments(hm.Corpus.from_counts(counts), block, beta)
    parts = [sketch_moments(hm.Corpus.from_counts(part), block, beta) for part in np.split(counts, [7, 20])]
    for found, expected in zip(reduce(add_sketches, parts), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        whole.first / whole.constants[0], hm.single_topic_moments(hm.Corpus.from_counts(counts), beta).m1, rtol=1e-5
    )


def test_as_many_columns_as_words_give_all_eigenpairs():
    corpus = hm.Corpus.from_counts(random_corpus(1, n_docs=60, mean_length=20))
    scale = np.linspace(0.5, 2, 12)
    block = np.eye(12)
    values, vectors = sketched_eigenpairs(sketch_moments(corpus, block), block, scale)
    dense = scale[:, None] * np.asarray(hm.single_topic_moments(corpus).dense().m2, np.float64) * scale
    expected = np.linalg.eigvalsh(0.5 * (dense + dense.T))
    expected = expected[np.argsort(-expected)]
    np.testing.assert_allclose(values, expected, atol=1e-6)
    np.testing.assert_allclose(dense @ vectors, vectors * values, atol=1e-6)


def test_a_second_pass_comes_closer():
    """One pass with a random block is coarse; a second with what it found is not."""
    corpus = hm.Corpus.from_counts(hm.datasets.hierarchical_topics(0).counts)
    moments = hm.single_topic_moments(corpus)
    expected = np.asarray(hm.whiten(moments, 4).eigenvalues)
    block, errors = random_block(corpus.n_words, 12), []
    for _ in range(2):
        values, vectors = sketched_eigenpairs(sketch_moments(corpus, block), block)
        best = vectors[:, np.argsort(-np.abs(values))[:12]]
        errors.append(np.abs(values[:4] - expected).max() / expected[3])
        block = best
    assert errors[1] < 0.2 * errors[0]
    assert errors[1] < 0.05


def test_a_block_over_other_words_is_refused():
    with pytest.raises(InputError, match="12 words"):
        sketch_moments(hm.Corpus.from_counts(random_corpus(0)), np.ones((5, 2)))
