"""SIDIWO at two topics: the lemma, the theorems and the appendix of the paper, and what is reported beside topics.

Notation of the paper: D = O'W' has rows d_i, U_l are the leading eigenvectors of M2, E_l = U_l S_l^(1/2).
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hmom_jax as hm
from bench.baselines import dense
from tests.helpers import match_columns, population, random_corpus, random_topics, tolerance

SOLVERS = ["closed", "grid"]
SCALES = [None, "inverse_sqrt"]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_words", [10, 200], ids=["dense", "krylov"])
def test_lemma_3_1_exact_moments_give_back_topics_and_weights(dtype, n_words, solver, scale):
    topics, weights = random_topics(0, n_words, 2)
    moments = hm.population_moments(topics.astype(dtype), weights.astype(dtype), scale)
    found = hm.sidiwo(moments, 2, solver=solver)
    assert found.topics.dtype == found.weights.dtype == dtype
    assert bool(found.converged)
    atol = 1e-4 if solver == "grid" else tolerance(dtype, 1e-4, 1e-9)
    order = np.argsort(-weights)
    np.testing.assert_allclose(found.topics, topics[:, order], atol=atol)
    np.testing.assert_allclose(found.weights, weights[order], atol=5 * atol)
    assert found.relative_objective < 5 * atol
    assert np.max(found.simplex_violation) < 5 * atol
    assert found.orthogonality_error < tolerance(dtype, 1e-6, 1e-14)


@given(seed=st.integers(0, 2**32 - 1))
def test_lemma_3_1_holds_for_any_topics(seed):
    with jax.enable_x64(True):
        topics, weights, moments = population(seed, 10, 2, concentration=0.5)
        found = hm.sidiwo(moments, 2)
        np.testing.assert_allclose(match_columns(found.topics, topics), topics, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_orthogonal_topics_with_the_largest_energy_come_back(dtype, solver):
    rng = np.random.default_rng(1)
    topics = np.zeros((15, 5))
    for j in range(5):
        topics[3 * j : 3 * j + 3, j] = rng.dirichlet(np.ones(3))
    weights = rng.dirichlet(np.full(5, 5.0))
    found = hm.sidiwo(hm.population_moments(topics.astype(dtype), weights.astype(dtype)), 2, solver=solver)
    energy = weights * (topics**2).sum(0)
    kept = np.argsort(-energy)[:2]
    atol = tolerance(dtype, 1e-4, 1e-4 if solver == "grid" else 1e-9)
    np.testing.assert_allclose(match_columns(found.topics, topics[:, kept]), topics[:, kept], atol=atol)
    expected = np.sort(weights[kept] / weights[kept].sum())[::-1]
    np.testing.assert_allclose(found.weights, expected, atol=5 * atol)


class Fewer:
    """Four topics that all overlap, asked for two: the setting of Theorems 3.1 and 3.2."""

    def __init__(self, dtype, seed=2):
        topics, weights = random_topics(seed, 9, 4, concentration=1.0)
        self.topics, self.weights = topics, weights
        moments = hm.population_moments(topics.astype(dtype), weights.astype(dtype))
        self.found = hm.sidiwo(moments, 2)
        self.d = np.asarray(self.found.rotation, np.float64).T @ np.asarray(self.found.whitening.pinv, np.float64)
        values, vectors = np.linalg.eigh(topics @ np.diag(weights) @ topics.T)
        self.leading, self.values = vectors[:, :-3:-1], values[:-3:-1]
        self.loaded = topics * np.sqrt(weights)  # M Omega^(1/2)


def test_theorem_3_1_i_every_row_meets_some_topic(dtype):
    problem = Fewer(dtype)
    image = problem.d @ problem.loaded
    assert np.linalg.matrix_rank(image, tol=1e-3) == 2
    assert np.all(np.abs(problem.d @ problem.topics).max(1) > 1e-3)


def test_theorem_3_1_ii_pseudo_inverse_lies_in_the_leading_eigenspace(dtype):
    problem = Fewer(dtype)
    columns = np.linalg.pinv(problem.d)
    outside = columns - problem.leading @ (problem.leading.T @ columns)
    np.testing.assert_allclose(outside, 0, atol=tolerance(dtype, 1e-5, 1e-12))
    factor = np.asarray(problem.found.whitening.factor @ problem.found.rotation)
    np.testing.assert_allclose(columns, factor, atol=tolerance(dtype, 1e-5, 1e-12))


def test_theorem_3_1_iii_no_two_true_topics_have_that_form(dtype):
    problem = Fewer(dtype)
    assert np.all(problem.topics.T @ problem.topics > 1e-3)
    target = np.diag(problem.values**-0.5) @ problem.leading.T  # E_l^+; (E_l O)^+ = O' E_l^+

    def distance(candidate):
        """Return how far the candidate is from every O' E_l^+, relative to its size (orthogonal Procrustes)."""
        u, _, vt = np.linalg.svd(candidate @ target.T)
        return np.linalg.norm(candidate - u @ vt @ target) / np.linalg.norm(candidate)

    assert distance(problem.d) < tolerance(dtype, 1e-4, 1e-10)
    whole = np.linalg.pinv(problem.loaded)
    for pair in itertools.combinations(range(4), 2):
        assert distance(np.linalg.pinv(problem.loaded[:, pair])) > 1e-2
        assert distance(whole[list(pair)]) > 1e-2


