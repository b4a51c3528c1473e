r"""Joint diagonalisation by Jacobi sweeps: the sum of *squares* of the off-diagonal entries.

Paper -> code: $H_r$ -> ``slices``, $O$ -> ``rotation``. At rank 2 one rotation is SIDIWO's closed form; above, the
squares weigh large entries more than SIDIWO's sum of norms does, so that the answer is a start for it.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hmom_jax.decompose.objective import Solution, orthogonal_again


class _Sweep(NamedTuple):
    slices: Float[Array, "*nodes n_slices rank rank"]  # rotated so far
    rotation: Float[Array, "*nodes rank rank"]
    gain: Float[Array, "*nodes"]  # largest decrease of a rotation of the sweep
    n_sweeps: Int[Array, "*nodes"]
    done: Bool[Array, "*nodes"]


@partial(jax.jit, static_argnames="max_sweeps")
def jacobi(slices: Float[Array, "*nodes n_slices rank rank"], *, max_sweeps: int = 100) -> Solution:
    r"""Minimise $\sum_r \sum_{i \ne j} (O' H_r O)_{ij}^2$ by plane rotations.

    Each plane $(i, j)$ is turned by the best angle, $4t = \mathrm{atan2}(-\sum f h, \sum f^2 / 4 - \sum h^2)$ with
    $h = H_r[i, j]$, $f = H_r[i, i] - H_r[j, j]$. A round turns $l / 2$ disjoint planes, which do not disturb each
    other's diagonal entries; $l - 1$ rounds (a round-robin tournament) visit every plane once.

    Parameters
    ----------
    slices
        Symmetric matrices; leading axes are separate problems.
    max_sweeps
        Visits of every plane; converged problems stop turning earlier.

    References
    ----------
    Cardoso and Souloumiac (1996), "Jacobi angles for simultaneous diagonalization".

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> found = jacobi(jnp.array([[[2.0, 1.0], [1.0, 2.0]], [[0.0, 3.0], [3.0, 0.0]]]))
    >>> [[f"{abs(x):.4f}" for x in row] for row in found.rotation]
    [['0.7071', '0.7071'], ['0.7071', '0.7071']]
    """
    nodes, rank = slices.shape[:-3], slices.shape[-1]
    eps = jnp.finfo(slices.dtype).eps
    total = (slices**2).sum((-1, -2, -3))
    schedule = _round_robin(rank)

    def play(state: _Sweep, pairs):
        partner, side = pairs
        cosine, sine, gain = _best_angles(state.slices, partner, side)
        active = ~state.done[..., None]
        cosine, sine = jnp.where(active, cosine, 1.0), jnp.where(active, sine, 0.0)
        turned = _turn(_turn(state.slices, partner, cosine, sine, -1), partner, cosine, sine, -2)
        rotation = _turn(state.rotation, partner, cosine, sine, -1)
        return state._replace(slices=turned, rotation=rotation, gain=jnp.maximum(state.gain, gain)), None

    def sweep(state: _Sweep) -> _Sweep:
        counted = state.n_sweeps + ~state.done
        state, _ = jax.lax.scan(play, state._replace(gain=jnp.zeros(nodes, slices.dtype)), schedule)
        return state._replace(n_sweeps=counted, done=state.done | (state.gain <= (4 * eps) ** 2 * total))

    def keep_going(state: _Sweep):
        return ~state.done.all() & (state.n_sweeps.max() < max_sweeps)

    start = _Sweep(
        slices,
        jnp.broadcast_to(jnp.eye(rank, dtype=slices.dtype), (*nodes, rank, rank)),
        jnp.zeros(nodes, slices.dtype),
        jnp.zeros(nodes, int),
        total == 0,
    )
    state = jax.lax.while_loop(keep_going, sweep, start)
    return Solution(orthogonal_again(state.rotation), state.done, state.n_sweeps, jnp.zeros(nodes, slices.dtype))


def _round_robin(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each index's partner and which side of the pair it is on (+1 first, -1 second, 0 idle), per round."""
    size = rank + rank % 2
    places = np.arange(size)
    partner = np.empty((size - 1, rank), np.int32)
    for played in partner:
        opposite = np.empty(size, int)
        opposite[places] = places[::-1]
        played[:] = np.where(opposite[:rank] < rank, opposite[:rank], np.arange(rank))  # odd rank: one sits out
        places[1:] = np.roll(places[1:], 1)
    return partner, np.sign(partner - np.arange(rank)).astype(np.int32)


def _best_angles(slices, partner, side):
    """Return cosine and signed sine for each index's plane, and the largest decrease they bring."""
    diagonal = jnp.diagonal(slices, axis1=-2, axis2=-1)
    # Both indices of a pair read the same entries in the same order: a tie (across zero, of either sign) would
    # otherwise turn them by opposite angles, and the product would no longer be a rotation.
    index = jnp.arange(partner.shape[0], dtype=partner.dtype)
    first, second = jnp.minimum(index, partner), jnp.maximum(index, partner)
    h = slices[..., first, second]
    f = diagonal[..., first] - diagonal[..., second]
    across = -(f * h).sum(-2)
    along = 0.25 * (f**2).sum(-2) - (h**2).sum(-2)
    side = jnp.broadcast_to(side, across.shape).astype(h.dtype)
    still = (side == 0) | ((across == 0) & (along >= 0))
    angle = 0.25 * jnp.arctan2(jnp.where(still, 0.0, across), jnp.where(still, 1.0, along))
    length = jnp.hypot(across, along)
    # length - along, without cancellation where along is positive
    gain = 0.5 * jnp.where(along > 0, across**2 / jnp.where(along > 0, length + along, 1.0), length - along)
    return jnp.cos(angle), side * jnp.sin(angle), jnp.where(still, 0.0, gain).max(-1)


def _turn(array, partner, cosine, sine, axis):
    """Multiply with the plane rotations along an axis of rows or columns: two entries of each are mixed."""
    mixed = jnp.take(array, partner, axis=axis)
    extra = array.ndim - cosine.ndim - 1  # axes between nodes and the one that is turned
    shape = (*cosine.shape[:-1], *(1,) * extra, *((1, -1) if axis == -1 else (-1, 1)))
    return array * cosine.reshape(shape) - mixed * sine.reshape(shape)
