"""The robust tree's passes over a corpus on disk: the steps of its compiled loops, driven from the host.

Every pass reads each shard once. What belongs to documents is not kept but computed anew from the mixture whenever a
shard is there: an EM step takes the probabilities from the last mixture and adds up the next one in the same pass.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hmom_jax.compilation import quick_jit
from hmom_jax.errors import check_finite
from hmom_jax.models.moments import resolve_scale
from hmom_jax.parallel.stream import Part, StreamedCorpus, pad_rows
from hmom_jax.sparse import product
from hmom_jax.tree.embedding import TOL, coordinates, unit_rows
from hmom_jax.tree.polish import Labels, Mixture, leaf_sums, maximise, most_probable, scores
from hmom_jax.whitening import Eigenpairs, dense_block, dense_eigenpairs, is_dense, krylov_steps


def embed(corpus: StreamedCorpus, g2, m1, diag2, key, rank: int) -> np.ndarray:
    """Return unit vectors, one row per document, in a mapped file; see :func:`hmom_jax.tree.embedding.embed`."""
    scale = resolve_scale("inverse_sqrt", jnp.asarray(m1))
    table = _coordinates(_eigenpairs(corpus, g2, jnp.asarray(m1), jnp.asarray(diag2), scale, key, rank), scale)
    z = np.lib.format.open_memmap(corpus.folder / "z.npy", "w+", corpus.dtype, (corpus.n_docs, rank))
    for part in corpus.parts():
        z[part.docs] = part.fetch(_unit_rows(part.by_doc, table))
    z.flush()
    return z


def _eigenpairs(corpus: StreamedCorpus, g2, m1, diag2, scale, key, rank: int) -> Eigenpairs:
    def times(block):
        scaled = scale[:, None] * block
        add = lambda total, part: _add_product(total, part.by_doc, part.by_word, part.over_docs(g2), scaled)
        return scale[:, None] * (corpus.fold_parts(add, jnp.zeros_like(scaled)) - diag2[:, None] * scaled)

    if is_dense(corpus.n_words, rank):
        return _dense_pairs(times(dense_block(scale)), rank=rank)
    step = partial(_krylov, scale, m1, key, rank=rank)
    state, going = step(None, None)
    while going:
        state, going = step(state, times(state.block))
    return krylov_steps(scale, m1, key, TOL, rank).pairs(state)


@quick_jit
def _add_product(total, by_doc, by_word, g2, block):
    return total + product(by_word, g2[:, None] * product(by_doc, block))


@partial(quick_jit, static_argnames="rank")
def _krylov(scale, m1, key, state, image, *, rank):
    """Begin, or take in a product; also tell whether to go on."""
    steps = krylov_steps(scale, m1, key, TOL, rank)
    state = steps.start() if state is None else steps.absorb(state, image)
    return state, steps.keep_going(state)


_dense_pairs = quick_jit(dense_eigenpairs, static_argnames="rank")
_unit_rows, _coordinates = quick_jit(unit_rows), quick_jit(coordinates)


class Responsibility(NamedTuple):
    """The probabilities of the leaves, as what they are computed from."""

    mixture: Mixture
    temper: np.ndarray


def em(corpus: StreamedCorpus, temper, sample_weight, start, mean, mass, n_steps: int, real):
    """Run EM steps from labels or probabilities; see :func:`hmom_jax.tree.polish.em`."""
    total_weight = np.asarray(sample_weight.sum(), corpus.dtype)
    zeros = jnp.zeros((corpus.n_words, len(real)), corpus.dtype), jnp.zeros(len(real), corpus.dtype)
    now, mixture = start, None
    for _ in range(n_steps):
        add = partial(_add_part, now, temper, sample_weight)
        mixture = _maximise(*corpus.fold_parts(add, zeros), total_weight, mean, mass, real)
        now = Responsibility(mixture, temper)
    return now, mixture


def _add_part(now, temper, sample_weight, sums, part: Part):
    """Add up the leaves of a shard, the probabilities of its documents taken from labels or from a mixture."""
    here = part.over_docs(temper), part.over_docs(sample_weight)
    if isinstance(now, Responsibility):
        return _add_by_mixture(sums, part.by_doc, part.by_word, *here, part.over_docs(now.temper), now.mixture)
    labels = pad_rows(now.leaf[part.docs], part.by_doc.n_rows, np.int32)
    return _add_by_label(sums, part.by_word, *here, labels, part.over_docs(now.sure))


@quick_jit
def _add_by_label(sums, by_word, temper, sample_weight, labels, sure):
    responsibility = jax.nn.one_hot(labels, sums[1].shape[0], dtype=sums[0].dtype) * sure[:, None]
    return jax.tree.map(jnp.add, sums, leaf_sums(by_word, temper, sample_weight, responsibility))


@quick_jit
def _add_by_mixture(sums, by_doc, by_word, temper, sample_weight, temper_before, mixture):
    responsibility = jax.nn.softmax(scores(by_doc, temper_before, mixture), axis=-1)
    return jax.tree.map(jnp.add, sums, leaf_sums(by_word, temper, sample_weight, responsibility))


_maximise = quick_jit(lambda *arguments: maximise(*map(jnp.asarray, arguments)))


def labels_of(corpus: StreamedCorpus, now: Responsibility) -> Labels:
    """Return the most probable leaf of each document, and how surely."""
    check_finite("The mixture of the leaves (counts or weights may be too large)", np.asarray(now.mixture.log_ratio))
    return Labels(*corpus.map_parts(lambda part: _labels(part.by_doc, part.over_docs(now.temper), now.mixture)))


@quick_jit
def _labels(by_doc, temper, mixture):
    return most_probable(jax.nn.softmax(scores(by_doc, temper, mixture), axis=-1))
