r"""How probable each leaf is for a document, and how probable documents are under the tree.

Both read the tree as a mixture of its leaves. Leaf probabilities are those by which documents are assigned: on
effective counts in a robust tree, the product of the choices on the way down in the paper's. The likelihood is that of
the raw words, $\log \sum_j \omega_j \prod_w \mu_{jw}^{x_w}$, topics floored at 1e-6 so that a word the training corpus
never saw costs much, but not everything.
"""

import jax
import jax.numpy as jnp
import numpy as np

from hmom_jax.assign import floor_topics
from hmom_jax.corpus import Corpus
from hmom_jax.sparse import product
from hmom_jax.tree.polish import spare_leaves
from hmom_jax.tree.tree import Tree


def leaf_probabilities(tree: Tree, corpus: Corpus) -> np.ndarray:
    """Return documents x leaves, rows summing to 1."""
    column = np.full(len(tree.nodes), -1)
    column[[leaf.id for leaf in tree.leaves]] = np.arange(tree.n_leaves)
    if tree.model is not None:
        scores = tree.model.scores(corpus)
        chance = softmax(scores)
        to_leaf = np.zeros((chance.shape[1], tree.n_leaves))
        to_leaf[np.arange(chance.shape[1]), column[tree.model.node]] = 1.0
        return (chance @ to_leaf).astype(corpus.dtype)
    chance = {0: np.ones(corpus.n_docs)}
    for node in tree.nodes:
        if not node.is_leaf:
            kids = [tree.nodes[child] for child in node.children]
            topics = np.stack([kid.topic for kid in kids], axis=1)
            step = softmax(log_scores(corpus, topics, np.array([kid.weight for kid in kids])))
            for kid, share in zip(kids, step.T, strict=True):
                chance[kid.id] = chance[node.id] * share
    return np.stack([chance[leaf.id] for leaf in tree.leaves], axis=1).astype(corpus.dtype)


def log_likelihood(tree: Tree, corpus: Corpus) -> np.ndarray:
    """Return the log-probability of each document's words (in a given order) under the mixture of the leaves."""
    if tree.model is not None:
        return mixture_log_likelihood(corpus, *tree.model.topics())
    weights = np.array([1.0] * len(tree.nodes))
    for node in tree.nodes[1:]:
        siblings = sum(tree.nodes[child].weight for child in tree.nodes[node.parent].children)
        weights[node.id] = weights[node.parent] * node.weight / siblings
    leaves = tree.leaves
    return mixture_log_likelihood(
        corpus, np.stack([leaf.topic for leaf in leaves], axis=1), weights[[leaf.id for leaf in leaves]]
    )


def mixture_log_likelihood(corpus: Corpus, topics: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the log-probability of each document's words under a mixture of topics (in columns)."""
    scores = log_scores(corpus, topics, weights)
    top = scores.max(1, keepdims=True)
    return top[:, 0] + np.log(np.exp(scores - top).sum(1))


def log_scores(corpus: Corpus, topics: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return documents x topics: log-weight plus log-probability of the words, in double precision."""
    topics, weights = np.asarray(topics, corpus.dtype), np.asarray(weights, np.float64)
    n_topics = topics.shape[1]
    topics = np.pad(topics, [(0, 0), (0, spare_leaves(n_topics))], constant_values=1.0)
    words = np.asarray(_log_topic_products(corpus.by_doc, topics))[: corpus.n_docs, :n_topics].astype(np.float64)
    return words + np.log(np.maximum(weights, np.finfo(float).tiny))


@jax.jit
def _log_topic_products(by_doc, topics):
    return product(by_doc, jnp.log(floor_topics(topics)))


def softmax(scores: np.ndarray) -> np.ndarray:
    """Turn the log-scores of each row into probabilities (host side)."""
    scores = np.exp(scores - scores.max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True)
