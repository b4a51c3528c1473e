"""A round of a tree: all open nodes side by side, served by the same passes over the nonzeros.

Every document sits in exactly one open node, so a product with X reads, for each document, the section of its own
node from a table of all nodes; for the transpose, the nonzeros are sorted once per round by (node, word).
All shapes follow from the corpus and the number of slots, whatever the partition.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from hmom_jax.assign import choose_topic, floor_topics
from hmom_jax.compilation import quick_jit
from hmom_jax.corpus import Corpus
from hmom_jax.models.single_topic import document_weights, moments_from_weights
from hmom_jax.rows import Rows, geometric
from hmom_jax.sparse import fold_rows

# Tables hold slots x words x columns floats; a Krylov basis at rank 2 with its temporaries has about this many.
_COLUMNS_PER_RANK = 40
_TABLE_BYTES = 512 * 2**20
# Nodes share one layout of the words up to this many columns of all of them.
_SHARED_COLUMNS = 64
_SPARE_BYTES = 64 * 2**20  # idle slots cost less than a compilation as long as their tables are below this


def n_slots_for(n_open: int, widest: int, n_words: int, rank: int, itemsize: int) -> int:
    """Choose how many nodes one pass serves: few distinct numbers, within the memory for tables.

    Examples
    --------
    >>> [n_slots_for(n, widest=16, n_words=3000, rank=2, itemsize=4) for n in (1, 4, 9)]
    [8, 8, 16]
    >>> [n_slots_for(n, widest=16, n_words=100_000, rank=2, itemsize=4) for n in (1, 4, 9)]
    [1, 4, 16]
    """
    table_bytes = n_words * rank * _COLUMNS_PER_RANK * itemsize
    affordable = max(1, _TABLE_BYTES // table_bytes)
    affordable = min(1 << (affordable.bit_length() - 1), (2**31 - 1) // n_words)
    step = 8 if 8 * table_bytes <= _SPARE_BYTES else 2
    slots = 8 if step == 8 else 1
    while slots < n_open:
        slots *= step
    return min(slots, 1 << (widest - 1).bit_length(), affordable)


def layout_by_node(corpus: Corpus, slot: np.ndarray, n_slots: int, n_words: int) -> Rows:
    """Sort the nonzeros by (slot, word); documents with slot -1 are left out."""
    counts = corpus.counts
    active = np.flatnonzero(slot >= 0)
    if len(active) < corpus.n_docs:
        counts = counts[active]
    shift = np.repeat(slot[active] * n_words, np.diff(counts.indptr)).astype(np.int32)
    keyed = sp.csr_array(
        (counts.data, counts.indices + shift, counts.indptr), shape=(len(active), n_slots * n_words)
    ).tocsc()
    return _fold(corpus, keyed.indptr, active[keyed.indices], keyed.data)


def layout_by_word(corpus: Corpus) -> Rows:
    """Sort the nonzeros by word alone, for rounds whose slots share that; put on the device once for all of them."""
    by_word = corpus.counts.tocsc()
    indptr = np.pad(by_word.indptr, (0, geometric(corpus.n_words) - corpus.n_words), mode="edge")
    return jax.device_put(_fold(corpus, indptr, by_word.indices, by_word.data))


def _fold(corpus: Corpus, indptr, docs, counts) -> Rows:
    bounds = {"capacity": geometric(corpus.nnz), "longest": geometric(corpus.n_docs), "table": geometric(corpus.n_docs)}
    return fold_rows(indptr, docs, counts, **bounds, dtype=corpus.dtype)


def shares_words(n_slots: int, rank: int) -> bool:
    """Say whether all slots use one layout of the words, made once a tree: worth it while their columns are few.

    Examples
    --------
    >>> [shares_words(n_slots, rank=2) for n_slots in (1, 8, 16)]
    [True, True, False]
    """
    return n_slots * (rank + rank * (rank + 1) // 2) <= _SHARED_COLUMNS


def fit_round(
    corpus: Corpus, slot, sample_weight, paths, key, *, by_word=None, n_slots, beta, word_scale, decompose, rank
):
    """Decompose the moments of every slot and choose the topic of each document within its own.

    Returns the choice, topics with their floor, and the decomposition, all on the device. ``by_word`` is the layout by
    (slot, word), or by word alone; None to make the former.
    """
    n_words = geometric(corpus.n_words)
    inside = slot >= 0
    node = np.where(inside, slot, 0)
    weights, _ = document_weights(corpus.length, sample_weight * inside, beta, node, n_slots)
    padded = np.zeros((3, corpus.by_doc.n_rows), corpus.dtype)
    padded[:, : corpus.n_docs] = weights
    return _fit(
        corpus.by_doc,
        layout_by_node(corpus, slot, n_slots, n_words) if by_word is None else by_word,
        padded,
        corpus.pad((node * n_words).astype(np.int32)),
        np.pad(np.asarray(paths, np.uint32), (0, n_slots - len(paths))),
        np.int32(corpus.n_words),
        key,
        decompose=decompose,
        rank=rank,
        nodes=(n_slots, n_words),
        word_scale=word_scale,
    )


@partial(quick_jit, static_argnames=("decompose", "rank", "nodes", "word_scale"))
def _fit(by_doc, by_word, weights, offset, paths, n_words, key, *, decompose, rank, nodes, word_scale):
    moments = moments_from_weights(by_doc, by_word, weights, word_scale, offset=offset, nodes=nodes)
    keys = jax.vmap(lambda path: jax.random.fold_in(key, path))(paths)
    found = decompose(moments, rank, key=keys)
    real_words = jnp.arange(moments.m1.shape[-1]) < n_words
    topics = floor_topics(found.topics, real_words)
    return choose_topic(by_doc, topics, found.weights, offset), topics, found
