r"""The objective of joint diagonalisation, equation (9), and slices compressed for it."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hmom_jax.linalg import triangle
from hmom_jax.models.moments import unpack_symmetric


class Solution(NamedTuple):
    """What a solver found: the rotation and how it got there."""

    rotation: Float[Array, "*nodes rank rank"]
    converged: Bool[Array, "*nodes"]
    n_iter: Int[Array, "*nodes"]
    gradient_norm: Float[Array, "*nodes"]


def off_diagonal(
    slices: Float[Array, "*#nodes n_slices rank rank"], rotation: Float[Array, "*#nodes rank rank"]
) -> tuple[Float[Array, "*#nodes"], Float[Array, "*#nodes"]]:
    r"""Return $\sum_{i \ne j} (\sum_r (O' H_r O)_{ij}^2)^{1/2}$, and the same as a share of the sum over all $i, j$.

    The sum of norms (not of squares) is what every solver reports. Leading axes broadcast: several rotations of
    the same slices.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> total, share = off_diagonal(jnp.array([[[1.0, 3.0], [3.0, 0.0]], [[0.0, 4.0], [4.0, 0.0]]]), jnp.eye(2))
    >>> float(total), round(float(share), 3)
    (10.0, 0.909)
    """
    squares = (rotate(slices, rotation) ** 2).sum(-3)
    norms = jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)  # no NaN in derivatives at 0
    everything = norms.sum((-1, -2))
    objective = everything - jnp.trace(norms, axis1=-2, axis2=-1)
    return objective, objective / jnp.where(everything > 0, everything, 1.0)


def rotate(
    slices: Float[Array, "*#nodes n_slices rank rank"], rotation: Float[Array, "*#nodes rank rank"]
) -> Float[Array, "*#nodes n_slices rank rank"]:
    r"""Return $O' H_r O$ for every slice."""
    return jnp.einsum("...ji,...rjk,...kl->...ril", rotation, slices, rotation, precision="highest")


def compress(slices: Float[Array, "*nodes n_slices rank rank"]) -> Float[Array, "*nodes n_few rank rank"]:
    r"""Return at most $l(l+1)/2$ slices with the same objective for every rotation.

    Every entry of $O' H_r O$ is linear in the upper triangle of $H_r$, so the norm over $r$ only sees the R of a
    QR of the $d \times l(l+1)/2$ matrix of triangles: solvers cost nothing in $d$.
    """
    rank = slices.shape[-1]
    first, second = np.triu_indices(rank)
    if slices.shape[-3] <= len(first):
        return slices
    return unpack_symmetric(triangle(slices[..., first, second]), rank)


def whitened_tensor(
    word_scale: Float[Array, "*nodes n_words"],
    pinv: Float[Array, "*nodes rank n_words"],
    slices: Float[Array, "*nodes n_words rank rank"],
) -> Float[Array, "*nodes rank rank rank"]:
    r"""Return $T = M_3(W, W, W) = \sum_r (w_r / s_r) \otimes H_r$, what the power method and ALS decompose."""
    occurs = word_scale > 0
    unscaled = jnp.where(occurs, 1 / jnp.where(occurs, word_scale, 1.0), 0.0)[..., None, :] * pinv
    tensor = jnp.einsum("...iw,...wjk->...ijk", unscaled, slices, precision="highest")
    # Symmetric but for rounding: the mean over the three places of the word axis makes it so.
    return (tensor + jnp.swapaxes(tensor, -3, -2) + jnp.swapaxes(tensor, -3, -1)) / 3


def orthogonal_again(rotation: Float[Array, "*nodes rank rank"]) -> Float[Array, "*nodes rank rank"]:
    """Take the rounding of many products out of a rotation: one Newton-Schulz step."""
    gram = jnp.einsum("...ji,...jk->...ik", rotation, rotation, precision="highest")
    return 1.5 * rotation - 0.5 * jnp.einsum("...ij,...jk->...ik", rotation, gram, precision="highest")


def keep_void(
    rotation: Float[Array, "*nodes rank rank"], void: Bool[Array, "*nodes rank"]
) -> Float[Array, "*nodes rank rank"]:
    """Leave components without an eigenvalue where they are: nothing to rotate, and the result can name them."""
    identity = jnp.eye(rotation.shape[-1], dtype=rotation.dtype)
    apart = void[..., :, None] | void[..., None, :]
    return jnp.where(apart, identity, rotation)
