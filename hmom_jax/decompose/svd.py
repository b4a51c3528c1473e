r"""The SVD method: eigenvectors of one random combination of the whitened slices.

Paper -> code: $\sum_a \theta_a T_a = V \mathrm{diag}(\langle\theta, v_j\rangle \omega_j^{-1/2}) V'$ for exact moments,
with $T_a$ the slices of $M_3(W, W, W)$, $V$ -> ``rotation``.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from hmom_jax.decompose.method import check_count, run, whitened
from hmom_jax.decompose.objective import keep_void, orthogonal_again, whitened_tensor
from hmom_jax.decompose.recovery import Decomposition, recover
from hmom_jax.keys import fold, normal
from hmom_jax.linalg import eigh
from hmom_jax.models.moments import Moments


def svd_method(
    moments: Moments,
    rank: int,
    key: Key[Array, "..."] | None = None,
    *,
    n_combinations: int = 50,
    tol: float | None = None,
) -> Decomposition:
    r"""Decompose moments by an eigendecomposition of a random combination of whitened slices.

    Eigenvectors are as sure as the gaps between eigenvalues: of ``n_combinations`` random directions $\theta$ the
    one is kept whose smallest gap, relative to the size of the matrix, is largest. At 20 topics in float32 that
    turns an error of 3e-4 into one of 7e-6.

    Parameters
    ----------
    moments, rank, key, tol
        As in :func:`~hmom_jax.sidiwo`.
    n_combinations
        Random directions to choose from; 1 is the method as published.

    References
    ----------
    Anandkumar, Hsu and Kakade (2012), "A method of moments for mixture models and hidden Markov models".

    Examples
    --------
    >>> import numpy as np
    >>> from hmom_jax import population_moments
    >>> found = svd_method(population_moments(np.eye(3), np.array([0.5, 0.3, 0.2])), 3)
    >>> np.asarray(found.weights, float).round(4).tolist()
    [0.5, 0.3, 0.2]
    """
    check_count("n_combinations", n_combinations)
    return run(_svd, moments, rank, key, tol, n_combinations=n_combinations)


@partial(jax.jit, static_argnames=("rank", "n_combinations"))
def _svd(moments, key, tol, *, rank: int, n_combinations: int) -> Decomposition:
    whitening, slices = whitened(moments, key, tol, rank)
    tensor = whitened_tensor(moments.word_scale, whitening.pinv, slices)
    directions = normal(fold(key, 1), tensor.shape[:-3], (n_combinations, rank), tensor.dtype)
    combined = jnp.einsum("...na,...aij->...nij", directions, tensor, precision="highest")
    size = jnp.sqrt((combined**2).sum((-1, -2), keepdims=True))
    combined = combined / jnp.where(size > 0, size, 1.0)

    # Void components are zero in all slices; an eigenvalue of 2, above all others, keeps them in the last places.
    void = jnp.broadcast_to(whitening.void[..., None, :], combined.shape[:-1])
    identity = jnp.broadcast_to(jnp.eye(rank, dtype=combined.dtype), combined.shape)
    values, vectors = eigh(combined + 2 * void[..., None] * identity)
    gaps = jnp.where(void[..., 1:], jnp.inf, jnp.diff(values, axis=-1))
    best = jnp.argmax(gaps.min(-1, initial=jnp.inf), axis=-1)
    rotation = jnp.take_along_axis(vectors, best[..., None, None, None], axis=-3).squeeze(-3)
    return recover(moments, whitening, slices, keep_void(orthogonal_again(rotation), whitening.void))
