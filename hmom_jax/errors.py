"""Errors and checks shared by all layers."""

import functools

import jax
import numpy as np


class InputError(ValueError):
    """The input is not what the function can work with; the message says what was expected and what came."""


class BrokenLineError(InputError):
    """One line of a file is broken; reading can go on without it (``skip_bad``)."""


def is_traced(*values) -> bool:
    """Tell whether any array in the arguments is a tracer, so that its values cannot be looked at."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


@functools.cache
def _fixed_key():
    with (
        jax.ensure_compile_time_eval()
    ):  # the first call may come from inside a trace, and must not be kept as a tracer
        # What ``jax.random.key(0)`` is by default, without the compilation that a seed takes.
        return jax.random.wrap_key_data(np.zeros(2, np.uint32), impl="threefry2x32")


def default_key(key):
    """Return ``key``, or the one fixed key where it is None: the same call gives the same answer."""
    return _fixed_key() if key is None else key


def check_finite(name: str, values) -> None:
    """Raise unless all values are finite."""
    if not np.all(np.isfinite(values)):
        raise InputError(f"{name} must be finite; got NaN or infinity.")


def check_nonnegative(name: str, values: np.ndarray) -> None:
    """Raise unless all values are finite and at least zero."""
    check_finite(name, values)
    if values.size and values.min() < 0:
        raise InputError(f"{name} must not be negative; the smallest value is {values.min()}.")


def check_sample_weight(sample_weight, n_docs: int) -> np.ndarray:
    """Return one weight per document, 1 by default; raise unless they are finite and at least zero."""
    if sample_weight is None:
        return np.ones(n_docs)
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (n_docs,):
        raise InputError(f"sample_weight must have one weight per document ({n_docs}); got shape {weights.shape}.")
    check_nonnegative("sample_weight", weights)
    return weights
