"""Decompositions: from a moment operator to topics and weights."""

from hmom_jax.decompose.recovery import Decomposition
from hmom_jax.decompose.sidiwo import sidiwo

__all__ = ["Decomposition", "sidiwo"]