def test_theorem_3_2_objective_is_a_sum_of_suprema(dtype):
    problem = Fewer(dtype)
    inner = problem.d @ problem.topics
    total = 0.0
    rng = np.random.default_rng(3)
    for i, j in ((0, 1), (1, 0)):
        coefficient = inner[i] * inner[j] * problem.weights
        best = (
            problem.topics @ coefficient
        )  # the supremum over |alpha| <= 1 of <M' alpha, coefficient> is at M c / |M c|
        supremum = (problem.topics.T @ best / np.linalg.norm(best)) @ coefficient
        alpha = rng.normal(size=(1000, 9))
        alpha /= np.linalg.norm(alpha, axis=1, keepdims=True)
        assert np.all(alpha @ problem.topics @ coefficient <= supremum + 1e-12)
        total += supremum
    np.testing.assert_allclose(problem.found.objective, total, rtol=tolerance(dtype, 1e-3, 1e-9))


def test_objective_is_the_least_over_all_rotations(dtype):
    problem = Fewer(dtype)
    slices = np.einsum(
        "k,rk,ik,jk->rij",
        problem.weights,
        problem.topics,
        *[np.asarray(problem.found.whitening.pinv, np.float64) @ problem.topics] * 2,
    )
    least = 2 * np.sqrt(max(dense.quartic(slices, dense.GRID).min(), 0))
    np.testing.assert_allclose(problem.found.objective, least, rtol=tolerance(dtype, 1e-3, 1e-6))


def whitened_tensor(moments, found):
    """Return T = M3(W, W, W)."""
    slices = moments.whitened_slices(found.pinv.T)
    return np.asarray(jnp.einsum("ir,rjk->ijk", found.pinv, slices, precision="highest"), np.float64)


def orthogonally_decomposable_defect(t):
    """Return the defect of the criterion of Appendix A: zero iff T is orthogonally decomposable."""
    return t[0, 0, 0] * t[1, 1, 0] + t[1, 0, 0] * t[1, 1, 1] - t[1, 0, 0] ** 2 - t[1, 1, 0] ** 2


def test_appendix_a_whitened_tensor_has_the_printed_values_and_cannot_be_decomposed(dtype):
    topics = np.array([[1, 0, 1], [0, 1, 1], [0, 0, 1]], dtype)
    moments = hm.population_moments(topics, np.ones(3, dtype))
    t = whitened_tensor(moments, hm.whiten(moments, 2))
    root = np.sqrt(3)
    v = np.sqrt(9 + 5 * root)
    atol = tolerance(dtype, 1e-5, 1e-12)
    np.testing.assert_allclose(np.abs(t[0, 0, 0]), 2 * ((1 + root) / (2 * v)) ** 3 + ((2 + root) / v) ** 3, atol=atol)
    np.testing.assert_allclose(np.abs(t[0, 1, 1]), (1 + root) / (2 * v), atol=atol)
    np.testing.assert_allclose([t[0, 0, 1], t[1, 1, 1]], 0, atol=atol)
    assert abs(orthogonally_decomposable_defect(t)) > 0.1
    assert hm.sidiwo(moments, 2).relative_objective > 0.01


def test_appendix_a_criterion_holds_with_as_many_topics_as_asked_for(dtype):
    topics, weights = random_topics(4, 8, 2)
    moments = hm.population_moments(topics.astype(dtype), weights.astype(dtype))
    t = whitened_tensor(moments, hm.whiten(moments, 2))
    assert abs(orthogonally_decomposable_defect(t)) < tolerance(dtype, 1e-3, 1e-10) * np.abs(t).max() ** 2


