r"""Derivatives of the best rotation, by the implicit function theorem on O(l): whatever the solver, whatever it took.

At a minimum the Riemannian gradient $K(O, H)$, a skew matrix, is zero. Moving the slices by $\dot H$ moves the minimum
along $\dot O = O\,\Omega$ with $\partial_O K[O\,\Omega] + \partial_H K[\dot H] = 0$: a linear system in the
$l(l-1)/2$ entries of $\Omega$.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hmom_jax.decompose.objective import rotate
from hmom_jax.linalg import solve

# Smoothing of the norms relative to the size of the slices, the last of Cayley descent.
SMOOTHING = {32: 1e-3, 64: 1e-6}


def gradient_field(
    rotated: Float[Array, "*nodes n_slices rank rank"], epsilon: Float[Array, "*nodes"] | None
) -> tuple[Float[Array, "*nodes"], Float[Array, "*nodes rank rank"]]:
    r"""Return the objective and its Riemannian gradient $K$, from slices already rotated.

    The sum of norms, smoothed by ``epsilon``; or, where that is None, half the sum of squares.
    """
    rank = rotated.shape[-1]
    outside = jnp.broadcast_to(1 - jnp.eye(rank, dtype=rotated.dtype), (*rotated.shape[:-3], rank, rank))
    squares = (rotated**2).sum(-3)
    if epsilon is None:
        value, weight = 0.5 * (outside * squares).sum((-1, -2)), outside
    else:
        norms = jnp.sqrt(squares + epsilon[..., None, None] ** 2)
        value, weight = (outside * norms).sum((-1, -2)), outside / norms
    half = jnp.einsum("...rij,...rjk->...ik", rotated, rotated * weight[..., None, :, :], precision="highest")
    return value, half - jnp.swapaxes(half, -1, -2)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def stationary(
    slices: Float[Array, "*nodes n_slices rank rank"], rotation: Float[Array, "*nodes rank rank"], squares: bool
) -> Float[Array, "*nodes rank rank"]:
    """Return the rotation, a minimum found by any solver, as a differentiable function of the slices.

    Parameters
    ----------
    slices
        What is diagonalised.
    rotation
        The minimum; taken as it is.
    squares
        Whether the solver minimises the sum of squares (Jacobi, and all at rank 2) or the sum of norms (Cayley).
    """
    return rotation


@stationary.defjvp
def _stationary_jvp(squares, primals, tangents):
    slices, start = primals
    rotation = stationary(slices, start, squares)
    if rotation.shape[-1] < 2:
        return rotation, jnp.zeros_like(rotation)
    epsilon = None if squares else smoothing(slices)
    moved = jax.jvp(lambda slices: upper_gradient(slices, rotation, epsilon), (slices,), tangents[:1])[1]
    turn = undoing_turn(slices, rotation, epsilon, moved)
    return rotation, jnp.matmul(rotation, turn, precision="highest")


def undoing_turn(
    slices: Float[Array, "*nodes n_slices rank rank"],
    rotation: Float[Array, "*nodes rank rank"],
    epsilon: Float[Array, "*nodes"] | None,
    gradient: Float[Array, "*nodes pairs"],
) -> Float[Array, "*nodes rank rank"]:
    """Return the skew matrix along which the rotation has to move to take a gradient back to zero, to first order."""
    entries = solve(_hessian(slices, rotation, epsilon), -gradient[..., None])[..., 0]
    return _skew(entries, rotation.shape[-1])


def smoothing(slices: Float[Array, "*nodes n_slices rank rank"]) -> Float[Array, "*nodes"]:
    """Return the epsilon at which Cayley descent ends."""
    size = jnp.sqrt((slices**2).sum((-1, -2, -3)) / slices.shape[-1])
    return SMOOTHING[jnp.finfo(slices.dtype).bits] * jax.lax.stop_gradient(size)


def upper_gradient(
    slices: Float[Array, "*nodes n_slices rank rank"],
    rotation: Float[Array, "*nodes rank rank"],
    epsilon: Float[Array, "*nodes"] | None,
) -> Float[Array, "*nodes pairs"]:
    """Return the upper triangle of the Riemannian gradient."""
    first, second = np.triu_indices(rotation.shape[-1], 1)
    return gradient_field(rotate(slices, rotation), epsilon)[1][..., first, second]


def _hessian(slices, rotation, epsilon):
    """Return how the gradient changes where the rotation moves along each pair of components."""
    n_pairs = rotation.shape[-1] * (rotation.shape[-1] - 1) // 2

    def along(skew):
        turned = jnp.einsum("...ij,jk->...ik", rotation, skew, precision="highest")
        return jax.jvp(lambda rotation: upper_gradient(slices, rotation, epsilon), (rotation,), (turned,))[1]

    pairs = _skew(jnp.eye(n_pairs, dtype=slices.dtype), rotation.shape[-1])
    hessian = jnp.moveaxis(jax.vmap(along)(pairs), 0, -1)
    # Pairs that nothing turns (void components, equal slices) stay where they are.
    idle = (jax.lax.stop_gradient(jnp.abs(hessian)).sum(-1) == 0)[..., None]
    return hessian + jnp.where(idle, jnp.broadcast_to(jnp.eye(n_pairs, dtype=slices.dtype), hessian.shape), 0.0)


def _skew(entries, rank: int):
    """Return skew matrices from their upper triangles."""
    first, second = np.triu_indices(rank, 1)
    basis = np.zeros((len(first), rank, rank))
    basis[np.arange(len(first)), first, second], basis[np.arange(len(first)), second, first] = 1.0, -1.0
    return jnp.einsum("...m,mij->...ij", entries, jnp.asarray(basis, entries.dtype), precision="highest")
