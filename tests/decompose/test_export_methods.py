"""Every method lowers for CPU, CUDA and TPU on a machine that has only the first."""

import jax
import jax.export
import pytest

import hmom_jax as hm
from bench.common import METHODS
from tests.helpers import over_leaves, random_corpus


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_lowers_for_every_platform(method, platforms):
    corpus = hm.Corpus.from_counts(random_corpus(0))
    decompose = lambda arrays, key: method(hm.single_topic_moments(arrays), 3, key=key)
    function, leaves = over_leaves(decompose, (corpus.arrays, jax.random.key(0)))
    exported = jax.export.export(function, platforms=platforms)(*leaves)
    assert exported.platforms == platforms
