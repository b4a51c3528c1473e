"""The layout for accelerators: sections give what whole rows give."""

from functools import partial
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import hmom_jax as hm
from hmom_jax import sections as layout
from hmom_jax import sparse
from hmom_jax.rows import geometric
from hmom_jax.sections import section_rows
from hmom_jax.sparse import product, shift
from tests.helpers import awkward_matrix, tolerance


def sections(matrix, dtype, **bounds):
    options = {"capacity": geometric(matrix.nnz), "longest": int(np.diff(matrix.indptr).max()), **bounds}
    return section_rows(matrix.indptr, matrix.indices, matrix.data, dtype=dtype, **options)


@pytest.mark.parametrize("block", [16, 64, 1024, 1 << 22])
def test_sections_give_the_product_for_rows_of_any_length(dtype, block, monkeypatch):
    monkeypatch.setattr(layout, "_BLOCK_ACCELERATOR", block)
    matrix = awkward_matrix(0)
    rng = np.random.default_rng(1)
    table = rng.normal(size=(2, 700, 3)).astype(dtype)
    rows, node = sections(matrix, dtype), rng.integers(0, 2, 40)
    assert (len(rows.first) == 1) == (block > matrix.nnz)
    scale = np.abs(matrix @ np.abs(table[0])).max()
    close = partial(np.testing.assert_allclose, atol=scale * tolerance(dtype, 1e-6, 1e-15))
    close(jax.jit(product)(rows, table[0]), matrix @ table[0])
    found = jax.jit(product)(shift(rows, jnp.asarray(node * 700, jnp.int32)), table.reshape(-1, 3))
    close(found, np.stack([matrix[[row]] @ table[node[row]] for row in range(40)])[:, 0])


@given(seed=st.integers(0, 2**32 - 1), longest=st.sampled_from([1, 8, 64, 65, 200]))
def test_sections_are_enough_however_entries_are_spread(seed, longest):
    rng = np.random.default_rng(seed)
    lengths = np.zeros(30, int)
    for row in rng.permutation(30):
        lengths[row] = min(longest, 200 - lengths.sum())
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    index = np.concatenate([np.arange(m) for m in lengths])
    with mock.patch.object(layout, "_BLOCK_ACCELERATOR", 32):
        rows = section_rows(indptr, index, np.ones(len(index)), capacity=200, longest=longest, dtype=np.float32)
    np.testing.assert_array_equal(jax.jit(product)(rows, jnp.ones((200, 1)))[:, 0], lengths)


def test_sections_without_entries_give_zero(dtype):
    empty = sp.csr_array((5, 6), dtype=np.float64)
    rows = section_rows(empty.indptr, empty.indices, empty.data, capacity=4, longest=1, dtype=dtype)
    assert np.all(np.asarray(product(rows, jnp.ones((6, 2), dtype))) == 0)


def test_derivative_through_sections_is_the_transposed_product(x64, monkeypatch):
    monkeypatch.setattr(layout, "_BLOCK_ACCELERATOR", 64)
    matrix = awkward_matrix(4)
    rng = np.random.default_rng(5)
    table, image = rng.normal(size=(700, 2)), rng.normal(size=(40, 2))
    _, pull_back = jax.vjp(lambda table: product(sections(matrix, np.float64), table), table)
    np.testing.assert_allclose(pull_back(jnp.asarray(image))[0], matrix.T @ image, atol=1e-11)


@pytest.mark.parametrize("options", [{"n_leaves": 8}, {"depth": 3}])
def test_a_tree_is_the_same_in_sections(options, monkeypatch):
    counts = hm.datasets.hierarchical_topics(0).counts
    labels = hm.grow_tree(hm.Corpus.from_counts(counts), **options).labels()
    monkeypatch.setattr(sparse, "_wants_sections", lambda: True)
    monkeypatch.setattr(layout, "_BLOCK_ACCELERATOR", 4096)
    corpus = hm.Corpus.from_counts(counts)
    assert len(corpus.by_doc.first) > 1
    np.testing.assert_array_equal(hm.grow_tree(corpus, **options).labels(), labels)


@pytest.mark.parametrize("bounds", [{"longest": 699}, {"capacity": 1000}])
def test_more_entries_than_the_bounds_allow_are_refused(bounds, monkeypatch):
    monkeypatch.setattr(layout, "_BLOCK_ACCELERATOR", 64)
    with pytest.raises(AssertionError, match=next(iter(bounds))):
        sections(awkward_matrix(0), np.float32, **bounds)
