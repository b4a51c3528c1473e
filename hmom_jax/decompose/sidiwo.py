r"""SIDIWO: simultaneous diagonalisation by whitening and optimisation (Algorithm 1).

Paper -> code: $H_r$ -> ``slices``, $O$ -> ``rotation``, $l$ -> ``rank``, $\tilde M, \tilde\omega$ ->
``topics``, ``weights``.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from hmom_jax.decompose.rank_two import closed_rotation, grid_rotation
from hmom_jax.decompose.recovery import Decomposition, check_solution, recover
from hmom_jax.errors import InputError, default_key
from hmom_jax.models.moments import Moments
from hmom_jax.whitening import _whiten, check_positive, check_rank, default_tol

SOLVERS = ("auto", "grid", "closed")


def sidiwo(
    moments: Moments,
    rank: int,
    key: Key[Array, "..."] | None = None,
    solver: str = "auto",
    *,
    tol: float | None = None,
) -> Decomposition:
    r"""Decompose moments into ``rank`` topics by SIDIWO.

    Whitens the second moment and finds the rotation that best diagonalises all whitened slices of the third at
    once: it minimises $\sum_{i \ne j} (\sum_r (O' H_r O)_{ij}^2)^{1/2}$. With fewer topics than the data has, each
    pseudo-topic stands for a group of them.

    Parameters
    ----------
    moments
        Moment operator of any model.
    rank
        Number of topics $l$.
    key
        Random key; None is a fixed key.
    solver
        ``"auto"``; at rank 2 ``"closed"`` (exact, the default) or ``"grid"`` (the paper's).
    tol
        Residual of the whitening; see :func:`~hmom_jax.whiten`.

    References
    ----------
    Ruffini, Rabusseau and Balle (2017), "Hierarchical methods of moments", Algorithm 1 and Theorem 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from hmom_jax import population_moments
    >>> topics = np.array([[0.5, 0.1], [0.4, 0.2], [0.1, 0.7]])
    >>> found = sidiwo(population_moments(topics, np.array([0.6, 0.4])), 2)
    >>> [round(value, 4) for value in found.weights.tolist()]
    [0.6, 0.4]
    >>> [round(value, 4) for value in found.topics[:, 0].tolist()]
    [0.5, 0.4, 0.1]
    """
    solver = resolve_solver(solver, rank)
    check_rank(rank, moments)
    found = _sidiwo(moments, default_key(key), default_tol(tol, moments.m1.dtype), rank=rank, solver=solver)
    check_positive(found.whitening)
    return check_solution(found)


def resolve_solver(solver: str, rank: int) -> str:
    """Check the name of the solver and pick one for ``"auto"``."""
    if solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}; got {solver!r}.")
    if rank != 2:
        raise InputError(f"solver {solver!r} is for rank 2; got rank {rank}.")
    return "closed" if solver == "auto" else solver


@partial(jax.jit, static_argnames=("rank", "solver"))
def _sidiwo(moments, key, tol, *, rank: int, solver: str) -> Decomposition:
    whitening = _whiten(moments, key, tol, rank=rank)
    slices = moments.whitened_slices(jnp.swapaxes(whitening.pinv, -1, -2))
    rotation = {"closed": closed_rotation, "grid": grid_rotation}[solver](slices)
    return recover(moments, whitening, slices, rotation)
