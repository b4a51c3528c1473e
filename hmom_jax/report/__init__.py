"""Trees to look at: one page of HTML."""

from hmom_jax.report.contents import Given
from hmom_jax.report.html import static_tree, tree_page

__all__ = ["Given", "static_tree", "tree_page"]
