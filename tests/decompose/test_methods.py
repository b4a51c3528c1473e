"""One battery for every method: recovery, dtype, keys, tracing, nodes, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmom_jax as hm
from bench.common import METHODS
from hmom_jax.models.population import PopulationMoments
from tests.helpers import match_columns, population, random_topics, tolerance, topic_error

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def exact(seed, n_words, n_topics, dtype):
    topics, weights = random_topics(seed, n_words, n_topics)
    return topics, weights, hm.population_moments(topics.astype(dtype), weights.astype(dtype))


@every_method
def test_recovers_topics_and_weights_from_exact_moments(method, dtype):
    topics, weights, moments = exact(0, 40, 4, dtype)
    found = method(moments, 4)
    assert found.topics.dtype == found.weights.dtype == found.objective.dtype == dtype
    assert topic_error(found.topics, topics) < tolerance(dtype, 1e-4, 1e-8)
    np.testing.assert_allclose(found.weights, np.sort(weights)[::-1], atol=tolerance(dtype, 1e-5, 1e-9))
    assert found.converged
    assert not found.void.any()
    assert found.relative_objective < tolerance(dtype, 1e-5, 1e-11)
    assert found.orthogonality_error < 4 * 4 * np.finfo(dtype).eps


@pytest.mark.slow
@every_method
def test_recovers_twenty_topics(method, dtype):
    for seed in range(3):
        topics, _, moments = exact(seed, 200, 20, dtype)
        assert topic_error(method(moments, 20).topics, topics) < tolerance(dtype, 1e-4, 1e-8)


@every_method
def test_one_component_is_the_trivial_rotation(method):
    topics, _, moments = exact(1, 15, 1, np.float32)
    found = method(moments, 1)
    np.testing.assert_allclose(found.topics, topics, atol=1e-6)
    np.testing.assert_allclose(found.weights, [1.0])
    np.testing.assert_allclose(np.abs(found.rotation), [[1.0]], rtol=1e-6)


@every_method
def test_word_scaling_leaves_exact_recovery_alone(method):
    topics, _, moments = population(3, 40, 4, word_scale="inverse_sqrt")
    assert topic_error(method(moments, 4).topics, topics) < 1e-4


@every_method
def test_same_key_same_bits(method):
    _, _, moments = population(4, 40, 6)
    first, second = (method(moments, 4, key=jax.random.key(7)) for _ in range(2))
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(one, other)


@every_method
def test_is_traced_once_for_new_values_and_keys(method, monkeypatch):
    calls = []
    original = PopulationMoments.whitened_slices
    monkeypatch.setattr(PopulationMoments, "whitened_slices", lambda *args: calls.append(1) or original(*args))
    for seed in range(3):
        _, _, moments = population(seed, 23, 5)  # a shape that no other test has compiled
        method(moments, 3, key=jax.random.key(seed))
    assert len(calls) == 1


@every_method
def test_nodes_side_by_side_equal_one_by_one(method, x64):
    alone = [population(seed, 40, 6)[2] for seed in range(3)]
    keys = jax.random.split(jax.random.key(1), 3)
    together = method(jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone), 4, key=keys)
    for node, (moments, key) in enumerate(zip(alone, keys, strict=True)):
        one = method(moments, 4, key=key)
        np.testing.assert_allclose(together.topics[node], one.topics, atol=1e-6)
        np.testing.assert_allclose(together.weights[node], one.weights, atol=1e-6)
        assert together.n_iter[node] == one.n_iter


@every_method
def test_more_components_than_positive_eigenvalues(method):
    topics, weights, moments = exact(2, 12, 2, np.float32)
    with pytest.raises(hm.InputError, match="2 positive eigenvalue"):
        method(moments, 4)
    inside = jax.jit(lambda moments: method(moments, 4))(moments)
    assert inside.void.tolist() == [False, False, True, True]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(inside))
    np.testing.assert_allclose(match_columns(inside.topics[:, :2], topics), topics, atol=1e-4)
    np.testing.assert_allclose(inside.weights, [*np.sort(weights)[::-1], 0, 0], atol=1e-5)


@every_method
def test_nothing_at_all_gives_void_components_not_nan(method):
    empty = jax.tree.map(jnp.zeros_like, exact(0, 12, 2, np.float32)[2])
    found = jax.jit(lambda moments: method(moments, 3))(empty)
    assert found.void.all()
    assert np.isfinite(found.topics).all()


@every_method
@pytest.mark.parametrize(
    ("rank", "message"), [(13, "must not exceed the 12 words"), (0, "at least 1"), (True, "whole")]
)
def test_impossible_ranks(method, rank, message):
    _, _, moments = exact(2, 12, 2, np.float32)
    with pytest.raises(ValueError, match=message):
        method(moments, rank)


@pytest.mark.parametrize(
    ("method", "option"),
    [
        (hm.sidiwo, "n_starts"),
        (hm.sidiwo, "max_iter"),
        (hm.tensor_power, "n_restarts"),
        (hm.tensor_power, "max_iter"),
        (hm.svd_method, "n_combinations"),
        (hm.whitened_als, "n_restarts"),
        (hm.whitened_als, "max_iter"),
        (hm.random_projection, "n_projections"),
    ],
)
def test_options_must_be_counts(method, option):
    with pytest.raises(hm.InputError, match=f"{option} must be a whole number of at least 1; got 0"):
        method(population(0, 12, 3)[2], 3, **{option: 0})


def test_plain_als_is_reachable():
    topics, _, moments = population(0, 40, 4)
    assert topic_error(hm.whitened_als(moments, 4, n_orthogonal=0).topics, topics) < 1e-4


def test_solvers_that_do_not_fit_the_rank():
    _, _, moments = population(0, 12, 3)
    for solver in ("grid", "closed"):
        with pytest.raises(hm.InputError, match="is for rank 2; got rank 3"):
            hm.sidiwo(moments, 3, solver=solver)
    with pytest.raises(hm.InputError, match="solver must be one of auto, grid, closed, jacobi, cayley"):
        hm.sidiwo(moments, 3, solver="newton")
