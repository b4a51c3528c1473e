r"""SIDIWO at any rank: Riemannian gradient descent on O(l) with the Cayley retraction.

Paper -> code: $H_r$ -> ``slices``, $O$ -> ``rotation``; the objective is equation (9), a sum of norms, smoothed to
$F_\epsilon(O) = \sum_{i \ne j} (\sum_r (O' H_r O)_{ij}^2 + \epsilon^2)^{1/2}$ with $\epsilon$ driven down.

With $A_r = O' H_r O$ and $B_r = A_r / n$ (entry by entry, $n_{ij}$ the smoothed norms, zero diagonal), moving along
$O\,\Omega$ for a skew $\Omega$ changes $F$ by $\langle K, \Omega \rangle$, $K = \sum_r (A_r B_r - B_r A_r)$: $K$ is the
Riemannian gradient, seen from $O$. A step is $O \leftarrow O\,\mathrm{cay}(-\tau K)$,
$\mathrm{cay}(\Omega) = (I - \Omega/2)^{-1} (I + \Omega/2)$.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hmom_jax.decompose.jacobi import jacobi
from hmom_jax.decompose.objective import Solution, keep_void, off_diagonal, orthogonal_again, rotate
from hmom_jax.decompose.stationary import SMOOTHING, gradient_field, smoothing, undoing_turn, upper_gradient
from hmom_jax.keys import normal
from hmom_jax.linalg import orthonormalise, solve_accretive

# Smoothing relative to the size of the slices: first, last, and what one stage leaves of it. The last lies above
# the rounding of the slices, below which the direction of a vanishing norm is noise.
_FIRST_EPSILON = 0.1
_SHRINK = 0.1

# Steps of Newton's method at the end. One leaves of a slow descent too much for derivatives, which are right to the
# order of what is left; three also mend one that ran out of iterations close to the minimum.
_NEWTON_STEPS = 3

# Sufficient decrease, backtracking, and memory of the non-monotone line search (Zhang and Hager 2004).
_ARMIJO = 1e-4
_BACKTRACK = 0.25
_MEMORY = 0.85


def cayley(skew: Float[Array, "*nodes rank rank"]) -> Float[Array, "*nodes rank rank"]:
    r"""Return $(I - \Omega/2)^{-1} (I + \Omega/2)$, a rotation for every skew $\Omega$.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> cayley(jnp.array([[0.0, 2.0], [-2.0, 0.0]])).tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    identity = jnp.broadcast_to(jnp.eye(skew.shape[-1], dtype=skew.dtype), skew.shape)
    return solve_accretive(identity - 0.5 * skew, identity + 0.5 * skew)


def cayley_rotation(
    slices: Float[Array, "*nodes n_slices rank rank"],
    key: Key[Array, "*keys"],
    *,
    n_starts: int,
    max_iter: int,
) -> Solution:
    """Minimise the sum of norms from the Jacobi solution and from random rotations, all in one batch; keep the best.

    Parameters
    ----------
    slices
        Symmetric matrices, best compressed; leading axes are separate problems.
    key
        One for all problems, or one for each.
    n_starts
        Random rotations beside the Jacobi solution.
    max_iter
        Evaluations of the objective per start.
    """
    nodes = slices.shape[:-3]
    swept = jacobi(slices).rotation
    starts = random_rotations(key, slices, n_starts)
    starts = jnp.concatenate([swept[..., None, :, :], starts], axis=-3)
    found = descend(slices, starts, max_iter=max_iter)
    # The Jacobi solution itself stays in the race: smoothing may lead away from it.
    best = pick_best(slices, jnp.concatenate([found.rotation, swept[..., None, :, :]], axis=-3))
    from_descent = jnp.minimum(best, n_starts)
    chosen = jax.tree.map(lambda leaf: _take(leaf, from_descent, len(nodes)), found)
    stayed = (best > n_starts)[..., None, None]
    step = lambda _, rotation: newton_step(slices, rotation)
    rotation = jax.lax.fori_loop(0, _NEWTON_STEPS, step, jnp.where(stayed, swept, chosen.rotation))
    gradient = upper_gradient(slices, rotation, smoothing(slices))
    return chosen._replace(rotation=rotation, gradient_norm=jnp.sqrt(2 * (gradient**2).sum(-1)))


