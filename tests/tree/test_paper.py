"""The paper's tree: the same partitions as the literal transcription, and leaves that say why they are leaves."""

import functools

import jax
import numpy as np
import pytest
import scipy.sparse as sp

import hmom_jax as hm
from bench.baselines import dense
from hmom_jax.tree import rounds
from tests.helpers import NEAR_TIE, adjusted_rand_index, partition_difference, random_corpus, smallest_lead

N_SEEDS = 50


@functools.cache
def reference(seed):
    """Return section 4.1's corpus and the literal transcription's eight leaves."""
    data = hm.datasets.hierarchical_topics(seed)
    return data, dense.grow_labels(data.counts.toarray(), 3)


def grow(seed, solver):
    data, expected = reference(seed)
    return hm.grow_tree(hm.Corpus.from_counts(data.counts), 3, solver=solver), data, expected


@pytest.mark.slow
def test_partitions_equal_the_literal_transcription_in_double_precision(x64):
    scores = []
    for seed in range(N_SEEDS):
        tree, data, expected = grow(seed, "grid")
        assert tree.n_leaves == 8
        assert partition_difference(tree.labels(), expected) == 0, f"seed {seed}"
        scores.append(adjusted_rand_index(tree.labels(), data.labels))
    assert np.mean(scores) > 0.97  # measured: 0.978


@pytest.mark.slow
def test_closed_form_partitions_differ_at_most_in_near_ties(x64):
    for seed in range(N_SEEDS):
        tree, data, expected = grow(seed, "closed")
        near = (smallest_lead(tree, data.counts) < NEAR_TIE).sum()
        assert partition_difference(tree.labels(), expected) <= near, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["grid", "closed"])
def test_single_precision_moves_at_most_one_document_in_a_hundred(solver):
    moved = [partition_difference(grow(seed, solver)[0].labels(), reference(seed)[1]) for seed in range(N_SEEDS)]
    assert max(moved) <= 4  # of 400


def test_scores_as_in_the_paper():
    tree, data, _ = grow(1, "auto")
    assert adjusted_rand_index(tree.labels(), data.labels) > 0.95


def corpus_of(*rows):
    return hm.Corpus.from_counts(np.array(rows))


def check_sound(tree, n_docs):
    """Assert what must hold of every tree."""
    assert len(tree.labels()) == n_docs
    assert set(tree.labels()) == set(range(tree.n_leaves))
    for node in tree.nodes:
        assert np.all(np.isfinite(node.topic))
        assert np.isfinite(node.weight)
        np.testing.assert_allclose(node.topic.sum(), 1, rtol=1e-4)
    for leaf in tree.leaves:
        assert leaf.reason is not None or leaf.depth > 0


UNSPLITTABLE = {
    "identical documents": ([[2, 1, 0, 3]] * 5, "identical documents"),
    "one document": ([[2, 1, 0, 3]], "fewer than 2 documents with 3 words"),
    "one long document": ([[2, 1, 0, 3], [1, 0, 0, 0], [0, 1, 1, 0]], "fewer than 2 documents with 3 words"),
    "one word": ([[3, 0, 0, 0], [4, 0, 0, 0], [5, 0, 0, 0]], "fewer than 2 positive eigenvalues"),
    "proportional to one topic": ([[40, 20, 20, 0], [20, 10, 10, 0]], "fewer than 2 positive eigenvalues"),
}


@pytest.mark.parametrize("case", UNSPLITTABLE)
def test_nodes_that_cannot_be_split_say_why(dtype, case):
    rows, reason = UNSPLITTABLE[case]
    tree = hm.grow_tree(corpus_of(*rows), 2)
    assert tree.n_leaves == 1
    assert tree.root.reason == reason
    assert tree.labels().tolist() == [0] * len(rows)
    assert tree.root.children == ()
    check_sound(tree, len(rows))


def test_all_documents_on_one_side_is_a_reason():
    """Two topics of which one is so unlikely that no document prefers it."""
    tree = hm.grow_tree(corpus_of([9, 9, 1, 0], [9, 8, 2, 0], [8, 9, 0, 1], [1, 0, 0, 0]), 3)
    reasons = {node.reason for node in tree.nodes if node.is_leaf}
    known = {
        None,
        "all documents on one side",
        "fewer than 2 documents with 3 words",
        "fewer than 2 positive eigenvalues",
        "identical documents",
    }
    assert reasons <= known
    check_sound(tree, 4)


