r"""Assignment of documents to topics (Algorithm 2): the argmax of $X \log\mu_j + \log\omega_j$."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hmom_jax.compilation import quick_jit
from hmom_jax.rows import Rows, take_rows
from hmom_jax.sparse import product, shift

# Part of the method, not a setting: a floor of 1e-5 moves the nips partition by 0.05 ARI.
TOPIC_FLOOR = 1e-6


def floor_topics(
    topics: Float[Array, "*nodes n_words rank"], real_words: Bool[Array, " n_words"] | None = None
) -> Float[Array, "*nodes n_words rank"]:
    """Raise small probabilities to 1e-6 so that no word forbids a topic, and renormalise.

    ``real_words`` is False for words that only pad the vocabulary: their probability stays zero.
    """
    topics = jnp.maximum(topics, jnp.asarray(TOPIC_FLOOR, topics.dtype))
    if real_words is not None:
        topics = jnp.where(real_words[:, None], topics, 0.0)
    return topics / topics.sum(-2, keepdims=True)


def score_columns(
    topics: Float[Array, "*nodes n_words rank"], weights: Float[Array, "*nodes rank"]
) -> tuple[Float[Array, "*nodes n_words columns"], Float[Array, "*nodes columns"]]:
    """Return log-probabilities relative to the first topic: rank - 1 columns, so one at rank 2."""
    logs = jnp.log(jnp.where(topics > 0, topics, 1.0))
    log_weights = jnp.log(weights)
    return logs[..., 1:] - logs[..., :1], log_weights[..., 1:] - log_weights[..., :1]


@quick_jit
def choose_topic(
    by_doc: Rows,
    topics: Float[Array, "nodes n_words rank"],
    weights: Float[Array, "nodes rank"],
    offset: Int[Array, " padded_docs"],
) -> Int[Array, " padded_docs"]:
    """Choose the topic of each document within its node, whose number times ``n_words`` is the ``offset``.

    One pass over the nonzeros. Ties go to the first topic.
    """
    columns, bias = score_columns(topics, weights)
    n_nodes, n_words, rank = topics.shape
    rows = shift(by_doc, offset, table=n_nodes * n_words)
    scores = product(rows, columns.reshape(-1, rank - 1)) + take_rows(bias, offset // n_words)
    return jnp.argmax(jnp.concatenate([jnp.zeros_like(scores[:, :1]), scores], axis=-1), axis=-1)
