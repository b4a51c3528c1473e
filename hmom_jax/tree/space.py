"""Documents as points in the space of eigenvectors: how groups of them are split and added up, wherever they are."""

import numpy as np

from hmom_jax.corpus import Corpus, sums_by_label
from hmom_jax.parallel.mesh import MeshCorpus, local_part
from hmom_jax.tree.bisect import SLOTS, blocks_of, two_means


class Space:
    """Points on one device; the numbers of documents are those of a corpus.

    Parameters
    ----------
    corpus
        The documents.
    z
        Unit vectors, one row per document, and padding.
    """

    def __init__(self, corpus: Corpus, z):
        self.corpus, self.z = corpus, z

    def add_up(self, values):
        """Add up what every process holds."""
        return self.corpus.add_up(values)

    def split(self, groups: list[np.ndarray], weights: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Split up to ``SLOTS`` groups of documents in two; returns the side of each document, and the gains."""
        layout = blocks_of(groups, len(self.z), SLOTS)  # z has padding: fewer distinct shapes
        side, gain = two_means(self.z, *layout.arrays(weights), n_slots=SLOTS)
        side = np.asarray(side).ravel()
        return [side[place] for place in layout.place], np.asarray(gain)

    def label_sums(self, labels: np.ndarray, weights: np.ndarray, n_labels: int) -> np.ndarray:
        """Add up the points of each label."""
        return self.add_up(sums_by_label(labels, weights, n_labels, self.corpus.fetch(self.z)))


class MeshSpace(Space):
    """Points over a mesh of devices: blocks are laid out on each device for its own documents."""

    corpus: MeshCorpus

    def split(self, groups: list[np.ndarray], weights: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Split up to ``SLOTS`` groups of this process's documents in two, with those of other processes."""
        corpus, layouts = self.corpus, []
        edges = [np.searchsorted(docs, corpus.bounds) for docs in groups]
        for part, first in enumerate(corpus.bounds[:-1]):
            inside = [docs[e[part] : e[part + 1]] - first for docs, e in zip(groups, edges, strict=True)]
            layout = blocks_of(inside, corpus.part_rows, SLOTS)
            layouts.append((layout, layout.arrays(weights[first:])))
        stacked = corpus.place(tuple(np.stack(leaves) for leaves in zip(*[a for _, a in layouts], strict=True)))
        z = self.z.reshape(corpus.mesh.size, corpus.part_rows, -1)
        side, gain = two_means(z, *stacked, n_slots=SLOTS)
        side = local_part(side).reshape(len(layouts), -1)
        sides = [
            np.concatenate([side[part, layout.place[slot]] for part, (layout, _) in enumerate(layouts)])
            for slot in range(len(groups))
        ]
        return sides, corpus.gather(np.asarray(gain))[0]  # no process may come to another order


def space_of(corpus: Corpus, z) -> Space:
    """Return the space that fits where the corpus lies."""
    return (MeshSpace if isinstance(corpus, MeshCorpus) else Space)(corpus, z)
