r"""Whitening of the second moment (Algorithm 1, lines 1-2), matrix-free.

Paper -> code: $M_2 \approx U_l S_l U_l'$ -> ``eigenvalues``; $E_l = U_l S_l^{1/2}$ -> ``factor`` ($S^{-1} E$ with
word scaling $S$); $E_l^+$ -> ``pinv`` ($W'$ with $W = S U L^{-1/2}$, so that $W' M_2 W = I$).

Empirical second moments are indefinite: the algebraically largest eigenvalues are kept.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from hmom_jax.errors import InputError, default_key, is_traced
from hmom_jax.implicit import inverse, kept_space, root, scaled_times
from hmom_jax.keys import signs
from hmom_jax.linalg import eigh, orthonormalise_rows, over_nodes
from hmom_jax.models.moments import Moments

# Below this size (and wherever a Krylov basis would fill the space) the dense eigenproblem is cheaper and exact.
_DENSE_WORDS = 128
_MAX_PRODUCTS = 60


class Whitening(NamedTuple):
    r"""The kept eigenspace of the scaled second moment.

    Attributes
    ----------
    factor
        $S^{-1} E$, words x rank; times a rotation it gives the topics.
    pinv
        $W'$, rank x words, with $W' M_2 W = I$ on components that are not void.
    eigenvalues
        The algebraically largest, in descending order.
    residual
        Largest $\|A u - \theta u\| / \theta$ over kept pairs, as far as products are exact.
    converged
        Whether the residual is below the tolerance.
    void
        Components whose eigenvalue is not positive; their columns are zero.
    next_eigenvalue
        Estimate of the first eigenvalue left out: the spectral gap shows whether the cut is sharp.
    n_products
        Products with the second moment that were needed.
    """

    factor: Float[Array, "*nodes n_words rank"]
    pinv: Float[Array, "*nodes rank n_words"]
    eigenvalues: Float[Array, "*nodes rank"]
    residual: Float[Array, "*nodes"]
    converged: Bool[Array, "*nodes"]
    void: Bool[Array, "*nodes rank"]
    next_eigenvalue: Float[Array, "*nodes"]
    n_products: Int[Array, ""]


def whiten(moments: Moments, rank: int, key: Key[Array, "..."] | None = None, *, tol: float | None = None) -> Whitening:
    r"""Find the largest eigenpairs of $S M_2 S$ and the whitening map.

    Small vocabularies by a dense eigendecomposition, others by block Krylov with full reorthogonalisation
    and Rayleigh-Ritz: typically 6 to 11 products at small rank.

    Parameters
    ----------
    moments
        Moment operator of any model.
    rank
        Number of components, at least 1.
    key
        Random key for the starting block; None is a fixed key.
    tol
        Residual, relative to the eigenvalue, at which to stop; 1e-5 in float32 and 1e-9 in float64 by default.

    Raises
    ------
    InputError
        A rank that cannot be had (outside tracing; inside, see ``void``).

    Notes
    -----
    Differentiable in the moments, for all that does not depend on the basis within the kept space, also where
    eigenvalues in it tie. Where the last one kept ties with the first left out, the derivative is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from hmom_jax import population_moments
    >>> moments = population_moments(np.eye(3), np.array([0.5, 0.3, 0.2]))
    >>> [round(value, 3) for value in whiten(moments, 2).eigenvalues.tolist()]
    [0.5, 0.3]
    """
    check_rank(rank, moments)
    whitening = _whiten(moments, default_key(key), default_tol(tol, moments.m1.dtype), rank=rank)
    check_positive(whitening)
    return whitening


def default_tol(tol: float | None, dtype) -> float:
    """Residual that leaves partitions unchanged: eigenvector errors of 1e-4 do, of 1e-3 do not."""
    if tol is not None:
        return tol
    return 1e-5 if jnp.finfo(dtype).bits == 32 else 1e-9


def check_rank(rank: int, moments: Moments) -> None:
    """Raise unless ``rank`` is an integer between 1 and the number of words."""
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1:
        raise InputError(f"rank must be a whole number of at least 1; got {rank!r}.")
    if rank > moments.m1.shape[-1]:
        raise InputError(f"rank must not exceed the {moments.m1.shape[-1]} words of the vocabulary; got {rank}.")


def check_positive(whitening: Whitening) -> None:
    """Raise, outside tracing, where a single corpus has fewer positive eigenvalues than the rank asked for."""
    if is_traced(whitening) or whitening.void.ndim > 1 or not np.any(whitening.void):
        return
    positive = int(np.sum(~np.asarray(whitening.void)))
    raise InputError(
        f"The second moment has only {positive} positive eigenvalue(s); rank {whitening.void.shape[-1]} was asked "
        "for. Ask for fewer topics, or give more or longer documents."
    )


@partial(jax.jit, static_argnames="rank")
def _whiten(moments, key, tol, *, rank):
    pairs = top_eigenpairs(jax.lax.stop_gradient(moments), key, tol, rank)
    return whitening_from_eigenpairs(moments, *pairs, tol)


class Eigenpairs(NamedTuple):
    """Largest eigenpairs of the scaled second moment, with how well they are known."""

    values: Float[Array, "*nodes rank"]
    vectors: Float[Array, "*nodes n_words rank"]
    residuals: Float[Array, "*nodes rank"]
    next_value: Float[Array, "*nodes"]
    n_products: Int[Array, ""]


def whitening_from_eigenpairs(moments, values, vectors, residuals, next_value, n_products, tol) -> Whitening:
    """Scale eigenvectors to the factor and its pseudo-inverse; void components become zero."""
    scale = moments.word_scale[..., None]
    void = values <= _positive_floor(values)
    safe = jnp.where(void, 1.0, values)
    unscale = jnp.where(scale > 0, 1 / jnp.where(scale > 0, scale, 1.0), 0.0)
    relative = jnp.where(void, 0.0, residuals / safe).max(-1)
    vectors, matrix = kept_space(moments, values, vectors, void)
    roots = root(matrix)
    matmul = partial(jnp.matmul, precision="highest")
    return Whitening(
        factor=unscale * matmul(vectors, roots),
        pinv=jnp.swapaxes(scale * matmul(vectors, inverse(roots)), -1, -2),
        eigenvalues=jnp.where(void, values, jnp.diagonal(matrix, axis1=-2, axis2=-1)),
        residual=relative,
        converged=(relative <= jnp.maximum(tol, _noise(values) / jnp.where(void, jnp.inf, safe).min(-1))),
        void=void,
        next_eigenvalue=next_value,
        n_products=n_products,
    )


def _positive_floor(values):
    """Eigenvalues below this are rounding, not signal."""
    return 50 * jnp.finfo(values.dtype).eps * jnp.abs(values[..., :1])


def _noise(values):
    """Residual that rounding alone can leave, per node."""
    return 20 * jnp.finfo(values.dtype).eps * jnp.abs(values[..., 0])


def top_eigenpairs(moments, key, tol, rank) -> Eigenpairs:
    """Return the algebraically largest eigenpairs of the scaled second moment."""
    times = partial(scaled_times, moments)
    if is_dense(moments.m1.shape[-1], rank):
        return dense_eigenpairs(times(dense_block(moments.word_scale)), rank)
    steps = krylov_steps(moments.word_scale, moments.m1, key, tol, rank)
    return steps.pairs(
        jax.lax.while_loop(steps.keep_going, lambda state: steps.absorb(state, times(state.block)), steps.start())
    )


def is_dense(n_words: int, rank: int) -> bool:
    """Tell whether the eigenproblem is solved as a dense one."""
    shape = krylov_shape(rank)
    return n_words <= max(_DENSE_WORDS, (shape.capacity + 1) * shape.width)


def dense_block(scale):
    """Return the identity: what to multiply for the dense problem."""
    n_words = scale.shape[-1]
    return jnp.broadcast_to(jnp.eye(n_words, dtype=scale.dtype), (*scale.shape, n_words))


def dense_eigenpairs(matrix, rank) -> Eigenpairs:
    """Return the largest eigenpairs of a matrix that is at hand."""
    n_words = matrix.shape[-1]
    values, vectors = eigh(0.5 * (matrix + jnp.swapaxes(matrix, -1, -2)))
    values, vectors = values[..., ::-1], vectors[..., ::-1]
    next_value = values[..., rank] if rank < n_words else jnp.zeros_like(values[..., 0])
    kept = values[..., :rank]
    return Eigenpairs(kept, vectors[..., :rank], jnp.zeros_like(kept), next_value, jnp.ones((), int))


class KrylovShape(NamedTuple):
    """Sizes of the Krylov basis: columns per block, blocks at most, blocks kept at a restart.

    Convergence is looked at after the ``first`` product, then after ``every`` few: a small eigenproblem each time.
    """

    width: int
    capacity: int
    keep: int
    first: int
    every: int


def krylov_shape(rank: int, n_nodes: int = 1) -> KrylovShape:
    """Choose the block: wider than a small rank (eight columns cost no more than four), a fraction of a large one.

    Those of several nodes stand side by side, and cost what they are: there more products of half as many cost less.
    """
    if rank <= 2 and n_nodes > 1:
        return KrylovShape(width=4, capacity=10, keep=1, first=7, every=1)
    if rank <= 6:
        return KrylovShape(width=8, capacity=6, keep=1, first=4, every=1)
    width = max(8, rank // 4)
    keep = -(-(rank + width) // width)
    return KrylovShape(width, keep + 8, keep, first=keep, every=8)


class Krylov(NamedTuple):
    """State of the block Krylov method; ``block`` is what to multiply next.

    Vectors lie in rows: products of a few of them with the basis then read both along their rows, in a third of the
    time.
    """

    basis: Float[Array, "*nodes vectors n_words"]  # orthonormal, zero where not yet built
    present: Bool[Array, "*nodes vectors"]  # which vectors of the basis are built: to look takes long
    projected: Float[Array, "*nodes vectors vectors"]  # the second moment in that basis
    newest: Float[Array, "*nodes width n_words"]  # the newest block, to be multiplied next
    values: Float[Array, "*nodes kept"]
    ritz: Float[Array, "*nodes kept vectors"]
    residuals: Float[Array, "*nodes rank"]
    step: Int[Array, ""]
    n_products: Int[Array, ""]
    done: Bool[Array, ""]

    @property
    def block(self) -> Float[Array, "*nodes n_words width"]:
        """The newest block in columns, as products take it."""
        return _turn(self.newest)


class KrylovSteps(NamedTuple):
    """The block Krylov method, products left to the caller: ``absorb(state, image of state.block)``."""

    start: Callable[[], Krylov]
    keep_going: Callable[[Krylov], Bool[Array, ""]]
    absorb: Callable[[Krylov, Float[Array, "*nodes n_words width"]], Krylov]
    pairs: Callable[[Krylov], Eigenpairs]


def krylov_steps(scale, m1, key, tol, rank) -> KrylovSteps:
    """Build a Krylov space block by block; when it is full, keep the best Ritz vectors and go on from there."""
    shape = krylov_shape(rank, math.prod(scale.shape[:-1]))
    batch, (n_words,) = scale.shape[:-1], scale.shape[-1:]
    dtype = scale.dtype
    width, capacity, keep, first, every = shape
    columns, n_kept = capacity * width, keep * width
    matmul = partial(jnp.matmul, precision="highest")

    # A round's slots that are not in use come last, and have no words.
    live = jnp.where((scale > 0).any(-1), jnp.arange(1, batch[-1] + 1), 0).max() if len(batch) == 1 else None

    def project(basis, recent, image):
        """Return the image among recent blocks, an orthonormal basis of what is left (or zeros), and the image there.

        Beside what is left, the image of a block lies in that block and the one before, but for rounding: out of the
        rest of the space it is taken once, as a rule.
        """
        column = matmul(recent, image)
        small = jnp.sqrt(jnp.finfo(dtype).eps)
        alive = (image != 0).any((-2, -1), keepdims=True)  # of slots that are not in use nothing is left at all

        # What is left of an image that lies almost in the space is mostly rounding, and must be taken out of the space
        # again; most images lie well outside.
        def outside(state):
            times, rows, inside = state
            rows = orthonormalise_rows(rows - matmul(_turn(inside), basis))
            return times + 1, rows, matmul(basis, _turn(rows))

        def again(state):
            times, _, inside = state
            return (times < 2) & (jnp.where(alive, jnp.abs(inside), 0.0).max() > small / 4)

        rows = orthonormalise_rows(_turn(image) - matmul(_turn(column), recent))
        _, rows, inside = jax.lax.while_loop(again, outside, (0, rows, matmul(basis, _turn(rows))))
        # The space of few words can be full: then nothing is left, and rows lie in it however often that is taken out.
        full = jnp.abs(_turn(inside)).max(-1, keepdims=True) > small
        # The squares of what is still inside are rounding: without it, rows are as orthonormal as with it.
        rows = jnp.where(full, 0.0, rows - matmul(_turn(inside), basis))
        return column, rows, matmul(rows, image)

    def extend(state: Krylov, image) -> Krylov:
        at = state.step * width
        basis = jax.lax.dynamic_update_slice_in_dim(state.basis, state.newest, at, axis=-2)
        present = jax.lax.dynamic_update_slice_in_dim(state.present, _built(state.newest), at, axis=-1)
        # Where a restart keeps several blocks, the image of the first new one has parts in all of them.
        before, near = (jnp.maximum(at - width, 0), 2 * width) if keep == 1 else (0, columns)
        recent = jax.lax.dynamic_slice_in_dim(basis, before, near, axis=-2)
        column, newest, rest = over_nodes(project, basis, recent, image, live=live)
        put = lambda matrix, part, *place: jax.lax.dynamic_update_slice(matrix, part, (*[0] * len(batch), *place))
        projected = put(state.projected, column, before, at)
        projected = put(projected, _turn(column), at, before)
        state = state._replace(
            basis=basis, present=present, projected=projected, newest=newest,
            step=state.step + 1, n_products=state.n_products + 1,
        )  # fmt: skip
        due = (state.n_products >= first) & ((capacity - state.step) % every == 0)
        return jax.lax.cond(due, look, lambda state, _: state, state, rest)

    def look(state: Krylov, rest) -> Krylov:
        """Solve the projected problem; a restart needs its solution too, and comes after a look."""
        # Directions not built, or not there, must not outrank negative eigenvalues: push them below the spectrum.
        low = -10 * jnp.abs(state.projected).max((-1, -2), keepdims=True)
        absent = ~state.present[..., None]
        identity = jnp.broadcast_to(jnp.eye(columns, dtype=dtype), state.projected.shape)
        values, ritz = eigh(state.projected + jnp.where(absent, low, 0.0) * identity, live)
        values, ritz = values[..., ::-1][..., :n_kept], _turn(ritz[..., ::-1][..., :n_kept])
        # Where there are fewer directions than asked for, the values that stand for the others are nobody's.
        missing = matmul(ritz**2, absent.astype(dtype))[..., 0] > 0.5
        least = jnp.where(missing, jnp.inf, values).min(-1, keepdims=True)
        values = jnp.where(missing, jnp.minimum(least, 0.0), values)
        last = jax.lax.dynamic_slice_in_dim(ritz[..., :rank, :], (state.step - 1) * width, width, axis=-1)
        # Images of all blocks but the last lie in the space: what is left of the last is the residual.
        residuals = jnp.linalg.norm(matmul(last, _turn(rest)), axis=-1)

        kept = values[..., :rank]
        enough = residuals <= jnp.maximum(tol * kept, _noise(values)[..., None])
        # A component with no positive eigenvalue has nothing to converge to; give it one full basis to appear.
        enough |= (kept <= _positive_floor(values)) & (state.n_products >= capacity)
        return state._replace(values=values, ritz=ritz, residuals=residuals, done=enough.all())

    def restart(state: Krylov) -> Krylov:
        basis = jnp.zeros_like(state.basis).at[..., :n_kept, :].set(matmul(state.ritz, state.basis))
        identity = jnp.broadcast_to(jnp.eye(n_kept, dtype=dtype), (*batch, n_kept, n_kept))
        diagonal = identity * state.values[..., None, :]
        projected = jnp.zeros_like(state.projected).at[..., :n_kept, :n_kept].set(diagonal)
        step = jnp.full_like(state.step, keep)
        return state._replace(basis=basis, present=_built(basis), projected=projected, step=step)

    def keep_going(state: Krylov):
        return ~state.done & (state.n_products < _MAX_PRODUCTS)

    def absorb(state: Krylov, image) -> Krylov:
        state = jax.lax.cond(state.step == capacity, restart, lambda state: state, state)
        return extend(state, image)

    def start() -> Krylov:
        block = signs(key, batch, (n_words, width), dtype)
        # The leading eigenvector is close to the scaled first moment: begin there, on words that occur.
        block = block.at[..., 0].set(scale * m1 * jnp.sqrt(jnp.asarray(n_words, dtype)))
        return Krylov(
            basis=jnp.zeros((*batch, columns, n_words), dtype),
            present=jnp.zeros((*batch, columns), bool),
            projected=jnp.zeros((*batch, columns, columns), dtype),
            newest=orthonormalise_rows(_turn(jnp.where(scale[..., None] > 0, block, 0.0))),
            values=jnp.zeros((*batch, n_kept), dtype),
            ritz=jnp.zeros((*batch, n_kept, columns), dtype),
            residuals=jnp.full((*batch, rank), jnp.inf, dtype),
            step=jnp.zeros((), int),
            n_products=jnp.zeros((), int),
            done=jnp.zeros((), bool),
        )

    def pairs(state: Krylov) -> Eigenpairs:
        vectors = matmul(state.ritz[..., :rank, :], state.basis)
        # Without the division XLA would write the product itself in columns, in nine times the time.
        length = jnp.linalg.norm(vectors, axis=-1, keepdims=True)
        vectors = _turn(vectors / jnp.where(length > 0, length, 1.0))
        return Eigenpairs(state.values[..., :rank], vectors, state.residuals, state.values[..., rank], state.n_products)

    return KrylovSteps(start, keep_going, absorb, pairs)


def _built(vectors):
    return (vectors != 0).any(-1)


def _turn(matrix):
    return jnp.swapaxes(matrix, -1, -2)
