r"""Projection of pseudo-topics on the simplex (Duchi et al. 2008), the last step of recovery.

Paper -> code: $\tilde\mu_j$ -> a column of ``topics``, $d$ -> ``n_words``.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def project_simplex(points: Float[Array, "*batch n_words"], *, n_steps: int = 40) -> Float[Array, "*batch n_words"]:
    r"""Project each point on the probability simplex.

    Solves $\sum_w \max(y_w - \tau, 0) = 1$ for the threshold $\tau$ by bisection: no sort, so the cost is
    ``n_steps`` reductions on any device. The last step is exact: once the support is known, $\tau$ is a mean.

    Parameters
    ----------
    points
        Points $y$, one per batch index.
    n_steps
        Bisection steps; 40 separate any two float32 values from an interval of length 1.

    References
    ----------
    Duchi, Shalev-Shwartz, Singer and Chandra (2008), "Efficient projections onto the l1-ball".

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> project_simplex(jnp.array([0.75, 0.75, -1.0])).tolist()
    [0.5, 0.5, 0.0]
    """
    # Shifted so that the largest entry is 0: far from the simplex, 1 would be lost against the sum of the points.
    points = points - jax.lax.stop_gradient(points.max(-1, keepdims=True))
    high = jnp.zeros_like(points[..., :1])
    low = high - 1  # the threshold lies between: at -1 the largest entry alone sums to 1

    def halve(_, interval):
        low, high = interval
        middle = 0.5 * (low + high)
        heavy = jnp.maximum(points - middle, 0).sum(-1, keepdims=True) > 1
        return jnp.where(heavy, middle, low), jnp.where(heavy, high, middle)

    low, high = jax.lax.fori_loop(0, n_steps, halve, (low, high))
    support = points > 0.5 * (low + high)
    n_support = jnp.maximum(support.sum(-1, keepdims=True), 1)
    threshold = (jnp.where(support, points, 0).sum(-1, keepdims=True) - 1) / n_support
    return jnp.where(support, jnp.maximum(points - threshold, 0), 0)
