r"""Derivatives of the best rotation, by the implicit function theorem on O(l): whatever the solver, whatever it took.

At a minimum the Riemannian gradient $K(O, H)$, a skew matrix, is zero. Moving the slices by $\dot H$ moves the minimum
along $\dot O = O\,\Omega$ with $\partial_O K[O\,\Omega] + \partial_H K[\dot H] = 0$: a linear system in the
$l(l-1)/2$ entries of $\Omega$.

**Where the objective is flat along some turn, so that the minimum is not a point but a curve, the rotation is not
defined, and its derivative is NaN**, forwards and backwards. Components that are void or equal, which nothing turns,
stay where they are.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hmom_jax.decompose.objective import rotate
from hmom_jax.linalg import eigh, solve

# Smoothing of the norms relative to the size of the slices, the last of Cayley descent.
SMOOTHING = {32: 1e-3, 64: 1e-6}
# Curvature, in rounding errors of the largest, up to which the objective counts as flat.
_FLAT = 20


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
    hessian = _hessian(slices, rotation, epsilon)
    turn = _skew(_undo(hessian, moved), rotation.shape[-1])
    # A factor rather than a choice: backwards, a choice would pass on zeros.
    flat = _is_flat(hessian, _scale(slices, epsilon))
    defined = jnp.where(flat, jnp.nan, 1.0).astype(turn.dtype)[..., None, None]
    return rotation, jnp.matmul(rotation, defined * turn, precision="highest")


def _is_flat(hessian, scale):
    """Tell where the objective hardly changes along some turn."""
    curvature = jnp.abs(eigh(jax.lax.stop_gradient(0.5 * (hessian + jnp.swapaxes(hessian, -1, -2))))[0])
    return curvature.min(-1) <= _FLAT * jnp.finfo(hessian.dtype).eps * jnp.maximum(curvature.max(-1), scale)


def undoing_turn(
    slices: Float[Array, "*nodes n_slices rank rank"],
    rotation: Float[Array, "*nodes rank rank"],
    epsilon: Float[Array, "*nodes"] | None,
    gradient: Float[Array, "*nodes pairs"],
) -> Float[Array, "*nodes rank rank"]:
    """Return the skew matrix along which the rotation has to move to take a gradient back to zero, to first order."""
    return _skew(_undo(_hessian(slices, rotation, epsilon), gradient), rotation.shape[-1])


def _undo(hessian, gradient):
    return solve(hessian, -gradient[..., None])[..., 0]


def smoothing(slices: Float[Array, "*nodes n_slices rank rank"]) -> Float[Array, "*nodes"]:
    """Return the epsilon at which Cayley descent ends."""
    return SMOOTHING[jnp.finfo(slices.dtype).bits] * _size(slices)


def _size(slices):
    return jnp.sqrt((jax.lax.stop_gradient(slices) ** 2).sum((-1, -2, -3)) / slices.shape[-1])


def _scale(slices, epsilon):
    """Return what curvatures are compared with: of the order of the objective."""
    size = _size(slices)
    return size**2 if epsilon is None else size


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
    rank = rotation.shape[-1]
    first, second = np.triu_indices(rank, 1)
    rotated = rotate(slices, rotation)
    change = _gradient_change(rotated, epsilon)
    change = change - jnp.swapaxes(change, -1, -2)  # along a skew matrix: E_pq less E_qp
    hessian = change[..., first, second, :, :][..., first, second]
    # Pairs of void or equal components, which nothing turns, stay where they are.
    seen = jax.lax.stop_gradient(jnp.abs(hessian)).sum(-1) > 0
    held = jax.lax.stop_gradient(rotated)
    diagonal = jnp.diagonal(held, axis1=-2, axis2=-1)
    apart = (held[..., first, second] != 0) | (diagonal[..., first] != diagonal[..., second])
    idle = (~(seen | apart.any(-2)))[..., None]
    scale = jnp.where(_size(slices) > 0, _scale(slices, epsilon), 1.0)[..., None, None]
    return hessian + jnp.where(idle, scale, 0.0) * jnp.broadcast_to(
        jnp.eye(len(first), dtype=scale.dtype), hessian.shape
    )


def _gradient_change(rotated, epsilon):
    r"""Return the change of entry $ij$ of the gradient as $A_r$ becomes $A_r + A_r E_{pq} + E_{qp} A_r$, at $ijpq$.

    With $C_{ijkl} = \sum_r A_{r,ij} A_{r,kl}$, weights $w$ and norms $n$, half of the gradient is
    $\sum_k w_{kj} C_{ikkj}$. Only $C$ has to do with the slices: one product over them and $l^4$ numbers, where a
    derivative along each of $l(l-1)/2$ pairs would hold as many copies of all slices.
    """
    rank = rotated.shape[-1]
    eye = jnp.eye(rank, dtype=rotated.dtype)
    einsum = partial(jnp.einsum, precision="highest")
    inner = einsum("...rij,...rkl->...ijkl", rotated, rotated)
    near = einsum("...ikkj->...ikj", inner)
    outside = jnp.broadcast_to(1 - eye, (*rotated.shape[:-3], rank, rank))
    norms = None if epsilon is None else jnp.sqrt((rotated**2).sum(-3) + epsilon[..., None, None] ** 2)
    weight = outside if epsilon is None else outside / norms
    half = einsum("...kj,...ikj->...ij", weight, near)
    across = einsum("...kj,...ikp->...ijp", weight, near)
    change = einsum("...qj,...ipqj->...ijpq", weight, inner) + einsum("...qj,...iqpj->...ijpq", weight, inner)
    if epsilon is not None:  # the weights change too
        bend = outside / norms**3
        across = across - einsum("...kj,...pkj,...ikj->...ijp", bend, near, near)
        change = change - einsum("...qj,...pjq,...iqj->...ijpq", bend, near, near)
    change = change + einsum("qi,...pj->...ijpq", eye, half) + einsum("qj,...ijp->...ijpq", eye, across)
    return change - jnp.swapaxes(change, -4, -3)


def _skew(entries, rank: int):
    """Return skew matrices from their upper triangles."""
    first, second = np.triu_indices(rank, 1)
    basis = np.zeros((len(first), rank, rank))
    basis[np.arange(len(first)), first, second], basis[np.arange(len(first)), second, first] = 1.0, -1.0
    return jnp.einsum("...m,mij->...ij", entries, jnp.asarray(basis, entries.dtype), precision="highest")
