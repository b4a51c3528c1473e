r"""Sparse rows for accelerators, in two buckets: the first entries of every row, and what longer rows have beside them.

*Heads*, the first entries of each row, are summed straight into the result. What is left of longer rows is cut into
*rests*, often wider ones; their sums are folded until each long row has one, and gathered into the result. A bucket is
one kernel, and so is every fold; what lies between them is small, as few rows are long.

Where the rows at hand may decide, widths are such that the sums of rests stay below a tenth of the counts, also with
many columns, at the least padding; where bounds alone decide, there can be more of both. Sums are nested, eight entries
at a time: XLA makes a loop of each thread of a sum that short. The products of a longer one it writes out, many times
the counts.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hmom_jax.pytree import pytree
from hmom_jax.rows import Rows, chunks_of_rows, fold_runs, geometric, row_lengths, take_rows, to_entries

_WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
_FOLD = 16
# Sums of rests may take this share of the counts with that many columns of single precision.
_SHARE, _COLUMNS = 0.1, 64


@pytree
@dataclass(frozen=True)
class BucketRows(Rows):
    """Rows of a sparse matrix as heads and rests; what has no rests has no folds either.

    Attributes
    ----------
    index, count, row
        As :class:`~hmom_jax.rows.Rows` says, for each bucket; the entries of a piece along several axes, by which they
        are summed.
    folds
        For each further level, which pieces of the level before are summed.
    final
        Where the rests of each row stand in the last level; None without rests.
    n_rows
        Number of rows, padding included.
    """

    index: tuple[Int[Array, "_ ..."] | np.ndarray, ...]
    count: tuple[Float[Array, "_ ..."] | np.ndarray, ...]
    row: tuple[Int[Array, " _"] | np.ndarray, ...]
    folds: tuple[Int[Array, "_ _"] | np.ndarray, ...]
    final: Int[Array, " rows"] | np.ndarray | None
    n_rows: int = field(metadata={"static": True})

    def times(self, table):
        """Multiply with a table; see :func:`~hmom_jax.sparse.product`."""
        heads, *rests = (_sum_pieces(*bucket, table) for bucket in zip(self.index, self.count, self.row, strict=True))
        for level in rests:
            # Without barriers the next level would compute each sum as often as it reads it.
            level = jax.lax.optimization_barrier(level)
            for fold in map(jnp.asarray, self.folds):
                level = jax.lax.optimization_barrier(take_rows(level, fold).sum(1))
            heads = heads + take_rows(level, jnp.asarray(self.final))
        return heads


def _sum_pieces(index, count, row, table):
    """Sum the entries of each piece, from the last axis to the first."""
    sums = (jnp.asarray(count)[..., None] * take_rows(table, jnp.asarray(index))).sum(-2)
    always = jnp.asarray(row) >= 0  # XLA, which does not know, would make one long sum of two
    while sums.ndim > 2:
        sums = jnp.where(to_entries(always, sums), sums, 0.0).sum(-2)
    return sums


class BucketShape(NamedTuple):
    """Entries of a head and of a rest, how many rests there may be, and pieces at each further level."""

    head: int
    rest: int
    n_rests: int
    folds: tuple[int, ...]


def bucket_shape(n_rows: int, *, capacity: int, longest: int, lengths: np.ndarray | None = None) -> BucketShape:
    """Choose the shapes of a layout, from its bounds alone or, with ``lengths``, as these rows need it.

    The last piece of each level stays empty: it sums to zero.

    Examples
    --------
    >>> bucket_shape(100, capacity=10_000, longest=50)  # no longer than a head
    BucketShape(head=64, rest=0, n_rests=0, folds=())
    >>> bucket_shape(100, capacity=10_000, longest=5000)
    BucketShape(head=128, rest=128, n_rests=79, folds=(82, 83))
    >>> lengths = np.repeat([20, 5000], [99, 1])
    >>> bucket_shape(100, capacity=10_000, longest=5000, lengths=lengths)
    BucketShape(head=24, rest=384, n_rests=15, folds=(65,))
    """
    if lengths is None:
        average = -(-capacity // n_rows)
        head = next((width for width in _WIDTHS if width >= min(average, longest)), _WIDTHS[-1])
        most = min(n_rows, capacity // (head + 1))  # rows that can be longer
        if longest <= head:
            return BucketShape(head, 0, 0, ())
        sizes = [capacity // head]  # enough: a row with so many pieces beside its head has more entries than they
        for _ in range(_n_folds(longest - head, head)):
            sizes.append(sizes[-1] // _FOLD + most)
        n_rests, *folds = (size + 1 for size in sizes)
        return BucketShape(head, head, n_rests, tuple(folds))

    times = np.bincount(lengths)
    values = np.flatnonzero(times)
    times = times[values]
    found = []
    for head in _WIDTHS:
        if longest <= head:
            found.append((n_rows * head, BucketShape(head, 0, 0, ())))
            break
        for rest in (width for width in _WIDTHS if width >= head):
            pieces = -(-np.maximum(values - head, 0) // rest)
            sizes = [int(pieces @ times)]
            for _ in range(_n_folds(longest - head, rest)):
                pieces = -(-pieces // _FOLD)
                sizes.append(int(pieces @ times))
            entries = n_rows * head + sizes[0] * rest
            if 4 * _COLUMNS * sum(sizes[:2]) <= _SHARE * 8 * entries:
                n_rests = geometric(sizes[0]) + 1
                folds = [geometric(max(size, 64), per_octave=1) + 1 for size in sizes[1:]]
                found.append((entries, BucketShape(head, rest, n_rests, tuple(folds))))
    return min(found)[1]


def _n_folds(longest: int, width: int) -> int:
    """Count the levels that bring as many pieces as such a row has to one."""
    pieces, levels = -(-longest // width), 0
    while pieces > 1:
        pieces, levels = -(-pieces // _FOLD), levels + 1
    return levels


def bucket_rows(indptr, index, count, *, capacity: int, longest: int, dtype, snug: bool) -> BucketRows:
    """Lay out compressed sparse rows in buckets; arguments as for :func:`~hmom_jax.sparse.fold_rows`."""
    n_rows = len(indptr) - 1
    index, count = np.asarray(index), np.asarray(count)
    lengths = row_lengths(indptr, capacity=capacity, longest=longest)
    shape = bucket_shape(n_rows, capacity=capacity, longest=longest, lengths=lengths if snug else None)
    number = np.arange(n_rows, dtype=np.int32)
    pieces = -(-np.maximum(lengths - shape.head, 0) // max(shape.rest, 1))
    start = np.cumsum(pieces) - pieces
    rows = [number]
    if shape.n_rests:
        rows.append(np.zeros(shape.n_rests, np.int32))
        rows[1][: pieces.sum()] = np.repeat(number, pieces)
    widths = (shape.head, shape.rest)[: len(rows)]
    indices = [np.zeros(len(row) * width, np.int32) for row, width in zip(rows, widths, strict=True)]
    counts = [np.zeros(len(flat), dtype) for flat in indices]

    for first, last in pairwise(chunks_of_rows(indptr)):
        here = slice(indptr[first], indptr[last])
        within = np.arange(here.start, here.stop) - np.repeat(indptr[first:last], lengths[first:last])
        in_head = within < shape.head
        begin = (number[first:last].astype(np.int64) * shape.head, start[first:last] * shape.rest - shape.head)
        for bucket, chosen in enumerate((in_head, ~in_head)[: len(rows)]):
            place = (np.repeat(begin[bucket], lengths[first:last]) + within)[chosen]
            indices[bucket][place], counts[bucket][place] = index[here][chosen], count[here][chosen]

    folds, size, long = [], shape.n_rests, np.flatnonzero(pieces)
    start, pieces = start[long], pieces[long]
    for n_folds in shape.folds:
        which, start, pieces = fold_runs(start, pieces, lanes=_FOLD, size=n_folds, empty=size - 1)
        folds.append(which)
        size = n_folds
    final = None
    if shape.n_rests:
        final = np.full(n_rows, size - 1, np.int32)
        final[long] = start
    nested = lambda flats: tuple(flat.reshape(-1, *_nest(width)) for flat, width in zip(flats, widths, strict=True))
    return BucketRows(nested(indices), nested(counts), tuple(rows), tuple(folds), final, n_rows)


def _nest(width: int) -> tuple[int, ...]:
    """Cut a piece into axes of eight, and of sixteen at most.

    Examples
    --------
    >>> [_nest(width) for width in (8, 96, 384)]
    [(8,), (12, 8), (6, 8, 8)]
    """
    if width == 8:
        return (8,)
    return (width // 8, 8) if width <= 128 else (width // 64, 8, 8)
