"""Derivatives of the best rotation: its Hessian in closed form, unrolled descent, second order, flat minima, memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import hmom_jax as hm
from hmom_jax.decompose.cayley import cayley, cayley_rotation
from hmom_jax.decompose.jacobi import jacobi
from hmom_jax.decompose.objective import rotate
from hmom_jax.decompose.rank_two import closed_rotation
from hmom_jax.decompose.stationary import _hessian, _skew, gradient_field, stationary, upper_gradient
from hmom_jax.errors import default_key
from hmom_jax.linalg import orthonormalise

pytestmark = pytest.mark.usefixtures("x64")


def nearly_diagonal(seed, rank, n_slices, noise=0.05, nodes=()):
    """Return symmetric matrices that one rotation makes nearly diagonal, as those of a few topics and noise."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(*nodes, rank, rank)))[0][..., None, :, :]
    diagonal = rng.uniform(0.5, 2, (*nodes, n_slices, rank))[..., None] * np.eye(rank)
    other = rng.normal(size=(*nodes, n_slices, rank, rank))
    slices = basis @ diagonal @ np.swapaxes(basis, -1, -2) + noise * (other + np.swapaxes(other, -1, -2))
    return jnp.asarray(slices)


@pytest.mark.parametrize("nodes", [(), (2,)])
@pytest.mark.parametrize("smooth", [False, True], ids=["squares", "norms"])
@pytest.mark.parametrize("rank", [2, 5])
def test_hessian_is_the_derivative_of_the_gradient(rank, smooth, nodes):
    slices = nearly_diagonal(0, rank, 7, 0.5, nodes)
    rotation = orthonormalise(jnp.asarray(np.random.default_rng(1).normal(size=(*nodes, rank, rank))))
    epsilon = jnp.full(nodes, 0.3) if smooth else None

    def along(skew):
        turned = jnp.einsum("...ij,jk->...ik", rotation, skew)
        return jax.jvp(lambda rotation: upper_gradient(slices, rotation, epsilon), (rotation,), (turned,))[1]

    pairs = _skew(jnp.eye(rank * (rank - 1) // 2), rank)
    expected = np.stack([along(pair) for pair in pairs], axis=-1)
    np.testing.assert_allclose(jax.jit(_hessian)(slices, rotation, epsilon), expected, atol=1e-12)


SOLVERS = {
    "closed": closed_rotation,
    "jacobi": lambda slices: jacobi(slices).rotation,
    "cayley": lambda slices: cayley_rotation(slices, default_key(None), n_starts=1, max_iter=500).rotation,
}


@pytest.mark.parametrize(
    ("solver", "rank"),
    [
        ("closed", 2),
        ("jacobi", 3),
        ("cayley", 3),
        pytest.param("jacobi", 8, marks=pytest.mark.slow),
        pytest.param("cayley", 8, marks=pytest.mark.slow),
    ],
)
def test_rotation_to_second_order(solver, rank):
    slices = nearly_diagonal(2, rank, rank + 2)

    @jax.jit
    def found(free):
        slices = 0.5 * (free + jnp.swapaxes(free, -1, -2))
        best = SOLVERS[solver](jax.lax.stop_gradient(slices))
        rotation = stationary(slices, best, solver != "cayley")
        # starts end in different orders and signs of the same columns: look at what these do not change
        return ((jnp.cos(jnp.arange(1.0 * rank**2)).reshape(rank, rank) @ rotation) ** 4).sum()

    # the solvers stop at a gradient, and the numeric derivative of a derivative divides by the step
    check_grads(found, (slices,), order=2, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("squares", [True, False], ids=["squares", "norms"])
def test_derivatives_equal_those_of_unrolled_cayley_descent(squares):
    """Differentiate through every one of 400 steps: forwards and backwards the same, once these have converged."""
    rank = 3
    slices = nearly_diagonal(3, rank, 6, 0.2)
    start = jacobi(slices).rotation
    epsilon = None if squares else jnp.asarray(1e-6)
    step = 1 / float(jnp.linalg.eigvalsh(_hessian(slices, start, epsilon)).max())

    def unrolled(slices):
        def descend(rotation, _):
            return rotation @ cayley(-step * gradient_field(rotate(slices, rotation), epsilon)[1]), None

        return jax.lax.scan(descend, start, None, length=400)[0]

    best = jax.jit(unrolled)(slices)
    assert float(jnp.abs(upper_gradient(slices, best, epsilon)).max()) < 1e-13
    weight = jnp.sin(jnp.arange(9.0)).reshape(3, 3)
    expected = jax.jit(jax.grad(lambda slices: (weight * unrolled(slices)).sum()))(slices)
    found = jax.jit(jax.grad(lambda slices: (weight * stationary(slices, best, squares)).sum()))(slices)
    np.testing.assert_allclose(found, expected, atol=1e-9 * float(jnp.abs(expected).max()))
    change = nearly_diagonal(4, rank, 6, 1.0)
    _, expected = jax.jit(lambda change: jax.jvp(unrolled, (slices,), (change,)))(change)
    _, found = jax.jvp(lambda slices: stationary(slices, best, squares), (slices,), (change,))
    np.testing.assert_allclose(found, expected, atol=1e-9 * float(jnp.abs(expected).max()))


def test_memory_holds_no_copies_of_the_slices_for_each_pair():
    rank, slices = 8, jax.ShapeDtypeStruct((4000, 8, 8), jnp.float64)
    backwards = jax.jit(jax.grad(lambda slices: stationary(slices, jnp.eye(rank), False)[0, 1]))
    temporary = backwards.lower(slices).compile().memory_analysis().temp_size_in_bytes
    assert temporary < 12 * 4000 * 8 * 8 * 8  # 28 pairs, several arrays for each, were a hundred


# --------------------------------------------------------------------------------------------------------------- flat
def polygon(n_topics, n_words=12):
    """Return topics evenly on a circle around their mean: no turn of its plane is better than another."""
    angle = lambda n: 2 * np.pi * np.arange(n) / n
    waves = np.cos(angle(n_words)[:, None] - angle(n_topics)[None, :])
    return jnp.asarray((1 + 0.5 * waves) / n_words), jnp.full(n_topics, 1 / n_topics)


@pytest.mark.parametrize("solver", ["jacobi", "cayley"])
def test_a_flat_minimum_is_refused_by_nan(solver):
    topics, weights = polygon(6)
    other = jnp.asarray(np.random.default_rng(5).uniform(size=topics.shape))

    @jax.jit
    def weight(mixing):
        return hm.sidiwo(hm.population_moments(topics + mixing * other, weights), 3, solver=solver).weights[0]

    assert np.isnan(jax.grad(weight)(0.0))
    assert np.isnan(jax.jvp(weight, (0.0,), (1.0,))[1])
    # a little off the circle there is a best turn again
    step = 1e-6
    np.testing.assert_allclose(
        jax.grad(weight)(0.05), (weight(0.05 + step) - weight(0.05 - step)) / (2 * step), rtol=1e-5
    )


def test_a_flat_minimum_of_two_components_is_refused_by_nan():
    turned = lambda angle: jnp.array([[jnp.cos(angle), jnp.sin(angle)], [jnp.sin(angle), -jnp.cos(angle)]])
    for angle in (0.0, 0.3):  # exact zeros, and zeros but for rounding
        slices = jnp.stack([turned(angle), turned(angle + np.pi / 2)])
        found = jax.grad(lambda slices: stationary(slices, closed_rotation(slices), True)[0, 1])(slices)
        assert np.isnan(found).all()


def test_components_that_nothing_turns_stay():
    slices = jnp.zeros((4, 3, 3)).at[:, 0, 0].set(1.0)
    found = jax.jacobian(lambda slices: stationary(slices, jnp.eye(3), True))(slices)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[1, 2], 0.0)
    np.testing.assert_array_equal(found[2, 1], 0.0)
