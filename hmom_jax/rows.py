"""Rows of a sparse matrix as compiled code sees them: what every layout offers, and the gather that all are made of."""

import jax
import numpy as np
from jaxtyping import Array, Float

# Entries that the host lays out at a time: bounds its temporary memory.
_CHUNK = 1 << 20


class Rows:
    """Rows of a sparse matrix that :func:`~hmom_jax.sparse.product` multiplies, laid out for one device or for several.

    Layouts for one device have the fields ``index`` and ``count``, the table row and value of each entry, cut into
    pieces along their first axis (padding has count 0), and ``row``, the matrix row that each piece belongs to, for
    offsets into a table of several nodes: arrays, or a tuple of arrays for each. Layouts in parts have an axis before.
    """

    n_rows: int

    def times(self, table: Float[Array, "entries columns"]) -> Float[Array, "rows columns"]:
        """Multiply with a table."""
        raise NotImplementedError

    def slopes(self, table: Float[Array, "entries columns"], cotangent: Float[Array, "rows columns"]):
        """Return the inner product of cotangent row and table row at every entry, in the places of the counts.

        That is the derivative, in the counts, of the inner product of the cotangent and the product with the table.
        """
        return jax.tree.map(lambda index, row: slopes(index, row, table, cotangent), self.index, self.row)


def slopes(index, row, table, cotangent):
    """Return the inner product of cotangent row and table row at every entry of an array of pieces."""
    entries = take_rows(table, index)
    return (to_entries(take_rows(cotangent, row), entries) * entries).sum(-1)


def to_entries(by_piece, entries):
    """Give values of pieces axes of length one where ``entries``, an array of as many pieces, has more of them."""
    return by_piece.reshape(*by_piece.shape[:1], *[1] * (entries.ndim - by_piece.ndim), *by_piece.shape[1:])


def row_lengths(indptr, *, capacity: int, longest: int) -> np.ndarray:
    """Return the entries of each row; raise if there are more than the bounds of a layout allow."""
    lengths = np.diff(indptr).astype(np.int64)
    if lengths.max(initial=0) > longest:
        raise AssertionError("a row has more entries than `longest` allows")
    if indptr[-1] > capacity:
        raise AssertionError("the rows have more entries than `capacity` allows")
    return lengths


def fold_runs(start, pieces, *, lanes: int, size: int, empty: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Say which pieces the next level adds up, and where its own runs begin, with how many pieces.

    A run is what a level has of a row: ``pieces`` one after the other from ``start`` on. What has no piece to add is
    given the ``empty`` one.

    Examples
    --------
    >>> which, start, pieces = fold_runs(np.array([0, 3]), np.array([3, 1]), lanes=2, size=4, empty=9)
    >>> which.tolist(), start.tolist(), pieces.tolist()
    ([[0, 1], [2, 9], [3, 9], [9, 9]], [0, 2], [2, 1])
    """
    folded = -(-pieces // lanes)
    begin = np.cumsum(folded) - folded
    within = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    which = np.full(size * lanes, empty, np.int32)
    which[np.repeat(begin * lanes, pieces) + within] = np.repeat(start, pieces) + within
    return which.reshape(size, lanes), begin, folded


def chunks_of_rows(indptr) -> np.ndarray:
    """Return where to cut rows so that not many more than a chunk of entries lies between two cuts."""
    cuts = np.searchsorted(indptr, np.arange(0, indptr[-1], _CHUNK))
    return np.unique([0, *cuts, len(indptr) - 1])


def take_rows(table, index):
    """Gather rows; the indices are known to be good, so no instruction is spent on negative or large ones."""
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def geometric(size: int, per_octave: int = 4) -> int:
    """Round up to a grid of a few sizes per octave, so that like sizes share a compilation.

    Examples
    --------
    >>> [geometric(n) for n in (3, 9, 1000, 1025)]
    [4, 10, 1024, 1280]
    >>> geometric(1025, per_octave=8)
    1152
    """
    if size <= 4:
        return 4
    step = max((1 << (size - 1).bit_length()) // (2 * per_octave), 1)
    return -(-size // step) * step
