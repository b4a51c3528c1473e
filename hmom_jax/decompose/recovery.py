r"""Recovery of topics and weights from a rotation (Algorithm 1, line 4), shared by every method.

Paper -> code: $M \Omega^{1/2} = D^+ = E O$ and $M\omega = M_1$; $\tilde\mu_j$ -> columns of ``topics``,
$\tilde\omega$ -> ``weights``.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hmom_jax.decompose.objective import off_diagonal
from hmom_jax.errors import InputError, is_traced
from hmom_jax.models.moments import Moments
from hmom_jax.pytree import pytree
from hmom_jax.simplex import project_simplex
from hmom_jax.whitening import Whitening

# Part of the method, not a setting: the partition of real corpora moves with it.
_WEIGHT_FLOOR = 1e-6


@pytree
@dataclass(frozen=True)
class Decomposition:
    """Topics and weights, with what is needed to judge them.

    Attributes
    ----------
    topics
        Pseudo-topics in columns, each a distribution over words, in descending weight.
    weights
        Their probabilities.
    objective
        Sum over pairs of components of the norm of the off-diagonal entries (lower is better).
    relative_objective
        The same as a share of the sum over all pairs, diagonal included: 0 where the slices are diagonal.
    converged
        Whether whitening and solver reached their tolerances.
    n_iter
        Iterations of the solver (0 for closed forms).
    rotation
        The matrix applied to the whitened space; orthogonal for all methods but the non-orthogonal ones.
    orthogonality_error
        Largest entry of $|O'O - I|$.
    gradient_norm
        Norm of the Riemannian gradient at the solution (0 where the method has none).
    simplex_violation
        Negative mass of each topic before it was projected on the simplex: 0 for a perfect fit.
    void
        Components without a positive eigenvalue: their topic is the mean of the corpus, their weight the floor.
    floored
        Components whose weight hit the floor.
    whitening
        The whitening that was used.
    """

    topics: Float[Array, "*nodes n_words rank"]
    weights: Float[Array, "*nodes rank"]
    objective: Float[Array, "*nodes"]
    relative_objective: Float[Array, "*nodes"]
    converged: Bool[Array, "*nodes"]
    n_iter: Int[Array, "*nodes"]
    rotation: Float[Array, "*nodes rank rank"]
    orthogonality_error: Float[Array, "*nodes"]
    gradient_norm: Float[Array, "*nodes"]
    simplex_violation: Float[Array, "*nodes rank"]
    void: Bool[Array, "*nodes rank"]
    floored: Bool[Array, "*nodes rank"]
    whitening: Whitening


def recover(
    moments: Moments,
    whitening: Whitening,
    slices: Float[Array, "*nodes n_slices rank rank"],
    rotation: Float[Array, "*nodes rank rank"],
    *,
    converged: Bool[Array, "*nodes"] | None = None,
    n_iter: Int[Array, "*nodes"] | None = None,
    gradient_norm: Float[Array, "*nodes"] | None = None,
) -> Decomposition:
    r"""Read topics and weights off an orthogonal rotation of the whitened space.

    $B = S^{-1} E O$ with columns signed to positive sums; $\mu_j = B_j / \sum B_j$, which equals
    $B_j / \sqrt{\omega_j}$ at exact moments and is steadier with noise; $\sqrt\omega = O' W' M_1$.

    Parameters
    ----------
    moments, whitening, slices
        What was decomposed.
    rotation
        $O$, one orthonormal column per component.
    converged, n_iter, gradient_norm
        Diagnostics of the solver, passed on.
    """
    columns = jnp.einsum("...wi,...ij->...wj", whitening.factor, rotation, precision="highest")
    whitened_mean = jnp.einsum("...iw,...w->...i", whitening.pinv, moments.m1, precision="highest")
    roots = jnp.einsum("...ij,...i->...j", rotation, whitened_mean, precision="highest")
    return finish(
        moments, whitening, slices, rotation, columns, roots,
        converged=converged, n_iter=n_iter, gradient_norm=gradient_norm,
    )  # fmt: skip


def finish(
    moments, whitening, slices, rotation, columns, roots, *, converged=None, n_iter=None, gradient_norm=None
) -> Decomposition:
    """Sign, normalise, project and sort unnormalised topics with the square roots of their weights."""
    dtype = columns.dtype
    sums = columns.sum(-2)
    sign = jnp.where(sums < 0, -1.0, 1.0).astype(dtype)
    sums, roots = sign * sums, sign * roots
    mean = moments.m1 / jnp.maximum(moments.m1.sum(-1, keepdims=True), jnp.finfo(dtype).tiny)

    # A column without mass has no direction to normalise: the corpus mean stands in, and the field says so.
    tiny = jnp.finfo(dtype).eps * jnp.maximum(jnp.abs(columns).sum(-2), jnp.finfo(dtype).tiny)
    # The rotation may permute: a component is void where more of it lies in void directions than in others.
    lost = jnp.where(whitening.void[..., :, None], 1.0, -1.0).astype(dtype) * rotation**2
    void = (lost.sum(-2) > 0) | (sums <= tiny) | ~jnp.isfinite(sums)
    scale = jnp.where(void, 0.0, sign / jnp.where(void, 1.0, sums))
    raw = jnp.where(void[..., None, :], mean[..., None], columns * scale[..., None, :])
    violation = jnp.maximum(-raw, 0).sum(-2)
    topics = project_simplex(jnp.swapaxes(raw, -1, -2))
    topics = topics / topics.sum(-1, keepdims=True)

    floored = void | (roots < _WEIGHT_FLOOR)
    weights = jnp.where(floored, jnp.asarray(_WEIGHT_FLOOR, dtype), roots) ** 2
    weights = weights / weights.sum(-1, keepdims=True)

    order = jnp.argsort(-weights, axis=-1, stable=True)
    by_order = lambda values: jnp.take_along_axis(values, order, axis=-1)
    gram = jnp.einsum("...ij,...ik->...jk", rotation, rotation, precision="highest")
    batch, rank = weights.shape[:-1], weights.shape[-1]
    objective, relative = off_diagonal(slices, rotation)
    # Diagnostics have no derivatives: some (largest entries, rounding) have none that would make sense.
    violation, gram = jax.lax.stop_gradient((violation, gram))
    solved = jnp.ones(batch, bool) if converged is None else converged
    return Decomposition(
        topics=jnp.swapaxes(jnp.take_along_axis(topics, order[..., None], axis=-2), -1, -2),
        weights=by_order(weights),
        objective=objective,
        relative_objective=relative,
        converged=solved & whitening.converged,
        n_iter=jnp.zeros(batch, int) if n_iter is None else n_iter,
        rotation=jnp.take_along_axis(rotation, order[..., None, :], axis=-1),
        orthogonality_error=jnp.abs(gram - jnp.broadcast_to(jnp.eye(rank, dtype=dtype), gram.shape)).max((-1, -2)),
        gradient_norm=jnp.zeros(batch, dtype) if gradient_norm is None else gradient_norm,
        simplex_violation=by_order(violation),
        void=by_order(void),
        floored=by_order(floored),
        whitening=whitening,
    )


def check_solution(decomposition: Decomposition) -> Decomposition:
    """Pass a result on; outside tracing, refuse one whose numbers are not finite."""
    if not is_traced(decomposition) and not np.all(np.isfinite(decomposition.topics)):
        raise InputError("The decomposition is not finite: the moments overflow. Scale the counts or weights down.")
    return decomposition
