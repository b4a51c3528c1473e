r"""Derivatives of the kept eigenspace, by the equations that it satisfies rather than through the iterations.

With $A = S M_2 S$, orthonormal $U$ and $C = U' A U$, $A U = U C$ gives, in the gauge $U' \dot U = 0$,

$$\dot C = U' \dot A U, \qquad \dot U C - P A P \dot U = P \dot A U, \qquad P = I - U U'.$$

$C$ is kept as a matrix, diagonal at the point itself: then everything that does not depend on the choice of basis
within the space (topics, weights) has the right derivative also where kept eigenvalues tie. The second equation is
symmetric and positive definite as long as the kept eigenvalues lie above all others, and is solved by conjugate
gradients, matrix-free. **At a tie across the cut the space itself is not defined; where the equation cannot be
solved for that reason the derivative is NaN**, which is documented in :func:`~hmom_jax.whiten`.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Bool, Float

_matmul = partial(jnp.matmul, precision="highest")
# Conjugate gradients stop at this residual, or after this many products; a residual above the third is a refusal.
_SOLVE_TOL = {32: 1e-6, 64: 1e-12}
_SOLVE_STEPS = 500
_REFUSE = {32: 1e-3, 64: 1e-7}


def scaled_times(moments, block: Float[Array, "*nodes n_words columns"]) -> Float[Array, "*nodes n_words columns"]:
    r"""Multiply $S M_2 S$ with a block."""
    scale = moments.word_scale[..., None]
    return scale * moments.m2_times(scale * block)


def kept_space(
    moments,
    values: Float[Array, "*nodes rank"],
    vectors: Float[Array, "*nodes n_words rank"],
    void: Bool[Array, "*nodes rank"],
) -> tuple[Float[Array, "*nodes n_words rank"], Float[Array, "*nodes rank rank"]]:
    """Return eigenvectors and the matrix of eigenvalues, differentiable in the moments.

    Columns of void components are zero; in their place the matrix has the largest eigenvalue.
    """
    values, vectors = jax.lax.stop_gradient((values, vectors))
    values = jnp.where(void, jnp.where(values[..., :1] > 0, values[..., :1], 1.0), values)
    return _kept_space(moments, values, jnp.where(void[..., None, :], 0.0, vectors))


@jax.custom_jvp
def _kept_space(moments, values, vectors):
    identity = jnp.broadcast_to(jnp.eye(values.shape[-1], dtype=values.dtype), (*values.shape, values.shape[-1]))
    return vectors, values[..., None] * identity


@_kept_space.defjvp
def _kept_space_jvp(primals, tangents):
    moments, values, vectors = primals
    space, matrix = _kept_space(moments, values, vectors)
    moved = jax.jvp(lambda moments: scaled_times(moments, space), (moments,), tangents[:1])[1]
    transposed = jnp.swapaxes(space, -1, -2)
    inside = _matmul(transposed, moved)
    change = _solve_outside(moments, space, matrix, values, moved - _matmul(space, inside))
    return (space, matrix), (change, 0.5 * (inside + jnp.swapaxes(inside, -1, -2)))


def _solve_outside(moments, space, matrix, values, right):
    r"""Solve $X C - P A P X = R$ for $X$; NaN where that cannot be done."""
    bits = jnp.finfo(right.dtype).bits

    def outside(block):
        return block - _matmul(space, _matmul(jnp.swapaxes(space, -1, -2), block))

    def apply(block):
        return _matmul(block, matrix) - outside(scaled_times(moments, outside(block)))

    def solve(apply, right):
        scale = lambda block: block / values[..., None, :]  # each column by its own eigenvalue
        found, _ = cg(apply, right, tol=_SOLVE_TOL[bits], maxiter=_SOLVE_STEPS, M=scale)
        size = lambda block: jnp.sqrt((block**2).sum((-1, -2), keepdims=True))
        solved = size(apply(found) - right) <= _REFUSE[bits] * size(right)
        return jnp.where(solved, found, jnp.nan)

    return jax.lax.custom_linear_solve(apply, right, solve, symmetric=True)


@jax.custom_jvp
def root(matrix: Float[Array, "*nodes rank rank"]) -> Float[Array, "*nodes rank rank"]:
    """Return the square root of a matrix that is diagonal and positive; its derivatives are those of any near it."""
    return jnp.sqrt(matrix)


@root.defjvp
def _root_jvp(primals, tangents):
    found = root(*primals)
    diagonal = jnp.diagonal(found, axis1=-2, axis2=-1)
    pairs = diagonal[..., :, None] + diagonal[..., None, :]
    apply = lambda x: _matmul(found, x) + _matmul(x, found)
    divide = lambda apply, right: right / jax.lax.stop_gradient(pairs)
    return found, jax.lax.custom_linear_solve(apply, tangents[0], divide, symmetric=True)


def inverse(matrix: Float[Array, "*nodes rank rank"]) -> Float[Array, "*nodes rank rank"]:
    """Return the inverse of a matrix that is diagonal and positive; its derivatives are those of any near it."""
    diagonal = jax.lax.stop_gradient(jnp.diagonal(matrix, axis1=-2, axis2=-1))
    identity = jnp.broadcast_to(jnp.eye(matrix.shape[-1], dtype=matrix.dtype), matrix.shape)
    divide = lambda apply, right: right / diagonal[..., :, None]
    return jax.lax.custom_linear_solve(lambda x: _matmul(matrix, x), identity, divide, symmetric=True)
