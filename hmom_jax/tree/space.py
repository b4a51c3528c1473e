"""Documents as points in the space of eigenvectors: how groups of them are split and added up, wherever they are."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from hmom_jax.compilation import quick_jit
from hmom_jax.corpus import Corpus, sums_by_label
from hmom_jax.parallel.mesh import MeshCorpus, local_part
from hmom_jax.parallel.stream import StreamedCorpus, pad_rows
from hmom_jax.tree.bisect import (
    SETTLED,
    SLOTS,
    TWO_MEANS_STEPS,
    between,
    blocks_of,
    gains,
    gather_points,
    leaning,
    principal,
    side_sums,
    slot_sums,
    two_means,
)

_FEW_DOCS = 1 << 13  # up to so many a look costs less than a compilation


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
        """Split up to ``SLOTS`` groups in two; returns how far documents lean to a side, -1 to 1, and the gains."""
        room = len(self.z)  # with padding: fewer distinct shapes
        if room > _FEW_DOCS and 3 * sum(map(len, groups)) <= room:
            room //= 3  # many looks are at few documents: a third less work in all, for one more compilation
        layout = blocks_of(groups, room, SLOTS)
        lean, gain = two_means(self.z, *layout.arrays(weights), n_slots=SLOTS)
        lean = np.asarray(lean).ravel()
        return [lean[place] for place in layout.place], np.asarray(gain)

    def label_sums(self, labels: np.ndarray, weights: np.ndarray, n_labels: int) -> np.ndarray:
        """Add up the points of each label."""
        return self.add_up(sums_by_label(labels, weights, n_labels, self.corpus.fetch(self.z)))


class MeshSpace(Space):
    """Points over a mesh of devices: blocks are laid out on each device for its own documents."""

    corpus: MeshCorpus

    def __init__(self, corpus: MeshCorpus, z):
        super().__init__(corpus, z)
        self.by_part = z.reshape(corpus.mesh.size, corpus.part_rows, -1)

    def split(self, groups: list[np.ndarray], weights: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Split up to ``SLOTS`` groups of this process's documents in two, with those of other processes."""
        corpus, layouts = self.corpus, []
        edges = [np.searchsorted(docs, corpus.bounds) for docs in groups]
        for part, first in enumerate(corpus.bounds[:-1]):
            inside = [docs[e[part] : e[part + 1]] - first for docs, e in zip(groups, edges, strict=True)]
            layout = blocks_of(inside, corpus.part_rows, SLOTS)
            layouts.append((layout, layout.arrays(weights[first:])))
        stacked = corpus.place(tuple(np.stack(leaves) for leaves in zip(*[a for _, a in layouts], strict=True)))
        lean, gain = two_means(self.by_part, *stacked, n_slots=SLOTS)
        lean = local_part(lean)
        if lean.size != sum(layout.index.size for layout, _ in layouts):  # then they are not of these documents alone
            raise AssertionError("the compiler has left the sides of the documents on other devices")
        lean = lean.reshape(len(layouts), -1)
        leans = [
            np.concatenate([lean[part, layout.place[slot]] for part, (layout, _) in enumerate(layouts)])
            for slot in range(len(groups))
        ]
        return leans, corpus.gather(np.asarray(gain))[0]  # no process may come to another order


class StreamedSpace(Space):
    """Points in a file: passes go over the documents of a shard at a time."""

    corpus: StreamedCorpus

    def split(self, groups: list[np.ndarray], weights: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Split up to ``SLOTS`` groups of documents in two, by the steps of :func:`two_means`."""
        bounds = self.corpus.bounds
        edges = [np.searchsorted(docs, bounds) for docs in groups]
        parts = []
        for part, first in enumerate(bounds[:-1]):
            inside = [docs[e[part] : e[part + 1]] - first for docs, e in zip(groups, edges, strict=True)]
            if any(map(len, inside)):
                parts.append((part, blocks_of(inside, self.corpus.part_rows, SLOTS)))
        laid_out = lambda part, layout: layout.arrays(weights[bounds[part] :])
        sums = None
        for part, layout in parts:
            here = _slot_sums(self._points(part), *laid_out(part, layout))
            sums = here if sums is None else jax.tree.map(np.add, sums, here)
        where = _principal(sums)
        chosen = [None] * len(parts)
        for _ in range(TWO_MEANS_STEPS + 1):
            first, changed = 0.0, False
            for number, (part, layout) in enumerate(parts):
                lean, sum_here = _take_sides(self._points(part), *laid_out(part, layout), *where)
                lean, first = np.asarray(lean).ravel(), first + np.asarray(sum_here)
                changed |= chosen[number] is None or bool((np.abs(lean - chosen[number]) > SETTLED).any())
                chosen[number] = lean
            if not changed:
                break
            where = _between(first, np.asarray(sums.total))
        found = [
            np.concatenate([lean[layout.place[slot]] for lean, (_, layout) in zip(chosen, parts, strict=True)])
            for slot in range(len(groups))
        ]
        return found, np.asarray(_gains(first, np.asarray(sums.total)))

    def _points(self, part: int) -> np.ndarray:
        first, last = self.corpus.bounds[part : part + 2]
        return pad_rows(self.z[first:last], self.corpus.part_rows, self.z.dtype)

    def label_sums(self, labels: np.ndarray, weights: np.ndarray, n_labels: int) -> np.ndarray:
        """Add up the points of each label."""
        total = np.zeros((n_labels, self.z.shape[1]))
        for first, last in pairwise(self.corpus.bounds):
            total += sums_by_label(labels[first:last], weights[first:last], n_labels, self.z[first:last])
        return total


@quick_jit
def _slot_sums(z, index, weight, slot):
    return slot_sums(gather_points(jnp.asarray(z), index, weight, slot, SLOTS))


@quick_jit
def _take_sides(z, index, weight, slot, direction, shift):
    points = gather_points(jnp.asarray(z), index, weight, slot, SLOTS)
    lean = leaning(points, direction, shift)
    return lean, side_sums(points, lean)


_principal, _between, _gains = quick_jit(principal), quick_jit(between), quick_jit(gains)
_SPACES = {MeshCorpus: MeshSpace, StreamedCorpus: StreamedSpace}


def space_of(corpus: Corpus, z) -> Space:
    """Return the space that fits where the corpus lies."""
    return _SPACES.get(type(corpus), Space)(corpus, z)
