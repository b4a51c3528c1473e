"""An independent library on sets that can be diagonalised."""

import jax.numpy as jnp
import numpy as np
import pytest

from hmom_jax.decompose.jacobi import jacobi
from hmom_jax.decompose.uwedge import uwedge
from tests.decompose.problems import rotated_diagonals

ajd = pytest.importorskip("pyriemann.utils.ajd")


def aligned(rows, others):
    """Return |cosines| between the rows of two diagonalisers, each row of the first at its best match."""
    unit = lambda m: m / np.linalg.norm(m, axis=1, keepdims=True)
    cosines = np.abs(unit(np.asarray(rows, float)) @ unit(np.asarray(others, float)).T)
    assert len(set(cosines.argmax(1))) == len(cosines)
    return cosines.max(1)


def test_orthogonal_sets():
    slices, rotation = rotated_diagonals(0, 1, 20, 5)
    ours = jacobi(jnp.asarray(slices[0], jnp.float32)).rotation.T
    theirs, _ = ajd.rjd(slices[0], eps=1e-12, n_iter_max=200)
    np.testing.assert_allclose(aligned(ours, theirs.T), 1, atol=1e-5)
    np.testing.assert_allclose(aligned(ours, rotation[0].T), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["uwedge", "ajd_pham"])
def test_oblique_sets(name, x64):
    rng = np.random.default_rng(0)
    mixing = np.eye(4) + 0.4 * rng.normal(size=(4, 4))
    matrices = np.einsum("ij,tj,kj->tik", mixing, rng.uniform(0.5, 2.0, size=(15, 4)), mixing)
    ours = uwedge(jnp.asarray(matrices), jnp.asarray(jacobi(jnp.asarray(matrices)).rotation.T))
    assert ours.converged
    theirs, _ = getattr(ajd, name)(matrices, eps=1e-12, n_iter_max=200)
    np.testing.assert_allclose(aligned(ours.rotation, theirs), 1, atol=1e-8)
    np.testing.assert_allclose(aligned(ours.rotation, np.linalg.inv(mixing)), 1, atol=1e-8)
