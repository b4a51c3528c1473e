"""Problems with known answers, and comparisons up to what cannot be determined."""

import itertools

import jax
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

import hmom_jax as hm


def tolerance(dtype, single: float, double: float) -> float:
    """Choose a tolerance by precision."""
    return single if np.dtype(dtype) == np.float32 else double


def random_topics(seed: int, n_words: int, n_topics: int, concentration: float = 0.3):
    """Draw topics in columns and weights that are not too small."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, concentration), n_topics).T
    weights = rng.dirichlet(np.full(n_topics, 5.0))
    return topics, weights


def random_corpus(seed: int, n_docs: int = 30, n_words: int = 12, mean_length: float = 6.0, dtype=np.float32):
    """Draw counts with empty, short and long documents, and a word that never occurs."""
    rng = np.random.default_rng(seed)
    lengths = rng.poisson(mean_length, n_docs)
    lengths[:3] = 0, 1, 2
    probability = rng.dirichlet(np.full(n_words, 0.5))
    probability[-1] = 0
    probability /= probability.sum()
    return rng.multinomial(lengths, probability).astype(dtype)


def match_columns(found, truth):
    """Permute the columns of ``found`` to be closest to those of ``truth``."""
    found, truth = np.asarray(found, np.float64), np.asarray(truth, np.float64)
    distance = np.abs(found[:, :, None] - truth[:, None, :]).sum(0)
    rows, columns = linear_sum_assignment(distance)
    order = np.empty_like(rows)
    order[columns] = rows
    return found[:, order]


def brute_force_moments(counts, beta=0.0, membership=None):
    """Form M1, M2, M3 by running over all tuples of distinct word positions of every document."""
    counts = np.asarray(counts).astype(int)
    n_docs, n_words = counts.shape
    membership = np.ones(n_docs) if membership is None else np.asarray(membership, float)
    moments = []
    for order in (1, 2, 3):
        total, constant = np.zeros((n_words,) * order), 0.0
        for document, weight in zip(counts, membership, strict=True):
            words = np.repeat(np.arange(n_words), document)
            if len(words) < order:
                continue
            falling = np.prod([len(words) - i for i in range(order)], dtype=float)
            for places in itertools.permutations(range(len(words)), order):
                total[tuple(words[list(places)])] += weight / falling**beta
            constant += weight / falling**beta * falling
        moments.append(total / constant)
    return moments


def population(seed: int, n_words: int, n_topics: int, word_scale=None, concentration: float = 0.3):
    """Return (topics, weights, exact moments)."""
    topics, weights = random_topics(seed, n_words, n_topics, concentration)
    return topics, weights, hm.population_moments(topics, weights, word_scale=word_scale)


def partition_difference(found, truth) -> int:
    """Count the documents that lie in different parts after matching the parts of two partitions."""
    table = np.zeros((found.max() + 1, truth.max() + 1), int)
    np.add.at(table, (found, truth), 1)
    rows, columns = linear_sum_assignment(-table)
    return len(found) - int(table[rows, columns].sum())


def adjusted_rand_index(found, truth) -> float:
    """Compare two partitions: 1 for the same, 0 on average for unrelated ones."""
    table = np.zeros((found.max() + 1, truth.max() + 1))
    np.add.at(table, (found, truth), 1)
    pairs = lambda counts: (counts * (counts - 1) / 2).sum()
    together, by_found, by_truth = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    expected = by_found * by_truth / pairs(np.array([len(found)]))
    return (together - expected) / (0.5 * (by_found + by_truth) - expected)


def smallest_lead(tree, counts) -> np.ndarray:
    """Return, for each document, the smallest lead per word of its best child over the next on its way down."""
    counts = counts.astype(np.float64)
    length = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)
    lead = np.full(counts.shape[0], np.inf)
    place = np.zeros(counts.shape[0], int)
    for node in tree.nodes:  # parents come before their children
        if node.is_leaf:
            continue
        kids = [tree.nodes[child] for child in node.children]
        here = np.flatnonzero(place == node.id)
        log_topics = np.log(np.stack([kid.topic for kid in kids], axis=1).astype(np.float64))
        scores = counts[here] @ log_topics + np.log([kid.weight for kid in kids])
        ordered = np.sort(scores, axis=1)
        lead[here] = np.minimum(lead[here], (ordered[:, -1] - ordered[:, -2]) / length[here])
        place[here] = np.array(node.children)[np.argmax(scores, axis=1)]
    return lead


# Jobs in the background of a script are started deaf to Ctrl-C, and pass that on: the command gets its ears back.
HEARING_COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from hmom_jax.cli import main
sys.exit(main(sys.argv[1:]))
"""

NEAR_TIE = 1e-4  # of the determinism contract: lead per word below which a document may change sides


def near_ties(tree, corpus) -> np.ndarray:
    """Tell which documents of a robust tree may change sides: few of them."""
    best = np.sort(tree.model.scores(corpus), axis=1)
    near = (best[:, -1] - best[:, -2]) / np.maximum(corpus.length, 1) < NEAR_TIE
    assert near.mean() < 0.01
    return near


def topic_error(found, truth) -> float:
    """Return the largest L1 error of a topic, columns matched."""
    return float(np.abs(match_columns(found, truth) - np.asarray(truth)).sum(0).max())


def over_leaves(function, arguments):
    """Return a compiled function of plain arrays, and the arrays.

    JAX rebuilds the containers around placeholders when it exports, which the type checks of the tests refuse.
    """
    leaves, structure = jax.tree.flatten(arguments)
    return jax.jit(lambda *leaves: jax.tree.leaves(function(*structure.unflatten(leaves)))), leaves


def awkward_matrix(seed, n_rows=40, n_columns=700):
    """Draw a sparse matrix with rows of 0, 1, the fold widths and their powers, give or take one, in random order."""
    rng = np.random.default_rng(seed)
    lengths = [0, 1, 3, 4, 5, 7, 8, 9, 11, 12, 13, 16, 17, 24, 25, 33, 63, 64, 65, 72, 73, 108, 109, 144, 145, 511, 512]
    lengths = np.array([*lengths, 513, 700])
    lengths = rng.permutation(np.concatenate([lengths, np.zeros(n_rows - len(lengths), int)]))
    indices = np.concatenate([np.sort(rng.choice(n_columns, m, replace=False)) for m in lengths])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    data = rng.poisson(2.0, len(indices)) + 1.0
    return sp.csr_array((data, indices, indptr), shape=(n_rows, n_columns))
