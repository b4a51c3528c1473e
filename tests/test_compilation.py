"""How often a tree is compiled: few times the first time, never again for corpora of like size."""

import contextlib
import math

import jax
import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax import compilation
from hmom_jax.rows import geometric


@contextlib.contextmanager
def compilations():
    """Yield a list that grows by one for every program that XLA compiles."""
    events = []

    def listen(event: str, duration: float, **_) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            events.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield events
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def synthetic(seed, n_docs=90, n_words=44):
    """Draw a corpus of a size that no other test compiles for."""
    return hm.Corpus.from_counts(hm.datasets.hierarchical_topics(seed, n_docs=n_docs, n_words=n_words).counts)


@pytest.fixture(scope="module", autouse=True)
def _warm_key():
    """Make the fixed key, which every process compiles once."""
    jax.block_until_ready(jax.random.key_data(jax.random.key(0)))
    np.asarray(jax.random.key_data(hm.errors.default_key(None)))


def test_counter_counts():
    with compilations() as events:
        jax.jit(lambda x: x * 3 + 17.25)(np.ones(7, np.float32))
    assert len(events) == 1


@pytest.mark.parametrize("depth", [1, 3, 5])
def test_a_tree_compiles_at_most_once_per_doubling_of_its_widest_level(depth):
    corpus = synthetic(0, n_words=40 + 4 * depth)
    with compilations() as events:
        tree = hm.grow_tree(corpus, depth)
    widest = max(np.bincount([node.depth for node in tree.nodes]))
    assert len(events) <= 1 + math.log2(widest)
    with compilations() as events:
        hm.grow_tree(corpus, depth)
    assert events == []


def test_corpora_of_like_size_share_the_compilation():
    candidates = [synthetic(seed, n_docs) for seed in range(1, 9) for n_docs in (88, 90)]
    alike = [corpus for corpus in candidates if geometric(corpus.nnz) == geometric(candidates[0].nnz)][:4]
    assert len({corpus.nnz for corpus in alike}) == 4
    assert {corpus.n_docs for corpus in alike} == {88, 90}
    hm.grow_tree(alike[0], 3)
    with compilations() as events:
        for corpus in alike[1:]:
            hm.grow_tree(corpus, 3)
    assert events == []


def test_weights_and_betas_do_not_compile_anew():
    corpus = synthetic(1, 88)
    hm.grow_tree(corpus, 3)
    with compilations() as events:
        hm.grow_tree(corpus, 3, sample_weight=np.linspace(0.5, 1, corpus.n_docs))
        hm.grow_tree(corpus, 3, beta=0.5)
        hm.grow_tree(corpus, 3, key=jax.random.key(5))
    assert len(events) <= 2  # making a key by hand is the caller's own


def test_a_second_decomposition_does_not_compile():
    corpus = synthetic(3)
    hm.sidiwo(hm.single_topic_moments(corpus), 2)
    with compilations() as events:
        hm.sidiwo(hm.single_topic_moments(corpus, 1.0, np.linspace(0.5, 1, corpus.n_docs)), 2)
    assert events == []


def test_quick_jit_does_without_an_option_that_xla_does_not_know(monkeypatch):
    monkeypatch.setattr(compilation, "_QUICK", {"xla_cpu_no_such_option": True})
    double = compilation.quick_jit(lambda x: 2 * x)
    assert double(np.float32(3)) == double(np.float32(3)) == 6
    assert compilation._QUICK == {}


def test_quick_jit_may_stand_inside_other_transformations():
    square = compilation.quick_jit(lambda x: x**2)
    assert jax.jit(lambda x: square(x) + 1)(3.0) == 10
    assert jax.grad(square)(3.0) == 6
    constant = np.float32(3)  # nothing traced in what it is called with
    assert jax.jit(lambda x: square(constant) + x)(1.0) == 10
    assert jax.lax.cond(True, lambda: square(constant), lambda: constant) == 9
    assert jax.lax.scan(lambda total, x: (total + x * square(constant), None), 0.0, np.ones(2, np.float32))[0] == 18
