r"""Random projections: joint diagonalisation of projections of the third moment, in two stages.

Paper -> code: $M_t = T(I, I, \theta_t) = \sum_j \langle\theta_t, v_j\rangle \omega_j^{-1/2} v_j v_j'$ -> ``matrices``.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from hmom_jax.decompose.jacobi import jacobi
from hmom_jax.decompose.method import check_count, run, whitened
from hmom_jax.decompose.objective import keep_void, orthogonal_again, rotate, whitened_tensor
from hmom_jax.decompose.recovery import Decomposition, finish, recover
from hmom_jax.decompose.uwedge import uwedge
from hmom_jax.keys import fold, normal
from hmom_jax.linalg import solve
from hmom_jax.models.moments import Moments


def random_projection(
    moments: Moments,
    rank: int,
    key: Key[Array, "..."] | None = None,
    *,
    orthogonal: bool = True,
    n_projections: int = 100,
    tol: float | None = None,
) -> Decomposition:
    r"""Decompose moments by joint diagonalisation of projections of the third moment.

    First along random directions; then again along the factors that were found, where the signal is strongest.

    The original projects the $d \times d \times d$ tensor to $d \times d$ matrices and diagonalises those (the paper
    reports 16 minutes at $d = 100$). Here everything happens in the span of the ``rank`` leading eigenvectors of
    the second moment, in whitened coordinates, on matrices of rank x rank. At exact moments that is the same; with
    noise, what lies outside the span no longer disturbs the diagonalisation, at the price of trusting the
    second moment for the span.

    Parameters
    ----------
    moments, rank, key, tol
        As in :func:`~hmom_jax.sidiwo`.
    orthogonal
        Diagonalise by rotations (Jacobi), trusting the whitening; or, if False, by any invertible matrix
        (UWEDGE, ``hmom_jax.decompose.uwedge``, started there), with the whitened second moment as one more
        matrix.
    n_projections
        Random directions of the first stage; the second has ``rank``.

    References
    ----------
    Kuleshov, Chaganty and Liang (2015), "Tensor factorization via matrix factorization", Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from hmom_jax import population_moments
    >>> found = random_projection(population_moments(np.eye(3), np.array([0.5, 0.3, 0.2])), 3)
    >>> np.asarray(found.weights, float).round(4).tolist()
    [0.5, 0.3, 0.2]
    """
    check_count("n_projections", n_projections)
    return run(_project, moments, rank, key, tol, orthogonal=bool(orthogonal), n_projections=n_projections)


@partial(jax.jit, static_argnames=("rank", "orthogonal", "n_projections"))
def _project(moments, key, tol, *, rank: int, orthogonal: bool, n_projections: int) -> Decomposition:
    whitening, slices = whitened(moments, key, tol, rank)
    tensor = whitened_tensor(moments.word_scale, whitening.pinv, slices)
    nodes = tensor.shape[:-3]

    def project(directions):
        return jnp.einsum("...tc,...abc->...tab", directions, tensor, precision="highest")

    random = normal(fold(key, 1), nodes, (n_projections, rank), tensor.dtype)
    matrices = project(random / jnp.linalg.norm(random, axis=-1, keepdims=True))
    first = jacobi(matrices)
    if orthogonal:
        along = project(jnp.swapaxes(first.rotation, -1, -2))
        second = jacobi(rotate(along, first.rotation))
        rotation = orthogonal_again(jnp.matmul(first.rotation, second.rotation, precision="highest"))
        return recover(
            moments, whitening, slices, keep_void(rotation, whitening.void),
            converged=first.converged & second.converged, n_iter=first.n_iter + second.n_iter,
        )  # fmt: skip

    identity = jnp.broadcast_to(jnp.eye(rank, dtype=tensor.dtype), (*nodes, 1, rank, rank))
    with_m2 = lambda matrices: jnp.concatenate([identity, matrices], axis=-3)
    oblique = uwedge(with_m2(matrices), jnp.swapaxes(first.rotation, -1, -2))
    # Rows of the diagonaliser are orthogonal to all factors but their own: projections along them are of rank one.
    again = uwedge(with_m2(project(oblique.rotation)), oblique.rotation)
    diagonaliser = keep_void(again.rotation, whitening.void)
    mixing = solve(diagonaliser, identity[..., 0, :, :])
    sizes = jnp.linalg.norm(mixing, axis=-2, keepdims=True)
    rotation = mixing / sizes
    columns = jnp.einsum("...wi,...ij->...wj", whitening.factor, rotation, precision="highest")
    mean = jnp.einsum("...iw,...w->...i", whitening.pinv, moments.m1, precision="highest")
    roots = sizes.squeeze(-2) * jnp.einsum("...ij,...j->...i", diagonaliser, mean, precision="highest")
    return finish(
        moments, whitening, slices, rotation, columns, roots,
        converged=oblique.converged & again.converged, n_iter=first.n_iter + oblique.n_iter + again.n_iter,
    )  # fmt: skip
