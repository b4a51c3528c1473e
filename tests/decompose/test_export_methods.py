"""Every method lowers for CPU, CUDA and TPU on a machine that has only the first."""

import jax
import jax.export
import pytest

import hmom_jax as hm
from tests.helpers import METHODS, random_corpus


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_lowers_for_every_platform(method):
    corpus = hm.Corpus.from_counts(random_corpus(0))

    def decompose(arrays, key):
        return jax.tree.leaves(method(hm.single_topic_moments(arrays), 3, key=key))

    exported = jax.export.export(jax.jit(decompose), platforms=("cpu", "cuda", "tpu"))(corpus.arrays, jax.random.key(0))
    assert exported.platforms == ("cpu", "cuda", "tpu")
