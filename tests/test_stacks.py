"""Products a part of the table at a time."""

import jax
import numpy as np
import pytest
import scipy.sparse as sp

import hmom_jax as hm
from hmom_jax import sparse, stacks
from hmom_jax.rows import geometric
from hmom_jax.sparse import FoldedRows, product
from hmom_jax.stacks import StackedRows, fold_columns
from tests.helpers import tolerance


def cut_into(monkeypatch, size: int) -> None:
    """Make parts of that size, however short rows become."""
    monkeypatch.setattr(stacks, "_PART", size)
    monkeypatch.setattr(stacks, "_LEAST_PER_ROW", 1)


@pytest.mark.parametrize("columns", [1, 3, 80])
@pytest.mark.parametrize("n_docs", [65, 1000])  # the last part begins earlier, or has few documents
def test_products_are_those_of_the_whole(n_docs, columns, monkeypatch, dtype):
    cut_into(monkeypatch, 64)
    rng = np.random.default_rng(n_docs)
    counts = sp.csr_array(rng.poisson(0.7, (n_docs, 37)) * (rng.random(37) < 0.8)).astype(dtype)
    n_table = geometric(n_docs)
    rows = fold_columns(counts, n_table=n_table, capacity=geometric(counts.nnz))
    assert isinstance(rows, StackedRows)
    assert rows.index.dtype == np.uint16
    assert len(rows.index) == -(-n_docs // rows.step) > 1
    table = rng.normal(size=(n_table, columns)).astype(dtype)
    np.testing.assert_allclose(product(rows, table), counts.T @ table[:n_docs], atol=tolerance(dtype, 2e-4, 1e-12))


def test_documents_beyond_the_table_s_end_are_not_read_twice(monkeypatch):
    cut_into(monkeypatch, 60)
    counts = sp.csr_array(np.eye(100, dtype=np.float32))
    rows = fold_columns(counts, n_table=100, capacity=256)  # two parts of 52: the second begins at 48
    assert rows.step * len(rows.index) > 100
    np.testing.assert_array_equal(product(rows, np.arange(100, dtype=np.float32)[:, None])[:, 0], np.arange(100))


def test_parts_of_unlike_size_are_not_made(monkeypatch):
    cut_into(monkeypatch, 64)
    short = np.zeros((300, 40), np.float32)
    short[:, 0] = 1
    counts = sp.csr_array(np.concatenate([np.ones((64, 40), np.float32), short]))
    rows = fold_columns(counts, n_table=448, capacity=geometric(counts.nnz))
    assert type(rows) is FoldedRows
    np.testing.assert_array_equal(product(rows, np.ones((448, 1), np.float32))[:, 0], counts.sum(axis=0))


def test_documents_in_order_of_length_are_cut(monkeypatch):
    cut_into(monkeypatch, 64)
    lengths = np.linspace(10, 40, 300).astype(int)
    counts = sp.csr_array((np.arange(40) < lengths[:, None]).astype(np.float32))
    rows = fold_columns(counts, n_table=320, capacity=geometric(counts.nnz))
    assert isinstance(rows, StackedRows)
    np.testing.assert_array_equal(product(rows, np.ones((320, 1), np.float32))[:, 0], counts.sum(axis=0))


def test_accelerators_have_no_parts(monkeypatch):
    cut_into(monkeypatch, 64)
    monkeypatch.setattr(sparse, "wants_buckets", lambda: True)
    assert stacks.n_parts_for(10_000, 10, 10**6) == 1


@pytest.mark.parametrize("n_docs", [40, 64, 65, 200])  # fewer than a part, a part, one more, several parts
def test_words_of_many_documents_are_summed_part_by_part(dtype, n_docs, monkeypatch):
    rng = np.random.default_rng(n_docs)
    counts = rng.poisson(0.5, (n_docs, 30)).astype(dtype)
    weights = rng.normal(size=(geometric(n_docs), 5)).astype(dtype)
    total = lambda corpus, data: hm.put_counts(corpus.arrays, corpus.places, data).length @ weights[:, 0]
    whole = hm.Corpus.from_counts(counts)
    expected = jax.grad(lambda data: total(whole, data))(whole.counts.data)
    cut_into(monkeypatch, 64)
    corpus = hm.Corpus.from_counts(counts)
    assert isinstance(corpus.arrays.by_word, stacks.StackedRows) == (n_docs > 64)
    assert corpus.arrays.by_word.n_rows == 30
    found = product(corpus.arrays.by_word, weights)
    np.testing.assert_allclose(found, counts.T @ weights[:n_docs], atol=tolerance(dtype, 1e-4, 1e-12))
    np.testing.assert_allclose(jax.grad(lambda data: total(corpus, data))(corpus.counts.data), expected, rtol=1e-6)


def test_a_tree_is_the_same_part_by_part(monkeypatch):
    data = hm.datasets.hierarchical_topics(seed=0)
    whole = hm.grow_tree(hm.Corpus.from_counts(data.counts), n_leaves=8).labels()
    cut_into(monkeypatch, 128)
    corpus = hm.Corpus.from_counts(data.counts)
    assert isinstance(corpus.arrays.by_word, stacks.StackedRows)
    np.testing.assert_array_equal(hm.grow_tree(corpus, n_leaves=8).labels(), whole)
