"""Whitening: the identity it is named after, the spectrum against NumPy, and what happens when there is too little."""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hmom_jax as hm
from hmom_jax.whitening import top_eigenpairs
from tests.helpers import population, random_corpus, tolerance


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MatrixMoments:
    """An operator with a second moment of known spectrum, and nothing else of interest."""

    m2: jax.Array
    m1: jax.Array
    word_scale: jax.Array

    def m2_times(self, block):
        return jnp.matmul(self.m2, block, precision="highest")

    def whitened_slices(self, w):
        raise NotImplementedError

    def dense(self):
        raise NotImplementedError


def with_spectrum(values, dtype, seed=0):
    """Return moments with these eigenvalues, and the eigenvectors in the same order."""
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    matrix = (vectors * values) @ vectors.T
    m1 = np.abs(vectors[:, 0]) + 0.1
    arrays = (jnp.asarray(array.astype(dtype)) for array in (matrix, m1 / m1.sum(), np.ones(len(values))))
    return MatrixMoments(*arrays), vectors


def tail(n, top, seed=1):
    """Draw eigenvalues of both signs, none above ``top``."""
    return np.random.default_rng(seed).uniform(-top, top, n)


SPECTRA = {
    "decaying": lambda d: 0.9 ** np.arange(d),
    "indefinite": lambda d: np.r_[0.56, 0.3, 0.2, -0.47, -0.4, tail(d - 5, 0.1)],
    "larger negative than positive": lambda d: np.r_[0.5, 0.3, 0.2, -2.0, -1.5, tail(d - 5, 0.1)],
    "tie inside": lambda d: np.r_[1.0, 0.5, 0.5, tail(d - 3, 0.1)],
    "all alike": lambda d: np.r_[0.5, 0.5, 0.5, tail(d - 3, 0.1)],
    "low rank": lambda d: np.r_[1.0, 0.4, 0.2, np.zeros(d - 3)],
    "very uneven": lambda d: np.r_[1.0, 1e-2, 1e-3, tail(d - 3, 1e-4)],
}


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("n_words", [300, 600])
def test_krylov_finds_the_algebraically_largest(dtype, n_words, spectrum):
    values = SPECTRA[spectrum](n_words)
    moments, vectors = with_spectrum(values, dtype)
    rank = 3
    found = hm.whiten(moments, rank)
    order = np.argsort(-values)[:rank]
    assert found.factor.dtype == dtype
    assert bool(found.converged)
    np.testing.assert_allclose(found.eigenvalues, values[order], rtol=tolerance(dtype, 1e-4, 1e-9))
    basis = np.linalg.qr(np.asarray(found.factor, np.float64))[0]  # ties: only the span is determined
    expected = vectors[:, order]
    gap = np.linalg.norm(basis @ basis.T - expected @ expected.T, 2)
    rounding = 50 * np.finfo(dtype).eps * values[order[0]] / values[order[-1]]
    assert gap < max(tolerance(dtype, 2e-3, 1e-7), rounding)
    assert int(found.n_products) <= 48


@pytest.mark.parametrize("lead", [(2,), (2, 3)])
@pytest.mark.parametrize("rank", [2, 3, 8])
def test_krylov_of_several_nodes_is_that_of_each(dtype, lead, rank):
    """Nodes side by side, one of them without words and one that takes its time."""
    rng = np.random.default_rng(0)
    n_words, n_nodes = 300, math.prod(lead)
    spectra = [0.7 ** np.arange(n_words), 0.97 ** np.arange(n_words)] * 3
    matrices = np.stack([with_spectrum(values, np.float64)[0].m2 for values in spectra[:n_nodes]])
    matrices[-1] = 0.0
    scale = np.where(np.arange(n_nodes) < n_nodes - 1, 1.0, 0.0)[:, None] * np.ones(n_words)
    place = lambda array: jnp.asarray(array.reshape(*lead, *array.shape[1:]), dtype)
    moments = MatrixMoments(place(matrices), place(rng.random((n_nodes, n_words)) * scale), place(scale))
    tol = tolerance(dtype, 1e-5, 1e-9)
    pairs = jax.jit(partial(top_eigenpairs, rank=rank))(moments, jax.random.key(0), tol)
    expected = np.stack([values[: rank + 1] for values in spectra[:n_nodes]])
    expected[-1] = 0.0
    found = np.asarray(pairs.values).reshape(n_nodes, rank)
    np.testing.assert_allclose(found, expected[:, :rank], rtol=tolerance(dtype, 1e-4, 1e-9), atol=1e-12)
    assert int(pairs.n_products) < 60
    vectors = np.asarray(pairs.vectors, np.float64).reshape(n_nodes, n_words, rank)[:-1]
    residual = matrices[:-1] @ vectors - vectors * found[:-1, None]
    assert (np.linalg.norm(residual, axis=1) / found[:-1]).max() < 3 * tol


