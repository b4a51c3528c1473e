"""The hierarchy: nodes, rounds, growth."""

from hmom_jax.tree.confidence import split_confidence
from hmom_jax.tree.grow import grow_tree
from hmom_jax.tree.tree import Node, Tree

__all__ = ["Node", "Tree", "grow_tree", "split_confidence"]
