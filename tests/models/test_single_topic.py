"""Empirical moments: against brute force over word tuples, unbiased by enumeration, traceable."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.models import single_topic
from tests.helpers import brute_force_moments, random_corpus, tolerance

COUNTS = random_corpus(0)
SOFT = np.random.default_rng(1).uniform(size=len(COUNTS))
HARD = (SOFT > 0.4).astype(float)
MEMBERSHIPS = {"all": None, "hard": HARD, "soft": SOFT}


def scale_vector(name, m1):
    """Form s as design.md defines it, zero where a word does not occur."""
    if name == "none":
        return np.where(m1 > 0, 1.0, 0.0)
    if name == "inverse_sqrt":
        return np.where(m1 > 0, np.where(m1 > 0, m1, 1) ** -0.5, 0)
    return np.where(m1 > 0, np.linspace(0.5, 2, len(m1)), 0)


def scale_option(name):
    return {"none": None, "inverse_sqrt": "inverse_sqrt", "array": np.linspace(0.5, 2, COUNTS.shape[1])}[name]


@pytest.mark.parametrize("scale", ["none", "inverse_sqrt", "array"])
@pytest.mark.parametrize("membership", MEMBERSHIPS)
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 0.3])
def test_operator_equals_brute_force(dtype, beta, membership, scale):
    corpus = hm.Corpus.from_counts(COUNTS.astype(dtype))
    moments = hm.single_topic_moments(corpus, beta, MEMBERSHIPS[membership], scale_option(scale))
    m1, m2, m3 = brute_force_moments(COUNTS, beta, MEMBERSHIPS[membership])
    s = scale_vector(scale, m1)
    rng = np.random.default_rng(2)
    block, w = rng.normal(size=(12, 3)).astype(dtype), rng.normal(size=(12, 2)).astype(dtype)
    atol = tolerance(dtype, 2e-6, 1e-14)
    np.testing.assert_allclose(moments.m1, m1, atol=atol)
    np.testing.assert_allclose(moments.word_scale, s, rtol=tolerance(dtype, 1e-5, 1e-12))
    np.testing.assert_allclose(moments.m2_times(block), m2 @ block, atol=atol)
    slices = np.einsum("r,rst,si,tj->rij", s, m3, w, w)
    found = moments.whitened_slices(w)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, slices, atol=10 * atol)


@pytest.mark.parametrize("scale", ["none", "inverse_sqrt"])
def test_dense_moments_are_unscaled_and_equal_brute_force(dtype, scale):
    corpus = hm.Corpus.from_counts(COUNTS.astype(dtype))
    found = hm.single_topic_moments(corpus, 0.5, SOFT, scale_option(scale)).dense()
    for mine, theirs in zip(found, brute_force_moments(COUNTS, 0.5, SOFT), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=tolerance(dtype, 2e-6, 1e-14))


def test_slices_in_chunks_equal_slices_in_one_pass(dtype, monkeypatch):
    corpus = hm.Corpus.from_counts(COUNTS.astype(dtype))
    moments = hm.single_topic_moments(corpus)
    w = np.random.default_rng(3).normal(size=(12, 5)).astype(dtype)
    whole = moments.whitened_slices(w)
    monkeypatch.setattr(single_topic, "_CHUNK", 4)
    chunked = moments._packed_slices(jnp.asarray(w))
    first, second = np.triu_indices(5)
    np.testing.assert_allclose(chunked, whole[:, first, second], atol=tolerance(dtype, 1e-5, 1e-13))


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_moments_are_unbiased_over_all_documents(x64, beta):
    """Enumerate every document of 3 to 5 words of a tiny model, each with its probability as membership.

    Memberships must not look at the words, so the mean is taken of the numerators of each length: with the
    probability of a document *given its length* times one weight per length, the operator is that mean.
    """
    rng = np.random.default_rng(4)
    topics, weights = rng.dirichlet(np.ones(3), 2).T, np.array([0.3, 0.7])
    counts, probability = [], []
    for length, share in ((3, 0.5), (4, 0.2), (5, 0.3)):
        for document in itertools.product(range(length + 1), repeat=3):
            if sum(document) != length:
                continue
            ways = math.factorial(length) / math.prod(math.factorial(c) for c in document)
            per_topic = ways * np.prod(topics ** np.array(document)[:, None], axis=0)
            counts.append(document)
            probability.append(share * (weights @ per_topic))
    np.testing.assert_allclose(sum(probability), 1)
    corpus = hm.Corpus.from_counts(np.array(counts))
    found = hm.single_topic_moments(corpus, beta, np.array(probability)).dense()
    exact = hm.population_moments(topics, weights).dense()
    for mine, theirs in zip(found, exact, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-14)


def test_weights_on_documents_equal_copies_of_them(dtype):
    times = np.random.default_rng(5).integers(0, 4, len(COUNTS))
    weighted = hm.single_topic_moments(hm.Corpus.from_counts(COUNTS.astype(dtype)), 0.5, times.astype(float))
    copied = hm.single_topic_moments(hm.Corpus.from_counts(np.repeat(COUNTS, times, axis=0).astype(dtype)), 0.5)
    for mine, theirs in zip(weighted.dense(), copied.dense(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=tolerance(dtype, 1e-6, 1e-15))


def test_long_documents_do_not_overflow(dtype):
    counts = np.array([[4000, 3000, 1000], [20, 5000, 60], [70_000, 1, 9]], dtype)
    m1, m2, m3 = hm.single_topic_moments(hm.Corpus.from_counts(counts)).dense()
    for moment in (m1, m2, m3):
        np.testing.assert_allclose(np.sum(moment), 1, rtol=tolerance(dtype, 1e-5, 1e-13))


def test_padding_words_and_documents_change_nothing(dtype):
    corpus = hm.Corpus.from_counts(COUNTS.astype(dtype))
    padded = np.zeros((len(COUNTS) + 9, COUNTS.shape[1] + 3), dtype)
    padded[: len(COUNTS), : COUNTS.shape[1]] = COUNTS
    small = hm.single_topic_moments(corpus).dense().m2
    large = hm.single_topic_moments(hm.Corpus.from_counts(padded)).dense().m2
    np.testing.assert_allclose(large[:12, :12], small, atol=tolerance(dtype, 1e-7, 1e-16))
    assert np.all(np.asarray(large)[12:] == 0)


def test_everything_traces_in_membership_and_scaling(dtype):
    corpus = hm.Corpus.from_counts(COUNTS.astype(dtype))
    block = np.random.default_rng(6).normal(size=(12, 2)).astype(dtype)

    @jax.jit
    def traced(arrays, membership, scale, beta):
        moments = hm.single_topic_moments(arrays, beta, membership, scale)
        return moments.m1, moments.m2_times(block), moments.whitened_slices(block)

    scale = np.linspace(0.5, 2, 12)
    found = traced(corpus.arrays, jnp.asarray(SOFT, dtype), jnp.asarray(scale, dtype), 0.5)
    plain = hm.single_topic_moments(corpus, 0.5, SOFT, scale)
    expected = plain.m1, plain.m2_times(block), plain.whitened_slices(block)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=tolerance(dtype, 1e-5, 1e-13))


def test_memberships_can_be_mapped(dtype):
    corpus = hm.Corpus.from_counts(COUNTS.astype(dtype))
    memberships = np.stack([np.ones(len(COUNTS)), HARD, SOFT]).astype(dtype)

    def m2_of(membership):
        return hm.single_topic_moments(corpus.arrays, membership=membership).m2_times(jnp.eye(12, dtype=dtype))

    found = jax.jit(jax.vmap(m2_of))(memberships)
    for mine, membership in zip(found, memberships, strict=True):
        expected = brute_force_moments(COUNTS, 0.0, membership)[1]
        np.testing.assert_allclose(mine, expected, atol=tolerance(dtype, 2e-6, 1e-8))


@pytest.mark.parametrize("scale", ["none", "inverse_sqrt"])
def test_gradient_in_membership_matches_central_difference(x64, scale):
    corpus = hm.Corpus.from_counts(COUNTS.astype(np.float64))
    rng = np.random.default_rng(7)
    v, direction = rng.normal(size=(12, 1)), rng.normal(size=len(COUNTS))

    @jax.jit
    def form(membership):
        moments = hm.single_topic_moments(corpus.arrays, 0.5, membership, scale_option(scale))
        s = moments.word_scale[:, None]
        return ((s * v) * moments.m2_times(s * v)).sum() + (moments.whitened_slices(v) ** 2).sum()

    membership = jnp.asarray(0.2 + SOFT)
    _, forward = jax.jvp(form, (membership,), (jnp.asarray(direction),))
    backward = jax.grad(form)(membership) @ direction
    step = 1e-6
    numeric = (form(membership + step * direction) - form(membership - step * direction)) / (2 * step)
    np.testing.assert_allclose(forward, numeric, rtol=1e-6)
    np.testing.assert_allclose(backward, forward, rtol=1e-10)


SHORT = np.array([[1, 1, 0], [2, 0, 0], [0, 0, 1], [0, 0, 0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"membership": np.ones(3)}, r"one weight per document \(30\); got shape \(3,\)"),
        ({"membership": np.ones((30, 1))}, r"got shape \(30, 1\)"),
        ({"membership": np.r_[-1.0, np.ones(29)]}, "membership must not be negative"),
        ({"membership": np.r_[np.nan, np.ones(29)]}, "membership must be finite"),
        ({"membership": np.zeros(30)}, "No document of positive weight has 3 words"),
        ({"word_scale": "sqrt"}, "None, 'inverse_sqrt' or an array; got 'sqrt'"),
        ({"word_scale": np.ones(3)}, r"shape \(12,\); got \(3,\)"),
        ({"word_scale": -np.ones(12)}, "word_scale must not be negative"),
        ({"word_scale": np.full(12, np.nan)}, "word_scale must be finite"),
        ({"beta": np.nan}, "beta must be finite"),
    ],
    ids=lambda value: str(value)[:25],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(hm.InputError, match=message):
        hm.single_topic_moments(hm.Corpus.from_counts(COUNTS), **options)


def test_corpus_without_three_words_in_a_document_is_refused():
    with pytest.raises(hm.InputError, match="3 words or more"):
        hm.single_topic_moments(hm.Corpus.from_counts(SHORT))


def test_dense_moments_of_a_large_vocabulary_are_refused():
    counts = np.ones((3, 300))
    with pytest.raises(hm.InputError, match="at most 256 words"):
        hm.single_topic_moments(hm.Corpus.from_counts(counts)).dense()