def test_the_rest_goes_on_where_one_node_stops():
    rng = np.random.default_rng(0)
    same = np.tile([20, 0, 0, 0, 0, 0, 0, 0], (20, 1))
    left = rng.multinomial(20, [0, 0, 0, 0.45, 0.05, 0.5, 0, 0], 15)
    right = rng.multinomial(20, [0, 0, 0, 0, 0, 0.5, 0.05, 0.45], 15)
    tree = hm.grow_tree(hm.Corpus.from_counts(np.concatenate([same, left, right])), 2)
    labels = tree.labels()
    assert tree.n_leaves == 3
    assert [leaf.reason for leaf in tree.leaves].count("identical documents") == 1
    assert len({*labels[:20]}) == len({*labels[20:35]}) == len({*labels[35:]}) == 1
    check_sound(tree, 50)


def test_empty_and_short_documents_and_empty_columns_keep_their_place():
    data = hm.datasets.hierarchical_topics(0, n_docs=60, n_words=40)
    counts = np.zeros((66, 43), int)
    rows = np.setdiff1d(np.arange(66), [0, 10, 20, 30, 40, 65])
    columns = np.setdiff1d(np.arange(43), [0, 21, 42])
    counts[np.ix_(rows, columns)] = data.counts.toarray()
    counts[10, 5], counts[20, 5], counts[30, 7], counts[30, 8] = (
        1,
        2,
        1,
        1,
    )  # documents of 1 and 2 words; 0, 40, 65 empty
    tree = hm.grow_tree(hm.Corpus.from_counts(counts), 2)
    plain = hm.grow_tree(hm.Corpus.from_counts(data.counts), 2)
    assert partition_difference(tree.labels()[rows], plain.labels()) == 0
    assert sum(leaf.n_docs for leaf in tree.leaves) == 66
    check_sound(tree, 66)


@pytest.mark.parametrize("seed", range(2))
def test_hostile_corpora_never_give_nan(seed):
    """Very short documents, one huge count, words seen once: every node finite, every document in a leaf."""
    counts = random_corpus(seed, n_docs=40, mean_length=3)
    counts[5, 3] = 10_000
    tree = hm.grow_tree(hm.Corpus.from_counts(counts), 4)
    check_sound(tree, 40)
    tree.to_json()  # refuses NaN


def test_nodes_in_groups_give_the_same_tree(monkeypatch):
    corpus = hm.Corpus.from_counts(reference(0)[0].counts)
    whole = hm.grow_tree(corpus, 3)
    monkeypatch.setattr(rounds, "_TABLE_BYTES", 2 * 100 * 2 * 40 * 4)  # tables for two nodes
    assert rounds.n_slots_for(4, 4, 100, 2, 4) == 2
    grouped = hm.grow_tree(corpus, 3)
    near = (smallest_lead(whole, corpus.counts) < NEAR_TIE).sum()
    assert (whole.labels() != grouped.labels()).sum() <= near


def test_every_node_of_a_round_equals_the_split_of_its_documents_alone(x64):
    data = reference(2)[0]
    tree = hm.grow_tree(hm.Corpus.from_counts(data.counts), 3)
    inside = tree.labels(level=1) == 1
    alone = hm.grow_tree(hm.Corpus.from_counts(data.counts[inside]), 2)
    assert partition_difference(alone.labels(), tree.labels()[inside] - tree.labels()[inside].min()) == 0


def test_sample_weight_equals_repeated_documents():
    data = hm.datasets.hierarchical_topics(3, n_docs=120)
    times = np.random.default_rng(4).integers(1, 4, 120)
    weighted = hm.grow_tree(hm.Corpus.from_counts(data.counts), 3, sample_weight=times)
    repeated = hm.grow_tree(hm.Corpus.from_counts(sp.csr_array(data.counts[np.repeat(np.arange(120), times)])), 3)
    first = np.cumsum(times) - times
    differ = weighted.labels() != repeated.labels()[first]
    assert np.all(smallest_lead(weighted, data.counts)[differ] < NEAR_TIE)
    assert [node.mass for node in weighted.nodes] == [node.n_docs for node in repeated.nodes]


