"""The baselines of the benches give the partition of the paper's algorithm as it is written down."""

import numpy as np
import pytest
import scipy.sparse as sp

import hmom_jax as hm
from bench.baselines import dense, loops, sparse_tree


@pytest.mark.parametrize("seed", [0, 1])
def test_all_baselines_agree(seed):
    counts = sp.csr_array(hm.datasets.hierarchical_topics(seed).counts)
    expected = dense.grow_labels(counts.toarray(), 2)
    np.testing.assert_array_equal(loops.grow_labels(counts.toarray(), 2), expected)
    assert hm.metrics.adjusted_rand_score(sparse_tree.grow_labels(counts, 2), expected) > 0.99
