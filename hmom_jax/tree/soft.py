r"""A soft tree: documents go down every branch with a probability, so that gradients flow through all levels.

At each node the moments of its documents, weighted by their membership, are decomposed at two topics, and membership
is shared between the children by $\mathrm{softmax}(s / T)$ of the two log-posteriors $s$. As the temperature $T$ falls
to 0 the memberships become those of the paper's tree (Algorithm 2).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hmom_jax.assign import floor_topics, score_columns
from hmom_jax.corpus import CorpusArrays
from hmom_jax.decompose.sidiwo import sidiwo
from hmom_jax.errors import InputError, default_key, is_traced
from hmom_jax.models.single_topic import single_topic_moments
from hmom_jax.sparse_rules import transposable_product


class SoftTree(NamedTuple):
    """Memberships and topics, level by level.

    Attributes
    ----------
    memberships
        For each level, from the root's children down: documents (padded) x nodes, rows summing to 1.
    topics
        For each level: words x nodes.
    """

    memberships: tuple[Float[Array, "padded_docs nodes"], ...]
    topics: tuple[Float[Array, "n_words nodes"], ...]


def soft_assign(
    arrays: CorpusArrays,
    topics: Float[Array, "n_words rank"] | np.ndarray,
    weights: Float[Array, " rank"] | np.ndarray,
    temperature: float | Float[Array, ""] = 1.0,
) -> Float[Array, "padded_docs rank"]:
    """Return the probability of each topic for each document, sharper the lower the temperature.

    At temperature 1 these are the posterior probabilities; differentiable in everything but the padding.

    Examples
    --------
    >>> import numpy as np
    >>> from hmom_jax import Corpus
    >>> arrays = Corpus.from_counts(np.array([[1.0, 0.0], [0.0, 1.0]])).arrays
    >>> found = soft_assign(arrays, np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([0.5, 0.5]))
    >>> np.asarray(found[:2], float).round(3).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    _check(arrays, temperature)
    columns, bias = score_columns(jnp.asarray(topics), jnp.asarray(weights))
    lead = transposable_product(arrays.by_doc, arrays.by_word, columns) + bias[None, :]
    return jax.nn.softmax(jnp.concatenate([jnp.zeros_like(lead[:, :1]), lead], axis=-1) / temperature, axis=-1)


def soft_tree(
    arrays: CorpusArrays,
    depth: int,
    temperature: float | Float[Array, ""],
    *,
    membership=None,
    beta: float | Float[Array, ""] = 0.0,
    word_scale=None,
    key=None,
) -> SoftTree:
    """Grow a soft tree; a pure function of all that is numeric.

    Parameters
    ----------
    arrays
        ``corpus.arrays``, or counts put there by :func:`~hmom_jax.put_counts`.
    depth
        Number of successive splits.
    temperature
        Log-posteriors are divided by this; documents of many words need high ones (their number is a scale to try).
    membership
        Weight of each document; None for 1.
    beta, word_scale
        Which moments; see :func:`~hmom_jax.single_topic_moments`.
    key
        Random key of the eigensolver.

    Examples
    --------
    >>> from hmom_jax import Corpus, datasets
    >>> data = datasets.hierarchical_topics(seed=0)
    >>> tree = soft_tree(Corpus.from_counts(data.counts).arrays, depth=2, temperature=1.0)
    >>> [level.shape[1] for level in tree.memberships]
    [2, 4]
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise InputError(f"depth must be a whole number of at least 1; got {depth!r}.")
    _check(arrays, temperature)
    n_docs, dtype = arrays.by_doc.n_rows, arrays.length.dtype
    weight = jnp.ones(n_docs, dtype) if membership is None else jnp.asarray(membership, dtype)
    weight = jnp.pad(weight, (0, n_docs - weight.shape[0]))
    level, memberships, topics = [jnp.ones(n_docs, dtype)], [], []
    for _ in range(depth):
        below, found_topics = [], []
        for member in level:
            moments = single_topic_moments(arrays, beta, weight * member, word_scale)
            found = sidiwo(moments, 2, key=default_key(key))
            floored = floor_topics(found.topics)
            share = soft_assign(arrays, floored, found.weights, temperature)
            below += [member * share[:, 0], member * share[:, 1]]
            found_topics.append(found.topics)
        level = below
        memberships.append(jnp.stack(level, axis=1))
        topics.append(jnp.concatenate(found_topics, axis=1))
    return SoftTree(tuple(memberships), tuple(topics))


def _check(arrays, temperature) -> None:
    """Raise for what is no corpus, and (outside tracing) for a temperature that is not positive."""
    if not isinstance(arrays, CorpusArrays):
        raise InputError(f"arrays must be the arrays of a corpus (corpus.arrays); got {type(arrays).__name__}.")
    if not is_traced(temperature) and not temperature > 0:
        raise InputError(f"temperature must be positive; got {temperature}.")