def test_documents_of_weight_zero_are_only_assigned():
    data = hm.datasets.hierarchical_topics(5, n_docs=120)
    weight = np.r_[np.ones(100), np.zeros(20)]
    weighted = hm.grow_tree(hm.Corpus.from_counts(data.counts), 2, sample_weight=weight)
    fewer = hm.grow_tree(hm.Corpus.from_counts(sp.csr_array(data.counts[:100])), 2)
    differ = weighted.labels()[:100] != fewer.labels()
    assert np.all(smallest_lead(fewer, data.counts[:100])[differ] < NEAR_TIE)
    np.testing.assert_array_equal(weighted.labels()[100:], fewer.assign(hm.Corpus.from_counts(data.counts[100:])))


def test_weights_of_any_scale_give_the_same_tree():
    corpus = hm.Corpus.from_counts(reference(0)[0].counts)
    small = hm.grow_tree(corpus, 3, sample_weight=np.full(400, 1e-6))
    np.testing.assert_array_equal(small.labels(), hm.grow_tree(corpus, 3).labels())


def test_progress_bar_shows_only_when_asked_for(capsys):
    pytest.importorskip("tqdm")
    corpus = hm.Corpus.from_counts(reference(0)[0].counts)
    hm.grow_tree(corpus, 3)
    assert capsys.readouterr().err == ""
    hm.grow_tree(corpus, 3, progress=True)
    assert "splitting" in capsys.readouterr().err


SMALL = reference(0)[0].counts[:40]
BAD = [
    ({"depth": 0}, "depth must be a whole number of at least 1; got 0"),
    ({"depth": -3}, "at least 1; got -3"),
    ({"depth": True}, "got True"),
    ({"method": "paper"}, "needs depth"),
    ({"depth": 2, "method": "magic"}, "method must be one of robust, paper.*got 'magic'"),
    ({"depth": 2, "solver": "newton"}, "solver must be one of auto, grid, closed.*got 'newton'"),
    ({"depth": 2, "branching": 1}, "branching must be a whole number of at least 2; got 1"),
    ({"depth": 2, "sample_weight": np.ones(3)}, r"one weight per document \(40\); got shape \(3,\)"),
    ({"depth": 2, "sample_weight": -np.ones(40)}, "sample_weight must not be negative"),
    ({"depth": 2, "sample_weight": np.full(40, np.nan)}, "sample_weight must be finite"),
    ({"depth": 2, "sample_weight": np.zeros(40)}, "No document of positive weight has any words"),
    ({"depth": 2, "word_scale": "sqrt"}, "word_scale must be .*'inverse_sqrt'"),
    ({"depth": 2, "beta": np.nan}, "beta must be finite"),
    ({"depth": 2, "decompose": hm.population_moments, "solver": "grid"}, "solver is for decompose=sidiwo"),
    ({"depth": 2, "decompose": functools.partial(hm.sidiwo, 1)}, "options by keyword"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=lambda value: str(value)[:30])
def test_bad_options_are_refused(options, message):
    with pytest.raises(hm.InputError, match=message):
        hm.grow_tree(hm.Corpus.from_counts(SMALL), **options)


def test_corpus_without_three_words_in_a_document_is_refused():
    with pytest.raises(hm.InputError, match="3 words or more"):
        hm.grow_tree(corpus_of([1, 1, 0], [0, 2, 0], [0, 0, 0]), 2)


def test_any_method_with_the_signature_can_split():
    def by_grid(moments, rank, key=None):
        return hm.sidiwo(moments, rank, key=key, solver="grid")

    corpus = hm.Corpus.from_counts(reference(0)[0].counts)
    named = hm.grow_tree(corpus, 3, solver="grid")
    for method in (by_grid, functools.partial(hm.sidiwo, solver="grid")):
        np.testing.assert_array_equal(hm.grow_tree(corpus, 3, decompose=method).labels(), named.labels())


def test_key_is_used_and_fixed_by_default():
    corpus = hm.Corpus.from_counts(reference(0)[0].counts)
    first, second = hm.grow_tree(corpus, 3), hm.grow_tree(corpus, 3, key=jax.random.key(0))
    for mine, theirs in zip(first.nodes, second.nodes, strict=True):
        assert np.array_equal(mine.topic, theirs.topic)
