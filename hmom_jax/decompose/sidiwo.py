r"""SIDIWO: simultaneous diagonalisation by whitening and optimisation (Algorithm 1).

Paper -> code: $H_r$ -> ``slices``, $O$ -> ``rotation``, $l$ -> ``rank``, $\tilde M, \tilde\omega$ ->
``topics``, ``weights``.
"""

from functools import partial

import jax
from jaxtyping import Array, Key

from hmom_jax.decompose.cayley import cayley_rotation
from hmom_jax.decompose.jacobi import jacobi
from hmom_jax.decompose.method import check_count, run, whitened
from hmom_jax.decompose.objective import Solution, compress, keep_void
from hmom_jax.decompose.rank_two import closed_rotation, grid_rotation
from hmom_jax.decompose.recovery import Decomposition, recover
from hmom_jax.decompose.stationary import stationary
from hmom_jax.errors import InputError
from hmom_jax.keys import fold
from hmom_jax.models.moments import Moments

SOLVERS = ("auto", "grid", "closed", "jacobi", "cayley")
_RANK_TWO = {"closed": closed_rotation, "grid": grid_rotation}


def sidiwo(
    moments: Moments,
    rank: int,
    key: Key[Array, "..."] | None = None,
    solver: str = "auto",
    *,
    n_starts: int = 3,
    max_iter: int = 500,
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
        ``"cayley"``: gradient descent on the orthogonal group, any rank. ``"jacobi"``: plane rotations, any rank;
        minimises the sum of squares instead, which is the same at rank 2 and close above. At rank 2 also
        ``"closed"`` (exact) and ``"grid"`` (the paper's). ``"auto"`` is closed at rank 2 and Cayley elsewhere.
    n_starts
        Random rotations that Cayley descent starts from, beside the Jacobi solution.
    max_iter
        Evaluations of the objective per start of Cayley descent.
    tol
        Residual of the whitening; see :func:`~hmom_jax.whiten`.

    Notes
    -----
    Topics, weights and objective are differentiable in the moments, forwards and backwards, implicitly at the minimum:
    neither time nor memory of a derivative depends on the iterations; it is right as far as ``gradient_norm`` is zero.
    It is NaN where whitening has none (see :func:`~hmom_jax.whiten`) and where the objective is flat along some turn.

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
    check_count("n_starts", n_starts)
    check_count("max_iter", max_iter)
    return run(_sidiwo, moments, rank, key, tol, solver=solver, n_starts=n_starts, max_iter=max_iter)


def resolve_solver(solver: str, rank: int) -> str:
    """Check the name of the solver and pick one for ``"auto"``."""
    if solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}; got {solver!r}.")
    if solver in _RANK_TWO and rank != 2:
        raise InputError(f"solver {solver!r} is for rank 2; got rank {rank}.")
    if solver == "auto":
        return "closed" if rank == 2 else "cayley"
    return solver


@partial(jax.jit, static_argnames=("rank", "solver", "n_starts", "max_iter"))
def _sidiwo(moments, key, tol, *, rank: int, solver: str, n_starts: int, max_iter: int) -> Decomposition:
    whitening, slices = whitened(moments, key, tol, rank)
    held = jax.lax.stop_gradient(slices)
    if solver in _RANK_TWO:
        return recover(moments, whitening, slices, stationary(slices, _RANK_TWO[solver](held), squares=True))
    found = _rotate(compress(held), fold(key, 1), solver, n_starts, max_iter)
    rotation = stationary(slices, keep_void(found.rotation, whitening.void), squares=solver == "jacobi")
    return recover(
        moments, whitening, slices, rotation,
        converged=found.converged, n_iter=found.n_iter, gradient_norm=found.gradient_norm,
    )  # fmt: skip


def _rotate(slices, key, solver, n_starts, max_iter) -> Solution:
    if solver == "jacobi" or slices.shape[-1] == 1:  # one component: nothing to turn
        return jacobi(slices)
    return cayley_rotation(slices, key, n_starts=n_starts, max_iter=max_iter)
