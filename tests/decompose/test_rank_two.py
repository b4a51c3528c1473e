"""Two topics: the paper's quartic, the grid over it, and the closed form against both."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bench.baselines import dense
from hmom_jax.decompose import objective, rank_two
from hmom_jax.decompose.rank_two import quartic, quartic_coefficients, rotation
from tests.helpers import tolerance

closed_rotation = jax.jit(rank_two.closed_rotation)
grid_rotation = jax.jit(rank_two.grid_rotation)
off_diagonal = jax.jit(objective.off_diagonal)


def random_slices(seed, n_problems, n_slices=12):
    """Draw symmetric slices from exactly diagonalisable to pure noise, of very different sizes."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(-np.pi, np.pi, n_problems)
    turn = np.stack([np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)], -1).reshape(-1, 1, 2, 2)
    diagonal = np.zeros((n_problems, n_slices, 2, 2))
    diagonal[..., [0, 1], [0, 1]] = rng.normal(size=(n_problems, n_slices, 2))
    noise = rng.normal(size=(n_problems, n_slices, 2, 2))
    level = rng.choice([0, 1e-3, 0.1, 1, 10], n_problems)[:, None, None, None]
    slices = turn @ diagonal @ np.swapaxes(turn, -1, -2) + level * (noise + np.swapaxes(noise, -1, -2))
    return slices * rng.choice([1e-3, 1, 1e3], n_problems)[:, None, None, None]


def test_theorem_3_3_objective_is_twice_the_root_of_the_quartic(dtype):
    slices = jnp.asarray(random_slices(0, 20).astype(dtype))
    scale = np.sqrt((np.asarray(slices) ** 2).sum((1, 2, 3)))
    coefficients = quartic_coefficients(slices)
    evaluate = jax.jit(jax.vmap(quartic))
    for a in np.linspace(-1, 1, 21):
        at = jnp.full(20, a, dtype)
        objective, _ = off_diagonal(slices, rotation(at))
        value = np.maximum(evaluate(coefficients, at), 0)
        # Squared: the root has no bounded derivative where slices are diagonal.
        np.testing.assert_allclose(objective**2 / scale**2, 4 * value / scale**2, atol=tolerance(dtype, 1e-5, 1e-13))


def test_quartic_equals_the_literal_transcription(x64):
    slices = random_slices(1, 1)[0]
    grid = np.linspace(-1, 1, 101)
    mine = jax.vmap(quartic, (None, 0))(quartic_coefficients(jnp.asarray(slices)), jnp.asarray(grid))
    np.testing.assert_allclose(mine, dense.quartic(slices, grid), rtol=1e-12, atol=1e-12 * np.abs(mine).max())


@pytest.mark.parametrize("solver", [grid_rotation, closed_rotation], ids=["grid", "closed"])
def test_rotation_is_orthogonal(dtype, solver):
    found = np.asarray(solver(jnp.asarray(random_slices(2, 10).astype(dtype))))
    assert found.dtype == dtype
    eye = np.broadcast_to(np.eye(2), found.shape)
    np.testing.assert_allclose(np.swapaxes(found, -1, -2) @ found, eye, atol=tolerance(dtype, 1e-6, 1e-14))


def test_closed_form_against_grid_on_a_thousand_problems(dtype):
    solve = jax.jit(lambda slices: (grid_rotation(slices), closed_rotation(slices)))
    slices = random_slices(3, 1000).astype(dtype)
    found = [solve(jnp.asarray(part)) for part in np.split(slices, 25)]
    grid, closed = (jnp.concatenate(parts) for parts in zip(*found, strict=True))
    by_grid, by_form = (np.asarray(off_diagonal(jnp.asarray(slices), turn)[0]) for turn in (grid, closed))
    size = np.sqrt((slices**2).sum((1, 2, 3)))
    assert np.all(by_form <= by_grid + tolerance(dtype, 1e-6, 1e-14) * size)
    if dtype == np.float64:
        a = np.asarray(grid)[:, 0, 1]
        inside = np.abs(a) < 0.99
        assert inside.sum() > 900
        angle = np.arctan2(*np.asarray(closed)[:, 0, ::-1].T)
        difference = (np.arcsin(a) - angle + np.pi / 4) % (np.pi / 2) - np.pi / 4
        assert np.abs(difference[inside]).max() < 1e-5


def test_closed_form_finds_an_exact_diagonalisation(dtype):
    rng = np.random.default_rng(4)
    c, s = np.cos(0.3), np.sin(0.3)
    turn = np.array([[c, s], [-s, c]])
    slices = np.stack([turn @ np.diag(rng.normal(size=2)) @ turn.T for _ in range(7)]).astype(dtype)
    objective, share = off_diagonal(jnp.asarray(slices), closed_rotation(jnp.asarray(slices)))
    assert objective < tolerance(dtype, 1e-5, 1e-13)
    assert share < tolerance(dtype, 1e-5, 1e-13)


def test_slices_without_preference_stay_unrotated_with_zero_gradient(dtype):
    flat = jnp.zeros((3, 2, 2), dtype)
    np.testing.assert_array_equal(closed_rotation(flat), np.eye(2))
    gradient = jax.grad(lambda slices: closed_rotation(slices).sum())(flat)
    assert np.all(np.asarray(gradient) == 0)


def test_gradient_of_the_closed_form_matches_central_difference(x64):
    slices = jnp.asarray(random_slices(5, 1)[0])
    raw = np.random.default_rng(6).normal(size=slices.shape)
    direction = jnp.asarray(raw + np.swapaxes(raw, -1, -2))
    angle = lambda slices: closed_rotation(slices)[0, 1]
    _, slope = jax.jvp(angle, (slices,), (direction,))
    step = 1e-6 * float(jnp.abs(slices).max())
    numeric = (angle(slices + step * direction) - angle(slices - step * direction)) / (2 * step)
    np.testing.assert_allclose(slope, numeric, rtol=1e-5)


def test_nodes_are_solved_as_if_alone(dtype):
    slices = jnp.asarray(random_slices(7, 6).astype(dtype)).reshape(2, 3, 12, 2, 2)
    for solver in (closed_rotation, grid_rotation):
        together, _ = off_diagonal(slices, solver(slices))
        alone = np.array([[off_diagonal(s, solver(s))[0] for s in row] for row in slices])
        size = np.sqrt((np.asarray(slices) ** 2).sum((-1, -2, -3)))  # angles may differ where two are as good
        np.testing.assert_allclose(together / size, alone / size, atol=tolerance(dtype, 1e-3, 1e-9))
