"""How sure is a split? Resample the documents, split again, and see whether the same two parts come out."""

from functools import partial

import jax
import numpy as np

from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError, check_sample_weight, default_key
from hmom_jax.tree.bisect import blocks_of, two_means
from hmom_jax.tree.effective import Effective
from hmom_jax.tree.embedding import embed, rank_for
from hmom_jax.tree.tree import Tree

_BATCH = 4  # resamples side by side: enough to fill the machine, few enough for memory


def split_confidence(tree: Tree, corpus: Corpus, *, n_bootstrap: int = 20, key=None, sample_weight=None) -> np.ndarray:
    r"""Return, for each node, how surely its split comes out again when documents are resampled.

    Each resample weights the documents of a node by independent Poisson(1) draws, splits the node in two in the
    space of the root's eigendecomposition, and is compared with the node's own children by the absolute correlation
    of the two partitions. The mean over resamples is 1 for a split that always comes out the same and near 0 for one
    that the data do not support. Written to ``node.confidence`` too; NaN for leaves and for nodes with more than
    two children.

    Parameters
    ----------
    tree, corpus
        A tree and the corpus that it was grown on.
    n_bootstrap
        Number of resamples.
    key
        Random key; None is a fixed key.
    sample_weight
        Weights of the documents, as in :func:`~hmom_jax.grow_tree`.
    """
    if corpus.n_docs != len(tree.doc_node):
        raise InputError(f"The tree has {len(tree.doc_node)} documents; the corpus has {corpus.n_docs}.")
    if n_bootstrap < 1:
        raise InputError(f"n_bootstrap must be at least 1; got {n_bootstrap}.")
    weights = check_sample_weight(sample_weight, corpus.n_docs)
    start, draw = jax.random.split(default_key(key))
    rank = rank_for(tree.n_leaves, corpus.n_words)
    effective = Effective.learn(corpus) if tree.model is None else Effective(tree.model.bursty)
    z = embed(effective.apply(corpus), weights, rank, start)
    draws = np.asarray(jax.random.poisson(draw, 1.0, (n_bootstrap, corpus.n_docs)), np.float64)

    confidence = np.full(len(tree.nodes), np.nan)
    for depth in range(tree.depth):
        nodes = [node for node in tree.nodes if node.depth == depth and len(node.children) == 2]
        if not nodes:
            continue
        second = _below(tree, [node.children[1] for node in nodes])  # True for documents of the second child
        inside = [np.flatnonzero(_below(tree, [node.id])) for node in nodes]
        layout = blocks_of(inside, corpus.n_docs, len(nodes))
        loads = np.where(layout.real, (draws * weights)[:, layout.index], 0.0).astype(np.float32)
        sides = np.asarray(_resplit(z, layout.index, loads, layout.slot, n_slots=len(nodes)))
        for slot, node in enumerate(nodes):
            found = sides.reshape(n_bootstrap, -1)[:, layout.place[slot]]
            confidence[node.id] = _agreement(found, second[inside[slot]], weights[inside[slot]])
    for node, value in zip(tree.nodes, confidence, strict=True):
        node.confidence = None if np.isnan(value) else float(value)
    return confidence


@partial(jax.jit, static_argnames="n_slots")
def _resplit(z, index, loads, slot, *, n_slots):
    return jax.lax.map(lambda load: two_means(z, index, load, slot, n_slots=n_slots)[0] > 0, loads, batch_size=_BATCH)


def _below(tree: Tree, roots: list[int]) -> np.ndarray:
    """Tell for each document whether it sits in one of the subtrees."""
    below = np.zeros(len(tree.nodes), bool)
    below[roots] = True
    for node in tree.nodes:  # parents come before their children
        if node.parent is not None:
            below[node.id] |= below[node.parent]
    return below[tree.doc_node]


def _agreement(found: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean absolute correlation of the partitions, 0 where one has an empty side."""
    weights = weights / max(weights.sum(), np.finfo(float).tiny)
    p, q = found @ weights, float(truth @ weights)
    both = (found & truth) @ weights
    spread = np.sqrt(np.maximum(p * (1 - p) * q * (1 - q), 0.0))  # p may be 1 and a rounding error
    return float(np.mean(np.where(spread > 1e-12, np.abs(both - p * q) / np.maximum(spread, 1e-12), 0.0)))
