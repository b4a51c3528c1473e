"""Hierarchical method of moments: topic trees from word counts, in JAX."""

from hmom_jax import datasets
from hmom_jax.cluster import Clustering, cluster
from hmom_jax.corpus import Corpus, CorpusArrays, put_counts
from hmom_jax.decompose import (
    Decomposition,
    random_projection,
    sidiwo,
    svd_method,
    tensor_power,
    whitened_als,
)
from hmom_jax.errors import InputError
from hmom_jax.io import load_tree, read_corpus, write_shards
from hmom_jax.models import population_moments, single_topic_moments
from hmom_jax.simplex import project_simplex
from hmom_jax.tree import Node, SoftTree, Tree, grow_tree, soft_assign, soft_tree, split_confidence
from hmom_jax.whitening import Whitening, whiten

from hmom_jax import metrics  # isort: skip  (needs the tree)

__version__ = "0.1.0"

__all__ = [
    "Clustering",
    "Corpus",
    "CorpusArrays",
    "Decomposition",
    "InputError",
    "Node",
    "SoftTree",
    "Tree",
    "Whitening",
    "cluster",
    "datasets",
    "grow_tree",
    "load_tree",
    "metrics",
    "population_moments",
    "project_simplex",
    "put_counts",
    "random_projection",
    "read_corpus",
    "sidiwo",
    "single_topic_moments",
    "soft_assign",
    "soft_tree",
    "split_confidence",
    "svd_method",
    "tensor_power",
    "whiten",
    "whitened_als",
    "write_shards",
]

_ESTIMATORS = ("HierarchicalTopicModel", "SpectralTopicModel")


def __getattr__(name: str):
    if name in _ESTIMATORS:  # scikit-learn is an extra, and slow to import
        from hmom_jax import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
