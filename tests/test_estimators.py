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
