r"""What every model's moment operator offers, and the bookkeeping that operators share.

Leading axes ``*nodes`` are a batch: the moments of all open nodes of a tree stand side by side in one operator,
and every decomposition works on all of them at once. A single corpus has no leading axes.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hmom_jax.errors import InputError, check_nonnegative, is_traced

_DENSE_LIMIT = 256


class DenseMoments(NamedTuple):
    """The moments as plain arrays, for small vocabularies."""

    m1: Float[Array, " n_words"]
    m2: Float[Array, "n_words n_words"]
    m3: Float[Array, "n_words n_words n_words"]


@runtime_checkable
class Moments(Protocol):
    """A model's moments as an operator: products instead of arrays of size d x d or d x d x d.

    ``m1``, ``m2_times`` and ``dense`` are unscaled; ``whitened_slices`` carries the word scaling $s$.
    """

    @property
    def m1(self) -> Float[Array, "*nodes n_words"]:
        """First moment."""

    @property
    def word_scale(self) -> Float[Array, "*nodes n_words"]:
        r"""The scaling $s$; zero for words that do not occur."""

    def m2_times(self, block: Float[Array, "*nodes n_words columns"]) -> Float[Array, "*nodes n_words columns"]:
        """Multiply the second moment with a thin block."""

    def whitened_slices(self, w: Float[Array, "*nodes n_words rank"]) -> Float[Array, "*nodes n_words rank rank"]:
        r"""Return $H_r = s_r\, W' M_{3,r} W$ for every word $r$."""

    def dense(self) -> DenseMoments:
        """Form the moments as arrays (small vocabularies, no leading axes)."""


def resolve_scale(word_scale, m1: Float[Array, "*nodes n_words"]) -> Float[Array, "*nodes n_words"]:
    r"""Turn ``None``, ``"inverse_sqrt"`` or an array into the scaling $s$, zero where a word does not occur."""
    occurs = m1 > 0
    if word_scale is None:
        return occurs.astype(m1.dtype)
    if isinstance(word_scale, str):
        if word_scale != "inverse_sqrt":
            raise InputError(f"word_scale must be None, 'inverse_sqrt' or an array; got {word_scale!r}.")
        return jnp.where(occurs, jnp.where(occurs, m1, 1.0) ** -0.5, 0.0)
    if np.shape(word_scale) != m1.shape:
        raise InputError(f"word_scale must have shape {m1.shape}; got {np.shape(word_scale)}.")
    if not is_traced(word_scale):
        check_nonnegative("word_scale", np.asarray(word_scale))
    return jnp.where(occurs, jnp.asarray(word_scale, m1.dtype), 0.0)


def check_dense(m1: Float[Array, "*nodes n_words"]) -> None:
    """Raise where the dense tensors would be too large or ambiguous."""
    if m1.ndim != 1 or m1.shape[0] > _DENSE_LIMIT:
        raise InputError(
            f"dense() is for one corpus of at most {_DENSE_LIMIT} words; got m1 of shape {m1.shape}. "
            "Use m2_times and whitened_slices, which form nothing larger than a few columns."
        )


def unpack_symmetric(
    packed: Float[Array, "*nodes n_words pairs"], rank: int
) -> Float[Array, "*nodes n_words rank rank"]:
    """Spread the upper triangle, stored as columns, to full symmetric matrices."""
    first, second = np.triu_indices(rank)
    place = np.zeros((rank, rank), np.int32)
    place[first, second] = place[second, first] = np.arange(len(first))
    return packed[..., place]
