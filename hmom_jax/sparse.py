r"""Sparse rows folded into fixed-width pieces: the layout behind every product with the counts.

A row with $m$ entries becomes $\lceil m / w \rceil$ *pieces* of $w$ entries (the last one padded with zeros).
Pieces are summed by gathering table rows and contracting with the counts; rows with more than one piece are
folded again, $w$ pieces at a time, until one is left. There is no scatter, so the result does not depend on the
order in which a device happens to run, and every shape follows from the number of rows and a *capacity* for
entries, so that two corpora of like size share one compilation.

Built on the host with NumPy; :func:`product` is what compiled code calls.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

# Entries that one step of the scan handles. On a CPU the gathered block should stay in the second-level
# cache; an accelerator wants as few and as large steps as possible.
_BLOCK_CPU = 8192
_BLOCK_ACCELERATOR = 1 << 24


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
    """

    index: Int[Array, "blocks width pieces"] | np.ndarray
    count: Float[Array, "blocks width pieces"] | np.ndarray
    row: Int[Array, "blocks pieces"] | np.ndarray
    folds: tuple[Int[Array, "_ _ _"] | np.ndarray, ...]
    final: Int[Array, " rows"] | np.ndarray

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
    width = 8 if capacity >= 8 * n_rows else 4
    block = _BLOCK_CPU if jax.default_backend() == "cpu" else _BLOCK_ACCELERATOR
    lengths = np.diff(indptr)
    pieces = -(-lengths // width)
    start = np.cumsum(pieces) - pieces

    blocks, per_block = _block_shape(capacity // width + n_rows + 1, width, block)
    place = np.arange(indptr[-1]) + np.repeat(start * width - indptr[:-1], lengths)
    level_index = np.zeros(blocks * per_block * width, np.int32)
    level_count = np.zeros(blocks * per_block * width, dtype)
    level_index[place] = index
    level_count[place] = count
    row = np.zeros(blocks * per_block, np.int32)
    row[: pieces.sum()] = np.repeat(np.arange(n_rows, dtype=np.int32), pieces)

    zero_piece = blocks * per_block - 1  # padding, present at every level: sums to zero
    final = np.where(pieces > 0, start, zero_piece)
    base = blocks * per_block
    folds = []
    active = np.flatnonzero(pieces > 1)
    start, pieces = start[active], pieces[active]
    for level in range(1, max(1, math.ceil(math.log(max(longest, 2), width) - 1e-9))):
        lengths = pieces
        pieces = -(-lengths // width)
        bound = capacity // width ** (level + 1) + min(n_rows, capacity // (width**level + 1)) + 1
        shape = _block_shape(bound, width, block)
        new_start = np.cumsum(pieces) - pieces
        before = np.cumsum(lengths) - lengths
        within = np.arange(lengths.sum()) - np.repeat(before, lengths)
        fold = np.full(shape[0] * shape[1] * width, zero_piece, np.int32)
        fold[np.repeat(new_start * width, lengths) + within] = np.repeat(start, lengths) + within
        folds.append(_by_lane(fold, shape, width))
        zero_piece = shape[0] * shape[1] - 1
        done = pieces == 1
        final[active[done]] = base + new_start[done]
        base += shape[0] * shape[1]
        active, start, pieces = active[~done], new_start[~done], pieces[~done]
    if active.size:
        raise AssertionError("a row has more entries than `longest` allows")
    if base >= 2**31:
        raise ValueError(f"The corpus needs {base} pieces; at most 2**31 - 1 can be indexed.")
    return FoldedRows(
        index=_by_lane(level_index, (blocks, per_block), width),
        count=_by_lane(level_count, (blocks, per_block), width),
        row=row.reshape(blocks, per_block),
        folds=tuple(folds),
        final=final.astype(np.int32),
    )


def _block_shape(n_pieces: int, width: int, block: int) -> tuple[int, int]:
    """Return (blocks, pieces per block) that hold ``n_pieces``."""
    n_pieces = geometric(n_pieces)
    per_block = min(n_pieces, max(block // width, 1))
    return -(-n_pieces // per_block), per_block


def _by_lane(flat, shape, width):
    """Reorder piece-major entries so that entry q of all pieces of a block is contiguous."""
    return np.ascontiguousarray(flat.reshape(*shape, width).transpose(0, 2, 1))


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

    def sum_entries(index, count, shift):
        total = 0.0
        for lane in range(index.shape[0]):
            at = index[lane] if shift is None else index[lane] + shift
            gathered = take_rows(table, at)
            total = total + jnp.einsum("p,pc->pc", count[lane], gathered)
        return total

    if offset is None:
        pieces = _over_blocks(lambda b: sum_entries(*b, None), (rows.index, rows.count))
    else:
        shift = take_rows(jnp.asarray(offset), rows.row)
        pieces = _over_blocks(lambda b: sum_entries(*b), (rows.index, rows.count, shift))
    levels = [pieces]
    for fold in rows.folds:
        below = levels[-1]

        def sum_pieces(index, below=below):  # lane by lane: one gather of all lanes would not stay in cache
            total = 0.0
            for lane in range(index.shape[0]):
                total = total + take_rows(below, index[lane])
            return total

        levels.append(_over_blocks(sum_pieces, fold))
    stacked = jnp.concatenate(levels) if len(levels) > 1 else pieces
    return take_rows(stacked, rows.final)


def take_rows(table, index):
    """Gather rows; the indices are known to be good, so no instruction is spent on negative or large ones."""
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _over_blocks(function, blocks):
    """Apply ``function`` block by block and lay the results end to end."""
    first = jax.tree.leaves(blocks)[0]
    if first.shape[0] == 1:
        return function(jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), blocks))
    _, results = jax.lax.scan(lambda _, block: (None, function(block)), None, blocks)
    return results.reshape(-1, results.shape[-1])
