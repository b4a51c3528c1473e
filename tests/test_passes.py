"""A guard: passes over the nonzeros are what a tree costs, so they must not become more unnoticed."""

import functools

import jax
import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax import sparse
from hmom_jax.models import single_topic
from hmom_jax.tree import embedding, polish, robust, rounds
from tests.test_compilation import compilations

N_LEAVES = 8


@functools.cache
def corpus():
    data = hm.datasets.docstrings()
    return hm.Corpus.from_counts(data.counts[:800], data.vocabulary)


def passes(traced) -> tuple[int, int]:
    """Count the products with the counts in a traced function: outside loops, and in the bodies of loops."""
    outside = inside = 0
    stack = [(traced.jaxpr.jaxpr, False)]
    while stack:
        jaxpr, looped = stack.pop()
        for equation in jaxpr.eqns:
            # Sums by word for several nodes are one product, cut into groups of columns: see the test of those below.
            if {"product", "_sums_by_word"} & {equation.params.get("name"), equation.primitive.name}:
                outside, inside = outside + (not looped), inside + looped
                continue
            below = looped or equation.primitive.name in ("while", "scan")
            for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda v: hasattr(v, "eqns")):
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    stack.append((inner, below))
    return outside, inside


@pytest.fixture
def calls(monkeypatch):
    """Record the arguments of every compiled entry point of both trees."""
    recorded = {}

    def watch(module, name):
        original = getattr(module, name)

        def call(*arguments, **static):
            result = original(*arguments, **static)
            recorded.setdefault(name, []).append((original.trace(*arguments, **static), arguments, result))
            return result

        monkeypatch.setattr(module, name, call)

    for module, name in (
        (rounds, "_fit"), (embedding, "_embed"), (polish, "_em"), (polish, "_best_leaf"),
    ):  # fmt: skip
        watch(module, name)
    return recorded


def test_passes_of_a_round_of_the_papers_tree(calls):
    hm.grow_tree(corpus(), depth=3)
    assert len(calls["_fit"]) == 3
    for traced, _, (_, _, found) in calls["_fit"]:
        # Sums of words, two for the slices, one to choose topics; two for each product with M2.
        assert passes(traced) == (4, 2)
        assert found.whitening.n_products <= 9


@pytest.mark.parametrize(("n_live", "columns", "groups"), [(1, 4, 1), (4, 4, 1), (5, 4, 2), (8, 4, 2), (4, 5, 2)])
def test_sums_by_word_take_as_many_passes_as_there_are_nodes_in_use(n_live, columns, groups):
    """Sixteen columns at a time, and none for slots that stay empty."""
    n_slots, layout = 8, rounds.layout_by_word(corpus())
    rng = np.random.default_rng(0)
    node = rng.integers(n_live, size=corpus().by_doc.n_rows)
    node[0] = n_live - 1
    block = rng.normal(size=(len(node), columns)).astype(np.float32)
    done = []
    original = single_topic.product

    def product(rows, table):
        jax.debug.callback(lambda: done.append(table.shape[1]))
        return original(rows, table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single_topic, "product", product)
        sums = functools.partial(single_topic._sums_by_word.__wrapped__, shape=(n_slots, layout.n_rows))
        found = jax.jit(sums)(layout, block, (node * layout.n_rows).astype(np.int32))
    jax.effects_barrier()
    assert len(done) == groups
    for slot in range(n_slots):
        inside = np.flatnonzero(node[: corpus().n_docs] == slot)
        expected = corpus().counts[inside].T @ block[inside]
        np.testing.assert_allclose(found[slot, : corpus().n_words], expected, rtol=1e-4, atol=1e-3)


def test_accelerators_sum_all_nodes_in_one_pass(monkeypatch):
    """A loop over groups of nodes would ask the host at every turn whether to go on. The layout decides."""
    monkeypatch.setattr(sparse, "wants_buckets", lambda: True)
    layout = rounds.layout_by_word(corpus())
    monkeypatch.undo()
    offset = np.zeros(corpus().by_doc.n_rows, np.int32)
    sums = functools.partial(single_topic._sums_by_word, shape=(8, layout.n_rows))
    traced = jax.make_jaxpr(sums)(layout, np.ones((len(offset), 5), np.float32), offset)
    assert " while[" not in str(traced)


def test_passes_of_the_robust_tree(calls):
    hm.grow_tree(corpus(), n_leaves=N_LEAVES)
    ((embed, _, _),) = calls["_embed"]
    assert passes(embed) == (1, 2)
    assert all(passes(traced) == (0, 2) for traced, _, _ in calls["_em"])
    steps = [int(arguments[7]) for _, arguments, _ in calls["_em"]]
    assert sum(steps[:3]) == robust._STEPS_CELLS + robust._STEPS_LEAVES + robust._STEPS_COLD <= 40
    assert len(steps) <= 3 + robust._REPAIRS
    ((leaf, _, _),) = calls["_best_leaf"]
    assert passes(leaf) == (1, 0)


def test_products_of_the_embedding():
    documents = hm.tree.effective.Effective.learn(corpus()).apply(corpus())
    counted = []
    original = embedding.top_eigenpairs

    def eigenpairs(*arguments):
        found = original(*arguments)
        jax.debug.callback(lambda n: counted.append(int(n)), found.n_products)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding, "top_eigenpairs", eigenpairs)
        z = embedding.embed(documents, np.ones(corpus().n_docs), 33, hm.errors.default_key(None))
    jax.block_until_ready(z)
    jax.effects_barrier()
    assert counted[0] <= 38  # a full basis, and three restarts of eight products each


def test_a_robust_tree_compiles_six_programs():
    data = hm.datasets.docstrings()
    fresh = hm.Corpus.from_counts(data.counts[:700, :1111], data.vocabulary[:1111])
    np.asarray(jax.random.key_data(hm.errors.default_key(None)))
    with compilations() as events:
        hm.grow_tree(fresh, n_leaves=6)
    assert len(events) <= 6
