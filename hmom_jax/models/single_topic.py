r"""Empirical moments of the single-topic model as products with the counts.

Paper -> code: $x_n$ -> a document's counts, $N_n$ -> ``length``, $M_1, M_2, M_3$ -> ``m1``, ``m2_times``,
``whitened_slices``. With document weights $g_m$ (equations (4)-(6) for ``beta = 0``),

$$M_2 = \sum_n g_2 (x x' - \mathrm{diag}\, x) / C_2, \qquad C_2 = \sum_n g_2 N (N - 1),$$

and alike for $M_1$ and $M_3$. The constants are folded into the weights, on the host and in double precision.
"""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hmom_jax.buckets import BucketRows
from hmom_jax.corpus import Corpus, CorpusArrays
from hmom_jax.errors import InputError, check_finite, check_nonnegative, is_traced
from hmom_jax.models.moments import DenseMoments, check_dense, resolve_scale, unpack_symmetric
from hmom_jax.pytree import pytree
from hmom_jax.rows import Rows
from hmom_jax.sparse import product, shift
from hmom_jax.sparse_rules import transposable_product

# Columns of one pass over the nonzeros: wide enough to amortise the indices, narrow enough for the caches
# and for n_docs x columns of memory. Rank 2 needs 5, rank 9 the last that fits one pass.
_CHUNK = 64
# Columns up to which nodes that share the rows of the words are summed together on a CPU: these take hardly longer than
# half as many, and most rounds have fewer nodes than slots.
_APART = 16


