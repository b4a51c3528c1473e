"""Every compiled entry point lowers for CPU, CUDA and TPU: no callback, no CPU-only call.

To cover a new entry point add a line to ENTRY_POINTS: a name, and a function that returns (function, arguments).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.assign import choose_topic
from hmom_jax.errors import default_key
from hmom_jax.sparse import product
from hmom_jax.tree import grow, rounds
from hmom_jax.tree.bisect import blocks_of, two_means
from hmom_jax.tree.embedding import _embed
from hmom_jax.tree.polish import Mixture, _best_leaf, _em
from tests.helpers import over_leaves, random_topics

RANK = 2


@functools.cache
def corpus(n_words):
    return hm.Corpus.from_counts(hm.datasets.hierarchical_topics(0, n_docs=50, n_words=n_words).counts)


def moments(n_words):
    return hm.single_topic_moments(corpus(n_words))


def exact_moments(n_words):
    return hm.population_moments(*random_topics(0, n_words, 3))


def block(n_words):
    return jnp.ones((n_words, RANK))


def decomposition(solver):
    return lambda moments: hm.sidiwo(moments, RANK, solver=solver)


def tree_round(n_words, solver="closed", word_scale=None):
    """Capture what a tree passes to its compiled round."""
    counts = corpus(n_words)
    slot, weights = np.arange(counts.n_docs) % 3, np.ones(counts.n_docs)
    method = grow._Method(hm.sidiwo, [("solver", solver)])
    captured = []
    options = {"n_slots": 4, "beta": 0.0, "word_scale": word_scale, "decompose": method, "rank": RANK}
    original, rounds._fit = rounds._fit, lambda *args, **static: captured.append((args, static))
    try:
        rounds.fit_round(counts, slot, weights, [1, 2, 3], default_key(None), **options)
    finally:
        rounds._fit = original
    (args, static) = captured[0]
    return functools.partial(rounds._fit, **static), args


def assignment():
    counts = corpus(40)
    topics = jnp.full((2, 40, RANK), 1 / 40)
    offset = jnp.zeros(counts.by_doc.n_rows, jnp.int32)
    return choose_topic, (counts.by_doc, topics, jnp.full((2, RANK), 0.5), offset)


def traced_membership():
    """Return a user's own function: decompose under traced memberships."""

    def decompose(arrays, membership):
        return hm.sidiwo(hm.single_topic_moments(arrays, 0.5, membership, "inverse_sqrt"), RANK)

    return decompose, (corpus(40).arrays, jnp.ones(50))


def soft_tree_backwards():
    """Return the gradient of a membership two levels down, in the weights of the documents."""
    share = lambda membership, arrays: hm.soft_tree(arrays, 2, 10.0, membership=membership).memberships[-1][0, 0]
    return jax.grad(share), (jnp.ones(50), corpus(40).arrays)


def second_derivative(rank):
    """Return a Hessian-vector product in the weights of the documents, forwards over backwards, matrix-free."""

    def product(membership, change, arrays):
        weight = lambda membership: hm.sidiwo(hm.single_topic_moments(arrays, 0.5, membership), rank).weights[0]
        return jax.jvp(jax.grad(weight), (membership,), (change,))[1]

    return product, (jnp.ones(50), jnp.ones(50), corpus(300).arrays)


def embedding():
    counts = corpus(300)
    docs, words = jnp.ones(counts.by_doc.n_rows), jnp.ones(300)
    arguments = (counts.arrays.by_doc, counts.arrays.by_word, docs, words, words, default_key(None))
    return functools.partial(_embed, rank=8), arguments


def splits():
    layout = blocks_of([np.arange(30), np.arange(30, 50)], 50, 4)
    return functools.partial(two_means, n_slots=4), (jnp.ones((50, 8)), *layout.arrays(np.ones(50)))


def polish():
    counts = corpus(40)
    docs = jnp.ones(counts.by_doc.n_rows)
    start = jnp.full((counts.by_doc.n_rows, 3), 1 / 3)
    return _em, (
        counts.arrays.by_doc,
        counts.arrays.by_word,
        docs,
        docs,
        start,
        jnp.full(40, 1 / 40),
        jnp.ones(()),
        jnp.int32(2),
        jnp.ones(3, bool),
    )


def leaves():
    mixture = Mixture(jnp.ones((40, 3)), jnp.zeros(3), jnp.full(40, 1 / 40))
    return _best_leaf, (corpus(40).by_doc, jnp.ones(corpus(40).by_doc.n_rows), mixture)


ENTRY_POINTS = {
    "robust tree: embedding": embedding,
    "robust tree: splits": splits,
    "robust tree: polish": polish,
    "robust tree: assignment": leaves,
    "product": lambda: (product, (corpus(40).by_doc, block(40))),
    "m2_times": lambda: (lambda m, b: m.m2_times(b), (moments(40), block(40))),
    "whitened_slices": lambda: (lambda m, w: m.whitened_slices(w), (moments(40), block(40))),
    "dense": lambda: (lambda m: m.dense(), (moments(40),)),
    "whiten dense": lambda: (lambda m: hm.whiten(m, RANK), (moments(40),)),
    "whiten Krylov": lambda: (lambda m: hm.whiten(m, RANK), (moments(300),)),
    "sidiwo closed": lambda: (decomposition("closed"), (moments(40),)),
    "sidiwo grid": lambda: (decomposition("grid"), (moments(40),)),
    "sidiwo of exact moments": lambda: (decomposition("closed"), (exact_moments(300),)),
    "sidiwo of traced memberships": traced_membership,
    "soft tree, backwards": soft_tree_backwards,
    "second derivative at two topics": lambda: second_derivative(2),
    "second derivative at eight topics": lambda: second_derivative(8),
    "tree round dense": lambda: tree_round(40),
    "tree round Krylov": lambda: tree_round(300, word_scale="inverse_sqrt"),
    "tree round grid": lambda: tree_round(40, solver="grid"),
    "choose_topic": assignment,
    "project_simplex": lambda: (hm.project_simplex, (jnp.ones((3, 40)),)),
}


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_entry_point_lowers_for_every_platform(name, platforms):
    corpus.cache_clear()
    function, leaves = over_leaves(*ENTRY_POINTS[name]())
    corpus.cache_clear()
    exported = jax.export.export(function, platforms=platforms)(*leaves)
    assert exported.platforms == platforms


@pytest.mark.parametrize("name", ["product", "m2_times", "whitened_slices", "choose_topic"])
def test_passes_over_the_counts_have_no_scatter(name):
    function, leaves = over_leaves(*ENTRY_POINTS[name]())
    text = function.lower(*leaves).as_text()
    assert "stablehlo.gather" in text
    assert "scatter" not in text
