"""Jacobi sweeps: exact problems, rank 2 against the closed form, properties."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmom_jax.decompose.jacobi import _round_robin, jacobi
from hmom_jax.decompose.objective import compress, off_diagonal
from hmom_jax.decompose.rank_two import closed_rotation
from tests.decompose.problems import noisy_slices, rotated_diagonals


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 7])
def test_round_robin_plays_every_pair_once(rank):
    partner, side = _round_robin(rank)
    pairs = {(i, int(j)) for row in partner for i, j in enumerate(row) if i < j}
    assert len(pairs) == rank * (rank - 1) // 2
    assert (partner[np.arange(len(partner))[:, None], partner] == np.arange(rank)).all()
    assert ((side == 0) == (partner == np.arange(rank))).all()


@pytest.mark.parametrize("rank", [2, 3, 8])
def test_diagonalises_what_can_be(rank, dtype):
    slices, _ = rotated_diagonals(0, 3, 40, rank)
    found = jacobi(jnp.asarray(slices, dtype))
    eps = np.finfo(dtype).eps
    assert found.converged.all()
    assert (off_diagonal(jnp.asarray(slices, dtype), found.rotation)[1] < 20 * eps).all()
    rotation = np.asarray(found.rotation, np.float64)
    assert np.abs(np.swapaxes(rotation, -1, -2) @ rotation - np.eye(rank)).max() < 4 * rank * eps


@given(seed=st.integers(0, 2**32 - 1))
def test_rank_two_is_the_closed_form(seed):
    slices = jnp.asarray(noisy_slices(seed, 2, 10, 2, noise=1.0), jnp.float32)
    found = off_diagonal(slices, jacobi(slices).rotation)[0]
    np.testing.assert_allclose(found, off_diagonal(slices, closed_rotation(slices))[0], rtol=1e-5)


def test_ties_turn_by_an_eighth():
    """All of the weight off the diagonal, none to tell the two entries apart: both sides must agree on the angle."""
    slices = jnp.array([[[2.0, 1.0], [1.0, 2.0]]])
    found = jacobi(slices)
    assert off_diagonal(slices, found.rotation)[0] < 1e-6


def test_squares_never_rise_with_sweeps():
    slices = jnp.asarray(noisy_slices(1, 2, 30, 6, noise=0.5), jnp.float32)

    def squares(rotation):
        turned = np.einsum("nji,nrjk,nkl->nril", rotation, slices, rotation)
        return (turned**2).sum((1, 2, 3)) - (np.diagonal(turned, axis1=-2, axis2=-1) ** 2).sum((1, 2))

    values = [squares(np.asarray(jacobi(slices, max_sweeps=n).rotation)) for n in (1, 2, 3, 10)]
    for before, after in zip(values, values[1:], strict=False):
        assert (after <= before * (1 + 1e-5)).all()


@given(seed=st.integers(0, 2**32 - 1))
def test_compressed_slices_have_the_same_objective(seed):
    slices = jnp.asarray(noisy_slices(seed, 2, 50, 4, noise=0.5), jnp.float32)
    few = compress(slices)
    assert few.shape == (2, 10, 4, 4)
    rotation = jnp.asarray(np.linalg.qr(np.random.default_rng(seed).normal(size=(2, 4, 4)))[0], jnp.float32)
    np.testing.assert_allclose(off_diagonal(few, rotation)[0], off_diagonal(slices, rotation)[0], rtol=1e-5)


def test_few_slices_are_left_as_they_are():
    slices = jnp.asarray(noisy_slices(0, 1, 5, 4, noise=0.5), jnp.float32)
    assert compress(slices) is slices