def newton_step(
    slices: Float[Array, "*nodes n_slices rank rank"], rotation: Float[Array, "*nodes rank rank"]
) -> Float[Array, "*nodes rank rank"]:
    """Take a step of Newton's method for the sum of norms: makes a good minimum exact; a step that does not is dropped.

    Descent stops where the objective no longer changes, which leaves the rotation with half of its digits. Far from a
    minimum the gradient may also fall on the way to a saddle: the objective must not rise.
    """
    if rotation.shape[-1] < 2:
        return rotation
    epsilon = smoothing(slices)
    gradient = upper_gradient(slices, rotation, epsilon)
    turn = cayley(undoing_turn(slices, rotation, epsilon, gradient))
    turned = jnp.matmul(rotation, turn, precision="highest")
    size = lambda gradient: (gradient**2).sum(-1)
    value = lambda rotation: gradient_field(rotate(slices, rotation), epsilon)[0]
    lower = value(turned) <= value(rotation) * (1 + 10 * jnp.finfo(rotation.dtype).eps)
    better = (size(upper_gradient(slices, turned, epsilon)) < size(gradient)) & lower
    return jnp.where(better[..., None, None], turned, rotation)


def random_rotations(
    key: Key[Array, "*keys"], slices: Float[Array, "*nodes n_slices rank rank"], n_starts: int
) -> Float[Array, "*nodes starts rank rank"]:
    """Draw orthogonal matrices, uniformly but for the signs of their columns, which the objective does not see.

    Components that are zero in all slices (without an eigenvalue) are left where they are.
    """
    nodes, rank = slices.shape[:-3], slices.shape[-1]
    void = (slices == 0).all((-1, -3))
    void = jnp.broadcast_to(void[..., None, :], (*nodes, n_starts, rank))
    return orthonormalise(keep_void(normal(key, nodes, (n_starts, rank, rank), slices.dtype), void))


def pick_best(
    slices: Float[Array, "*nodes n_slices rank rank"], rotations: Float[Array, "*nodes starts rank rank"]
) -> Int[Array, "*nodes"]:
    """Return which of several rotations has the lowest objective (not smoothed)."""
    return jnp.argmin(off_diagonal(slices[..., None, :, :, :], rotations)[0], axis=-1)


def _take(leaf, index, n_nodes):
    """Select one start of each node."""
    shape = (*index.shape, 1, *(1,) * (leaf.ndim - n_nodes - 1))
    return jnp.take_along_axis(leaf, index.reshape(shape), axis=n_nodes).squeeze(n_nodes)


class _State(NamedTuple):
    rotation: Float[Array, "*lanes rank rank"]
    value: Float[Array, "*lanes"]
    gradient: Float[Array, "*lanes rank rank"]
    epsilon: Float[Array, "*lanes"]
    step: Float[Array, "*lanes"]  # to be tried next
    reference: Float[Array, "*lanes"]  # weighted mean of past values, which a trial has to beat
    mass: Float[Array, "*lanes"]  # total weight in the mean
    settle: Bool[Array, "*lanes"]  # nothing more to gain at this epsilon
    done: Bool[Array, "*lanes"]
    n_iter: Int[Array, "*lanes"]


