r"""Alternating least squares on the whitened third moment.

Paper -> code: $T = M_3(W, W, W) \approx \sum_j a_j \otimes b_j \otimes c_j$ -> three ``factors`` of shape rank x rank.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hmom_jax.decompose.method import check_count, run, whitened
from hmom_jax.decompose.objective import keep_void, whitened_tensor
from hmom_jax.decompose.recovery import Decomposition, recover
from hmom_jax.keys import fold, normal
from hmom_jax.linalg import orthonormalise, solve_accretive
from hmom_jax.models.moments import Moments


def whitened_als(
    moments: Moments,
    rank: int,
    key: Key[Array, "..."] | None = None,
    *,
    n_restarts: int = 10,
    n_orthogonal: int = 10,
    max_iter: int = 200,
    tol: float | None = None,
) -> Decomposition:
    r"""Decompose moments by alternating least squares (CP) on the whitened third moment.

    Each factor in turn is the least-squares solution with the two others held. From ``n_restarts`` random
    orthogonal starts (all in one batch) the best fit is kept. The first ``n_orthogonal`` updates orthogonalise the
    factors, because plain ALS sends several columns to the same topic: with exact moments of 20 topics it never
    found them all in 20 problems of 10 restarts; with 10 such updates it always did, from one start. After these
    the factors are free; the three are averaged at the end, up to sign.

    Parameters
    ----------
    moments, rank, key, tol
        As in :func:`~hmom_jax.sidiwo`.
    n_restarts
        Random starts.
    n_orthogonal
        First updates that orthogonalise the factors; 0 is the method as published.
    max_iter
        Updates of all three factors.

    References
    ----------
    Kolda and Bader (2009), "Tensor decompositions and applications", Figure 3.3. Sharan and Valiant (2017),
    "Orthogonalized ALS".

    Examples
    --------
    >>> import numpy as np
    >>> from hmom_jax import population_moments
    >>> found = whitened_als(population_moments(np.eye(3), np.array([0.5, 0.3, 0.2])), 3)
    >>> np.asarray(found.weights, float).round(4).tolist()
    [0.5, 0.3, 0.2]
    """
    check_count("n_restarts", n_restarts)
    check_count("max_iter", max_iter)
    check_count("n_orthogonal", n_orthogonal, least=0)
    return run(
        _als, moments, rank, key, tol, n_restarts=n_restarts, n_orthogonal=n_orthogonal, max_iter=max_iter
    )  # fmt: skip


@partial(jax.jit, static_argnames=("rank", "n_restarts", "n_orthogonal", "max_iter"))
def _als(moments, key, tol, *, rank: int, n_restarts: int, n_orthogonal: int, max_iter: int) -> Decomposition:
    whitening, slices = whitened(moments, key, tol, rank)
    tensor = whitened_tensor(moments.word_scale, whitening.pinv, slices)
    nodes = tensor.shape[:-3]
    void = jnp.broadcast_to(whitening.void[..., None, :], (*nodes, n_restarts, rank))
    draws = normal(fold(key, 1), nodes, (3, n_restarts, rank, rank), tensor.dtype)
    starts = [orthonormalise(keep_void(draws[..., mode, :, :, :], void)) for mode in range(3)]
    found = _alternate(tensor[..., None, :, :, :], starts, n_orthogonal, max_iter)

    best = jnp.argmin(found.misfit, axis=-1)
    take = lambda leaf: jnp.take_along_axis(leaf, best.reshape(*best.shape, 1, 1, 1), axis=-3).squeeze(-3)
    a, b, c = (take(factor) for factor in found.factors)
    align = lambda factor: factor * jnp.where((a * factor).sum(-2, keepdims=True) < 0, -1.0, 1.0)
    rotation = keep_void(_unit(a + align(b) + align(c)), whitening.void)
    scalar = lambda leaf: jnp.take_along_axis(leaf, best[..., None], axis=-1).squeeze(-1)
    return recover(moments, whitening, slices, rotation, converged=scalar(found.done), n_iter=scalar(found.n_iter))


class _State(NamedTuple):
    factors: tuple[Float[Array, "*lanes rank rank"], ...]  # columns of unit length
    misfit: Float[Array, "*lanes"]  # squared, relative to the tensor
    done: Bool[Array, "*lanes"]
    n_iter: Int[Array, "*lanes"]


def _alternate(tensor, starts, n_orthogonal, max_iter) -> _State:
    """Update the three factors in turn until the columns no longer move."""
    still = 10 * jnp.finfo(tensor.dtype).eps
    total = (tensor**2).sum((-1, -2, -3))
    total = jnp.where(total > 0, total, 1.0)

    def keep_going(state):
        return ~state.done.all() & (state.n_iter.max() < max_iter)

    def update(state: _State) -> _State:
        early = (state.n_iter < n_orthogonal)[..., None, None]
        _, b, c = (jnp.where(early, orthonormalise(factor), factor) for factor in state.factors)
        a, _ = _least_squares(tensor, b, c)
        b, _ = _least_squares(tensor, a, c)
        c, sizes = _least_squares(tensor, a, b)
        left = tensor - jnp.einsum("...in,...jn,...kn->...ijk", a, b, c * sizes, precision="highest")
        moved = jnp.abs(c - state.factors[2]).max((-1, -2))
        mask = state.done[..., None, None]
        factors = tuple(jnp.where(mask, old, new) for old, new in zip(state.factors, (a, b, c), strict=True))
        misfit = jnp.where(state.done, state.misfit, (left**2).sum((-1, -2, -3)) / total)
        return _State(
            factors,
            misfit,
            state.done | ((moved <= still) & (state.n_iter >= n_orthogonal)),
            state.n_iter + ~state.done,
        )

    lanes = starts[0].shape[:-2]
    start = _State(tuple(starts), jnp.full(lanes, jnp.inf, tensor.dtype), jnp.zeros(lanes, bool), jnp.zeros(lanes, int))
    return jax.lax.while_loop(keep_going, update, start)


def _least_squares(tensor, b, c):
    """Return the factor that fits best with the two others held, in columns of unit length, and the lengths."""
    image = jnp.einsum("...ijk,...jn,...kn->...in", tensor, b, c, precision="highest")
    gram = _gram(b) * _gram(c)
    # Columns that come together make the Gram matrix singular: a ridge at the size of rounding keeps it regular.
    ridge = 10 * jnp.finfo(gram.dtype).eps * jnp.broadcast_to(jnp.eye(gram.shape[-1], dtype=gram.dtype), gram.shape)
    factor = jnp.swapaxes(solve_accretive(gram + ridge, jnp.swapaxes(image, -1, -2)), -1, -2)
    sizes = jnp.linalg.norm(factor, axis=-2, keepdims=True)
    return factor / jnp.where(sizes > 0, sizes, 1.0), sizes


def _gram(factor):
    return jnp.einsum("...in,...im->...nm", factor, factor, precision="highest")


def _unit(factor):
    sizes = jnp.linalg.norm(factor, axis=-2, keepdims=True)
    return factor / jnp.where(sizes > 0, sizes, 1.0)
