"""Small dense factorisations over leading axes, safe on every device.

On a CPU a *batched* LAPACK call waits, on a worker of XLA's thread pool, for other workers of the same pool: two such
calls at a time lock up a machine with two cores. There the leading axes are looped over, one plain call after the
other; accelerators get the batched call.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

# Entries of an array up to which LAPACK (OpenBLAS) stays with one thread.
_ONE_THREAD = 8192
# Vectors up to which QR takes no longer than what is quicker for more of them, and compiles in half the time.
_FEW_VECTORS = 16


def eigh(
    matrix: Float[Array, "*nodes size size"], live: Int[Array, ""] | None = None
) -> tuple[Float[Array, "*nodes size"], Float[Array, "*nodes size size"]]:
    """Return eigenvalues in ascending order, and eigenvectors in columns; ``live`` as in :func:`over_nodes`."""
    return over_nodes(lambda m: tuple(jnp.linalg.eigh(m)), matrix, live=live)


def orthonormalise(block: Float[Array, "*nodes n_words columns"]) -> Float[Array, "*nodes n_words columns"]:
    """Return an orthonormal basis of the columns (the Q of QR)."""
    return over_nodes(lambda b: jnp.linalg.qr(b)[0], block)


def orthonormalise_rows(rows: Float[Array, "*nodes vectors n_words"]) -> Float[Array, "*nodes vectors n_words"]:
    """Return orthonormal rows with the same span as some long ones.

    Few by QR. More by the Cholesky factors of their inner products, twice, in a fraction of the time; rows that are
    almost dependent do not come out orthonormal that way, and go by QR after all.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> basis = orthonormalise_rows(jnp.arange(20_000.0).reshape(2, 10_000) % 7)
    >>> abs(basis @ basis.T).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if rows.shape[-2] <= _FEW_VECTORS:
        return _by_stretches(rows)
    eps = float(jnp.finfo(rows.dtype).eps)
    # The shift keeps the first factor from breaking down; what it leaves is mended by the second.
    found = _by_inner_products(_by_inner_products(rows, 100 * eps), 0.0)
    wrong = jnp.abs(_inner_products(found) - _identity(rows))
    return jax.lax.cond(
        wrong.max() < 50 * eps, lambda _, found: found, lambda rows, _: _by_stretches(rows), rows, found
    )


def _by_inner_products(rows, shift: float):
    """Divide rows by the Cholesky factor of their inner products."""
    length = jnp.linalg.norm(rows, axis=-1, keepdims=True)
    rows = rows / jnp.where(length > 0, length, 1.0)
    identity = _identity(rows)

    def inverse_factor(inner, identity):
        factor = jax.lax.linalg.cholesky(inner, symmetrize_input=False)
        return jax.lax.linalg.triangular_solve(factor, identity, left_side=True, lower=True)

    inverse = over_nodes(inverse_factor, _inner_products(rows) + shift * identity, identity)
    return jnp.matmul(inverse, rows, precision="highest")


def _inner_products(rows):
    return jnp.matmul(rows, jnp.swapaxes(rows, -1, -2), precision="highest")


def _identity(rows):
    """Return what the inner products of orthonormal rows are."""
    return jnp.broadcast_to(jnp.eye(rows.shape[-2], dtype=rows.dtype), (*rows.shape[:-1], rows.shape[-2]))


def _by_stretches(rows):
    """Orthonormalise by QR, a stretch of words at a time.

    LAPACK takes threads of its own for larger arrays, and a hundred times as long when the machine is busy with
    others. Stretches are small enough for one thread; their triangles, side by side, are orthonormalised in turn.
    """
    *lead, vectors, length = rows.shape
    stretch = max(2 * vectors, _ONE_THREAD // vectors)
    if length <= stretch:
        return over_nodes(lambda rows: jnp.linalg.qr(rows.mT)[0].mT, rows)
    parts = -(-length // stretch)
    rows = jnp.pad(rows, [(0, 0)] * len(lead) + [(0, 0), (0, parts * stretch - length)])
    cut = lambda rows: jnp.swapaxes(rows.reshape(*lead, vectors, parts, -1), -3, -2)  # one part after the other
    join = lambda cut: jnp.swapaxes(cut, -3, -2).reshape(*lead, vectors, -1)
    q, r = over_nodes(lambda part: tuple(side.mT for side in jnp.linalg.qr(part.mT)), cut(rows))
    top = cut(_by_stretches(join(r)))
    return join(jnp.matmul(top, q, precision="highest"))[..., :length]


def triangle(block: Float[Array, "*nodes rows columns"]) -> Float[Array, "*nodes columns columns"]:
    """Return the R of QR."""
    return over_nodes(partial(jnp.linalg.qr, mode="r"), block)


def solve(
    matrix: Float[Array, "*nodes size size"], right: Float[Array, "*nodes size columns"]
) -> Float[Array, "*nodes size columns"]:
    """Solve linear systems."""
    return over_nodes(jnp.linalg.solve, matrix, right)


def solve_accretive(
    matrix: Float[Array, "*nodes size size"], right: Float[Array, "*nodes size columns"]
) -> Float[Array, "*nodes size columns"]:
    """Solve small systems whose matrix has a positive definite symmetric part, all of a batch at once.

    Gauss-Jordan elimination, which needs no pivoting for such matrices (identity plus skew, Gram matrices): plain
    array operations on every device, where LAPACK would be called once per member of the batch.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> solve_accretive(jnp.array([[1.0, 1.0], [-1.0, 1.0]]), jnp.array([[2.0], [0.0]])).tolist()
    [[1.0], [1.0]]
    """
    size = matrix.shape[-1]

    def eliminate(k, table):
        row = jax.lax.dynamic_index_in_dim(table, k, axis=-2)
        row = row / jax.lax.dynamic_index_in_dim(row, k, axis=-1)
        column = jax.lax.dynamic_index_in_dim(table, k, axis=-1)
        # Minus one at the pivot: the same update leaves the scaled row there and zeros elsewhere.
        unit = jnp.broadcast_to((jnp.arange(size) == k)[:, None], column.shape).astype(table.dtype)
        return table - (column - unit) * row

    return jax.lax.fori_loop(0, size, eliminate, jnp.concatenate([matrix, right], axis=-1))[..., size:]


def over_nodes(function, *operands, live: Int[Array, ""] | None = None):
    """Apply a function of matrices, or of stacks of them, to all nodes: one after the other on a CPU.

    There only the first ``live`` nodes are done, where that is given; what others come to must not matter.
    """
    if operands[0].ndim == 2:
        return function(*operands)

    def one_by_one(*operands):
        lead = operands[0].shape[:-2]
        flat = [jnp.asarray(operand).reshape(-1, *operand.shape[-2:]) for operand in operands]
        if live is None:
            results = jax.lax.map(lambda parts: function(*parts), tuple(flat))
        else:
            at = lambda node: function(*(operand[node] for operand in flat))
            put = lambda node, all_, one: jax.lax.dynamic_update_index_in_dim(all_, one, node, axis=0)
            zeros = lambda one: jnp.zeros((len(flat[0]), *one.shape), one.dtype)
            step = lambda node, results: jax.tree.map(partial(put, node), results, at(node))
            results = jax.lax.fori_loop(0, live, step, jax.tree.map(zeros, jax.eval_shape(at, 0)))
        return jax.tree.map(lambda leaf: leaf.reshape(*lead, *leaf.shape[1:]), results)

    return jax.lax.platform_dependent(*operands, cpu=one_by_one, default=function)
