"""Derivatives from counts to topics: every step and the whole chain, against finite differences; ties; lowering."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax.test_util import check_grads

import hmom_jax as hm
from hmom_jax.decompose.objective import compress
from hmom_jax.decompose.recovery import recover
from hmom_jax.implicit import inverse, root
from hmom_jax.sparse_rules import transposable_product
from tests.helpers import over_leaves, random_topics

pytestmark = pytest.mark.usefixtures("x64")

RANKS = [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)]


@functools.cache
def small():
    """Return a corpus of four topics, small enough for second derivatives."""
    data = hm.datasets.hierarchical_topics(0, n_docs=60, doc_length=40, n_words=30)
    return hm.Corpus.from_counts(data.counts.astype(np.float64))


@functools.cache
def docstrings(n_docs=400, n_words=400):
    data = hm.datasets.docstrings()
    counts = data.counts[:n_docs]
    frequent = np.argsort(-np.asarray(counts.sum(axis=0)).ravel(), kind="stable")[:n_words]
    counts = counts[:, np.sort(frequent)]
    return hm.Corpus.from_counts(counts[np.flatnonzero(np.asarray(counts.sum(axis=1)).ravel() > 5)].astype(np.float64))


def topics_and_weights(moments, rank):
    found = hm.sidiwo(moments, rank, tol=1e-13)
    return found.topics, found.weights


def from_counts(corpus, rank, counts, **options):
    arrays = hm.put_counts(corpus.arrays, corpus.places, counts)
    return topics_and_weights(hm.single_topic_moments(arrays, **options), rank)


def directional(function, point, direction, step):
    """Central differences of fourth order."""
    at = lambda times: function(point + times * step * direction)
    combine = lambda a, b, c, d: (8 * (a - b) - (c - d)) / (12 * step)
    return jax.tree.map(combine, at(1), at(-1), at(2), at(-2))


def assert_agrees(function, point, seed, step=1e-4, rtol=1e-6):
    direction = jnp.asarray(np.random.default_rng(seed).normal(size=point.shape)) * jnp.abs(point)
    _, found = jax.jvp(function, (point,), (direction,))
    expected = directional(function, point, direction, step)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=rtol * float(jnp.abs(theirs).max()) + 1e-10)
    # the same derivative backwards
    out, pull_back = jax.vjp(function, point)
    cotangents = jax.tree.map(lambda leaf: jnp.cos(jnp.arange(leaf.size, dtype=leaf.dtype)).reshape(leaf.shape), out)
    (pulled,) = pull_back(cotangents)
    forwards = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(cotangents), strict=True))
    np.testing.assert_allclose(jnp.vdot(pulled, direction), forwards, rtol=1e-8, atol=1e-10)


# ------------------------------------------------------------------------------------------------------- single steps
def test_product_in_table_and_counts():
    corpus = small()
    table = jnp.asarray(np.random.default_rng(1).normal(size=(30, 3)))

    def product(counts, table):
        arrays = hm.put_counts(corpus.arrays, corpus.places, counts)
        back = transposable_product(arrays.by_word, arrays.by_doc, jnp.sin(counts[0] + jnp.ones((64, 2))))
        return transposable_product(arrays.by_doc, arrays.by_word, table), back

    check_grads(product, (jnp.asarray(corpus.counts.data), table), order=2)


def test_product_backwards_has_no_scatter_and_batches_over_columns():
    arrays = small().arrays
    total = lambda table: (transposable_product(arrays.by_doc, arrays.by_word, table) ** 2).sum()
    table = jnp.ones((30, 2))
    assert "scatter" not in str(jax.make_jaxpr(jax.grad(total))(table))
    batched = jax.vmap(lambda t: transposable_product(arrays.by_doc, arrays.by_word, t))(jnp.stack([table, 2 * table]))
    np.testing.assert_allclose(batched[1], 2 * transposable_product(arrays.by_doc, arrays.by_word, table))
    counts = jnp.stack([jnp.asarray(small().counts.data), 2 * jnp.asarray(small().counts.data)])
    lengths = jax.vmap(lambda c: hm.put_counts(arrays, small().places, c).length)(counts)
    np.testing.assert_allclose(lengths[1], 2 * lengths[0])


@pytest.mark.parametrize("word_scale", [None, "inverse_sqrt"])
def test_moments_in_counts_memberships_and_beta(word_scale):
    corpus, w = small(), jnp.asarray(np.random.default_rng(2).normal(size=(30, 2)))

    def moments(counts, membership, beta):
        arrays = hm.put_counts(corpus.arrays, corpus.places, counts)
        found = hm.single_topic_moments(arrays, beta, membership, word_scale)
        return found.m1, found.m2_times(w), found.whitened_slices(w)

    check_grads(moments, (jnp.asarray(corpus.counts.data), jnp.ones(60), jnp.asarray(0.5)), order=2)


def test_word_scaling():
    scale = jnp.asarray(np.random.default_rng(3).uniform(0.5, 2, 30))
    function = lambda scale: topics_and_weights(hm.single_topic_moments(small().arrays, 0.5, None, scale), 2)
    assert_agrees(jax.jit(function), scale, seed=0)


def test_root_and_inverse_have_the_derivatives_of_matrices():
    start, change = jnp.diag(jnp.array([3.0, 2.0, 2.0])), jnp.asarray(np.random.default_rng(4).normal(size=(3, 3)))
    change = change + change.T
    _, found = jax.jvp(root, (start,), (change,))
    np.testing.assert_allclose(root(start) @ found + found @ root(start), change, atol=1e-12)
    _, found = jax.jvp(inverse, (start,), (change,))
    np.testing.assert_allclose(found, -np.linalg.inv(start) @ change @ np.linalg.inv(start), atol=1e-12)
    second = jax.jvp(lambda m: jax.jvp(root, (m,), (change,))[1], (start,), (change,))[1]
    first = jax.jvp(root, (start,), (change,))[1]
    np.testing.assert_allclose(root(start) @ second + second @ root(start), -2 * first @ first, atol=1e-12)


@pytest.mark.parametrize("rank", [2, 3, pytest.param(8, marks=pytest.mark.slow)])
def test_whitening(rank):
    corpus = small()

    @jax.jit
    def whitened(membership):
        found = hm.whiten(hm.single_topic_moments(corpus.arrays, 0.5, membership, "inverse_sqrt"), rank, tol=1e-13)
        weight = jnp.cos(jnp.arange(900.0)).reshape(30, 30)
        return (weight * (found.factor @ found.factor.T)).sum(), (weight * (found.pinv.T @ found.pinv)).sum()

    check_grads(whitened, (jnp.ones(60),), order=2, rtol=1e-4)


def test_recovery():
    topics, weights = random_topics(6, 12, 3, concentration=5.0)  # no entry so small that it meets the simplex's edge
    moments = hm.population_moments(topics, weights)
    found = hm.sidiwo(moments, 3)
    slices = moments.whitened_slices(found.whitening.pinv.T)

    @jax.jit
    def recovered(rotation, m1):
        again = recover(dataclasses.replace(moments, m1=m1), found.whitening, slices, rotation)
        return again.topics, again.weights

    check_grads(recovered, (found.rotation, moments.m1), order=2, rtol=1e-4)


def test_projection_on_the_simplex():
    points = jnp.asarray(np.random.default_rng(12).normal(size=(3, 10)))
    check_grads(jax.jit(hm.project_simplex), (points,), order=2)


@pytest.mark.parametrize("rank", RANKS)
def test_soft_assignment(rank):
    corpus = small()
    logits = [jnp.log(value) for value in random_topics(13, 30, rank, concentration=3.0)]

    @jax.jit
    def assigned(counts, topics, weights, temperature):
        arrays = hm.put_counts(corpus.arrays, corpus.places, counts)
        return hm.soft_assign(arrays, jax.nn.softmax(topics, 0), jax.nn.softmax(weights), temperature)

    check_grads(assigned, (jnp.asarray(corpus.counts.data), *logits, jnp.asarray(20.0)), order=2, rtol=1e-4, atol=1e-4)


# as many topics as asked for, and more
@pytest.mark.parametrize(
    ("solver", "n_topics"), [("closed", 2), ("closed", 5), ("jacobi", 5), ("cayley", 3), ("cayley", 5)]
)
def test_rotation_in_the_slices(solver, n_topics):
    rank = 2 if solver == "closed" else 3
    topics, weights = random_topics(5, 20, max(n_topics, rank))

    def found(topics):
        return topics_and_weights_with(topics, weights, rank, solver)

    assert_agrees(jax.jit(found), 0.9 * jnp.asarray(topics) + 0.1 / 20, seed=1)


def topics_and_weights_with(topics, weights, rank, solver):
    found = hm.sidiwo(hm.population_moments(topics, weights), rank, solver=solver)
    return found.topics, found.weights


@pytest.mark.parametrize("rank", [2, 3])
def test_derivatives_of_whitening_equal_those_of_unrolled_subspace_iteration(rank):
    """Differentiate through every one of 300 products and QRs: the same, once these have converged."""
    topics, weights = random_topics(7, 15, 5)
    start = jnp.asarray(np.random.default_rng(8).normal(size=(15, rank)))
    mark = jnp.cos(jnp.arange(225.0)).reshape(15, 15)

    def implicit(topics):
        found = hm.whiten(hm.population_moments(topics, weights), rank)
        return (mark * (found.factor @ found.factor.T)).sum() + (mark * (found.pinv.T @ found.pinv)).sum()

    def unrolled(topics):
        times = hm.population_moments(topics, weights).m2_times
        step = lambda basis, _: (jnp.linalg.qr(times(basis))[0], None)
        basis = jax.lax.scan(step, start, None, length=300)[0]
        inside = basis.T @ times(basis)
        return (mark * (basis @ inside @ basis.T)).sum() + (mark * (basis @ jnp.linalg.inv(inside) @ basis.T)).sum()

    topics = jnp.asarray(topics)
    np.testing.assert_allclose(implicit(topics), unrolled(topics), rtol=1e-10)
    found, expected = (jax.jit(jax.grad(function))(topics) for function in (implicit, unrolled))
    np.testing.assert_allclose(found, expected, atol=1e-9 * float(jnp.abs(expected).max()))
    change = jnp.sin(topics)
    found, expected = (jax.jvp(jax.jit(function), (topics,), (change,))[1] for function in (implicit, unrolled))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_memory_backwards_does_not_grow_with_iterations():
    corpus = small()

    def memory(max_iter):
        def weight(membership):
            moments = hm.single_topic_moments(corpus.arrays, 0.0, membership)
            return hm.sidiwo(moments, 3, solver="cayley", max_iter=max_iter).weights[0]

        return jax.jit(jax.grad(weight)).lower(jnp.ones(60)).compile().memory_analysis().temp_size_in_bytes

    assert memory(1000) == memory(10)


# ---------------------------------------------------------------------------------------------------------- the chain
def test_counts_to_topics_to_second_order():
    corpus = small()
    function = jax.jit(functools.partial(from_counts, corpus, 2, beta=0.5, word_scale="inverse_sqrt"))
    counts = jnp.asarray(corpus.counts.data)
    assert_agrees(function, counts, seed=2)
    first = jax.jit(lambda counts: jax.jvp(function, (counts,), (jnp.sin(counts),))[1])
    assert_agrees(first, counts, seed=3, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [2, 3, 8])
def test_whole_chain(rank):
    """Counts, document weights and word scaling to topics and weights, every mode to second order."""
    corpus = small()

    @jax.jit
    def marked(counts, membership, scale):
        topics, weights = from_counts(corpus, rank, counts, beta=0.5, membership=membership, word_scale=scale)
        return (topics * jnp.cos(jnp.arange(1.0 * topics.size)).reshape(topics.shape)).sum() + weights[0]

    scale = jnp.asarray(np.random.default_rng(14).uniform(0.5, 2, corpus.n_words))
    point = (jnp.asarray(corpus.counts.data), jnp.ones(corpus.n_docs), scale)
    check_grads(marked, point, order=2, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rank", RANKS)
def test_section_4_1(rank):
    data = hm.datasets.hierarchical_topics(0)
    corpus = hm.Corpus.from_counts(data.counts.astype(np.float64))
    function = jax.jit(functools.partial(from_counts, corpus, rank))
    # at rank 8 two topics are noise, and entries leave the simplex's edge within a larger step
    assert_agrees(function, jnp.asarray(corpus.counts.data), seed=4, step=1e-5 if rank == 8 else 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [2, 3, 8])
def test_documents_of_real_text(rank):
    corpus = docstrings()
    assert corpus.n_words > 128  # matrix-free
    function = jax.jit(functools.partial(from_counts, corpus, rank))
    assert_agrees(function, jnp.asarray(corpus.counts.data), seed=5, step=1e-5 if rank == 8 else 1e-4)


def twice(corpus, share):
    """Return a corpus beside itself in other words, its copy counting a little less: eigenvalues come in pairs."""
    both = hm.Corpus.from_counts(sp.block_diag([corpus.counts, corpus.counts]))
    return both, jnp.concatenate([jnp.ones(corpus.n_docs), jnp.full(corpus.n_docs, share)])


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "gap"), [(2, 0.0), (2, 1e-7), (3, 1e-3)])
@pytest.mark.parametrize("text", [False, True], ids=["section 4.1", "docstrings"])
def test_nearly_degenerate_corpora(rank, gap, text):
    """Pairs of eigenvalues: two kept that tie or nearly do, or a third kept that nearly ties with the fourth."""
    synthetic = hm.datasets.hierarchical_topics(0).counts.astype(np.float64)
    corpus, weights = twice(docstrings() if text else hm.Corpus.from_counts(synthetic), 1 - gap)
    values = hm.whiten(hm.single_topic_moments(corpus, 0.0, weights), 4).eigenvalues
    first = 0 if rank == 2 else 2
    np.testing.assert_allclose(1 - values[first + 1] / values[first], gap, rtol=1e-5, atol=1e-9)

    @jax.jit
    def by_place(counts):  # the weights tie too, and with them the order of topics
        topics, found = from_counts(corpus, rank, counts, membership=weights)
        order = jnp.argsort(jnp.arange(1.0 * corpus.n_words) @ topics)
        return topics[:, order], found[order]

    # Beside a near-tie across the cut rounding is large, and so must be the step; but not as large as the gap, and on
    # text entries leave the simplex's edge within a larger one.
    step = 1e-4 if rank == 2 else 3e-5 if text else 2e-4
    assert_agrees(by_place, jnp.asarray(corpus.counts.data), seed=15, step=step)


# --------------------------------------------------------------------------------------------------------------- ties
def with_eigenvalues(values, n_words=12):
    """Return topics and weights of orthogonal topics, each on words of its own, whose M2 has these eigenvalues."""
    groups = np.array_split(np.arange(n_words), len(values))
    topics = np.zeros((n_words, len(values)))
    for column, group in enumerate(groups):
        topics[group, column] = 1 / len(group)
    weights = np.array(values) / (topics**2).sum(0)
    return jnp.asarray(topics), jnp.asarray(weights)


@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-8, 1e-4])
@pytest.mark.parametrize("rank", [2, 3])
def test_ties_within_the_kept_space_do_no_harm(gap, rank):
    topics, weights = with_eigenvalues([0.1 + gap, 0.1, 0.1][:rank])

    def space(mixing):
        moved = topics + mixing * jnp.asarray(np.random.default_rng(9).uniform(size=topics.shape))
        found = hm.whiten(hm.population_moments(moved, weights), rank)
        return (jnp.cos(jnp.arange(144.0)).reshape(12, 12) * (found.factor @ found.factor.T)).sum()

    # E E' is M2 itself here
    exact = lambda mixing: (
        jnp.cos(jnp.arange(144.0)).reshape(12, 12)
        * hm.population_moments(
            topics + mixing * jnp.asarray(np.random.default_rng(9).uniform(size=topics.shape)), weights
        ).m2_times(jnp.eye(12))
    ).sum()
    np.testing.assert_allclose(jax.grad(space)(0.0), jax.grad(exact)(0.0), rtol=1e-8)


def test_a_tie_across_the_cut_is_refused_by_nan():
    def topic(gap):
        topics, weights = with_eigenvalues([0.2, 0.1, 0.1])
        mixed = topics @ jnp.asarray([[1.0, 0.0, 0.0], [0.0, 1.0, 0.3], [0.0, 0.3, 1.0]]) if gap is None else topics
        weights = weights.at[2].add(-(0.0 if gap is None else gap))

        def value(mixing):
            moved = mixed + mixing * jnp.asarray(np.random.default_rng(10).uniform(size=topics.shape))
            found = hm.whiten(hm.population_moments(moved, weights), 2)
            return (jnp.cos(jnp.arange(144.0)).reshape(12, 12) * (found.factor @ found.factor.T)).sum()

        return float(jax.grad(value)(0.0)), value

    tied, _ = topic(0.0)
    assert np.isnan(tied)
    near, value = topic(1e-3)
    step = 1e-7
    np.testing.assert_allclose(near, (value(step) - value(-step)) / (2 * step), rtol=1e-4)


@pytest.mark.parametrize("gap", [1e-2, 1e-6, 1e-8, 1e-10, 1e-12, 1e-14])
def test_near_ties_across_the_cut_have_the_right_derivative_or_none(gap):
    """Against perturbation theory with eigenvectors that are known, however close the eigenvalues."""
    topics, weights = with_eigenvalues([0.2, 0.1, 0.1 * (1 - gap)])
    change = jnp.asarray(np.random.default_rng(16).uniform(size=topics.shape))
    mark = jnp.cos(jnp.arange(144.0)).reshape(12, 12)

    def value(mixing):
        found = hm.whiten(hm.population_moments(topics + mixing * change, weights), 2)
        return (mark * (found.factor @ found.factor.T)).sum()

    vectors, values = topics / jnp.linalg.norm(topics, axis=0, keepdims=True), weights * (topics**2).sum(0)
    moved = (change * weights[None, :]) @ topics.T
    moved = moved + moved.T
    kept, left = vectors[:, :2], vectors[:, 2:]
    rest = jnp.eye(12) - vectors @ vectors.T  # eigenvalue 0
    # of U L U': as M2 itself within the kept space, and value over difference of values across the cut
    ratio = (values[:2] / (values[:2] - values[2]))[:, None]
    across = kept @ (ratio * (kept.T @ moved @ left)) @ left.T + kept @ kept.T @ moved @ rest
    expected = (mark * (kept @ kept.T @ moved @ kept @ kept.T + across + across.T)).sum()
    found = jax.grad(value)(0.0)
    assert np.isnan(found) if gap < 1e-9 else abs(found / expected - 1) < 1e-6


@pytest.mark.parametrize("rank", [3, 4])  # one void component, and two that nothing turns
def test_a_second_moment_of_too_low_rank_gives_no_nan(rank):
    topics, weights = with_eigenvalues([0.2, 0.1])

    @jax.jit
    def weight(mixing):
        moved = topics + mixing * jnp.asarray(np.random.default_rng(11).uniform(size=topics.shape))
        return hm.sidiwo(hm.population_moments(moved, weights), rank).topics[0, 0]

    found = jax.grad(weight)(0.01)
    step = 1e-5
    np.testing.assert_allclose(found, (weight(0.01 + step) - weight(0.01 - step)) / (2 * step), rtol=1e-5)


def test_compressed_slices_have_no_part_in_derivatives():
    assert compress(jnp.zeros((40, 2, 2))).shape == (3, 2, 2)  # its QR has no derivative where slices depend


# --------------------------------------------------------------------------------------------------------------- uses
@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.5, 0.0])
def test_influence_tells_what_leaving_a_document_out_does(beta):
    """At beta = 0 for all but documents that own much of the third moment: leaving these out is no small change."""
    corpus = hm.Corpus.from_counts(hm.datasets.docstrings().counts.astype(np.float64))
    weight = jax.jit(lambda r: topics_and_weights(hm.single_topic_moments(corpus.arrays, beta, r), 2)[1][0])
    everything = jnp.ones(corpus.n_docs)
    influence = -np.asarray(jax.jit(jax.grad(weight))(everything))
    triples = corpus.length * (corpus.length - 1) * (corpus.length - 2)
    chosen = np.flatnonzero((triples < 0.01 * triples.sum()) | (beta == 0.5))
    some = np.random.default_rng(1).choice(chosen, 200, replace=False)
    actual = np.array([weight(everything.at[n].set(0.0)) for n in some]) - float(weight(everything))
    assert np.corrcoef(influence[some], actual)[0, 1] > 0.99
    # of the longest document, a tenth of a percent is a small change
    longest = np.argmax(triples)
    little = (float(weight(everything.at[longest].add(-1e-3))) - float(weight(everything))) / 1e-3
    np.testing.assert_allclose(influence[longest], little, rtol=0.01)


def test_soft_tree_names_what_is_wrong():
    corpus = hm.Corpus.from_counts(hm.datasets.hierarchical_topics(seed=0).counts)
    for temperature in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="temperature must be positive"):
            hm.soft_tree(corpus.arrays, 1, temperature)


def test_soft_tree_becomes_the_hard_one():
    data = hm.datasets.hierarchical_topics(2)
    corpus = hm.Corpus.from_counts(data.counts.astype(np.float64))
    hard = hm.grow_tree(corpus, depth=3)
    agreement = []
    for temperature in (30.0, 3.0, 1e-3):
        soft = hm.soft_tree(corpus.arrays, 3, temperature)
        for level in soft.memberships:
            np.testing.assert_allclose(level[: corpus.n_docs].sum(1), 1.0)
        labels = np.asarray(soft.memberships[-1])[: corpus.n_docs].argmax(1)
        agreement.append(hm.metrics.adjusted_rand_score(hard.labels(), labels))
    assert agreement[-1] == 1.0
    assert float(np.asarray(soft.memberships[-1])[: corpus.n_docs].max(1).min()) > 0.99


def test_gradients_flow_through_three_levels():
    data = hm.datasets.hierarchical_topics(1, n_docs=120, doc_length=60, n_words=24)
    corpus = hm.Corpus.from_counts(data.counts.astype(np.float64))
    function = jax.jit(lambda weights: hm.soft_tree(corpus.arrays, 3, 20.0, membership=weights).memberships[-1][:5])
    assert_agrees(function, jnp.ones(corpus.n_docs), seed=6, rtol=1e-5)


# ----------------------------------------------------------------------------------------------------------- lowering
def backwards(rank):
    corpus = small()

    def loss(arrays, places, counts):
        moments = hm.single_topic_moments(hm.put_counts(arrays, places, counts), 0.5, None, "inverse_sqrt")
        return hm.sidiwo(moments, rank).topics[0, 0]

    return jax.grad(loss, argnums=2), (corpus.arrays, corpus.places, jnp.asarray(corpus.counts.data))


@pytest.mark.parametrize("rank", [2, 3])
def test_derivatives_lower_for_every_platform(rank, platforms):
    small.cache_clear()
    function, leaves = over_leaves(*backwards(rank))
    small.cache_clear()
    assert jax.export.export(function, platforms=platforms)(*leaves).platforms == platforms


def test_bad_depths_are_refused():
    with pytest.raises(hm.InputError, match="depth"):
        hm.soft_tree(small().arrays, 0, 1.0)
