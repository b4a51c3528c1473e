"""Small factorisations over leading axes agree with NumPy's, one node or many."""

import jax
import numpy as np
import pytest

from hmom_jax import linalg
from tests.helpers import tolerance

SHAPES = [(), (1,), (3,), (2, 3)]


@pytest.fixture(params=["few", "many"])
def few_or_many(request, monkeypatch):
    """Take any rows for few, which go by QR, or for many."""
    monkeypatch.setattr(linalg, "_FEW_VECTORS", 10**9 if request.param == "few" else 0)


@pytest.mark.parametrize("lead", SHAPES, ids=str)
def test_eigh_gives_ascending_eigenvalues_and_their_vectors(dtype, lead):
    half = np.random.default_rng(0).normal(size=(*lead, 6, 6)).astype(dtype)
    matrix = half + np.swapaxes(half, -1, -2)
    values, vectors = jax.jit(linalg.eigh)(matrix)
    assert values.dtype == vectors.dtype == dtype
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix), atol=tolerance(dtype, 1e-5, 1e-13))
    np.testing.assert_allclose(matrix @ vectors, vectors * values[..., None, :], atol=tolerance(dtype, 1e-5, 1e-13))


@pytest.mark.parametrize("lead", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["orthonormalise", "orthonormalise_rows"])
def test_orthonormalise_keeps_the_span(dtype, lead, name, few_or_many, monkeypatch):
    monkeypatch.setattr(linalg, "_ONE_THREAD", 32)  # three stretches of words, then two of their triangles
    block = np.random.default_rng(1).normal(size=(*lead, 20, 4)).astype(dtype)
    turn = (lambda array: np.swapaxes(array, -1, -2)) if name == "orthonormalise_rows" else (lambda array: array)
    basis = turn(np.asarray(jax.jit(getattr(linalg, name))(turn(block))))
    across = np.swapaxes(basis, -1, -2)
    atol = tolerance(dtype, 1e-5, 1e-13)
    np.testing.assert_allclose(across @ basis, np.broadcast_to(np.eye(4), (*lead, 4, 4)), atol=atol)
    np.testing.assert_allclose(basis @ (across @ block), block, atol=atol)


@pytest.mark.parametrize("lead", SHAPES, ids=str)
def test_triangle_has_the_same_gram_matrix(dtype, lead):
    block = np.random.default_rng(2).normal(size=(*lead, 20, 4)).astype(dtype)
    r = np.asarray(jax.jit(linalg.triangle)(block))
    assert r.shape == (*lead, 4, 4)
    np.testing.assert_allclose(np.tril(r, -1), 0)
    gram = np.swapaxes(block, -1, -2) @ block
    np.testing.assert_allclose(np.swapaxes(r, -1, -2) @ r, gram, atol=tolerance(dtype, 1e-4, 1e-12))


@pytest.mark.parametrize("lead", SHAPES, ids=str)
def test_solve_solves(dtype, lead):
    rng = np.random.default_rng(3)
    matrix = (np.eye(5) * 4 + rng.normal(size=(*lead, 5, 5))).astype(dtype)
    right = rng.normal(size=(*lead, 5, 2)).astype(dtype)
    solution = np.asarray(jax.jit(linalg.solve)(matrix, right))
    np.testing.assert_allclose(matrix @ solution, right, atol=tolerance(dtype, 1e-4, 1e-12))


def test_eigh_can_be_mapped():
    matrix = np.stack([np.diag([3.0, 1.0, 2.0]), np.diag([6.0, 5.0, 4.0])]).astype(np.float32)
    values, _ = jax.vmap(linalg.eigh)(matrix)
    np.testing.assert_allclose(values, [[1, 2, 3], [4, 5, 6]], rtol=1e-6)


def test_dependent_rows_become_orthonormal_all_the_same(dtype, few_or_many):
    row = np.random.default_rng(2).normal(size=(1, 5000)).astype(dtype)
    rows = np.concatenate([row, 2 * row, np.zeros_like(row), row + 1e-5]).astype(dtype)
    basis = np.asarray(jax.jit(linalg.orthonormalise_rows)(rows))
    np.testing.assert_allclose(basis @ basis.T, np.eye(4), atol=tolerance(dtype, 1e-5, 1e-13))


@pytest.mark.parametrize("condition", [1e0, 1e2, 1e4, 1e6])
def test_rows_of_very_different_size_become_orthonormal(dtype, condition, few_or_many):
    rng = np.random.default_rng(3)
    turn, _ = np.linalg.qr(rng.normal(size=(20, 20)))
    across, _ = np.linalg.qr(rng.normal(size=(3000, 20)))
    rows = (turn * np.geomspace(1, 1 / condition, 20) @ across.T).astype(dtype)
    basis = np.asarray(jax.jit(linalg.orthonormalise_rows)(rows))
    np.testing.assert_allclose(basis @ basis.T, np.eye(20), atol=tolerance(dtype, 1e-5, 1e-13))
    large = rows / np.linalg.norm(rows)
    np.testing.assert_allclose(large @ basis.T @ basis, large, atol=tolerance(dtype, 1e-5, 1e-13))
