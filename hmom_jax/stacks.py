r"""Sparse rows whose table is much larger than a CPU's cache, multiplied a part of the table at a time.

The table is cut into parts of equal size, and the entries that read from a part are folded by themselves
(:mod:`~hmom_jax.sparse`): rows stand one below the other, once for each part. A loop over the parts adds up their
products. Each reads from a part that stays in the cache, as do its sums of pieces; indices are those within the part,
as a rule small enough for two bytes.

Documents are what there are most of, so this is the layout by word of a large corpus. Corpora share a compilation where
they have as many parts of the same size.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from hmom_jax import sparse
from hmom_jax.pytree import pytree
from hmom_jax.rows import Rows, geometric, slopes
from hmom_jax.sparse import FoldedRows, FoldShape, aligned_zeros, fold_rows, fold_shape, multiply, piece_width

# Rows of a part: at 32 columns of single precision 4 MiB. And how many entries a row must then have in each part on
# average, for its sums not to cost more than the cache saves.
_PART = 1 << 15
_LEAST_PER_ROW = 16
# All parts have the shape of the largest. There are none where that has more entries than this, in means of all: it
# would take too much memory, though less time than a table that is not cut.
_UNEVEN = 2.0


@pytree
@dataclass(frozen=True)
class StackedRows(FoldedRows):
    """The layouts of all parts, of one shape, along a leading axis; :func:`~hmom_jax.sparse.shift` is not for them.

    Indices count from where the part begins.

    Attributes
    ----------
    step
        Rows of the table that a part has.
    """

    step: int = field(kw_only=True, metadata={"static": True})

    def times(self, table):
        """Multiply with a table; see :func:`~hmom_jax.sparse.product`."""
        add = lambda number, total: total + multiply(self, self._table_part(table, number), number)
        dtype = jnp.result_type(self.count, table)
        return jax.lax.fori_loop(0, len(self.index), add, jnp.zeros((self.n_rows, table.shape[1]), dtype))

    def slopes(self, table, cotangent):
        """Return the derivative in each count; see :meth:`~hmom_jax.rows.Rows.slopes`."""
        of_part = lambda part: slopes(*part[1:], self._table_part(table, part[0]), cotangent)
        return jax.lax.map(of_part, (jnp.arange(len(self.index)), jnp.asarray(self.index), jnp.asarray(self.row)))

    def _table_part(self, table, number):
        """Return a part of the table; a last one that would reach beyond its end begins earlier."""
        return jax.lax.dynamic_slice_in_dim(table, number * self.step, self.step)


def fold_columns(counts: sp.csr_array, *, n_table: int, capacity: int) -> Rows:
    """Lay out the columns of a matrix as rows, for products of its transpose with tables of ``n_table`` rows.

    Tables may have more rows than the matrix. ``capacity`` is an upper bound on the nonzeros that decides shapes, as
    far as these do not.
    """
    n_parts = n_parts_for(*counts.shape, capacity)
    if n_parts > 1:
        step = geometric(-(-counts.shape[0] // n_parts), per_octave=8)
        lengths = [np.bincount(part.indices, minlength=counts.shape[1]) for part in _parts(counts, step)]
        largest = max(part.sum() for part in lengths)
        if largest * len(lengths) <= _UNEVEN * counts.nnz:
            bounds = {"capacity": geometric(int(largest)), "longest": step}
            width = piece_width(np.concatenate(lengths))
            sizes = [fold_shape(part, **bounds, snug=True, width=width).sizes for part in lengths]
            shape = FoldShape(width, tuple(map(max, zip(*sizes, strict=True))))
            return _stack(counts, len(lengths), n_table, shape=shape, **bounds)
    by_column = counts.tocsc()
    return fold_rows(
        by_column.indptr, by_column.indices, by_column.data,
        capacity=capacity, longest=n_table, dtype=counts.dtype, table=n_table, snug=True,
    )  # fmt: skip


def n_parts_for(n_docs: int, n_rows: int, capacity: int) -> int:
    """Choose how many parts to make of a table over documents: such that each fits a cache, while rows stay long.

    Examples
    --------
    >>> [n_parts_for(n, n_rows=10_000, capacity=100 * n) for n in (20_000, 200_000, 1_000_000)]
    [1, 7, 31]
    >>> n_parts_for(1_000_000, n_rows=1_000_000, capacity=100_000_000)  # a hundred entries a row: few for each part
    6
    """
    if sparse.wants_buckets():
        return 1
    return max(1, min(-(-n_docs // _PART), capacity // (_LEAST_PER_ROW * n_rows)))


def _parts(counts: sp.csr_array, step: int) -> Iterator[sp.csr_array]:
    """Return every ``step`` rows of a matrix, the entries not copied."""
    for first in range(0, counts.shape[0], step):
        ends = counts.indptr[first : first + step + 1]
        here = slice(ends[0], ends[-1])
        shape = (len(ends) - 1, counts.shape[1])
        yield sp.csr_array((counts.data[here], counts.indices[here], ends - ends[0]), shape=shape)


def _stack(
    counts: sp.csr_array, n_parts: int, n_table: int, *, capacity: int, longest: int, shape: FoldShape
) -> StackedRows:
    """Lay out part by part, into arrays made once: in a list, parts would be there twice."""
    bounds = {"capacity": capacity, "longest": longest, "dtype": counts.dtype, "table": longest, "shape": shape}
    whole = None
    for number, part in enumerate(_parts(counts, longest)):
        by_column = part.tocsc()
        late = max(0, (number + 1) * longest - n_table)  # such a part begins that much earlier
        found = fold_rows(by_column.indptr, by_column.indices + late, by_column.data, **bounds)
        if whole is None:
            room = lambda leaf: aligned_zeros(n_parts * leaf.size, leaf.dtype).reshape(n_parts, *leaf.shape)
            whole = jax.tree.map(room, found)
        for leaf, values in zip(jax.tree.leaves(whole), jax.tree.leaves(found), strict=True):
            leaf[number] = values
    return StackedRows(**vars(whole), step=longest)