@pytest.mark.parametrize("rank", [7, 20])
def test_components_that_are_not_there_have_no_eigenvalue(dtype, rank):
    """Six words occur of four hundred."""
    rng = np.random.default_rng(0)
    counts = np.zeros((60, 400))
    counts[:, rng.choice(400, 6, replace=False)] = rng.poisson(3.0, (60, 6))
    found = jax.jit(partial(hm.whiten, rank=rank))(hm.single_topic_moments(hm.Corpus.from_counts(counts)))
    values = np.asarray(found.eigenvalues)
    assert (np.diff(values) <= 1e-6 * values[0]).all()
    assert np.abs(values[6:]).max() < 0.1 * values[0]
    assert abs(float(found.next_eigenvalue)) < 0.1 * values[0]
    assert np.asarray(found.void)[6:].all()


def test_krylov_with_a_tie_at_the_cut_still_returns_eigenvectors(dtype):
    values = np.r_[1.0, 0.5, 0.5, 0.5, tail(296, 0.1)]
    moments, _ = with_spectrum(values, dtype)
    found = hm.whiten(moments, 2)
    vectors = np.asarray(found.factor) / np.sqrt(np.asarray(found.eigenvalues))
    residual = moments.m2 @ vectors - vectors * np.asarray(found.eigenvalues)
    np.testing.assert_allclose(found.eigenvalues, [1, 0.5], rtol=tolerance(dtype, 1e-4, 1e-9))
    np.testing.assert_allclose(residual, 0, atol=tolerance(dtype, 1e-5, 1e-9))


def test_krylov_reports_the_first_eigenvalue_left_out(dtype):
    moments, _ = with_spectrum(np.r_[1.0, 0.5, 0.3, tail(297, 0.1)], dtype)
    np.testing.assert_allclose(hm.whiten(moments, 2).next_eigenvalue, 0.3, rtol=1e-2)


def test_residual_is_what_it_says(dtype):
    moments, _ = with_spectrum(SPECTRA["indefinite"](300), dtype)
    found = hm.whiten(moments, 3, tol=1e-2)
    vectors = np.asarray(found.factor, np.float64) / np.sqrt(np.asarray(found.eigenvalues, np.float64))
    residual = np.asarray(moments.m2, np.float64) @ vectors - vectors * np.asarray(found.eigenvalues)
    actual = (np.linalg.norm(residual, axis=0) / np.asarray(found.eigenvalues)).max()
    np.testing.assert_allclose(found.residual, actual, rtol=0.05, atol=1e-5)
    assert found.residual <= 1e-2


def test_not_converged_is_said():
    rough = np.r_[1.0, np.linspace(0.9, 0.90001, 599)]  # no gap to be found in so few products
    found = hm.whiten(with_spectrum(rough, np.float32)[0], 3, tol=1e-12)
    assert found.residual > 1e-12
    assert np.all(np.isfinite(found.factor))


@given(seed=st.integers(0, 2**32 - 1), rank=st.sampled_from([1, 3, 5]), scale=st.sampled_from([None, "inverse_sqrt"]))
def test_whitened_second_moment_is_identity(seed, rank, scale):
    with jax.enable_x64(True):
        _, _, moments = population(seed, n_words=8, n_topics=5, word_scale=scale, concentration=1.0)
        white = hm.whiten(moments, rank)
        np.testing.assert_allclose(white.pinv @ moments.m2_times(white.pinv.T), np.eye(rank), atol=1e-6)
        np.testing.assert_allclose(white.pinv @ white.factor, np.eye(rank), atol=1e-6)


@given(seed=st.integers(0, 2**32 - 1))
def test_whitened_second_moment_is_identity_in_single_precision(seed):
    _, _, moments = population(seed, n_words=8, n_topics=3)
    white = hm.whiten(moments, 2)
    np.testing.assert_allclose(white.pinv @ moments.m2_times(white.pinv.T), np.eye(2), atol=1e-3)


@pytest.mark.parametrize("scale", [None, "inverse_sqrt"])
@pytest.mark.parametrize("n_words", [40, 400], ids=["dense", "krylov"])
def test_corpus_is_whitened(dtype, n_words, scale):
    data = hm.datasets.hierarchical_topics(0, n_words=n_words, n_docs=200)
    moments = hm.single_topic_moments(hm.Corpus.from_counts(data.counts), word_scale=scale)
    white = hm.whiten(moments, 3)
    image = np.asarray(white.pinv @ moments.m2_times(white.pinv.T))
    np.testing.assert_allclose(image, np.eye(3), atol=tolerance(dtype, 1e-4, 1e-8))
    s = np.asarray(moments.word_scale)
    matrix = s[:, None] * np.asarray(moments.m2_times(np.eye(n_words, dtype=dtype))) * s
    expected = np.linalg.eigvalsh(matrix.astype(np.float64))[::-1][:3]
    np.testing.assert_allclose(white.eigenvalues, expected, rtol=tolerance(dtype, 1e-4, 1e-8))