@pytree
@dataclass(frozen=True)
class SingleTopicMoments:
    r"""Moments of a corpus, or of all nodes of a round (then arrays over words have a leading axis).

    Attributes
    ----------
    by_doc, by_word
        Counts, laid out for X and for its transpose; with nodes, ``by_word`` has one row for each pair
        (node, word), or one for each word, which then serves all nodes.
    offset
        Where the table section of each document's node begins, already added to the indices of ``by_doc``; None
        without nodes.
    g2, g3
        Document weights with $1/C_2$, $1/C_3$ folded in.
    m1, diag2, diag3
        $\sum_n g_m x_n$ for $m = 1, 2, 3$: the first moment, and the diagonals to take out of the others.
    word_scale
        The scaling $s$.
    """

    by_doc: Rows
    by_word: Rows
    offset: Int[Array, " padded_docs"] | None
    g2: Float[Array, " padded_docs"]
    g3: Float[Array, " padded_docs"]
    m1: Float[Array, "*nodes n_words"]
    diag2: Float[Array, "*nodes n_words"]
    diag3: Float[Array, "*nodes n_words"]
    word_scale: Float[Array, "*nodes n_words"]

    def docs_times(self, block: Float[Array, "*nodes n_words columns"]) -> Float[Array, "padded_docs columns"]:
        """Multiply X with a block; each document reads its own node's section."""
        if self.offset is None:
            return transposable_product(self.by_doc, self.by_word, block)
        return product(self.by_doc, block.reshape(-1, block.shape[-1]))

    def words_times(self, block: Float[Array, "padded_docs columns"]) -> Float[Array, "*nodes n_words columns"]:
        """Multiply the transpose of X with a block, each node's documents apart."""
        if self.offset is None:
            return transposable_product(self.by_word, self.by_doc, block)
        return _sums_by_word(self.by_word, block, self.offset, self.m1.shape)

    @jax.jit
    def m2_times(self, block: Float[Array, "*nodes n_words columns"]) -> Float[Array, "*nodes n_words columns"]:
        r"""Multiply: $M_2 V = X' (g_2 \cdot X V) - \mathrm{diag}(X' g_2) V$."""
        block = jnp.asarray(block, self.m1.dtype)
        seen = self.docs_times(block)
        return self.words_times(self.g2[:, None] * seen) - self.diag2[..., None] * block

    @jax.jit
    def whitened_slices(self, w: Float[Array, "*nodes n_words rank"]) -> Float[Array, "*nodes n_words rank rank"]:
        r"""Return all $H_r = s_r W' M_{3,r} W$ in one pass each way (rank above 9: several)."""
        w = jnp.asarray(w, self.m1.dtype)
        packed = self.word_scale[..., None] * self._packed_slices(w)
        return unpack_symmetric(packed, w.shape[-1])

    @jax.jit
    def dense(self) -> DenseMoments:
        """Form the moments as arrays (small vocabularies)."""
        check_dense(self.m1)
        identity = jnp.eye(self.m1.shape[0], dtype=self.m1.dtype)
        m3 = unpack_symmetric(self._packed_slices(identity), self.m1.shape[0])
        return DenseMoments(self.m1, self.m2_times(identity), m3)

    def _packed_slices(self, w):
        """Return the upper triangles of the unscaled slices as columns."""
        rank = w.shape[-1]
        first, second = np.triu_indices(rank)
        if rank + len(first) <= _CHUNK:
            seen = self.docs_times(jnp.concatenate([w, w[..., first] * w[..., second]], axis=-1))
            z, q = seen[:, :rank], seen[:, rank:]
            g3 = self.g3[:, None]
            back = jnp.concatenate([g3 * z, g3 * (z[:, first] * z[:, second] - q)], axis=-1)
            sums = self.words_times(back)
            return self._without_diagonals(w, sums[..., :rank], sums[..., rank:], first, second)

        z = _by_columns(self.docs_times, w)
        t = _by_columns(self.words_times, self.g3[:, None] * z)

        def chunk(pairs):
            i, j = pairs
            q = self.docs_times(w[..., i] * w[..., j])
            sums = self.words_times(self.g3[:, None] * (z[:, i] * z[:, j] - q))
            return self._without_diagonals(w, t, sums, i, j)

        n_chunks = -(-len(first) // _CHUNK)
        padding = (0, n_chunks * _CHUNK - len(first))
        pairs = [np.pad(side, padding).reshape(n_chunks, _CHUNK) for side in (first, second)]
        columns = jnp.moveaxis(jax.lax.map(chunk, tuple(pairs)), 0, -2)
        return columns.reshape(*columns.shape[:-2], -1)[..., : len(first)]

    def _without_diagonals(self, w, t, sums, i, j):
        r"""Take out the terms with repeated words: $- w_r t_r' - t_r w_r' + 2 c_r w_r w_r'$."""
        wi, wj = w[..., i], w[..., j]
        return sums - wi * t[..., j] - t[..., i] * wj + 2 * self.diag3[..., None] * wi * wj


def _by_columns(function, block):
    """Apply a product column chunk by column chunk."""
    pieces = [function(block[..., k : k + _CHUNK]) for k in range(0, block.shape[-1], _CHUNK)]
    return jnp.concatenate(pieces, axis=-1)


def single_topic_moments(
    corpus: Corpus | CorpusArrays,
    beta: float | int | Float[Array, ""] | np.ndarray = 0.0,
    membership=None,
    word_scale=None,
) -> SingleTopicMoments:
    r"""Return the empirical moments of a corpus as an operator.

    Unbiased for every choice of document weights $g_m = r_n / ((N)_m)^\beta$ that does not look at the words.

    Parameters
    ----------
    corpus
        A :class:`~hmom_jax.Corpus`, or its ``arrays`` inside a function of yours that is traced.
    beta
        0 counts every word tuple alike (the paper), 1 every document alike, 1/2 lies between.
    membership
        Weight $r_n$ of each document; None for all ones. May be traced.
    word_scale
        None (the paper), ``"inverse_sqrt"`` for $s = M_1^{-1/2}$, or an array of length n_words.

    References
    ----------
    Ruffini, Rabusseau and Balle (2017), equations (4)-(6); Zou et al. (2013) for ``beta = 1``.

    Examples
    --------
    >>> import numpy as np
    >>> from hmom_jax import Corpus
    >>> moments = single_topic_moments(Corpus.from_counts(np.array([[2, 1, 0], [0, 1, 2]])))
    >>> [round(value, 3) for value in moments.m2_times(np.ones((3, 1))).ravel().tolist()]
    [0.333, 0.333, 0.333]
    """
    arrays = corpus.arrays if isinstance(corpus, Corpus) else corpus
    n_padded = arrays.by_doc.n_rows
    n_docs = corpus.n_docs if isinstance(corpus, Corpus) else n_padded
    xp = jnp if is_traced(arrays.length, membership, beta) else np
    length = xp.asarray(arrays.length)
    membership = xp.ones(n_docs) if membership is None else xp.asarray(membership)
    if membership.ndim != 1 or not (membership.shape[0] == n_docs or n_docs == n_padded > membership.shape[0]):
        raise InputError(f"membership must have one weight per document ({n_docs}); got shape {membership.shape}.")
    if xp is np:
        length, membership = length.astype(np.float64), membership.astype(np.float64)
        check_nonnegative("membership", membership)
        check_finite("beta", beta)
    membership = xp.pad(membership, (0, n_padded - membership.shape[0]))  # the padding documents are empty
    weights, constants = document_weights(length, membership, beta)
    if xp is np and not constants[2] > 0:
        raise InputError("No document of positive weight has 3 words or more: the third moment needs three.")
    return moments_from_weights(arrays.by_doc, arrays.by_word, weights.astype(arrays.length.dtype), word_scale)


def document_weights(length, membership, beta, node=None, n_nodes: int | None = None):
    r"""Return the weights $g_1, g_2, g_3$ with $1/C_m$ folded in, and the constants $C_m$.

    NumPy in, NumPy out (double precision on the host); JAX in, JAX out. With ``node`` (host only) the constants
    are those of each document's own node, shape (3, n_nodes).
    """
    xp = jnp if isinstance(length, jax.Array) else np
    weights, constants = [], []
    falling = xp.ones_like(length)
    for order in range(3):
        falling = falling * (length - order)
        enough = (length >= order + 1) & (falling > 0)
        falling = xp.where(enough, falling, 1.0)
        weight = xp.where(enough, membership / falling**beta, 0.0)
        if node is None:
            constant = (weight * falling).sum()
            own = constant
        else:
            constant = np.bincount(node, weight * falling, minlength=n_nodes)
            own = constant[node]
        weights.append(weight / xp.where(own > 0, own, 1.0))
        constants.append(constant)
    return xp.stack(weights), xp.stack(constants)


def moments_from_weights(
    by_doc: Rows,
    by_word: Rows,
    weights: Float[Array, "three padded_docs"] | np.ndarray,
    word_scale=None,
    *,
    offset: Int[Array, " padded_docs"] | None = None,
    nodes: tuple[int, int] | None = None,
) -> SingleTopicMoments:
    """Assemble the operator from both layouts and the document weights (one pass over the nonzeros).

    ``nodes``: the number of nodes, and of words of each.
    """
    weights = jnp.asarray(weights)
    if nodes is None:
        sums = _word_sums(by_word, by_doc, weights.T)
    else:
        by_doc = shift(by_doc, offset, table=math.prod(nodes))
        sums = _sums_by_word(by_word, weights.T, offset, nodes)
    m1, diag2, diag3 = jnp.moveaxis(sums, -1, 0)
    scale = resolve_scale(word_scale, m1)
    return SingleTopicMoments(by_doc, by_word, offset, weights[1], weights[2], m1, diag2, diag3, scale)


_word_sums = jax.jit(transposable_product)


@partial(jax.jit, static_argnames="shape")
def _sums_by_word(by_word: Rows, block, offset, shape):
    """Multiply the transpose of X with a block; ``shape`` is that of a table over nodes and words.

    Where nodes share the rows of the words, each has columns of its own, zero for the documents of the others: a few
    more columns cost less than laying the nonzeros out anew.
    """
    columns = block.shape[-1]
    if by_word.n_rows == math.prod(shape):
        return product(by_word, block).reshape(*shape, columns)
    n_nodes, n_words = shape
    node = jnp.asarray(offset) // n_words
    together = n_nodes if isinstance(by_word, BucketRows) else min(n_nodes, max(1, _APART // columns))

    def sums(first):
        inside = node[:, None] == first + jnp.arange(together)[None, :]
        apart = jnp.where(inside[:, :, None], block[:, None, :], 0.0).reshape(-1, together * columns)
        return product(by_word, apart).reshape(n_words, together, columns).swapaxes(0, 1)

    if together == n_nodes:
        return sums(0)
    # Nodes that are not in use come last: what there is of them stays zero, and costs nothing.
    put = lambda group, found: jax.lax.dynamic_update_slice_in_dim(found, sums(group * together), group * together, 0)
    groups = -(-n_nodes // together)
    found = jnp.zeros((groups * together, n_words, columns), jnp.result_type(by_word.count, block))
    return jax.lax.fori_loop(0, node.max() // together + 1, put, found)[:n_nodes]