@pytest.mark.parametrize("solver", SOLVERS)
def test_empirical_decomposition_equals_the_literal_transcription(x64, solver):
    counts = hm.datasets.hierarchical_topics(5, n_docs=80, n_words=24).counts
    found = hm.sidiwo(hm.single_topic_moments(hm.Corpus.from_counts(counts)), 2, solver=solver)
    topics, weights = dense.sidiwo(*dense.moments(counts.toarray().astype(float)))
    atol = 1e-12 if solver == "grid" else 1e-4
    floored = np.maximum(found.topics, 1e-6)
    np.testing.assert_allclose(floored / floored.sum(0), topics, atol=atol)
    np.testing.assert_allclose(found.weights, weights, atol=10 * atol)


def test_topics_are_distributions_in_descending_weight(dtype):
    corpus = hm.Corpus.from_counts(random_corpus(0, n_docs=60, dtype=dtype))
    for beta in (0, 0.5, 1):
        found = hm.sidiwo(hm.single_topic_moments(corpus, beta, word_scale="inverse_sqrt"), 2)
        assert np.min(found.topics) >= 0
        np.testing.assert_allclose(found.topics.sum(0), 1, rtol=1e-5)
        np.testing.assert_allclose(found.weights.sum(), 1, rtol=1e-5)
        assert found.weights[0] >= found.weights[1]


def test_permuting_words_permutes_topics(x64):
    topics, weights = random_topics(6, 9, 4, concentration=1.0)
    order = np.random.default_rng(7).permutation(9)
    plain = hm.sidiwo(hm.population_moments(topics, weights), 2)
    permuted = hm.sidiwo(hm.population_moments(topics[order], weights), 2)
    np.testing.assert_allclose(permuted.topics, plain.topics[order], atol=1e-10)


def test_one_topic_is_an_error_outside_and_void_inside(dtype):
    topics, _ = random_topics(8, 9, 1)
    moments = hm.population_moments(topics.astype(dtype), np.ones(1, dtype))
    with pytest.raises(hm.InputError, match="only 1 positive"):
        hm.sidiwo(moments, 2)
    for solver in SOLVERS:
        found = jax.jit(lambda moments, solver=solver: hm.sidiwo(moments, 2, solver=solver))(moments)
        assert found.void.tolist() == [False, True]
        assert found.floored.tolist() == [False, True]
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))
        np.testing.assert_allclose(found.topics[:, 0], topics[:, 0], atol=tolerance(dtype, 1e-5, 1e-10))
        np.testing.assert_allclose(found.topics.sum(0), 1, rtol=1e-5)


def test_membership_and_scaling_may_be_traced_and_mapped(x64):
    counts = hm.datasets.hierarchical_topics(9, n_docs=60, n_words=24).counts
    corpus = hm.Corpus.from_counts(counts)
    memberships = np.random.default_rng(10).uniform(0.2, 1, (3, 60))
    scale = np.linspace(0.5, 2, 24)

    def decompose(arrays, membership, scale):
        return hm.sidiwo(hm.single_topic_moments(arrays, 0.5, membership, scale), 2).topics

    mapped = jax.jit(jax.vmap(decompose, (None, 0, None)))(corpus.arrays, memberships, scale)
    for membership, topics in zip(memberships, mapped, strict=True):
        expected = hm.sidiwo(hm.single_topic_moments(corpus, 0.5, membership, scale), 2).topics
        np.testing.assert_allclose(topics, expected, atol=1e-9)


def test_gradient_of_the_objective_in_membership_matches_central_difference(x64):
    corpus = hm.Corpus.from_counts(hm.datasets.hierarchical_topics(11, n_docs=60, n_words=24).counts)
    rng = np.random.default_rng(12)
    membership, direction = jnp.asarray(rng.uniform(0.2, 1, 60)), jnp.asarray(rng.normal(size=60))

    @jax.jit
    def objective_and_slope(arrays, membership):
        objective = lambda m: hm.sidiwo(hm.single_topic_moments(arrays, membership=m), 2).objective
        return jax.jvp(objective, (membership,), (direction,))

    _, slope = objective_and_slope(corpus.arrays, membership)
    step = 1e-6
    ahead, behind = (objective_and_slope(corpus.arrays, membership + sign * step * direction)[0] for sign in (1, -1))
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 2, "solver": "newton"}, "one of auto, grid, closed.*got 'newton'"),
        ({"rank": 3, "solver": "grid"}, "'grid' is for rank 2; got rank 3"),
        ({"rank": 3, "solver": "closed"}, "'closed' is for rank 2; got rank 3"),
    ],
)
def test_unknown_solver_is_refused(options, message):
    with pytest.raises(hm.InputError, match=message):
        hm.sidiwo(population(0, 8, 3)[2], **options)


def test_overflow_is_an_error_not_a_silent_nan():
    moments = hm.population_moments(np.full((3, 2), 3e38) * np.eye(3, 2), np.array([3e37, 3e37]))
    with pytest.raises(hm.InputError):
        hm.sidiwo(moments, 2)