def test_words_that_do_not_occur_stay_at_zero(dtype):
    counts = random_corpus(1, n_docs=60, dtype=dtype)  # the last word never occurs
    white = hm.whiten(hm.single_topic_moments(hm.Corpus.from_counts(counts), word_scale="inverse_sqrt"), 2)
    assert np.all(np.asarray(white.factor)[-1] == 0)
    assert np.all(np.isfinite(white.factor))


@pytest.mark.parametrize("place", ["first", "last", "spread"])
@pytest.mark.parametrize("n_present", [6, 12, 24, 60])
def test_words_that_do_not_occur_change_nothing(dtype, n_present, place):
    rng = np.random.default_rng(n_present)
    topics = rng.dirichlet(np.full(n_present, 0.5), 2)
    counts = np.stack([rng.multinomial(60, topics[doc % 2]) for doc in range(60)]).astype(dtype)
    columns = {"first": np.arange(n_present), "last": 400 - n_present + np.arange(n_present)}
    columns["spread"] = np.arange(n_present) * (400 // n_present)
    wide = np.zeros((60, 400), dtype)
    wide[:, columns[place]] = counts
    moments = [hm.single_topic_moments(hm.Corpus.from_counts(matrix)) for matrix in (counts, wide)]
    expected, found = (hm.whiten(m, 2) for m in moments)
    assert found.converged
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=tolerance(dtype, 1e-5, 1e-10))
    np.testing.assert_allclose(found.next_eigenvalue, expected.next_eigenvalue, atol=1e-2 * expected.eigenvalues[0])
    expected, found = (hm.sidiwo(m, 2) for m in moments)
    np.testing.assert_allclose(found.weights, expected.weights, atol=tolerance(dtype, 1e-3, 1e-7))


@pytest.mark.parametrize("n_present", [40, 100, 1500])
def test_many_components(dtype, n_present):
    rank = 70  # blocks wider than what goes by QR
    values = np.r_[0.97 ** np.arange(rank), tail(1430, 0.02)][:n_present]
    moments, _ = with_spectrum(values, dtype)
    wide = np.zeros((1500, 1500), dtype)
    wide[:n_present, :n_present] = moments.m2
    fill = lambda vector: jnp.asarray(np.pad(vector, (0, 1500 - n_present)))
    found = jax.jit(lambda m: hm.whiten(m, rank))(
        MatrixMoments(jnp.asarray(wide), fill(moments.m1), fill(moments.word_scale))
    )
    there = min(rank, n_present)
    np.testing.assert_allclose(found.eigenvalues[:there], values[:there], rtol=tolerance(dtype, 1e-4, 1e-8))
    assert np.array_equal(found.void, np.arange(rank) >= n_present)
    assert found.converged


INDEFINITE = [0.5, -0.2, -0.3, -0.4]


@pytest.mark.parametrize("n_words", [4, 300], ids=["dense", "krylov"])
def test_too_few_positive_eigenvalues_are_an_error_outside_and_void_inside(dtype, n_words):
    moments, _ = with_spectrum(np.r_[INDEFINITE, -np.full(n_words - 4, 0.1)], dtype)
    with pytest.raises(hm.InputError, match=r"only 1 positive eigenvalue\(s\); rank 3"):
        hm.whiten(moments, 3)
    inside = jax.jit(lambda moments: hm.whiten(moments, 3))(moments)
    assert inside.void.tolist() == [False, True, True]
    assert np.all(np.asarray(inside.factor)[:, 1:] == 0)
    assert np.all(np.asarray(inside.pinv)[1:] == 0)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(inside))


def test_same_key_gives_the_same_bits():
    moments, _ = with_spectrum(SPECTRA["indefinite"](300), np.float32)
    first, second = hm.whiten(moments, 2), hm.whiten(moments, 2)
    assert np.array_equal(first.factor, second.factor)
    other = hm.whiten(moments, 2, key=jax.random.key(7))
    np.testing.assert_allclose(np.abs(other.factor), np.abs(first.factor), atol=1e-4)


@pytest.mark.parametrize(
    ("rank", "message"),
    [(0, "at least 1; got 0"), (-2, "got -2"), (True, "got True"), (9, "must not exceed the 8 words.*got 9")],
)
def test_impossible_rank_is_refused(rank, message):
    with pytest.raises(hm.InputError, match=message):
        hm.whiten(population(0, 8, 3)[2], rank)
