"""Merging back, and the evidence for a number of leaves."""

import numpy as np
from scipy.special import gammaln

from hmom_jax.tree.merge import cut_merges, evidence_path, merge_order


def test_greedy_merges_equal_a_plain_search():
    rng = np.random.default_rng(0)
    sums = rng.random((9, 4))
    clusters, expected = {i: v for i, v in enumerate(sums)}, []
    norm = np.linalg.norm
    while len(clusters) > 1:
        pairs = [
            (norm(v) + norm(w) - norm(v + w), a, b) for a, v in clusters.items() for b, w in clusters.items() if a < b
        ]
        _, a, b = min(pairs)
        clusters[a] = clusters[a] + clusters.pop(b)
        expected.append((a, b))
    assert merge_order(sums) == expected


def test_a_cut_keeps_the_merges_that_follow():
    order = [(0, 2), (1, 3), (0, 1)]
    leaf, merges = cut_merges(order, 4, 2)
    assert leaf.tolist() == [0, 1, 0, 1]
    assert merges == [(0, 1)]
    assert cut_merges(order, 4, 4)[0].tolist() == [0, 1, 2, 3]


def test_evidence_is_the_dirichlet_multinomial_likelihood():
    rng = np.random.default_rng(1)
    counts, docs = rng.integers(0, 20, (3, 5)).astype(float), np.array([4, 3, 5])
    mean, mass = np.full(5, 0.2), 7.0
    path = evidence_path(counts, docs, [(0, 1), (0, 2)], mass, mean)

    def direct(groups):
        value = -12 * np.log(12) - 0.5 * len(groups) * np.log(12)
        for group in groups:
            c, n = counts[group].sum(0), docs[group].sum()
            a = mass * mean
            value += gammaln(mass) - gammaln(mass + c.sum()) + (gammaln(a + c) - gammaln(a)).sum()
            value += n * np.log(n) - (c * np.log(mean)).sum()
        return value

    expected = [direct([[0], [1], [2]]), direct([[0, 1], [2]]), direct([[0, 1, 2]])]
    np.testing.assert_allclose(path, expected, rtol=1e-6)
