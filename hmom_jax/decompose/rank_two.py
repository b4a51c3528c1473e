r"""SIDIWO at two topics: the paper's grid (Theorem 3.3) and the closed form.

Paper -> code: $a$ -> ``a`` in $[-1, 1]$, $O_a = [[\sqrt{1 - a^2}, a], [-a, \sqrt{1 - a^2}]]$, $F(a)$ -> the squared
norm of the off-diagonal entries, $h_r = H_r[1, 2]$, $f_r = H_r[1, 1] - H_r[2, 2]$.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

GRID_STEP = 1e-5


def rotation(a: Float[Array, "*nodes"]) -> Float[Array, "*nodes 2 2"]:
    r"""Return $O_a$."""
    c = jnp.sqrt(jnp.maximum(1 - a**2, 0.0))
    return jnp.stack([jnp.stack([c, a], -1), jnp.stack([-a, c], -1)], -2)


def quartic_coefficients(slices: Float[Array, "*nodes n_slices 2 2"]) -> Float[Array, "*nodes 5"]:
    """Return the five coefficients of Theorem 3.3."""
    h = slices[..., 0, 1]
    f = slices[..., 0, 0] - slices[..., 1, 1]
    hh, ff, fh = (h**2).sum(-1), (f**2).sum(-1), (f * h).sum(-1)
    return jnp.stack([4 * hh - ff, -4 * fh, 2 * fh, ff - 4 * hh, hh], -1)


def quartic(coefficients: Float[Array, " 5"], a: Float[Array, ""]) -> Float[Array, ""]:
    r"""Evaluate $F(a) = c_1 a^4 + c_2 a^3 \sqrt{1 - a^2} + c_3 a \sqrt{1 - a^2} + c_4 a^2 + c_5$."""
    c1, c2, c3, c4, c5 = coefficients
    root = jnp.sqrt(jnp.maximum(1 - a**2, 0.0))
    return c1 * a**4 + c2 * a**3 * root + c3 * a * root + c4 * a**2 + c5


def grid_rotation(slices: Float[Array, "*nodes n_slices 2 2"]) -> Float[Array, "*nodes 2 2"]:
    """Minimise F over a grid of step 1e-5 on [-1, 1], as the paper does: one vmap over the grid."""
    coefficients = quartic_coefficients(slices)
    n_points = round(2 / GRID_STEP) + 1
    grid = jnp.linspace(-1.0, 1.0, n_points, dtype=slices.dtype)

    def best(coefficients):
        return grid[jnp.argmin(jax.vmap(quartic, in_axes=(None, 0))(coefficients, grid))]

    flat = coefficients.reshape(-1, 5)
    return rotation(jax.vmap(best)(flat).reshape(coefficients.shape[:-1]))


def closed_rotation(slices: Float[Array, "*nodes n_slices 2 2"]) -> Float[Array, "*nodes 2 2"]:
    r"""Minimise F exactly.

    With $a = \sin t$, $F = u' G u$ for $u = (\sin 2t, \cos 2t)$, and the smaller eigenvector of the $2 \times 2$
    matrix $G$ is at $4t = \mathrm{atan2}(-2 G_{12}, G_{11} - G_{22})$. Differentiable; where every rotation is
    as good as any other (G a multiple of the identity) the answer is $t = 0$, with zero gradient.
    """
    h = slices[..., 0, 1]
    f = slices[..., 0, 0] - slices[..., 1, 1]
    across = -(f * h).sum(-1)
    along = 0.25 * (f**2).sum(-1) - (h**2).sum(-1)
    flat = (across == 0) & (along == 0)
    angle = 0.25 * jnp.arctan2(jnp.where(flat, 0.0, across), jnp.where(flat, 1.0, along))
    c, a = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([jnp.stack([c, a], -1), jnp.stack([-a, c], -1)], -2)
