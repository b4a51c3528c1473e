r"""Sparse rows for accelerators: pieces cut into *sections* of a few million entries.

The pieces are those of :mod:`hmom_jax.sparse`. Each section is folded down to its rows before the next begins: what
lies between the kernels stays small, whatever the size of the corpus.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hmom_jax.pytree import pytree
from hmom_jax.rows import Rows, row_lengths, take_rows

# Entries of a section: an accelerator wants sections that are long beside the launch of a kernel, with few temporaries
# (bench/gpu.py).
_BLOCK_ACCELERATOR = 1 << 22
# How many more rows than the average a section may touch: more rows are more traffic, fewer are more sections.
_ROWS_PER_SECTION = 4
# Entries that one thread of an accelerator may sum one after the other.
_MOST_IN_TURN = 512


@pytree
@dataclass(frozen=True)
class SectionedRows(Rows):
    """Rows of a sparse matrix, cut into pieces that are folded section by section.

    Entry q of all pieces of a section is contiguous, and positions count from the beginning of the section.

    Attributes
    ----------
    index, count, row
        As :class:`~hmom_jax.rows.Rows` says.
    folds
        For each further level, which pieces of the level before are summed.
    final
        Where the sum of each row that a section touches stands among its pieces of all levels, laid end to end.
    first
        The row at which the sums of each section are added.
    n_rows
        Number of rows, padding included.
    """

    index: Int[Array, "sections width pieces"] | np.ndarray
    count: Float[Array, "sections width pieces"] | np.ndarray
    row: Int[Array, "sections pieces"] | np.ndarray
    folds: tuple[Int[Array, "_ _ _"] | np.ndarray, ...]
    final: Int[Array, "sections rows"] | np.ndarray
    first: Int[Array, " sections"] | np.ndarray
    n_rows: int = field(metadata={"static": True})

    def times(self, table):
        """Multiply with a table, adding the sums of each section to the rows that it touches."""

        def sums(index, count, folds, final):
            # A sum, not an einsum: XLA fuses it with the gather, where a batched product would write all lanes out. It
            # also merges levels, which saves their traffic but leaves a long row to one thread: hence the barriers.
            levels = [(count[..., None] * take_rows(table, index)).sum(0)]
            in_turn = len(index)
            for fold in folds:
                in_turn *= len(fold)
                if in_turn > _MOST_IN_TURN:
                    levels[-1] = jax.lax.optimization_barrier(levels[-1])
                    in_turn = len(fold)
                levels.append(take_rows(levels[-1], fold).sum(0))
            stacked = jnp.concatenate(levels) if len(levels) > 1 else levels[0]
            return take_rows(stacked, final)

        def step(total, section):
            first, parts = section
            here = sums(*parts)
            window = jax.lax.dynamic_slice_in_dim(total, first, len(here))
            return jax.lax.dynamic_update_slice_in_dim(total, window + here, first, axis=0), None

        parts = jax.tree.map(jnp.asarray, (self.index, self.count, self.folds, self.final))
        if len(self.first) == 1:
            return sums(*jax.tree.map(lambda leaf: leaf[0], parts))
        total = jnp.zeros((self.n_rows, table.shape[1]), jnp.result_type(self.count, table))
        return jax.lax.scan(step, total, (jnp.asarray(self.first), parts))[0]


class SectionShape(NamedTuple):
    """Entries per piece, pieces per fold, sections, rows that each may touch, and its pieces at each level."""

    width: int
    fold: int
    sections: int
    rows: int
    levels: tuple[int, ...]


def section_shape(n_rows: int, *, capacity: int, longest: int) -> SectionShape:
    """Choose the shapes of a layout in sections from its bounds alone.

    Pieces are as wide as a quarter of the average row, so that padding stays below a quarter of the entries; folds
    take the pieces of an average row at once.

    Examples
    --------
    >>> section_shape(100, capacity=10_000, longest=50)
    SectionShape(width=16, fold=8, sections=1, rows=100, levels=(726, 191))
    """
    width = next((w for w in (64, 32, 16, 8) if 4 * w * n_rows <= capacity), 4)
    total = capacity // width + n_rows
    fold = min(64, max(4, 1 << (total // n_rows - 1).bit_length()))
    sections = -(-total // max(_BLOCK_ACCELERATOR // width, 1))
    pieces = -(-total // sections) + 1  # the last stays empty: it sums to zero
    rows = min(n_rows, max(1, _ROWS_PER_SECTION * n_rows // sections))
    sections += (n_rows - 1) // rows  # some may run out of rows before they are full
    levels, reach = [pieces], 1
    while reach < min(pieces - 1, -(-longest // width)):
        levels.append(pieces // (reach * fold) + min(rows, pieces // (reach + 1)) + 1)
        reach *= fold
    return SectionShape(width, fold, sections, rows, tuple(levels))


def section_rows(indptr, index, count, *, capacity: int, longest: int, dtype) -> SectionedRows:
    """Lay out compressed sparse rows in sections; arguments as for :func:`~hmom_jax.sparse.fold_rows`."""
    n_rows = len(indptr) - 1
    shape = section_shape(n_rows, capacity=capacity, longest=longest)
    width, lanes, n_sections, n_window, (n_pieces, *fold_sizes) = shape
    lengths = row_lengths(indptr, capacity=capacity, longest=longest)
    pieces = -(-lengths // width)
    row = np.repeat(np.arange(n_rows, dtype=np.int32), pieces)

    cuts = [0]
    while cuts[-1] < len(row):
        beyond = np.searchsorted(row, row[cuts[-1]] + n_window)
        cuts.append(min(cuts[-1] + n_pieces - 1, int(beyond)))
    sizes = np.diff(cuts)
    if len(sizes) > n_sections:
        raise AssertionError("the rows need more sections than their bounds say")
    section = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(row)) - np.repeat(np.array(cuts[:-1], int), sizes)  # within the section
    first = np.zeros(n_sections, np.int32)
    first[: len(sizes)] = np.minimum(row[cuts[:-1]], n_rows - n_window)

    flat = section * n_pieces + place
    within = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
    at = flat[np.repeat(np.cumsum(pieces) - pieces, lengths) + within // width] * width + within % width
    level_index = np.zeros(n_sections * n_pieces * width, np.int32)
    level_count = np.zeros(level_index.size, dtype)
    level_index[at], level_count[at] = index, count
    of_piece = np.zeros(n_sections * n_pieces, np.int32)
    of_piece[flat] = row

    # A run is what one section holds of one row; runs are folded as rows are, but within their section.
    new = np.ones(len(row), bool)
    new[1:] = (row[1:] != row[:-1]) | (section[1:] != section[:-1])
    begin = np.flatnonzero(new)
    pieces, start, section = np.diff(begin, append=len(row)), place[begin], section[begin]
    target = section * n_window + row[begin] - first[section]  # where its sum belongs
    final = np.full(n_sections * n_window, n_pieces - 1, np.int32)
    final[target] = start
    base, zero_piece, folds = n_pieces, n_pieces - 1, []
    for size in fold_sizes:
        active = pieces > 1
        lengths, start, section, target = pieces[active], start[active], section[active], target[active]
        pieces = -(-lengths // lanes)
        before = np.cumsum(pieces) - pieces
        fresh = np.ones(len(section), bool)
        fresh[1:] = section[1:] != section[:-1]
        new_start = before - np.maximum.accumulate(np.where(fresh, before, 0))
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        fold = np.full(n_sections * size * lanes, zero_piece, np.int32)
        fold[np.repeat((section * size + new_start) * lanes, lengths) + within] = np.repeat(start, lengths) + within
        folds.append(_by_lane(fold, (n_sections, size), lanes))
        final[target] = base + new_start
        base, zero_piece, start = base + size, size - 1, new_start
    return SectionedRows(
        index=_by_lane(level_index, (n_sections, n_pieces), width),
        count=_by_lane(level_count, (n_sections, n_pieces), width),
        row=of_piece.reshape(n_sections, n_pieces),
        folds=tuple(folds),
        final=final.reshape(n_sections, n_window),
        n_rows=n_rows,
        first=first,
    )


def _by_lane(flat, shape, width):
    """Reorder piece-major entries so that entry q of all pieces of a block is contiguous."""
    return np.ascontiguousarray(flat.reshape(*shape, width).transpose(0, 2, 1))
