"""The folded layout: equal to SciPy's product whatever the lengths of the rows, with shapes that follow from bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hmom_jax import rows as host
from hmom_jax import sparse
from hmom_jax.rows import geometric
from hmom_jax.sparse import fold_rows, product, shift
from tests.helpers import awkward_matrix, tolerance


def fold(matrix, dtype, **bounds):
    options = {"capacity": geometric(matrix.nnz), "longest": int(np.diff(matrix.indptr).max()), **bounds}
    return fold_rows(matrix.indptr, matrix.indices, matrix.data, dtype=dtype, **options)


@pytest.mark.parametrize("width", [8, 10, 28])
@pytest.mark.parametrize("columns", [0, 1, 2, 32])
@pytest.mark.parametrize("snug", [True, False])
def test_product_equals_scipy_for_rows_of_any_length(dtype, width, columns, snug, monkeypatch):
    monkeypatch.setattr(sparse, "piece_width" if snug else "_mean_width", lambda *_: width)
    monkeypatch.setattr(sparse, "_COLUMNS_CPU", columns)
    matrix = awkward_matrix(0)
    table = np.random.default_rng(1).normal(size=(700, 3)).astype(dtype)
    rows = fold(matrix, dtype, snug=snug)
    assert rows.index.shape[1] == width
    found = jax.jit(product)(rows, table)
    assert found.dtype == dtype
    scale = np.abs(matrix @ np.abs(table)).max()
    np.testing.assert_allclose(found, matrix @ table, atol=scale * tolerance(dtype, 1e-6, 1e-15))


@given(seed=st.integers(0, 2**32 - 1))
def test_product_equals_scipy(seed):
    rng = np.random.default_rng(seed)
    matrix = sp.csr_array(rng.poisson(rng.choice([0.05, 0.5, 3.0]), (31, 45)).astype(np.float32))
    rows = fold(matrix, np.float32, capacity=31 * 45, longest=45)
    table = rng.normal(size=(45, 2)).astype(np.float32)
    np.testing.assert_allclose(jax.jit(product)(rows, table), matrix @ table, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_columns", [1, 3, 8, 33, 70])
def test_any_number_of_columns(n_columns):
    matrix = awkward_matrix(4)
    table = np.random.default_rng(5).normal(size=(700, n_columns)).astype(np.float32)
    np.testing.assert_allclose(jax.jit(product)(fold(matrix, np.float32), table), matrix @ table, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("small", [1, 10**6])  # levels joined, and the lowest apart
@pytest.mark.parametrize("seed", range(3))
def test_sums_are_found_in_whatever_level_they_stand(small, seed, dtype, monkeypatch):
    monkeypatch.setattr(sparse, "_SMALL", small)
    matrix = awkward_matrix(seed)
    table = np.random.default_rng(seed).normal(size=(700, 16)).astype(dtype)
    rows = fold(matrix, dtype, snug=True)
    assert len(rows.folds) > 1
    scale = np.abs(matrix @ np.abs(table)).max()
    np.testing.assert_allclose(product(rows, table), matrix @ table, atol=scale * tolerance(dtype, 1e-6, 1e-15))


def test_pieces_are_summed_band_by_band_to_the_same_bits(monkeypatch):
    matrix = awkward_matrix(3)
    table = np.random.default_rng(3).normal(size=(700, 16)).astype(np.float32)
    whole = product(fold(matrix, np.float32, table=700, snug=True), table)
    for size in (1, 40, 700):
        monkeypatch.setattr(sparse, "_BAND", size)
        rows = fold(matrix, np.float32, table=700, snug=True)
        rests = rows.index[rows.n_rows :][(rows.count[rows.n_rows :] != 0).any(axis=1)]
        bands = rests[:, 0] // min(size, -(-700 // sparse._BANDS))
        assert np.all(np.diff(bands.astype(int)) >= 0)
        np.testing.assert_array_equal(product(rows, table), whole)


@given(seed=st.integers(0, 2**32 - 1))
def test_the_width_of_pieces_does_not_hang_on_the_order_of_rows(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.poisson(rng.choice([3, 20, 90]), 50)
    assert sparse.piece_width(lengths) == sparse.piece_width(rng.permutation(lengths))


def test_rows_without_more_than_a_head_have_no_levels(dtype):
    matrix = sp.csr_array(np.eye(9, 30) + np.eye(9, 30, 3))
    rows = fold(matrix, dtype)
    assert (len(rows.index), rows.folds, rows.final) == (9, (), None)
    table = np.random.default_rng(0).normal(size=(30, 4)).astype(dtype)
    np.testing.assert_allclose(product(rows, table), matrix @ table, rtol=1e-6)


def test_rows_read_their_own_section_of_the_table(dtype):
    matrix = awkward_matrix(2)
    rng = np.random.default_rng(3)
    table = rng.normal(size=(3, 700, 2)).astype(dtype)
    node = rng.integers(0, 3, 40)
    found = jax.jit(product)(shift(fold(matrix, dtype), jnp.asarray(node * 700, jnp.int32)), table.reshape(-1, 2))
    expected = np.stack([matrix[[row]] @ table[node[row]] for row in range(40)])[:, 0]
    np.testing.assert_allclose(found, expected, atol=tolerance(dtype, 1e-3, 1e-11))


@pytest.mark.parametrize(("table", "index"), [(None, np.int32), (2**16, np.uint16), (2**16 + 1, np.int32)])
def test_indices_into_small_tables_are_small(table, index):
    matrix = awkward_matrix(7)
    rows = fold(matrix, np.float32, table=table)
    assert rows.index.dtype == index
    block = np.random.default_rng(8).normal(size=(700, 2)).astype(np.float32)
    np.testing.assert_allclose(product(rows, block), matrix @ block, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("n_nodes", "index"), [(3, np.uint16), (100, np.int32)])
def test_shifted_indices_are_as_large_as_all_sections_need(n_nodes, index):
    matrix = awkward_matrix(9)
    rng = np.random.default_rng(10)
    table = rng.normal(size=(n_nodes, 700, 2)).astype(np.float32)
    node = rng.integers(n_nodes - 2, n_nodes, 40)
    rows = fold(matrix, np.float32, table=700)
    shifted = shift(rows, jnp.asarray(node * 700, jnp.int32), table=n_nodes * 700)
    assert (rows.index.dtype, shifted.index.dtype) == (np.uint16, index)
    expected = np.stack([matrix[[row]] @ table[node[row]] for row in range(40)])[:, 0]
    np.testing.assert_allclose(product(shifted, table.reshape(-1, 2)), expected, atol=1e-3)


def test_long_layouts_are_built_in_parts(monkeypatch):
    matrix = awkward_matrix(6)
    whole = jax.tree.leaves(fold(matrix, np.float32))
    for chunk in (1, 64, 700):
        monkeypatch.setattr(host, "_CHUNK", chunk)
        for part, expected in zip(jax.tree.leaves(fold(matrix, np.float32)), whole, strict=True):
            np.testing.assert_array_equal(part, expected)


def test_matrix_without_entries_gives_zero(dtype):
    empty = sp.csr_array((5, 6), dtype=np.float64)
    rows = fold_rows(empty.indptr, empty.indices, empty.data, capacity=4, longest=1, dtype=dtype)
    assert np.all(np.asarray(product(rows, jnp.ones((6, 2), dtype))) == 0)


@given(seed=st.integers(0, 2**32 - 1), longest=st.sampled_from([1, 8, 64, 65, 200]))
def test_capacity_is_enough_however_entries_are_spread(seed, longest):
    rng = np.random.default_rng(seed)
    capacity, n_rows = 200, 30
    lengths = np.zeros(n_rows, int)
    for row in rng.permutation(n_rows):  # fill up to the capacity, greedily long rows
        lengths[row] = min(longest, capacity - lengths.sum())
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    index = np.concatenate([np.arange(m) for m in lengths])
    for snug in (False, True):
        bounds = {"capacity": capacity, "longest": longest, "snug": snug}
        rows = fold_rows(indptr, index, np.ones(len(index)), dtype=np.float32, **bounds)
        np.testing.assert_array_equal(product(rows, jnp.ones((200, 1)))[:, 0], lengths)


def test_shapes_follow_from_the_bounds_not_from_the_partition():
    shapes = set()
    for seed in range(5):
        matrix = sp.csr_array(np.random.default_rng(seed).poisson(0.3, (50, 80)).astype(float))
        rows = fold(matrix, np.float32, capacity=2000, longest=80)
        shapes.add(str([(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(rows)]))
    assert len(shapes) == 1


def test_derivative_of_the_product_is_the_transposed_product(x64):
    matrix = awkward_matrix(4)
    rows = fold(matrix, np.float64)
    rng = np.random.default_rng(5)
    table, image = rng.normal(size=(700, 2)), rng.normal(size=(40, 2))
    _, pull_back = jax.vjp(lambda table: product(rows, table), table)
    np.testing.assert_allclose(pull_back(jnp.asarray(image))[0], matrix.T @ image, atol=1e-11)


@given(size=st.integers(1, 10**9))
def test_geometric_rounds_up_by_at_most_a_quarter(size):
    rounded = geometric(size)
    assert size <= rounded <= max(4, 1.25 * size)
    assert geometric(rounded) == rounded


def test_too_many_entries_are_refused():
    with pytest.raises(AssertionError, match="capacity"):
        fold_rows(np.array([0, 9]), np.arange(9), np.ones(9), capacity=8, longest=9, dtype=np.float32)


def test_too_long_a_row_is_refused():
    with pytest.raises(AssertionError, match="longest"):
        fold_rows(np.array([0, 100]), np.arange(100), np.ones(100), capacity=100, longest=8, dtype=np.float32)
