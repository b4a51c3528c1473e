r"""Sparse rows folded into fixed-width pieces: the layout behind every product with the counts.

A row with $m$ entries becomes $\lceil m / w \rceil$ *pieces* of $w$ entries, at least one (the last padded with zeros).
Pieces are summed by gathering table rows and contracting with the counts, in one loop that keeps the sum in registers.
The first piece of each row, its *head*, is summed straight into the result; those that are left of longer rows are
folded, eight at a time, until one sum is left. There is no scatter, so the result does not depend on the order in which
a device happens to run, and every shape follows from the number of rows and a *capacity* for entries, or comes from a
grid of few sizes, so that two corpora of like size share one compilation.

Of tables much larger than a cache a part is read at a time, :mod:`~hmom_jax.stacks`. Accelerators have a layout of
their own, :mod:`~hmom_jax.buckets`.

Built on the host with NumPy; :func:`product` is what compiled code calls.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer

from hmom_jax.buckets import bucket_rows
from hmom_jax.compilation import quick_jit
from hmom_jax.errors import InputError
from hmom_jax.pytree import pytree
from hmom_jax.rows import Rows, chunks_of_rows, fold_runs, geometric, row_lengths, take_rows, to_entries

# Pieces that one step of a further level adds up.
_FOLD = 8
# Columns that a CPU takes at a time. Bounds the memory for sums of pieces (getting more of it from the system takes
# longer than the sums themselves) and keeps more of the table in cache. Cutting up the table costs more than that gains
# as long as there are no more than twice as many.
_COLUMNS_CPU = 32
# Columns come in multiples of this: a full vector register. Four columns take twice as long as eight.
_VECTOR_CPU = 8
# Widths of pieces; what an entry costs in pieces wider than ``_WIDE``, whose sums run out of registers; and the entries
# that a piece costs which is not a head. Measured on 16 layouts with 1 to 64 columns: the width chosen so takes 5%
# longer than the best for each number of columns.
_WIDTHS = (8, 10, 12, 16, 20, 28)
_WIDE, _WIDE_COST, _REST_COST = 20, 1.1, 4.0
# Step of the grid for the pieces of a layout, at least.
_LEAST_STEP = 64
# Rows of a band of the table at most, and bands to make of a smaller one: see `by_band`.
_BAND, _BANDS = 1 << 13, 8
# The lowest level is small if it has no more pieces than one for so many rows.
_SMALL = 4
# Sums that a CPU adds up at the same time.
_CHAINS = 4


@pytree
@dataclass(frozen=True)
class FoldedRows(Rows):
    """Rows of a sparse matrix, cut into pieces and folded; with ``parts``, several such layouts along a leading axis.

    The heads of all rows come first among the pieces; those that follow are the lowest level to fold.

    Leaves are NumPy arrays when built and device arrays once they pass through ``jit``.

    Attributes
    ----------
    index, count, row
        As :class:`~hmom_jax.rows.Rows` says.
    folds
        For each further level, which pieces of the level before are summed.
    final
        Where the sum of what each row has beside its head stands among the pieces of all levels, laid end to end. None
        where there is no level: heads are all.
    n_rows
        Number of rows, padding included.
    columns
        Columns of the table that are taken at a time; 0 for all.
    """

    index: Integer[Array, "*parts pieces width"] | np.ndarray
    count: Float[Array, "*parts pieces width"] | np.ndarray
    row: Int[Array, "*parts pieces"] | np.ndarray
    folds: tuple[Int[Array, "*parts _ _"] | np.ndarray, ...]
    final: Int[Array, "*parts rows"] | np.ndarray | None
    n_rows: int = field(metadata={"static": True})
    columns: int = field(default=0, metadata={"static": True})

    def times(self, table):
        """Multiply with a table; see :func:`product`."""
        return multiply(self, table)


class FoldShape(NamedTuple):
    """Entries of a piece, and pieces of each level beside the heads; the last of every level stays empty, a zero."""

    width: int
    sizes: tuple[int, ...]


def fold_rows(
    indptr, index, count, *,
    capacity: int, longest: int, dtype, table: int | None = None, snug: bool = False,
    shape: FoldShape | None = None,
) -> Rows:  # fmt: skip
    """Lay out compressed sparse rows (host side), for an accelerator in buckets.

    Parameters
    ----------
    indptr, index, count
        The rows, as in ``scipy.sparse.csr_array``.
    capacity
        Upper bound on the number of entries that decides all shapes.
    longest
        Upper bound on the entries of one row; decides the number of levels.
    dtype
        Floating type of the counts.
    table
        Rows of the tables to multiply with: indices into a small one are stored in half the bytes.
    snug
        Whether these rows may decide shapes: the width of pieces by their lengths (:func:`piece_width`), how many there
        are as they need it, on a fine grid. That is a fifth fewer than the bounds ask for. Not for rows that are laid
        out anew with every partition.
    shape
        What :func:`fold_shape` says of these rows or of others that are to have the same shape (on a CPU alone).
    """
    if wants_buckets():
        return bucket_rows(indptr, index, count, capacity=capacity, longest=longest, dtype=dtype, snug=snug)
    n_rows = len(indptr) - 1
    lengths = row_lengths(indptr, capacity=capacity, longest=longest)
    width, sizes = shape or fold_shape(lengths, capacity=capacity, longest=longest, snug=snug)
    pieces = _n_rests(lengths, width)
    start = np.cumsum(pieces) - pieces

    # Where the entries of every piece begin, and where it stands among those that follow the heads.
    n_rests = pieces.sum()
    begin = np.arange(n_rests) * width + np.repeat(indptr[:-1] + width - start * width, pieces)
    place = np.arange(sizes[0] if sizes else 0, dtype=np.int32)
    place[by_band(np.asarray(index)[begin], table)] = np.arange(n_rests, dtype=np.int32)

    n_pieces = n_rows + len(place)
    level_index = aligned_zeros(n_pieces * width, _index_type(table))
    level_count = aligned_zeros(n_pieces * width, dtype)
    ends = np.append(start, n_rests)
    in_last = lengths - pieces * width
    for first, last in pairwise(chunks_of_rows(indptr)):
        rest = slice(ends[first], ends[last])
        # The last piece of a row goes on into the next row: there it is cut off.
        here = np.arange(first, last)
        short, longer = here[lengths[first:last] < width], here[pieces[first:last] > 0]
        at = np.concatenate([short, n_rows + place[ends[longer + 1] - 1]])
        inside = np.arange(width) < np.concatenate([lengths[short], in_last[longer]])[:, None]
        for level, values in ((level_index, index), (level_count, count)):
            windows = _windows(values[indptr[first] : indptr[last]], width, level.dtype)
            level.view(windows.dtype)[first:last] = windows[indptr[first:last] - indptr[first]]
            level.view(windows.dtype)[n_rows + place[rest]] = windows[begin[rest] - indptr[first]]
            level = level.reshape(-1, width)
            level[at] = np.where(inside, level[at], 0)
    row = aligned_zeros(n_pieces, np.int32)
    row[:n_rows] = np.arange(n_rows)
    row[n_rows + place[:n_rests]] = np.repeat(np.arange(n_rows, dtype=np.int32), pieces)

    folds = []
    active, base = np.flatnonzero(pieces), 0
    start, pieces = start[active], pieces[active]
    final = np.full(n_rows, sizes[0] - 1, np.int32) if sizes else None
    for size, above in pairwise((*sizes, 0)):
        done = pieces == 1
        final[active[done]] = base + place[start[done]]
        if above:
            active, start, pieces = active[~done], start[~done], pieces[~done]
            which, start, pieces = fold_runs(start, pieces, lanes=_FOLD, size=above, empty=size - 1)
            folds.append(place[which])
            place = np.arange(above)  # further levels stand in order
        base += size
    return FoldedRows(
        index=level_index.reshape(n_pieces, width),
        count=level_count.reshape(n_pieces, width),
        row=row,
        folds=tuple(folds),
        final=final,
        n_rows=n_rows,
        columns=_COLUMNS_CPU,
    )


def by_band(first: np.ndarray, table: int | None) -> np.ndarray:
    """Return the order in which to sum pieces, by where in the table their first entry reads.

    Rows have their entries in the order of the table: pieces that begin close to one another read from a part of it,
    which stays in the cache. Within such a band they stand in the order of rows, so that what follows finds the sums of
    neighbours side by side.

    Examples
    --------
    >>> by_band(np.array([5, 900, 70, 999, 2]), table=1000).tolist()
    [0, 2, 4, 1, 3]
    """
    n_table = int(first.max(initial=0)) + 1 if table is None else table
    size = min(_BAND, -(-n_table // _BANDS))
    return np.argsort((first // size).astype(np.uint16), kind="stable")


def fold_shape(lengths: np.ndarray, *, capacity: int, longest: int, snug: bool, width: int | None = None) -> FoldShape:
    """Choose the shape of a layout for rows of such lengths; bounds as in `fold_rows`.

    Examples
    --------
    >>> fold_shape(np.repeat([5, 100], [90, 10]), capacity=2000, longest=100, snug=True, width=8)
    FoldShape(width=8, sizes=(157, 65, 31))
    """
    n_rows = len(lengths)
    if width is None:
        width = piece_width(lengths) if snug else _mean_width(capacity, n_rows)
    if longest <= width:
        _check_pieces(n_rows)
        return FoldShape(width, ())
    pieces = _n_rests(lengths, width)
    size = capacity // width  # enough: a row with so many pieces beside its head has more entries than they
    if snug:
        # A fine grid, but for few pieces, which cost less than to compile anew.
        fine = geometric(n_rows + int(pieces.sum()), per_octave=8)
        size = min(size, -(-fine // _LEAST_STEP) * _LEAST_STEP - n_rows)
    sizes = [size + 1]
    reach = width
    while reach < longest - width:
        pieces = -(-pieces[pieces > 1] // _FOLD)
        size = capacity // (reach * _FOLD) + min(n_rows, capacity // (reach + width + 1))
        if snug:  # of Zipf's words most are short: the bound is up to six times too large
            size = min(size, geometric(max(int(pieces.sum()), 64), per_octave=1))
        sizes.append(size + 1)
        reach *= _FOLD
    _check_pieces(n_rows + sum(sizes))
    return FoldShape(width, tuple(sizes))


def _n_rests(lengths, width: int) -> np.ndarray:
    """Count the pieces of each row beside its head."""
    return -(-np.maximum(lengths - width, 0) // width)


def _index_type(table: int | None):
    """Choose the type of indices: reading them is what a product of few columns waits for."""
    return np.uint16 if table is not None and table <= 2**16 else np.int32


def _check_pieces(n_pieces: int) -> None:
    if n_pieces >= 2**31:
        raise InputError(f"The corpus needs {n_pieces} pieces; at most 2**31 - 1 can be indexed.")


def piece_width(lengths: np.ndarray) -> int:
    """Choose the width of pieces for rows of such lengths: wide ones leave less to fold, narrow ones less to pad.

    Examples
    --------
    >>> [piece_width(np.full(100, length)) for length in (5, 10, 55, 200)]
    [8, 10, 28, 20]
    """
    times = np.bincount(lengths)
    values = np.flatnonzero(times)

    def cost(width: int) -> float:
        rests = _n_rests(values, width) @ times[values]
        entries = width * (len(lengths) + rests)
        return entries * (_WIDE_COST if width > _WIDE else 1.0) + _REST_COST * rests

    return min(_WIDTHS, key=cost)


def _mean_width(capacity: int, n_rows: int) -> int:
    """Choose the width of pieces for rows of which no more is known than how many entries they have on average."""
    for width, mean in ((20, 64), (16, 20), (12, 7)):
        if capacity >= mean * n_rows:
            return width
    return 8


def aligned_zeros(size: int, dtype) -> np.ndarray:
    """Return zeros that begin at a multiple of 64 bytes: JAX takes such arrays over on a CPU, and copies others."""
    dtype = np.dtype(dtype)
    raw = np.zeros(size * dtype.itemsize + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + size * dtype.itemsize].view(dtype)


def _windows(values, width: int, dtype) -> np.ndarray:
    """View the values that follow each place as one item, which is copied in one piece; zeros follow the last."""
    padded = np.zeros(len(values) + width, dtype)
    padded[: len(values)] = values
    item = np.dtype((np.void, width * padded.itemsize))
    return np.ndarray(len(values) + 1, item, padded, strides=padded.strides)


def wants_buckets() -> bool:
    """Say whether the device is an accelerator, which has a layout of its own."""
    return jax.default_backend() != "cpu"


def shift(rows: Rows, offset: Int[Array, " rows"], table: int | None = None) -> Rows:
    """Add a number to the indices of each row: lets every row read from its own section of a table.

    ``table`` is the number of rows of that, all sections together; small indices stay small where it allows.
    """
    offset = jnp.asarray(offset)

    def moved(index, row):
        index = jnp.asarray(index)
        found = index + to_entries(take_rows(offset, row), index)
        return found.astype(_index_type(table)) if index.dtype == np.uint16 else found

    return replace(rows, index=jax.tree.map(moved, rows.index, rows.row))


@quick_jit
def product(
    rows: Rows,
    table: Float[Array, "entries columns"],
) -> Float[Array, "rows columns"]:
    """Multiply the folded rows with a dense table: ``out[r] = sum_e count[r, e] * table[index[r, e]]``.

    Parameters
    ----------
    rows
        The sparse matrix.
    table
        The dense block.

    Examples
    --------
    >>> import numpy as np, jax.numpy as jnp
    >>> rows = fold_rows(np.array([0, 2, 3]), [0, 2, 1], [1.0, 4.0, 5.0], capacity=4, longest=3, dtype="f4")
    >>> product(rows, jnp.array([[1.0], [10.0], [100.0]])).ravel().tolist()
    [401.0, 50.0]
    """
    return rows.times(jnp.asarray(table))


def multiply(rows: FoldedRows, table, part: Int[Array, ""] | None = None):
    """Multiply with a table; ``part`` is which of several layouts along a leading axis to take."""
    n_columns = table.shape[1]
    if n_columns == 1 or not rows.columns:
        return _all_columns(rows, table, part)
    n_groups = 1 if n_columns <= 2 * rows.columns else -(-n_columns // rows.columns)
    width = -(-n_columns // (n_groups * _VECTOR_CPU)) * _VECTOR_CPU
    table = jnp.pad(table, [(0, 0), (0, n_groups * width - n_columns)])
    if n_groups == 1:
        return _all_columns(rows, table, part)[:, :n_columns]
    groups = table.reshape(-1, n_groups, width).swapaxes(0, 1)
    found = jax.lax.map(lambda group: _all_columns(rows, group, part), groups)
    return found.swapaxes(0, 1).reshape(-1, n_groups * width)[:, :n_columns]


def _all_columns(rows: FoldedRows, table, part):
    """Multiply all columns at once."""
    entries = jnp.asarray(rows.index), jnp.asarray(rows.count), table, part
    dtype = jnp.result_type(rows.count, table)
    sums = lambda size: jax.ShapeDtypeStruct((size, table.shape[1]), dtype)

    levels = []
    if rows.final is not None:
        rest = partial(_sum_entries, pieces=slice(rows.n_rows, None))
        levels.append(_apart(rows, rest, sums(rows.index.shape[-2] - rows.n_rows), *entries))
    for fold in map(jnp.asarray, rows.folds):
        levels.append(_apart(rows, _sum_pieces, sums(fold.shape[-2]), fold, levels[-1], part))
    # Levels that are joined are copied: the lowest, which is the largest, stays apart, unless it is small or all.
    apart = len(levels) > 1 and levels[0].shape[0] > rows.n_rows // _SMALL
    joined = [_join(group) for group in ([levels[:1], levels[1:]] if apart else [levels]) if group]

    def complete(joined, final, *entries):
        found = _sum_entries(*entries, pieces=slice(rows.n_rows))
        first = 0
        for below in joined:
            at = _part_of(final, entries[-1]) - first
            first += len(below)
            # Where a row's sum stands in the other, the last one here is read, a zero.
            at = jnp.where((at >= 0) & (at < len(below)), at, len(below) - 1) if apart else at
            found = found + take_rows(below, at)
        return found

    return _apart(rows, complete, sums(rows.n_rows), joined, rows.final, *entries)


def _join(levels):
    return jnp.concatenate(levels) if len(levels) > 1 else levels[0]


def _part_of(array, part):
    return array if part is None else jax.lax.dynamic_index_in_dim(jnp.asarray(array), part, keepdims=False)


def _sum_entries(index, count, table, part, pieces):
    lanes = [_lanes(array, part, pieces) for array in (index, count)]
    return _add_up([_one_entry(*lane, table) for lane in zip(*lanes, strict=True)])


def _sum_pieces(fold, below, part):
    return _add_up([_one_piece(lane, below) for lane in _lanes(fold, part, slice(None))])


def _add_up(terms):
    """Add terms; of few columns in chains side by side, as in one each addition would wait for the one before."""
    chains = _CHAINS if terms[0].shape[-1] <= 2 * _VECTOR_CPU else 1
    return sum(sum(terms[chain::chains]) for chain in range(chains))


def _lanes(array, part, pieces):
    """Return the entries of some pieces, lane by lane; those of a part each by itself, as all at once are copied."""
    if part is None:
        return jax.lax.split(array[pieces], [1] * array.shape[1], axis=1)
    first, last, _ = pieces.indices(array.shape[1])
    take = lambda lane: jax.lax.dynamic_slice(array, (part, first, lane), (1, last - first, 1))[0]
    return [take(lane) for lane in range(array.shape[2])]


# What every lane does, traced once for all of them.
@jax.jit
def _one_entry(index, count, table):
    return count * take_rows(table, index[:, 0])


@jax.jit
def _one_piece(fold, below):
    return take_rows(below, fold[:, 0])


def _apart(rows: FoldedRows, function, shape, *arguments):
    """Compute a level by itself on a CPU.

    XLA would merge it into the next one and compute each piece as often as it is read. A branch keeps it from that
    (``optimization_barrier`` does not) and, unlike a loop over blocks, leaves the level to all cores. Parts of an array
    are best taken inside the function: taken before, they would be copied.
    """
    if not rows.columns:
        return function(*arguments)
    always = jnp.asarray(rows.row).ravel()[0] >= 0  # the compiler does not know
    return jax.lax.cond(always, function, lambda *_: jnp.zeros(shape.shape, shape.dtype), *arguments)
