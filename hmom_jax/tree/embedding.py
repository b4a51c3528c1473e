r"""Documents in the space of one high-rank eigendecomposition at the root.

The largest eigenpairs $(U, \Lambda)$ of $S M_2 S$, with $S = M_1^{-1/2}$ and all pairs of equal words left out of
$M_2$; document $n$ becomes $z_n = \Lambda^{1/4} U' S x_n$, scaled to unit length. Taking the diagonal out removes what
documents owe to single words, scaling words keeps frequent ones from ruling the space.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from hmom_jax.compilation import quick_jit
from hmom_jax.models.moments import resolve_scale
from hmom_jax.models.single_topic import SingleTopicMoments
from hmom_jax.parallel.stream import StreamedCorpus
from hmom_jax.sparse import product
from hmom_jax.tree.effective import EffectiveCorpus
from hmom_jax.whitening import Eigenpairs, top_eigenpairs

# Between "every pair of words alike" (0) and "every document alike" (1).
BETA = 0.5
# Coordinates are weighted by eigenvalue ** 1/4: between the bare space (0) and its principal axes (1/2).
POWER = 0.25
# Residual relative to the eigenvalue. At 1e-2 trees are as good, but rounding (another order of documents) moves some.
TOL = 1e-3
_LEAST_RANK = 32


def rank_for(n_leaves: int, n_words: int) -> int:
    """Return how many coordinates a tree of ``n_leaves`` leaves is grown in."""
    return min(max(_LEAST_RANK, 2 * n_leaves), n_words)


def embed(documents: EffectiveCorpus, sample_weight: np.ndarray, rank: int, key) -> jax.Array | np.ndarray:
    """Return unit vectors, one row per document (zero rows for documents without any pair of words, and padding)."""
    corpus = documents.corpus
    length = corpus.length
    temper = documents.temper(documents.effective.words)
    pairs = length**2 - corpus.square_length
    pairs = np.where(pairs > 1e-6 * length**2, temper**2 * pairs, 0.0)
    g2 = sample_weight * np.where(pairs > 0, np.maximum(pairs, 1e-12) ** -BETA, 0.0)
    g2 = g2 / max(corpus.add_up((g2 * pairs).sum()), np.finfo(float).tiny) * temper**2
    effective_length = temper * length
    g1 = sample_weight * np.where(length > 0, np.maximum(effective_length, 1e-12) ** -BETA, 0.0)
    g1 = g1 / max(corpus.add_up((g1 * effective_length).sum()), np.finfo(float).tiny) * temper
    m1 = corpus.word_sums(g1).astype(corpus.dtype)
    diag2 = corpus.word_sums(g2, squares=True).astype(corpus.dtype)
    if isinstance(corpus, StreamedCorpus):
        from hmom_jax.tree import streaming

        return streaming.embed(corpus, g2.astype(corpus.dtype), m1, diag2, key, rank)
    arrays = corpus.arrays
    return _embed(
        arrays.by_doc,
        arrays.by_word,
        corpus.over_docs(g2),
        m1,
        diag2,
        key,
        rank=rank,
    )


@partial(quick_jit, static_argnames="rank")
def _embed(by_doc, by_word, g2, m1, diag2, key, *, rank):
    m1, diag2 = jnp.asarray(m1), jnp.asarray(diag2)
    scale = resolve_scale("inverse_sqrt", m1)
    nothing = jnp.zeros_like(m1)
    moments = SingleTopicMoments(by_doc, by_word, None, g2, jnp.zeros_like(g2), m1, diag2, nothing, scale)
    found = top_eigenpairs(moments, key, TOL, rank)
    return unit_rows(by_doc, coordinates(found, scale))


def coordinates(found: Eigenpairs, scale):
    """Return the table by which counts are multiplied: words x rank."""
    positive = found.values > 1e-6 * found.values[:1]
    power = jnp.where(positive, jnp.where(positive, found.values, 1.0) ** POWER, 0.0)
    return scale[:, None] * found.vectors * power[None, :]


def unit_rows(by_doc, table):
    """Multiply documents with a table, and scale them to unit length."""
    z = product(by_doc, table)
    norm = jnp.linalg.norm(z, axis=1, keepdims=True)
    return jnp.where(norm > 0, z / jnp.where(norm > 0, norm, 1.0), 0.0)
