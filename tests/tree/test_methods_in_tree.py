"""Trees with any method and any branching."""

from functools import partial

import numpy as np
import pytest

import hmom_jax as hm
from bench.common import METHODS
from hmom_jax.metrics import adjusted_rand_score


@pytest.fixture(scope="module")
def nine_topics():
    """Return a corpus of three groups of three topics that share half their words."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(9), 40))
    topics = np.zeros((9, 48))
    for topic in range(9):
        group = topic // 3
        topics[topic, 16 * group : 16 * group + 7] = 1
        topics[topic, 16 * group + 7 + 3 * (topic % 3) : 16 * group + 10 + 3 * (topic % 3)] = 2
    topics /= topics.sum(1, keepdims=True)
    return hm.Corpus.from_counts(np.array([rng.multinomial(60, topics[label]) for label in labels])), labels


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_three_way_splits(method, nine_topics):
    corpus, truth = nine_topics
    tree = hm.grow_tree(corpus, depth=2, decompose=method, branching=3)
    assert adjusted_rand_score(truth // 3, tree.labels(level=1)) == 1
    assert tree.n_leaves == 9
    assert adjusted_rand_score(truth, tree.labels()) > 0.9
    np.testing.assert_array_equal(tree.assign(corpus), tree.labels())
    again = hm.grow_tree(corpus, depth=2, decompose=method, branching=3)
    np.testing.assert_array_equal(again.labels(), tree.labels())


def test_options_of_a_method_by_partial(nine_topics):
    corpus, truth = nine_topics
    tree = hm.grow_tree(corpus, depth=1, decompose=partial(hm.tensor_power, n_restarts=5), branching=3)
    assert adjusted_rand_score(truth // 3, tree.labels()) == 1


def test_solvers_for_two_children_are_refused_for_three(nine_topics):
    with pytest.raises(hm.InputError, match="is for rank 2; got rank 3"):
        hm.grow_tree(nine_topics[0], depth=1, solver="grid", branching=3)
