"""Exact moments of known parameters are what their definition says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmom_jax as hm
from tests.helpers import population, random_topics, tolerance


@pytest.mark.parametrize("scale", [None, "inverse_sqrt", np.linspace(0.5, 2, 8)], ids=["none", "inverse_sqrt", "array"])
def test_operator_equals_the_definition(dtype, scale):
    topics, weights = random_topics(0, 8, 3)
    moments = hm.population_moments(topics.astype(dtype), weights.astype(dtype), scale)
    m1 = topics @ weights
    m2 = topics @ np.diag(weights) @ topics.T
    m3 = np.einsum("k,rk,sk,tk->rst", weights, topics, topics, topics)
    s = {type(None): np.ones(8), str: m1**-0.5, np.ndarray: scale}[type(scale)]
    rng = np.random.default_rng(1)
    block = rng.normal(size=(8, 2)).astype(dtype)
    atol = tolerance(dtype, 2e-6, 1e-14)
    np.testing.assert_allclose(moments.word_scale, s, rtol=tolerance(dtype, 1e-5, 1e-12))
    np.testing.assert_allclose(moments.m2_times(block), m2 @ block, atol=atol)
    expected = np.einsum("r,rst,si,tj->rij", s, m3, block, block)
    np.testing.assert_allclose(moments.whitened_slices(block), expected, atol=10 * atol)
    for mine, theirs in zip(moments.dense(), (m1, m2, m3), strict=True):
        assert mine.dtype == dtype
        np.testing.assert_allclose(mine, theirs, atol=atol)


def test_empirical_moments_approach_the_exact_ones():
    topics, weights, exact = population(2, 6, 2)
    rng = np.random.default_rng(3)
    topic = rng.choice(2, size=20_000, p=weights)
    counts = np.zeros((len(topic), 6))
    for j in (0, 1):
        counts[topic == j] = rng.multinomial(12, topics[:, j], (topic == j).sum())
    found = hm.single_topic_moments(hm.Corpus.from_counts(counts)).dense()
    for mine, theirs in zip(found, exact.dense(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=0.01)


def test_parameters_may_be_traced(x64):
    topics, weights = random_topics(4, 8, 3)
    trace = jax.jit(lambda t, w: jnp.trace(hm.population_moments(t, w).m2_times(jnp.eye(8))))
    np.testing.assert_allclose(trace(topics, weights), (weights * (topics**2).sum(0)).sum(), rtol=1e-12)


def test_integer_topics_become_the_default_float(dtype):
    assert hm.population_moments(np.eye(3, dtype=int), np.ones(3, int)).m1.dtype == dtype


@pytest.mark.parametrize(
    ("topics", "weights", "message"),
    [
        (np.ones(3), np.ones(3), r"\(n_words, n_topics\)"),
        (np.ones((3, 2)), np.ones(3), r"got \(3, 2\) and \(3,\)"),
        (np.full((3, 2), np.nan), np.ones(2), "must be finite"),
        (np.ones((3, 2)), np.array([np.inf, 1]), "must be finite"),
    ],
)
def test_bad_parameters_are_refused(topics, weights, message):
    with pytest.raises(hm.InputError, match=message):
        hm.population_moments(topics, weights)
