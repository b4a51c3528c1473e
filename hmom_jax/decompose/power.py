r"""The tensor power method: eigenvectors of the whitened third moment, one after the other.

Paper -> code: $T = M_3(W, W, W) = \sum_j \omega_j^{-1/2} v_j^{\otimes 3}$ -> ``tensor``, $v_j$ -> columns of the
rotation.
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
from hmom_jax.models.moments import Moments


def tensor_power(
    moments: Moments,
    rank: int,
    key: Key[Array, "..."] | None = None,
    *,
    n_restarts: int = 20,
    max_iter: int = 300,
    tol: float | None = None,
) -> Decomposition:
    r"""Decompose moments by power iterations $v \leftarrow T(I, v, v) / |T(I, v, v)|$ and deflation.

    From each of ``n_restarts`` random starts (all in one batch) the iteration runs to convergence; the vector of
    largest $T(v, v, v)$ is kept, taken out of the tensor, and the next one is sought. Topics and weights are read
    off as in every other method here (:func:`~hmom_jax.decompose.recovery.recover`).

    Parameters
    ----------
    moments, rank, key, tol
        As in :func:`~hmom_jax.sidiwo`.
    n_restarts
        Starts per component.
    max_iter
        Power iterations per component. Near an eigenvector of an exact tensor the error is squared in each; on a
        noisy one the last components may circle for ever, and ``converged`` says so.

    References
    ----------
    Anandkumar, Ge, Hsu, Kakade and Telgarsky (2014), "Tensor decompositions for learning latent variable models",
    Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from hmom_jax import population_moments
    >>> found = tensor_power(population_moments(np.eye(3), np.array([0.5, 0.3, 0.2])), 3)
    >>> np.asarray(found.weights, float).round(4).tolist()
    [0.5, 0.3, 0.2]
    """
    check_count("n_restarts", n_restarts)
    check_count("max_iter", max_iter)
    return run(_power, moments, rank, key, tol, n_restarts=n_restarts, max_iter=max_iter)


@partial(jax.jit, static_argnames=("rank", "n_restarts", "max_iter"))
def _power(moments, key, tol, *, rank: int, n_restarts: int, max_iter: int) -> Decomposition:
    whitening, slices = whitened(moments, key, tol, rank)
    tensor = whitened_tensor(moments.word_scale, whitening.pinv, slices)
    nodes = tensor.shape[:-3]
    starts = normal(fold(key, 1), nodes, (rank, n_restarts, rank), tensor.dtype)

    def extract(tensor, starts):
        found = _iterate(tensor, starts, max_iter)
        values = jnp.einsum("...ni,...ni->...n", found.vector, _apply(tensor, found.vector), precision="highest")
        best = jnp.argmax(values, axis=-1)[..., None]
        vector = jnp.take_along_axis(found.vector, best[..., None], axis=-2).squeeze(-2)
        value = jnp.take_along_axis(values, best, axis=-1)[..., None, None]
        tensor = tensor - value * jnp.einsum("...i,...j,...k->...ijk", vector, vector, vector, precision="highest")
        converged = jnp.take_along_axis(found.done, best, axis=-1).squeeze(-1)
        return tensor, (vector, converged, found.n_iter.max(-1))

    _, (vectors, converged, n_iter) = jax.lax.scan(extract, tensor, jnp.moveaxis(starts, -3, 0))
    rotation = keep_void(jnp.moveaxis(vectors, 0, -1), whitening.void)
    converged = (converged | jnp.moveaxis(whitening.void, -1, 0)).all(0)
    return recover(moments, whitening, slices, rotation, converged=converged, n_iter=n_iter.sum(0))


class _State(NamedTuple):
    vector: Float[Array, "*nodes restarts rank"]
    done: Bool[Array, "*nodes restarts"]
    n_iter: Int[Array, "*nodes restarts"]


def _iterate(tensor, starts, max_iter) -> _State:
    """Run power iterations from every start until the vector no longer moves."""
    still = 10 * jnp.finfo(tensor.dtype).eps

    def keep_going(state):
        return ~state.done.all() & (state.n_iter.max() < max_iter)

    def step(state):
        image = _unit(_apply(tensor, state.vector))
        change = jnp.linalg.norm(image - state.vector, axis=-1)
        vector = jnp.where(state.done[..., None], state.vector, image)
        return _State(vector, state.done | (change <= still), state.n_iter + ~state.done)

    batch = starts.shape[:-1]
    return jax.lax.while_loop(keep_going, step, _State(_unit(starts), jnp.zeros(batch, bool), jnp.zeros(batch, int)))


def _apply(tensor, vectors):
    """Return T(I, v, v) for every vector."""
    return jnp.einsum("...ijk,...nj,...nk->...ni", tensor, vectors, vectors, precision="highest")


def _unit(vectors):
    """Scale to unit length; a vector of length zero (nothing left in the tensor) stays zero."""
    norm = jnp.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / jnp.where(norm > 0, norm, 1.0)
