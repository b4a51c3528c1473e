"""Projection on the simplex: against the sorted algorithm, and by what defines a projection."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hmom_jax as hm
from bench.baselines import dense
from tests.helpers import tolerance

project = jax.jit(hm.project_simplex)


def random_points(seed, dtype, n_words=60):
    """Draw points of very different scales: small, far away, on the simplex, with ties."""
    rng = np.random.default_rng(seed)
    points = np.stack(
        [
            rng.normal(size=n_words),
            rng.normal(size=n_words) / n_words,
            100 * rng.normal(size=n_words),
            rng.dirichlet(np.ones(n_words)),
            np.round(rng.normal(size=n_words), 1),
            np.full(n_words, rng.normal()),
        ]
    )
    return points.astype(dtype)


@pytest.mark.parametrize("seed", range(5))
def test_projection_equals_the_sorted_algorithm(dtype, seed):
    points = random_points(seed, dtype)
    found = project(points)
    assert found.dtype == dtype
    expected = np.stack([dense.project_simplex(point.astype(np.float64)) for point in points])
    np.testing.assert_allclose(found, expected, atol=tolerance(dtype, 2e-5, 1e-13))


@given(seed=st.integers(0, 2**32 - 1))
def test_projection_lies_on_the_simplex_and_is_idempotent(seed):
    found = np.asarray(project(random_points(seed, np.float32)))
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(-1), 1, atol=2e-6)
    np.testing.assert_allclose(project(found), found, atol=2e-6)


@given(seed=st.integers(0, 2**32 - 1))
def test_no_point_of_the_simplex_is_nearer(seed):
    points = random_points(seed, np.float32)
    found = np.asarray(project(points), np.float64)
    others = np.random.default_rng(seed).dirichlet(np.ones(points.shape[1]), len(points))
    # For a convex set: <y - P(y), z - P(y)> <= 0 for every z in it.
    inner = ((points - found) * (others - found)).sum(-1)
    assert np.all(inner <= 1e-4 * (1 + np.abs(points).max(-1)))


def test_many_equal_words_far_from_the_simplex_keep_their_mass():
    found = np.asarray(project(np.full(100_000, 2.0, np.float32)), np.float64)
    np.testing.assert_allclose(found.sum(), 1, rtol=1e-5)


def test_points_may_have_any_leading_axes():
    points = random_points(0, np.float32).reshape(2, 3, -1)
    assert np.array_equal(project(points).reshape(6, -1), project(points.reshape(6, -1)))


def test_gradient_is_that_of_the_face(x64):
    point, direction = random_points(1, np.float64)[:2]
    _, slope = jax.jvp(hm.project_simplex, (jnp.asarray(point),), (jnp.asarray(direction),))
    support = np.asarray(project(point)) > 0
    expected = np.where(support, direction - direction[support].mean(), 0)
    np.testing.assert_allclose(slope, expected, atol=1e-12)
