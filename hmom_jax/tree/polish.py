r"""EM of the multinomial mixture over all leaves together.

Topics have a prior of pseudo-counts proportional to $M_1$, a share of the mass of an average leaf; weights one of 1% of
an average leaf. Both grow with the corpus, so that repeating every document changes nothing. Scores are
log-likelihood ratios to $M_1$, so that sums stay small.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hmom_jax.compilation import quick_jit
from hmom_jax.corpus import Corpus
from hmom_jax.parallel.stream import StreamedCorpus
from hmom_jax.rows import geometric
from hmom_jax.sparse import product

_WEIGHT_PRIOR = 0.01
# A document is sure of its leaf when the next one is less probable by this: far above rounding.
_SURE_LEAD = 0.1
_LEAST_WIDTH = 16


class Mixture(NamedTuple):
    """A mixture of topics: log-ratios of topics to the corpus mean (words x leaves), log-weights, mean."""

    log_ratio: jax.Array | np.ndarray
    log_weight: jax.Array | np.ndarray
    mean: jax.Array | np.ndarray


class Labels(NamedTuple):
    """A leaf for each document, and from 0 to 1 how surely it is that one: near a border rounding may decide."""

    leaf: np.ndarray
    sure: np.ndarray


def em(
    corpus: Corpus,
    temper: np.ndarray,
    sample_weight: np.ndarray,
    start,
    n_steps: int,
    n_leaves: int,
    prior: float,
    width: int | None = None,
):
    """Run EM steps from labels or responsibilities; returns responsibilities and the mixture that gave them.

    For the first mixture a document counts as surely as its label, then fully. ``temper`` scales the counts of each
    document; ``prior`` is the mass of a topic's pseudo-counts as a share of an average leaf. Padding documents have no
    weight; leaves are padded to ``width`` (by default their number) on a geometric grid by leaves of no weight, so that
    trees of like size share a compilation.
    """
    width = geometric(n_leaves if width is None else width)
    sums = corpus.word_sums(sample_weight * temper)
    total = float(sums.sum())
    mean = (sums / max(total, np.finfo(float).tiny)).astype(corpus.dtype)
    mass, real = np.asarray(prior * total / n_leaves, corpus.dtype), np.arange(width) < n_leaves
    if isinstance(corpus, StreamedCorpus):
        from hmom_jax.tree import streaming

        return streaming.em(corpus, temper, sample_weight, start, mean, mass, n_steps, real)
    if isinstance(start, Labels):
        start = corpus.over_docs(np.eye(width, dtype=corpus.dtype)[start.leaf] * start.sure[:, None])
    arrays = corpus.arrays
    return _em(
        arrays.by_doc,
        arrays.by_word,
        corpus.over_docs(temper),
        corpus.over_docs(sample_weight),
        start,
        mean,
        mass,
        np.int32(n_steps),
        real,
    )


@quick_jit
def _em(by_doc, by_word, temper, sample_weight, responsibility, mean, mass, n_steps, real):
    mean = jnp.asarray(mean)

    def step(_, state):
        responsibility, _ = state
        sums, weights = leaf_sums(by_word, temper, sample_weight, responsibility)
        mixture = maximise(sums, weights, sample_weight.sum(), mean, mass, real)
        return jax.nn.softmax(scores(by_doc, temper, mixture), axis=-1), mixture

    empty = Mixture(
        jnp.zeros((mean.shape[0], responsibility.shape[1]), mean.dtype),
        jnp.zeros(responsibility.shape[1], mean.dtype),
        mean,
    )
    return jax.lax.fori_loop(0, n_steps, step, (responsibility, empty))


def leaf_sums(by_word, temper, sample_weight, responsibility):
    """Add up the words of each leaf, and its weight; sums of parts of the documents add up again."""
    weighted = sample_weight[:, None] * responsibility
    return product(by_word, temper[:, None] * weighted), weighted.sum(0)


def maximise(sums, weights, total_weight, mean, mass, real) -> Mixture:
    """Return the mixture of highest posterior probability, given what the leaves add up to."""
    topics = sums + (mass * mean + 1e-9)[:, None]
    topics = topics / topics.sum(0, keepdims=True)
    weights = weights + _WEIGHT_PRIOR * total_weight / real.sum()
    weights = jnp.where(real, weights, 0.0)
    log_mean = jnp.log(mean + 1e-12)
    log_ratio = jnp.where(mean[:, None] > 0, jnp.log(topics) - log_mean[:, None], 0.0)  # unseen words say nothing
    return Mixture(log_ratio, jnp.log(weights / weights.sum()), mean)


def scores(by_doc, temper, mixture: Mixture):
    """Return the log-probability of each document under each leaf, relative to the corpus mean."""
    return temper[:, None] * product(by_doc, mixture.log_ratio) + jnp.asarray(mixture.log_weight)[None, :]


@quick_jit
def most_probable(responsibility) -> tuple[jax.Array, jax.Array]:
    """Return the leaf of each document, and how surely; see :class:`Labels`."""
    leaf, best = jnp.argmax(responsibility, axis=-1), responsibility.max(-1)
    others = jnp.where(jnp.arange(responsibility.shape[-1])[None, :] == leaf[:, None], 0.0, responsibility)
    return leaf, jnp.minimum((best - others.max(-1)) / _SURE_LEAD, 1.0)


def leaf_scores(corpus: Corpus, temper: np.ndarray, mixture: Mixture) -> np.ndarray:
    """Return :func:`scores` on the host."""
    found = _over_parts(_scores, corpus, temper, _padded(mixture))
    return found[:, : len(mixture.log_weight)]


def best_leaf(corpus: Corpus, temper: np.ndarray, mixture: Mixture) -> np.ndarray:
    """Return the most probable leaf of each document."""
    return _over_parts(_best_leaf, corpus, temper, _padded(mixture))


def _over_parts(function, corpus: Corpus, temper: np.ndarray, mixture: Mixture) -> np.ndarray:
    """Apply a compiled function to all documents, or to each part of those that stay on disk."""
    if isinstance(corpus, StreamedCorpus):
        return corpus.map_parts(lambda part: function(part.by_doc, part.over_docs(temper), mixture))
    return corpus.fetch(function(corpus.by_doc, corpus.over_docs(temper), mixture))


def spare_leaves(n_leaves: int) -> int:
    """Return how many columns to add when scoring: 16, 32, 64, ... in all, so that few sizes are compiled."""
    return max(_LEAST_WIDTH, 1 << (n_leaves - 1).bit_length()) - n_leaves


def _padded(mixture: Mixture) -> Mixture:
    """Add leaves of no weight."""
    spare = spare_leaves(len(mixture.log_weight))
    return mixture._replace(
        log_ratio=np.pad(mixture.log_ratio, [(0, 0), (0, spare)]),
        log_weight=np.pad(mixture.log_weight, (0, spare), constant_values=-np.inf),
    )


_scores = quick_jit(scores)
_best_leaf = quick_jit(lambda *arguments: jnp.argmax(scores(*arguments), axis=-1))
