"""Decompositions: from a moment operator to topics and weights."""

from hmom_jax.decompose.als import whitened_als
from hmom_jax.decompose.power import tensor_power
from hmom_jax.decompose.random_projection import random_projection
from hmom_jax.decompose.recovery import Decomposition
from hmom_jax.decompose.sidiwo import sidiwo
from hmom_jax.decompose.svd import svd_method

__all__ = ["Decomposition", "random_projection", "sidiwo", "svd_method", "tensor_power", "whitened_als"]
