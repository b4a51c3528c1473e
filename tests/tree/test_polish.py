"""EM over all leaves against a plain NumPy transcription."""

import numpy as np

import hmom_jax as hm
from hmom_jax.tree.effective import Effective, burst_share
from hmom_jax.tree.polish import Labels, em


def test_em_equals_a_plain_transcription(dtype):
    data = hm.datasets.hierarchical_topics(0, n_docs=60, doc_length=40)
    corpus = hm.Corpus.from_counts(data.counts.astype(dtype))
    rng = np.random.default_rng(0)
    temper, weight = rng.uniform(0.3, 1, 60), rng.integers(0, 3, 60).astype(float)
    start = Labels(rng.integers(4, size=60), rng.uniform(size=60))
    found, mixture = em(corpus, temper, weight, start, 3, 4, prior=0.3)

    counts = temper[:, None] * data.counts.toarray()
    mean = weight @ counts / (weight @ counts).sum()
    mass = 0.3 * (weight @ counts).sum() / 4
    r = np.eye(4)[start.leaf] * start.sure[:, None]
    for _ in range(3):
        topics = counts.T @ (weight[:, None] * r) + mass * mean[:, None] + 1e-9
        topics /= topics.sum(0)
        weights = (weight[:, None] * r).sum(0) + 0.01 * weight.sum() / 4
        score = counts @ np.log(topics / (mean[:, None] + 1e-12)) + np.log(weights / weights.sum())
        r = np.exp(score - score.max(1, keepdims=True))
        r /= r.sum(1, keepdims=True)
    tolerance = 2e-3 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(np.asarray(found)[:60], r, atol=tolerance)
    np.testing.assert_allclose(np.exp(mixture.log_ratio) * mean[:, None], topics, atol=tolerance)


def test_burst_share_is_zero_for_independent_words_and_high_for_bursts():
    rng = np.random.default_rng(0)
    probability = rng.dirichlet(np.ones(50))
    independent = rng.multinomial(40, probability, size=2000)
    counts = hm.Corpus.from_counts(independent).counts
    assert abs(burst_share(counts)) < 0.05
    bursts = np.stack([rng.multinomial(40, rng.dirichlet(5 * probability + 1e-3)) for _ in range(2000)])
    bursty = hm.Corpus.from_counts(bursts).counts
    assert burst_share(bursty) > 0.5
    large = burst_share(1e10 * bursty)  # squares far beyond single precision say the same
    np.testing.assert_allclose(burst_share(np.float32(1e30) * bursty), large, rtol=1e-6)


def test_one_occurrence_stays_one_and_short_documents_keep_their_weight():
    corpus = hm.Corpus.from_counts(np.array([[1, 3, 0], [1, 0, 0]]))
    documents = Effective(bursty=True).apply(corpus)
    assert documents.corpus.counts.toarray().tolist() == [[1.0, 2.0, 0.0], [1.0, 0.0, 0.0]]
    assert documents.temper(50.0)[1] == 1.0
    assert documents.temper(None).tolist() == [1.0, 1.0]
