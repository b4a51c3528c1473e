"""Built-in corpora: the one of section 4.1 as the paper describes it, and the docstrings that every install has."""

import numpy as np
import pytest
import scipy.sparse as sp

import hmom_jax as hm


def test_section_4_1_corpus_is_as_described():
    data = hm.datasets.hierarchical_topics(0)
    assert data.counts.shape == (400, 100)
    assert np.all(data.counts.sum(axis=1) == 200)
    assert data.topics.shape == (100, 8)
    np.testing.assert_allclose(data.topics.sum(0), 1)
    np.testing.assert_allclose(data.weights.sum(), 1)
    assert data.labels.min() >= 0
    assert data.labels.max() <= 7
    high = np.zeros((100, 8), bool)
    blocks = [(0, 13), (13, 26), (26, 39), (39, 50)]
    members = [(0, 1, 2, 3), (0, 2), (0, 1), (2, 3)]
    for group in (0, 1):
        for (start, stop), topics in zip(blocks, members, strict=True):
            high[50 * group + start : 50 * group + stop, [4 * group + t for t in topics]] = True
    for topic, where in zip(data.topics.T, high.T, strict=True):
        assert topic[where].min() > 3 * topic[~where].max()  # 0.7 to 0.8 against 0.1 to 0.2
        np.testing.assert_allclose(topic[where].mean() / topic[~where].mean(), 0.75 / 0.15, rtol=0.15)


def test_same_seed_gives_the_same_corpus_and_others_differ():
    first, again, other = (hm.datasets.hierarchical_topics(seed).counts for seed in (0, 0, 1))
    assert (first != again).nnz == 0
    assert (first != other).nnz > 0


def test_other_sizes_can_be_drawn():
    data = hm.datasets.hierarchical_topics(0, n_docs=30, n_words=57, doc_length=9, n_groups=3, noise=0)
    assert data.counts.shape == (30, 57)
    assert data.topics.shape == (57, 12)
    assert np.all(data.counts.sum(axis=1) == 9)
    assert len(data.label_names) == 12
    assert len(data.vocabulary) == 57


def test_documents_follow_their_topic():
    data = hm.datasets.hierarchical_topics(0, n_docs=4000)
    inside = data.labels == np.argmax(data.weights)
    share = np.asarray(data.counts[inside].sum(axis=0)).ravel() / (200 * inside.sum())
    np.testing.assert_allclose(share, data.topics[:, np.argmax(data.weights)], atol=2e-3)
    np.testing.assert_allclose(np.bincount(data.labels, minlength=8) / 4000, data.weights, atol=0.03)


@pytest.mark.parametrize("options", [{"n_docs": 0}, {"doc_length": 0}, {"n_groups": 0}, {"n_words": 7}])
def test_impossible_sizes_are_refused(options):
    with pytest.raises(hm.InputError, match="at least"):
        hm.datasets.hierarchical_topics(0, **options)


def test_docstrings_are_a_corpus_of_some_size():
    data = hm.datasets.docstrings()
    n_docs, n_words = data.counts.shape
    assert sp.issparse(data.counts)
    assert n_docs > 1000
    assert n_words > 1000
    assert len(data.labels) == n_docs
    assert len(data.vocabulary) == n_words == len(set(data.vocabulary))
    assert set(data.labels) == set(range(len(data.label_names)))
    packages = {name.split(".")[0] for name in data.label_names}
    assert packages == {"numpy", "scipy", "jax"}
    assert {"scipy.stats", "numpy.linalg", "jax.numpy"} <= set(data.label_names)
    assert {"matrix", "distribution"} <= set(data.vocabulary)
    assert not {"the", "parameters", "returns"} & set(data.vocabulary)


def test_docstrings_are_the_same_at_every_call():
    assert hm.datasets.docstrings() is hm.datasets.docstrings()
    fresh = hm.datasets.docstrings.__wrapped__()
    data = hm.datasets.docstrings()
    assert np.array_equal(fresh.vocabulary, data.vocabulary)
    assert (fresh.counts != data.counts).nnz == 0
    assert np.array_equal(fresh.labels, data.labels)
