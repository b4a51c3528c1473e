r"""Sparse rows folded into fixed-width pieces: the layout behind every product with the counts.

A row with $m$ entries becomes $\lceil m / w \rceil$ *pieces* of $w$ entries (the last one padded with zeros).
Pieces are summed by gathering table rows and contracting with the counts, in one loop that keeps the sum in registers;
rows with more than one piece are folded again, eight pieces at a time, until one is left. There is no scatter, so the
result does not depend on the order in which a device happens to run, and every shape follows from the number of rows
and a *capacity* for entries, so that two corpora of like size share one compilation.

Built on the host with NumPy; :func:`product` is what compiled code calls.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

# Pieces that one step of a further level adds up.
_FOLD = 8
# Columns that a CPU takes at a time: bounds the memory for sums of pieces, which fresh from the system costs more time
# than the sums, and keeps more of the table in cache.
_COLUMNS_CPU = 32
# Entries that the host lays out at a time: bounds its temporary memory.
_CHUNK = 1 << 20


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FoldedRows:
    """Rows of a sparse matrix, cut into pieces and folded.

    Leaves are NumPy arrays when built and device arrays once they pass through ``jit``.

    Attributes
    ----------
    index, count
        Table row and value of each entry; padding has count 0.
    row
        The matrix row that each piece belongs to (for offsets into a table of several nodes).
    folds
        For each further level, which pieces of the level before are summed.
    final
        Where the sum of each row stands among the pieces of all levels, laid end to end.
    columns
        Columns of the table that are taken at a time; 0 for all, as accelerators want it.
    """

    index: Int[Array, "pieces width"] | np.ndarray
    count: Float[Array, "pieces width"] | np.ndarray
    row: Int[Array, " pieces"] | np.ndarray
    folds: tuple[Int[Array, "_ _"] | np.ndarray, ...]
    final: Int[Array, " rows"] | np.ndarray
    columns: int = field(default=0, metadata={"static": True})

    @property
    def n_rows(self) -> int:
        """Number of rows, padding included."""
        return self.final.shape[0]


def geometric(size: int) -> int:
    """Round up to a grid of four sizes per octave, so that like sizes share a compilation.

    Examples
    --------
    >>> [geometric(n) for n in (3, 9, 1000, 1025)]
    [4, 10, 1024, 1280]
    """
    if size <= 4:
        return 4
    step = 1 << max((size - 1).bit_length() - 3, 0)
    return -(-size // step) * step


def fold_rows(indptr, index, count, *, capacity: int, longest: int, dtype) -> FoldedRows:
    """Lay out compressed sparse rows (host side).

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
    """
    n_rows = len(indptr) - 1
    width = _width(capacity, n_rows)
    lengths = np.diff(indptr).astype(np.int64)
    pieces = -(-lengths // width)
    start = np.cumsum(pieces) - pieces

    n_pieces = capacity // width + n_rows + 1
    level_index = _zeros(n_pieces * width, np.int32)
    level_count = _zeros(n_pieces * width, dtype)
    shift = start * width - indptr[:-1]
    cuts = np.searchsorted(indptr, np.arange(0, indptr[-1], _CHUNK))
    for first, last in pairwise(np.unique([0, *cuts, n_rows])):
        here = slice(indptr[first], indptr[last])
        place = np.arange(here.start, here.stop) + np.repeat(shift[first:last], lengths[first:last])
        level_index[place] = index[here]
        level_count[place] = count[here]
    row = _zeros(n_pieces, np.int32)
    row[: pieces.sum()] = np.repeat(np.arange(n_rows, dtype=np.int32), pieces)

    zero_piece = n_pieces - 1  # padding, present at every level: sums to zero
    final = np.where(pieces > 0, start, zero_piece)
    base, reach = n_pieces, width
    folds = []
    active = np.flatnonzero(pieces > 1)
    start, pieces = start[active], pieces[active]
    while reach < longest:
        lengths = pieces
        pieces = -(-lengths // _FOLD)
        bound = capacity // (reach * _FOLD) + min(n_rows, capacity // (reach + 1)) + 1
        new_start = np.cumsum(pieces) - pieces
        before = np.cumsum(lengths) - lengths
        within = np.arange(lengths.sum()) - np.repeat(before, lengths)
        fold = np.full(bound * _FOLD, zero_piece, np.int32)
        fold[np.repeat(new_start * _FOLD, lengths) + within] = np.repeat(start, lengths) + within
        folds.append(fold.reshape(bound, _FOLD))
        zero_piece = bound - 1
        done = pieces == 1
        final[active[done]] = base + new_start[done]
        base += bound
        active, start, pieces = active[~done], new_start[~done], pieces[~done]
        reach *= _FOLD
    if active.size:
        raise AssertionError("a row has more entries than `longest` allows")
    if base >= 2**31:
        raise ValueError(f"The corpus needs {base} pieces; at most 2**31 - 1 can be indexed.")
    return FoldedRows(
        index=level_index.reshape(n_pieces, width),
        count=level_count.reshape(n_pieces, width),
        row=row,
        folds=tuple(folds),
        final=final.astype(np.int32),
        columns=_COLUMNS_CPU if jax.default_backend() == "cpu" else 0,
    )


def _width(capacity: int, n_rows: int) -> int:
    """Choose the width of pieces: wide ones leave less to fold, narrow ones less to pad."""
    return 16 if capacity >= 16 * n_rows else 8 if capacity >= 8 * n_rows else 4


def _zeros(size: int, dtype) -> np.ndarray:
    """Return zeros that begin at a multiple of 64 bytes: JAX takes such arrays over on a CPU, and copies others."""
    dtype = np.dtype(dtype)
    raw = np.zeros(size * dtype.itemsize + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + size * dtype.itemsize].view(dtype)


def product(
    rows: FoldedRows,
    table: Float[Array, "entries columns"],
    offset: Int[Array, " rows"] | None = None,
) -> Float[Array, "rows columns"]:
    """Multiply the folded rows with a dense table: ``out[r] = sum_e count[r, e] * table[index[r, e]]``.

    Parameters
    ----------
    rows
        The sparse matrix.
    table
        The dense block.
    offset
        Added to the indices of each row: lets every row read from its own section of the table.

    Examples
    --------
    >>> import numpy as np, jax.numpy as jnp
    >>> rows = fold_rows(np.array([0, 2, 3]), [0, 2, 1], [1.0, 4.0, 5.0], capacity=4, longest=3, dtype="f4")
    >>> product(rows, jnp.array([[1.0], [10.0], [100.0]])).ravel().tolist()
    [401.0, 50.0]
    """
    table = jnp.asarray(table)
    at = jnp.asarray(rows.index)
    if offset is not None:
        at = at + take_rows(jnp.asarray(offset), rows.row)[:, None]
    n_columns, n_groups = table.shape[1], -(-table.shape[1] // (rows.columns or table.shape[1]))
    if n_groups <= 1:
        return _all_columns(rows, at, table)
    width = -(-n_columns // n_groups)
    padded = jnp.pad(table, [(0, 0), (0, n_groups * width - n_columns)])
    groups = padded.reshape(-1, n_groups, width).swapaxes(0, 1)
    found = jax.lax.map(lambda group: _all_columns(rows, at, group), groups)
    return found.swapaxes(0, 1).reshape(-1, n_groups * width)[:, :n_columns]


def _all_columns(rows: FoldedRows, at, table):
    """Multiply all columns at once; ``at`` are the indices, offset included."""

    def sum_entries(at, count, table):
        return sum(count[:, lane, None] * take_rows(table, at[:, lane]) for lane in range(count.shape[1]))

    def sum_pieces(fold, below):
        return sum(take_rows(below, fold[:, lane]) for lane in range(fold.shape[1]))

    levels = [_apart(rows, sum_entries, at, jnp.asarray(rows.count), table)]
    for fold in rows.folds:
        levels.append(_apart(rows, sum_pieces, jnp.asarray(fold), levels[-1]))
    return take_rows(jnp.concatenate(levels) if len(levels) > 1 else levels[0], rows.final)


def _apart(rows: FoldedRows, function, *arguments):
    """Compute a level by itself on a CPU.

    XLA would merge it into the next one and compute each piece as often as it is read. A branch keeps it from that
    (``optimization_barrier`` does not) and, unlike a loop over blocks, leaves the level to all cores.
    """
    if not rows.columns:
        return function(*arguments)
    result = jax.eval_shape(function, *arguments)
    always = jnp.asarray(rows.final)[0] >= 0  # the compiler does not know
    return jax.lax.cond(always, function, lambda *_: jnp.zeros(result.shape, result.dtype), *arguments)


def take_rows(table, index):
    """Gather rows; the indices are known to be good, so no instruction is spent on negative or large ones."""
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)
