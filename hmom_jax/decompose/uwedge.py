r"""Non-orthogonal joint diagonalisation by uniformly weighted exhaustive diagonalisation (UWEDGE).

Seeks $B$, not constrained to be orthogonal, such that all $B C_t B'$ are as diagonal as possible. With
$D_t = B C_t B'$ and $\lambda_t$ their diagonals, the mixing $A$ that is left, $D_t \approx A \Lambda_t A'$, is
to first order the solution of a $2 \times 2$ system per pair $(i, j)$; then $B \leftarrow A^{-1} B$. All pairs are
solved at once, so that an iteration is a handful of small products: QRJ1D, which the original code uses, goes through
the pairs in turn.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hmom_jax.decompose.objective import Solution
from hmom_jax.linalg import solve


class _State(NamedTuple):
    diagonaliser: Float[Array, "*nodes rank rank"]
    done: Bool[Array, "*nodes"]
    n_iter: Int[Array, "*nodes"]


@partial(jax.jit, static_argnames="max_iter")
def uwedge(
    matrices: Float[Array, "*nodes n_matrices rank rank"],
    start: Float[Array, "*nodes rank rank"],
    *,
    max_iter: int = 100,
) -> Solution:
    r"""Return the diagonaliser $B$ (rows of unit length) in the field ``rotation``.

    Parameters
    ----------
    matrices
        Symmetric matrices $C_t$, of any signs; leading axes are separate problems.
    start
        First guess of $B$, for instance the transpose of what Jacobi sweeps find.
    max_iter
        Updates of $B$.

    References
    ----------
    Tichavsky and Yeredor (2009), "Fast approximate joint diagonalization incorporating weight matrices".

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> mixing = jnp.array([[1.0, 0.6], [0.0, 0.8]])
    >>> values = jnp.array([[1.0, 2.0], [3.0, 1.0]])
    >>> found = uwedge(jnp.einsum("ij,tj,kj->tik", mixing, values, mixing), jnp.eye(2)).rotation
    >>> [[f"{abs(x):.3f}" for x in row] for row in found @ mixing]
    [['0.800', '0.000'], ['0.000', '0.800']]
    """
    eps = jnp.finfo(matrices.dtype).eps
    nodes, rank = matrices.shape[:-3], matrices.shape[-1]
    identity = jnp.broadcast_to(jnp.eye(rank, dtype=matrices.dtype), (*nodes, rank, rank))

    def keep_going(state):
        return ~state.done.all() & (state.n_iter.max() < max_iter)

    def update(state: _State) -> _State:
        b = state.diagonaliser
        turned = jnp.einsum("...ij,...tjk,...lk->...til", b, matrices, b, precision="highest")
        mixing = identity + _remaining(turned)
        b_new = _unit_rows(solve(mixing, b))
        fine = jnp.isfinite(b_new).all((-1, -2))  # a singular step ends the descent at the last good point
        moved = jnp.abs(b_new - b).max((-1, -2))
        keep = state.done | ~fine
        return _State(
            jnp.where(keep[..., None, None], b, b_new), keep | (moved <= 20 * eps), state.n_iter + ~state.done
        )

    state = _State(_unit_rows(start), jnp.zeros(nodes, bool), jnp.zeros(nodes, int))
    state = jax.lax.while_loop(keep_going, update, state)
    return Solution(state.diagonaliser, state.done, state.n_iter, jnp.zeros(nodes, matrices.dtype))


def _remaining(turned):
    """Return the off-diagonal part of the mixing that is left, to first order."""
    diagonal = jnp.diagonal(turned, axis1=-2, axis2=-1)
    across = jnp.einsum("...ti,...tj->...ij", diagonal, diagonal, precision="highest")
    own = jnp.diagonal(across, axis1=-2, axis2=-1)
    # D_ij = A_ij lambda_j + A_ji lambda_i over all matrices: least squares for the pair (A_ij, A_ji).
    by_column = jnp.einsum("...tij,...tj->...ij", turned, diagonal, precision="highest")
    by_row = jnp.swapaxes(by_column, -1, -2)
    determinant = own[..., :, None] * own[..., None, :] - across**2
    # Two components with proportional diagonals cannot be told apart: leave that pair as it is.
    eps = jnp.finfo(turned.dtype).eps
    clear = determinant > 10 * eps * own[..., :, None] * own[..., None, :]
    pair = (by_column * own[..., :, None] - by_row * across) / jnp.where(clear, determinant, 1.0)
    return jnp.where(clear, pair, 0.0)  # the diagonal has determinant zero


def _unit_rows(matrix):
    norm = jnp.linalg.norm(matrix, axis=-1, keepdims=True)
    return matrix / jnp.where(norm > 0, norm, 1.0)
