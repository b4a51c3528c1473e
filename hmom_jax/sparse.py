r"""Sparse rows folded into fixed-width pieces: the layout behind every product with the counts.

A row with $m$ entries becomes $\lceil m / w \rceil$ *pieces* of $w$ entries (the last one padded with zeros).
Pieces are summed by gathering table rows and contracting with the counts, in one loop that keeps the sum in registers.
Those of a row are folded, eight at a time, until one sum is left. Where rows are short, the first piece of each, its
*head*, is summed straight into the result and only what is left of longer rows is folded. There is no scatter, so the
result does not depend on the order in which a device happens to run, and every shape follows from the number of rows
and a *capacity* for entries, or comes from a grid of few sizes, so that two corpora of like size share one compilation.

Of tables much larger than a cache a part is read at a time, :mod:`~hmom_jax.stacks`. Accelerators have a layout of
their own, :mod:`~hmom_jax.buckets`.

Built on the host with NumPy; :func:`product` is what compiled code calls.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

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
# Entries of an average row from which on it has no head: heads are a second way through the table.
_LONG = 32
# Pieces up to which a level is not worth a branch of its own.
_SMALL = 128
# Sums that a CPU adds up at the same time.
_CHAINS = 4


@pytree
@dataclass(frozen=True)
class FoldedRows(Rows):
    """Rows of a sparse matrix, cut into pieces and folded; with ``parts``, several such layouts along a leading axis.

    Heads come first among the pieces, if there are any; those that follow are the lowest level to fold.

    Leaves are NumPy arrays when built and device arrays once they pass through ``jit``.

    Attributes
    ----------
    index, count, row
        As :class:`~hmom_jax.rows.Rows` says.
    folds
        For each further level, which pieces of the level before are summed.
    final
        Where the sum of each row, or of what it has beside its head, stands among the pieces of all levels, laid end to
        end. None where there is no level: heads are all.
    n_rows
        Number of rows, padding included.
    columns
        Columns of the table that are taken at a time; 0 for all.
    n_heads
        How many pieces are heads: as many as rows, or none.
    """

    index: Integer[Array, "*parts pieces width"] | np.ndarray
    count: Float[Array, "*parts pieces width"] | np.ndarray
    row: Int[Array, "*parts pieces"] | np.ndarray
    folds: tuple[Int[Array, "*parts _ _"] | np.ndarray, ...]
    final: Int[Array, "*parts rows"] | np.ndarray | None
    n_rows: int = field(metadata={"static": True})
    columns: int = field(default=0, metadata={"static": True})
    n_heads: int = field(default=0, metadata={"static": True})

    def times(self, table):
        """Multiply with a table; see :func:`product`."""
        return multiply(self, table)


def fold_rows(
    indptr, index, count, *,
    capacity: int, longest: int, dtype, table: int | None = None, snug: bool = False,
    sizes: tuple[int, ...] | None = None,
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
        Whether the pieces that these rows need may decide shapes, that of the first level on a fine grid: a fifth fewer
        than the bounds ask for. Not for rows that are laid out anew with every partition.
    sizes
        What :func:`level_sizes` says of these rows or of others that are to have the same shape (on a CPU alone).
    """
    if wants_buckets():
        return bucket_rows(indptr, index, count, capacity=capacity, longest=longest, dtype=dtype, snug=snug)
    n_rows = len(indptr) - 1
    lengths = row_lengths(indptr, capacity=capacity, longest=longest)
    if sizes is None:
        sizes = level_sizes(lengths, capacity=capacity, longest=longest, snug=snug)
    width, head, n_heads = _cut(capacity, n_rows)
    pieces = _n_pieces(lengths, width, head)
    start = np.cumsum(pieces) - pieces

    n_pieces = n_heads + sizes[0]
    level_index = aligned_zeros(n_pieces * width, _index_type(table))
    level_count = aligned_zeros(n_pieces * width, dtype)
    ends = np.append(start, pieces.sum())
    in_last = lengths - head - (pieces - 1) * width
    for first, last in pairwise(chunks_of_rows(indptr)):
        rest = slice(n_heads + ends[first], n_heads + ends[last])
        begin = indptr[first:last] - indptr[first]
        places = np.arange(ends[first], ends[last]) * width
        places += np.repeat(begin + head - start[first:last] * width, pieces[first:last])
        # The last piece of a row goes on into the next row: there it is cut off.
        here = np.arange(first, last)
        short, longer = here[:n_heads], here[pieces[first:last] > 0]
        at = np.concatenate([short, n_heads + ends[longer + 1] - 1])
        inside = np.arange(width) < np.concatenate([lengths[short], in_last[longer]])[:, None]
        for level, values in ((level_index, index), (level_count, count)):
            windows = _windows(values[indptr[first] : indptr[last]], width, level.dtype)
            if n_heads:
                level.view(windows.dtype)[first:last] = windows[begin]
            level.view(windows.dtype)[rest] = windows[places]
            level = level.reshape(-1, width)
            level[at] = np.where(inside, level[at], 0)
    row = aligned_zeros(n_pieces, np.int32)
    row[:n_heads] = np.arange(n_heads)
    row[n_heads : n_heads + pieces.sum()] = np.repeat(np.arange(n_rows, dtype=np.int32), pieces)

    folds = []
    active, base = np.flatnonzero(pieces), 0
    start, pieces = start[active], pieces[active]
    final = np.full(n_rows, sizes[0] - 1, np.int32) if sizes[0] else None
    for size, above in zip(sizes, (*sizes[1:], 0), strict=True):
        done = pieces == 1
        if size:
            final[active[done]] = base + start[done]
        if above:
            active, start, pieces = active[~done], start[~done], pieces[~done]
            which, start, pieces = fold_runs(start, pieces, lanes=_FOLD, size=above, empty=size - 1)
            folds.append(which)
        base += size
    return FoldedRows(
        index=level_index.reshape(n_pieces, width),
        count=level_count.reshape(n_pieces, width),
        row=row,
        folds=tuple(folds),
        final=final,
        n_rows=n_rows,
        columns=_COLUMNS_CPU,
        n_heads=n_heads,
    )


