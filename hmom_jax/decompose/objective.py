r"""The objective of joint diagonalisation, equation (9), and slices compressed for it."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def off_diagonal(
    slices: Float[Array, "*nodes n_slices rank rank"], rotation: Float[Array, "*nodes rank rank"]
) -> tuple[Float[Array, "*nodes"], Float[Array, "*nodes"]]:
    r"""Return $\sum_{i \ne j} (\sum_r (O' H_r O)_{ij}^2)^{1/2}$, and the same as a share of the sum over all $i, j$.

    The sum of norms (not of squares) is what every solver reports.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> total, share = off_diagonal(jnp.array([[[1.0, 3.0], [3.0, 0.0]], [[0.0, 4.0], [4.0, 0.0]]]), jnp.eye(2))
    >>> float(total), round(float(share), 3)
    (10.0, 0.909)
    """
    rotated = jnp.einsum("...ji,...rjk,...kl->...ril", rotation, slices, rotation, precision="highest")
    norms = jnp.sqrt((rotated**2).sum(-3))
    everything = norms.sum((-1, -2))
    objective = everything - jnp.trace(norms, axis1=-2, axis2=-1)
    return objective, objective / jnp.where(everything > 0, everything, 1.0)
