"""Theorems 3.1 and 3.2 and Appendix A, at any rank."""

import itertools

import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import hmom_jax as hm
from hmom_jax.decompose.objective import whitened_tensor
from tests.helpers import population

seeds = st.integers(0, 2**32 - 1)


def solved(seed, rank=3, n_words=12, n_topics=5):
    """Return M, omega, the decomposition and D = O'W', in double precision on the host."""
    topics, weights, moments = population(seed, n_words, n_topics, concentration=1.0)
    found = hm.sidiwo(moments, rank)
    d = np.asarray(found.rotation, np.float64).T @ np.asarray(found.whitening.pinv, np.float64)
    return topics, weights, found, d


@given(seed=seeds)
def test_theorem_31_rows_of_d_see_the_topics(seed):
    topics, weights, _, d = solved(seed)
    loaded = d @ topics * np.sqrt(weights)
    np.testing.assert_allclose(loaded @ loaded.T, np.eye(3), atol=1e-4)  # rank l, and more: orthonormal rows
    assert (np.abs(d @ topics).max(1) > 1e-3).all()


@given(seed=seeds)
def test_theorem_31_pseudo_topics_lie_in_the_leading_eigenspace(seed):
    topics, weights, found, d = solved(seed)
    vectors = np.linalg.eigh(topics * weights @ topics.T)[1][:, -3:]
    inverse = np.linalg.pinv(d)
    np.testing.assert_allclose(inverse, np.asarray(found.whitening.factor) @ np.asarray(found.rotation), atol=1e-4)
    np.testing.assert_allclose(vectors @ (vectors.T @ inverse), inverse, atol=1e-4)


@given(seed=seeds)
def test_theorem_31_no_subset_of_topics_is_feasible(seed):
    """Feasible D have D'D = pinv(E E'); neither subsets of columns nor of rows of the pseudo-inverse do."""
    topics, weights, found, _ = solved(seed)
    factor = np.asarray(found.whitening.factor, np.float64)
    feasible = np.linalg.pinv(factor @ factor.T, rcond=1e-5)
    loaded = topics * np.sqrt(weights)
    for kept in itertools.combinations(range(5), 3):
        columns = np.linalg.pinv(loaded[:, kept])
        rows = np.linalg.pinv(loaded)[list(kept)]
        for candidate in (columns, rows):
            assert np.linalg.norm(candidate.T @ candidate - feasible) > 1e-2 * np.linalg.norm(feasible)


@given(seed=seeds)
def test_theorem_32_objective_is_a_sum_of_suprema(seed):
    topics, weights, found, d = solved(seed)
    seen = d @ topics
    total = 0.0
    rng = np.random.default_rng(seed)
    for i, j in itertools.permutations(range(3), 2):
        image = topics @ (seen[i] * seen[j] * weights)
        total += np.linalg.norm(image)  # the supremum of <alpha, image> over the unit ball
        alpha = rng.normal(size=(50, 12))
        alpha /= np.linalg.norm(alpha, axis=1, keepdims=True)
        assert (alpha @ image <= np.linalg.norm(image) * (1 + 1e-9)).all()
    np.testing.assert_allclose(found.objective, total, rtol=1e-3, atol=1e-5)


def tensor_of(moments, rank):
    """Return the whitened third moment."""
    white = hm.whiten(moments, rank)
    return np.asarray(whitened_tensor(moments.word_scale, white.pinv, moments.whitened_slices(white.pinv.T)))


def test_appendix_a_whitened_tensor_is_not_orthogonally_decomposable(x64):
    topics = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    tensor = tensor_of(hm.population_moments(topics, np.ones(3)), 2)
    root, v = np.sqrt(3), np.sqrt(9 + 5 * np.sqrt(3))
    t111 = 2 * ((1 + root) / (2 * v)) ** 3 + ((2 + root) / v) ** 3
    t122 = (1 + root) / (2 * v)
    sign = np.sign(tensor[0, 0, 0])
    np.testing.assert_allclose(sign * tensor[0, 0, 0], t111, rtol=1e-9)
    np.testing.assert_allclose(sign * tensor[0, 1, 1], t122, rtol=1e-9)
    np.testing.assert_allclose([tensor[0, 0, 1], tensor[1, 1, 1]], 0, atol=1e-9)
    assert abs(_criterion(tensor)) > 0.1


def _criterion(tensor):
    """Return T111 T221 + T211 T222 - T211^2 - T221^2, zero iff a symmetric 2x2x2 tensor is decomposable."""
    t111, t211, t221, t222 = tensor[0, 0, 0], tensor[1, 0, 0], tensor[1, 1, 0], tensor[1, 1, 1]
    return t111 * t221 + t211 * t222 - t211**2 - t221**2


@given(seed=seeds)
def test_appendix_a_holds_at_the_true_number_of_topics_only(seed):
    """Orthogonally decomposable tensors have slices that commute, at any rank."""
    _, _, moments = population(seed, 12, 5, concentration=1.0)

    def commutator(tensor):
        products = np.einsum("aij,bjk->abik", tensor, tensor)
        return np.abs(products - np.swapaxes(products, 0, 1)).max() / np.abs(products).max()

    assert commutator(tensor_of(moments, 5)) < 1e-3
    assert commutator(tensor_of(moments, 3)) > 1e-3


def test_whitened_tensor_is_the_dense_contraction(x64):
    _, _, moments = population(0, 8, 4, word_scale="inverse_sqrt")
    w = np.asarray(hm.whiten(moments, 3).pinv)
    dense = np.einsum("ar,bs,ct,rst->abc", w, w, w, moments.dense().m3)
    np.testing.assert_allclose(tensor_of(moments, 3), dense, atol=1e-10)
    assert jnp.allclose(dense, np.swapaxes(dense, 0, 1))
