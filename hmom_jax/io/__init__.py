"""Files: text and counts in, counts out, trees saved and loaded."""

from hmom_jax.io.model import load_tree, save_tree
from hmom_jax.io.read import FORMATS, read_corpus
from hmom_jax.io.to_shards import write_shards
from hmom_jax.io.write import write_counts

__all__ = ["FORMATS", "load_tree", "read_corpus", "save_tree", "write_counts", "write_shards"]