@partial(jax.jit, static_argnames="max_iter")
def descend(
    slices: Float[Array, "*nodes n_slices rank rank"],
    starts: Float[Array, "*nodes starts rank rank"],
    *,
    max_iter: int,
) -> Solution:
    """Run gradient descent from every start; the result has an axis of starts after the nodes.

    Barzilai-Borwein steps, safeguarded by a non-monotone line search. Every iteration evaluates one trial per start:
    an accepted one moves, a refused one is tried again with a shorter step in the next, so that no start waits for
    the line search of another.

    References
    ----------
    Wen and Yin (2013), "A feasible method for optimization with orthogonality constraints".
    """
    dtype = slices.dtype
    rank = slices.shape[-1]
    double = jnp.finfo(dtype).bits == 64
    last_epsilon = SMOOTHING[jnp.finfo(dtype).bits]
    tol, rounding = (1e-8, 1e-14) if double else (1e-5, 5e-7)
    size = jnp.sqrt((slices**2).sum((-1, -2, -3)) / rank)[..., None]
    scaled = (slices / jnp.where(size > 0, size, 1.0)[..., None, None])[..., None, :, :, :]
    lanes = starts.shape[:-2]

    def evaluate(rotation, epsilon):
        return gradient_field(rotate(scaled, rotation), epsilon)

    def keep_going(state: _State):
        return ~state.done.all() & (state.n_iter.max() < max_iter)

    def advance(state: _State) -> _State:
        shrink = state.settle
        epsilon = jnp.where(shrink, _SHRINK * state.epsilon, state.epsilon)
        step = jnp.where(shrink | state.done, 0.0, state.step)
        direction = -step[..., None, None] * state.gradient
        rotation = jnp.matmul(state.rotation, cayley(direction), precision="highest")
        rotation = jnp.where((step > 0)[..., None, None], orthogonal_again(rotation), state.rotation)
        value, gradient = evaluate(rotation, epsilon)

        slope = (state.gradient**2).sum((-1, -2))
        slack = rounding * jnp.abs(state.reference)
        accept = shrink | (value <= state.reference - _ARMIJO * step * slope + slack)
        accept &= ~state.done
        mass = jnp.where(shrink, 1.0, _MEMORY * state.mass + 1)
        reference = jnp.where(shrink, value, (_MEMORY * state.mass * state.reference + value) / mass)

        next_step = _barzilai_borwein(direction, gradient - state.gradient, state.n_iter)
        next_step = jnp.where(shrink, state.step, jnp.clip(next_step, 1e-6, 1e3))
        flat = jnp.sqrt((gradient**2).sum((-1, -2))) <= tol
        stuck = ~shrink & (reference - value <= rounding * value)
        hopeless = ~accept & (state.step < 1e-9)
        settle = jnp.where(accept, flat | stuck, hopeless)
        done = state.done | (settle & (epsilon <= 1.01 * last_epsilon))

        def pick(new, old):
            mask = accept.reshape(accept.shape + (1,) * (new.ndim - accept.ndim))
            return jnp.where(mask, new, old)

        return _State(
            rotation=pick(rotation, state.rotation),
            value=pick(value, state.value),
            gradient=pick(gradient, state.gradient),
            epsilon=epsilon,
            step=pick(next_step, _BACKTRACK * state.step),
            reference=pick(reference, state.reference),
            mass=pick(mass, state.mass),
            settle=settle & ~done,
            done=done,
            n_iter=state.n_iter + ~state.done,
        )

    epsilon = jnp.full(lanes, _FIRST_EPSILON, dtype)
    value, gradient = evaluate(starts, epsilon)
    slope = jnp.sqrt((gradient**2).sum((-1, -2)))
    start = _State(
        rotation=starts,
        value=value,
        gradient=gradient,
        epsilon=epsilon,
        step=0.1 / jnp.maximum(slope, 0.1),
        reference=value,
        mass=jnp.ones(lanes, dtype),
        settle=slope <= tol,
        done=jnp.broadcast_to(size == 0, lanes),
        n_iter=jnp.zeros(lanes, int),
    )
    state = jax.lax.while_loop(keep_going, advance, start)
    return Solution(state.rotation, state.done, state.n_iter, size * jnp.sqrt((state.gradient**2).sum((-1, -2))))


def _barzilai_borwein(move, change, n_iter):
    """Return the long and the short step in turn."""
    inner = jnp.abs((move * change).sum((-1, -2)))
    tiny = jnp.finfo(move.dtype).tiny
    long = (move**2).sum((-1, -2)) / jnp.maximum(inner, tiny)
    short = inner / jnp.maximum((change**2).sum((-1, -2)), tiny)
    return jnp.where(n_iter % 2 == 0, long, short)
