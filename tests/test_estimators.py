"""Estimators: scikit-learn's own battery, and what they promise beyond it."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

import hmom_jax as hm

_NOT_COUNTS = "standardises Gaussian blobs, and counts are never negative"
_TOO_SHORT = "its documents have fewer than three words, and the third moment needs three"
_BY_DOCUMENT = "min_leaf and the test for bursts count documents, whatever their weights"
_EXEMPT = {
    "HierarchicalTopicModel": {
        "check_clustering": _NOT_COUNTS,
        "check_sample_weight_equivalence_on_dense_data": _BY_DOCUMENT,
        "check_sample_weight_equivalence_on_sparse_data": _BY_DOCUMENT,
    },
    "SpectralTopicModel": {
        "check_clustering": _NOT_COUNTS,
        "check_fit_score_takes_y": _TOO_SHORT,
        "check_sample_weights_list": _TOO_SHORT,
        "check_estimators_nan_inf": _TOO_SHORT,
        "check_fit2d_1feature": _TOO_SHORT,
        "check_estimator_sparse_tag": _TOO_SHORT,
        "check_estimator_sparse_array": _TOO_SHORT,
        "check_estimator_sparse_matrix": _TOO_SHORT,
    },
}


@pytest.mark.filterwarnings("ignore:The documents bear")
@parametrize_with_checks(
    [hm.HierarchicalTopicModel(n_leaves=3), hm.SpectralTopicModel(n_components=2)],
    expected_failed_checks=lambda estimator: _EXEMPT.get(type(estimator).__name__, {}),
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


DATA = hm.datasets.hierarchical_topics(seed=2)


@pytest.fixture(scope="module", params=["tree", "paper", "flat"])
def fitted(request):
    model = {
        "tree": hm.HierarchicalTopicModel(n_leaves=8),
        "paper": hm.HierarchicalTopicModel(depth=3, method="paper"),
        "flat": hm.SpectralTopicModel(n_components=2),
    }[request.param]
    return model.fit(DATA.counts)


def test_labels_probabilities_and_topics_agree(fitted):
    probability = fitted.transform(DATA.counts)
    k = len(fitted.components_)
    assert probability.shape == (400, k)
    np.testing.assert_allclose(probability.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(fitted.components_.sum(1), 1, atol=1e-4)
    np.testing.assert_array_equal(fitted.predict(DATA.counts), fitted.labels_)
    assert (probability.argmax(1) == fitted.labels_).mean() > 0.98  # the paper's tree decides on the way down
    names = fitted.get_feature_names_out().tolist()
    assert names == [f"{type(fitted).__name__.lower()}{i}" for i in range(k)]


def test_score_is_the_log_likelihood_per_word(fitted):
    if hasattr(fitted, "weights_"):
        topics, weights = fitted.components_, fitted.weights_
    elif fitted.tree_.model is not None:
        topics, weights = fitted.tree_.model.topics()
        topics = topics.T
    else:
        leaves = fitted.tree_.leaves
        topics, weights = fitted.components_, []
        for leaf in leaves:
            weight, node = 1.0, leaf
            while node.parent is not None:
                parent = fitted.tree_.nodes[node.parent]
                weight *= node.weight / sum(fitted.tree_.nodes[child].weight for child in parent.children)
                node = parent
            weights.append(weight)
    topics = np.maximum(topics.astype(float), 1e-6)
    topics /= topics.sum(1, keepdims=True)
    scores = DATA.counts.toarray() @ np.log(topics.T) + np.log(weights)
    expected = np.logaddexp.reduce(scores, axis=1).sum() / DATA.counts.sum()
    assert fitted.score(DATA.counts) == pytest.approx(expected, rel=1e-5)
    best = (DATA.topics * np.log(DATA.topics)).sum(0) @ DATA.weights  # no model predicts better, up to chance
    assert best - 0.5 < fitted.score(DATA.counts) < best + 0.1


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_matrix])
def test_all_sparse_kinds_give_the_dense_result(fitted, kind):
    np.testing.assert_array_equal(fitted.transform(kind(DATA.counts)), fitted.transform(DATA.counts.toarray()))


def test_a_word_that_training_never_saw_costs_but_does_not_forbid(fitted):
    unseen = DATA.counts.toarray()
    unseen[:, 0] = 0
    model = fitted.__class__(**fitted.get_params()).fit(unseen)
    odd = np.zeros((1, 100))
    odd[0, [0, 30]] = 5
    assert np.isfinite(model.score(odd))
    assert model.score(odd) < fitted.score(odd)


def test_pickles_give_the_same_answers(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(DATA.counts), fitted.transform(DATA.counts))
    assert again.score(DATA.counts) == fitted.score(DATA.counts)


def test_pipeline_after_counting_words_with_names_and_frames():
    pandas = pytest.importorskip("pandas")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline

    texts = ["cat mat sat", "dog log bog", "cat sat dog", "mat cat mat", "bog dog dog"] * 8
    tree = hm.HierarchicalTopicModel(n_leaves=2).set_output(transform="pandas")
    model = make_pipeline(CountVectorizer(), tree)
    frame = model.fit_transform(texts)
    assert isinstance(frame, pandas.DataFrame)
    assert frame.columns.tolist() == ["hierarchicaltopicmodel0", "hierarchicaltopicmodel1"]
    counts = pandas.DataFrame(model[0].transform(texts).toarray(), columns=model[0].get_feature_names_out())
    named = hm.HierarchicalTopicModel(n_leaves=2).fit(counts)
    assert named.feature_names_in_.tolist() == ["bog", "cat", "dog", "log", "mat", "sat"]
    assert named.tree_.vocabulary.tolist() == named.feature_names_in_.tolist()


def test_weights_stand_for_copies_in_the_flat_model():
    counts = DATA.counts.toarray()[:200]
    weights = np.random.default_rng(0).integers(0, 3, 200)
    weighted = hm.SpectralTopicModel(2).fit(counts, sample_weight=weights)
    copied = hm.SpectralTopicModel(2).fit(np.repeat(counts, weights, axis=0))
    np.testing.assert_allclose(weighted.components_, copied.components_, atol=2e-3)


def test_all_methods_fit_and_wrong_options_are_told():
    for method in ("tensor_power", "svd_method", "whitened_als", "random_projection"):
        assert hm.SpectralTopicModel(2, method=method).fit(DATA.counts).components_.shape == (2, 100)
    for model in (
        hm.SpectralTopicModel(method="magic"),
        hm.SpectralTopicModel(101),
        hm.HierarchicalTopicModel(method="magic"),
        hm.HierarchicalTopicModel(depth=2, n_leaves=4),
        hm.HierarchicalTopicModel(method="paper"),
    ):
        with pytest.raises(ValueError, match=r"must be one of|n_features|not both|needs depth"):
            model.fit(DATA.counts)


def test_random_state_takes_what_scikit_learn_takes():
    first = hm.HierarchicalTopicModel(n_leaves=4, random_state=np.random.RandomState(3)).fit(DATA.counts)
    second = hm.HierarchicalTopicModel(n_leaves=4, random_state=np.random.RandomState(3)).fit(DATA.counts)
    np.testing.assert_array_equal(first.components_, second.components_)
    assert hm.HierarchicalTopicModel(n_leaves=4, random_state=None).fit(DATA.counts).n_leaves_ == 4


@pytest.mark.parametrize(
    "options", [{"n_leaves": 6}, {}, {"depth": 2, "method": "paper"}], ids=["robust", "auto", "paper"]
)
def test_folds_of_a_cross_validation_share_one_compilation(options):
    from sklearn.model_selection import cross_val_score

    from tests.test_compilation import compilations

    rng = np.random.default_rng(0)
    order = rng.permutation(400)[:390]  # a size of its own, so that nothing is compiled yet
    counts = sp.csr_array(DATA.counts[order])
    folds = [(np.delete(np.arange(390), part), part) for part in np.array_split(np.arange(390), 3)]
    model = hm.HierarchicalTopicModel(**options)
    with compilations() as first:
        scores = cross_val_score(model, counts, cv=folds[:1])
    with compilations() as others:
        scores = np.concatenate([scores, cross_val_score(model, counts, cv=folds[1:])])
    assert len(first) > 0
    assert others == []
    assert np.ptp(scores) < 0.1


def test_grid_search_over_the_number_of_leaves():
    from sklearn.model_selection import GridSearchCV

    search = GridSearchCV(hm.HierarchicalTopicModel(), {"n_leaves": [2, 8]}, cv=2).fit(DATA.counts)
    assert search.best_params_ == {"n_leaves": 8}


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "hmom_jax.estimators")
    monkeypatch.delattr(hm, "estimators", raising=False)
    with pytest.raises(ImportError, match=r"hmom-jax\[sklearn\]"):
        _ = hm.HierarchicalTopicModel
    with pytest.raises(AttributeError, match="no attribute"):
        _ = hm.NoSuchModel
