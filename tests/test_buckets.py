"""The layout for accelerators: buckets give what whole rows give, with few sums between them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import hmom_jax as hm
from hmom_jax import buckets as layout
from hmom_jax import rows as host
from hmom_jax import sparse
from hmom_jax.buckets import bucket_rows, bucket_shape
from hmom_jax.rows import geometric
from hmom_jax.sparse import product, shift
from tests.helpers import awkward_matrix, tolerance


def in_buckets(matrix, dtype, snug=True, **bounds):
    options = {"capacity": geometric(matrix.nnz), "longest": int(np.diff(matrix.indptr).max()), **bounds}
    return bucket_rows(matrix.indptr, matrix.indices, matrix.data, dtype=dtype, snug=snug, **options)


@pytest.mark.parametrize("snug", [True, False])
@pytest.mark.parametrize("widths", [(8,), (8, 16), (16, 64), (192, 512), (1024,), layout._WIDTHS])
def test_buckets_give_the_product_for_rows_of_any_length(dtype, widths, snug, monkeypatch):
    monkeypatch.setattr(layout, "_WIDTHS", widths)
    monkeypatch.setattr(layout, "_SHARE", np.inf)
    monkeypatch.setattr(host, "_CHUNK", 300)
    matrix = awkward_matrix(0)
    rng = np.random.default_rng(1)
    table = rng.normal(size=(2, 700, 3)).astype(dtype)
    rows, node = in_buckets(matrix, dtype, snug), rng.integers(0, 2, 40)
    assert len(rows.index) == (1 if widths == (1024,) else 2)
    scale = np.abs(matrix @ np.abs(table[0])).max()
    close = partial(np.testing.assert_allclose, atol=scale * tolerance(dtype, 1e-6, 1e-15))
    close(jax.jit(product)(rows, table[0]), matrix @ table[0])
    found = jax.jit(product)(shift(rows, jnp.asarray(node * 700, jnp.int32)), table.reshape(-1, 3))
    close(found, np.stack([matrix[[row]] @ table[node[row]] for row in range(40)])[:, 0])


@given(seed=st.integers(0, 2**32 - 1), longest=st.sampled_from([1, 8, 64, 65, 200]), snug=st.booleans())
def test_pieces_are_enough_however_entries_are_spread(seed, longest, snug):
    rng = np.random.default_rng(seed)
    lengths = np.zeros(30, int)
    for row in rng.permutation(30):
        lengths[row] = min(longest, 200 - lengths.sum())
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    index = np.concatenate([np.arange(m) for m in lengths])
    options = {"capacity": 200, "longest": longest, "dtype": np.float32, "snug": snug}
    rows = bucket_rows(indptr, index, np.ones(len(index)), **options)
    np.testing.assert_array_equal(jax.jit(product)(rows, jnp.ones((200, 1)))[:, 0], lengths)


@given(seed=st.integers(0, 2**32 - 1), average=st.sampled_from([2, 20, 60, 300, 3000]))
def test_sums_of_rests_are_few_and_padding_is_bounded(seed, average):
    lengths = np.minimum(np.random.default_rng(seed).lognormal(np.log(average), 0.8, 500).astype(int), 8 * average)
    capacity, longest = geometric(int(lengths.sum())), int(lengths.max())
    shape = bucket_shape(500, capacity=capacity, longest=longest, lengths=lengths)
    entries = 500 * shape.head + shape.n_rests * shape.rest
    sums, spare = sum((shape.n_rests, *shape.folds[:1])), 2 * 65  # sizes are rounded up, to 65 at least
    assert 4 * 64 * max(sums - spare, 0) <= 2 * 0.1 * 8 * entries
    assert entries <= 3 * lengths.sum() + 500 * 24


def test_like_rows_share_their_shapes_where_bounds_alone_decide():
    shapes = set()
    for seed in range(5):
        matrix = awkward_matrix(seed)
        rows = in_buckets(matrix, np.float32, snug=False, capacity=8192, longest=700)
        shapes.add(tuple(leaf.shape for leaf in jax.tree.leaves(rows)))
    assert len(shapes) == 1


@pytest.mark.parametrize("snug", [True, False])
def test_no_entries_give_zero(dtype, snug):
    empty = sp.csr_array((5, 6), dtype=np.float64)
    rows = in_buckets(empty, dtype, snug, capacity=4, longest=1)
    assert np.all(np.asarray(product(rows, jnp.ones((6, 2), dtype))) == 0)


@pytest.mark.parametrize("widths", [(8,), (1024,)])
def test_derivatives_through_buckets(x64, widths, monkeypatch):
    """In the table the transposed product; in the counts, entry by entry, as through the layout of a CPU."""
    monkeypatch.setattr(layout, "_WIDTHS", widths)
    monkeypatch.setattr(layout, "_SHARE", np.inf)
    matrix = awkward_matrix(4)
    rng = np.random.default_rng(5)
    table, image = rng.normal(size=(700, 2)), rng.normal(size=(40, 2))
    _, pull_back = jax.vjp(lambda table: product(in_buckets(matrix, np.float64), table), table)
    np.testing.assert_allclose(pull_back(jnp.asarray(image))[0], matrix.T @ image, atol=1e-11)

    def share(counts):
        arrays = hm.put_counts(corpus.arrays, corpus.places, counts)
        moments = hm.single_topic_moments(arrays)
        return (moments.m2_times(table)[:, 0] ** 2).sum() + moments.m1[3]

    slopes = []
    for buckets in (False, True):
        monkeypatch.setattr(sparse, "wants_buckets", lambda buckets=buckets: buckets)
        corpus = hm.Corpus.from_counts(matrix)
        assert isinstance(corpus.arrays.by_doc, layout.BucketRows) == buckets
        assert corpus.places is not None
        counts = jnp.asarray(matrix.data)
        slopes.append(jax.grad(share)(counts))
        _, forwards = jax.jvp(share, (counts,), (jnp.cos(counts),))
        np.testing.assert_allclose(forwards, slopes[-1] @ jnp.cos(counts), rtol=1e-10)
    np.testing.assert_allclose(*slopes, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("options", [{"n_leaves": 8}, {"depth": 3}, {"depth": 5}])
def test_a_tree_is_the_same_in_buckets(options, monkeypatch):
    counts = hm.datasets.hierarchical_topics(0).counts
    labels = hm.grow_tree(hm.Corpus.from_counts(counts), **options).labels()
    monkeypatch.setattr(sparse, "wants_buckets", lambda: True)
    monkeypatch.setattr(layout, "_WIDTHS", (8, 16))
    monkeypatch.setattr(layout, "_SHARE", np.inf)
    corpus = hm.Corpus.from_counts(counts)
    assert len(corpus.by_doc.index) == 2
    assert corpus.by_doc.folds
    np.testing.assert_array_equal(hm.grow_tree(corpus, **options).labels(), labels)


@pytest.mark.parametrize("bounds", [{"longest": 699}, {"capacity": 1000}])
def test_more_entries_than_the_bounds_allow_are_refused(bounds):
    with pytest.raises(AssertionError, match=next(iter(bounds))):
        in_buckets(awkward_matrix(0), np.float32, **bounds)
