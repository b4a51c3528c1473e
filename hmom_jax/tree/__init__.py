"""The hierarchy: nodes, rounds, growth."""

from hmom_jax.tree.confidence import split_confidence
from hmom_jax.tree.grow import grow_tree
from hmom_jax.tree.soft import SoftTree, soft_assign, soft_tree
from hmom_jax.tree.tree import Node, Tree

__all__ = ["Node", "SoftTree", "Tree", "grow_tree", "soft_assign", "soft_tree", "split_confidence"]
