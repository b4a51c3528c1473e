"""What every decomposition does around its own algorithm: checks before, whitening, errors after."""

import jax.numpy as jnp

from hmom_jax.decompose.recovery import Decomposition, check_solution
from hmom_jax.errors import InputError, default_key
from hmom_jax.models.moments import Moments
from hmom_jax.whitening import Whitening, _whiten, check_positive, check_rank, default_tol


def run(core, moments: Moments, rank: int, key, tol: float | None, **options) -> Decomposition:
    """Run a compiled core ``core(moments, key, tol, *, rank, **options)`` between the checks of the input."""
    check_rank(rank, moments)
    found = core(moments, default_key(key), default_tol(tol, moments.m1.dtype), rank=rank, **options)
    check_positive(found.whitening)
    return check_solution(found)


def whitened(moments: Moments, key, tol, rank: int) -> tuple[Whitening, jnp.ndarray]:
    """Return the whitening and the whitened slices."""
    whitening = _whiten(moments, key, tol, rank=rank)
    return whitening, moments.whitened_slices(jnp.swapaxes(whitening.pinv, -1, -2))


def check_count(name: str, value: int, least: int = 1) -> None:
    """Raise unless an option is a whole number, at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}.")