def level_sizes(lengths: np.ndarray, *, capacity: int, longest: int, snug: bool) -> tuple[int, ...]:
    """Return how many pieces each level has for rows of such lengths, heads not counted; bounds as in `fold_rows`."""
    n_rows = len(lengths)
    width, head, n_heads = _cut(capacity, n_rows)
    if n_heads and longest <= head:
        _check_pieces(n_heads)
        return (0,)
    pieces = _n_pieces(lengths, width, head)
    size = n_rows - n_heads + capacity // width  # enough: a row with p pieces has more than p - 1 times the width
    if snug:
        size = min(size, geometric(n_heads + int(pieces.sum()), per_octave=8) - n_heads)
    sizes = [size + 1]  # the last of every level stays empty: it sums to zero
    reach = width
    while reach < longest - head:
        pieces = -(-pieces[pieces > 1] // _FOLD)
        size = capacity // (reach * _FOLD) + min(n_rows, capacity // (reach + head + 1))
        if snug:  # of Zipf's words most are short: the bound is up to six times too large
            size = min(size, geometric(max(int(pieces.sum()), 64), per_octave=1))
        sizes.append(size + 1)
        reach *= _FOLD
    _check_pieces(n_heads + sum(sizes))
    return tuple(sizes)


def _n_pieces(lengths, width: int, head: int) -> np.ndarray:
    return -(-np.maximum(lengths - head, 0) // width)


def _index_type(table: int | None):
    """Choose the type of indices: reading them is what a product of few columns waits for."""
    return np.uint16 if table is not None and table <= 2**16 else np.int32


def _check_pieces(n_pieces: int) -> None:
    if n_pieces >= 2**31:
        raise InputError(f"The corpus needs {n_pieces} pieces; at most 2**31 - 1 can be indexed.")


def _cut(capacity: int, n_rows: int) -> tuple[int, int, int]:
    """Choose the width of pieces, that of heads (0 for none), and how many of these there are."""
    width = _width(capacity, n_rows)
    return (width, width, n_rows) if capacity < _LONG * n_rows else (width, 0, 0)


def _width(capacity: int, n_rows: int) -> int:
    """Choose the width of pieces: wide ones leave less to fold, narrow ones less to pad.

    Below eight, products of eight columns and more take twice as long, also where most rows are empty.
    """
    return 16 if capacity >= 20 * n_rows else 12 if capacity >= 7 * n_rows else 8


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
        rest = partial(_sum_entries, pieces=slice(rows.n_heads, None))
        levels.append(_apart(rows, rest, sums(rows.index.shape[-2] - rows.n_heads), *entries))
    # Without heads, the last levels, which are the smallest, are summed where they are gathered.
    n_apart = len(rows.folds) if rows.n_heads else sum(fold.shape[-2] > _SMALL for fold in rows.folds)
    for fold in map(jnp.asarray, rows.folds[:n_apart]):
        levels.append(_apart(rows, _sum_pieces, sums(fold.shape[-2]), fold, levels[-1], part))

    def last(levels, folds, final, part):
        for fold in folds:
            levels = [*levels, _sum_pieces(jnp.asarray(fold), levels[-1], part)]
        return take_rows(_join(levels), _part_of(final, part))

    def complete(joined, final, *entries):
        found = _sum_entries(*entries, pieces=slice(rows.n_heads))
        return found + take_rows(joined[0], _part_of(final, entries[-1])) if joined else found

    if rows.n_heads:
        joined = [_join(levels)] if levels else []
        return _apart(rows, complete, sums(rows.n_rows), joined, rows.final, *entries)
    return _apart(rows, last, sums(rows.n_rows), levels, rows.folds[n_apart:], rows.final, part)


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
