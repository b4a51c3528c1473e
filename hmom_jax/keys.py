"""Random draws over leading axes: one key for all nodes, or a key for each."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


def normal(key: Key[Array, "*keys"], nodes: tuple[int, ...], shape: tuple[int, ...], dtype) -> Float[Array, "..."]:
    """Draw Gaussians of shape (*nodes, *shape); a batch of keys gives each node its own stream.

    Examples
    --------
    >>> import jax
    >>> normal(jax.random.key(0), (4,), (2, 3), "float32").shape
    (4, 2, 3)
    """
    size = (math.prod(shape),)  # drawn in a row: the same numbers as in several dimensions, much quicker to compile
    if not key.ndim:
        return jnp.broadcast_to(jax.random.normal(key, size, dtype).reshape(shape), (*nodes, *shape))
    # One key after the other: a loop is a computation of its own, which XLA does not merge into what uses the draws.
    draws = jax.lax.map(lambda one: jax.random.normal(one, size, dtype), key.reshape(-1))
    return draws.reshape(*key.shape, *shape)


def signs(key: Key[Array, "*keys"], nodes: tuple[int, ...], shape: tuple[int, ...], dtype) -> Float[Array, "..."]:
    """Draw -1 and 1 of shape (*nodes, *shape), 32 from each random word; keys as for :func:`normal`.

    Examples
    --------
    >>> import jax
    >>> bool((abs(signs(jax.random.key(0), (4,), (2, 3), "float32")) == 1).all())
    True
    """
    size = math.prod(shape)
    words = jax.vmap(lambda one: jax.random.bits(one, (-(-size // 32),), jnp.uint32))(key.reshape(-1))
    bits = (words[..., None] >> jnp.arange(32, dtype=jnp.uint32)[None, None]) & 1
    drawn = (2 * bits.reshape(len(words), -1)[:, :size].astype(dtype) - 1).reshape(*key.shape, *shape)
    return drawn if key.ndim else jnp.broadcast_to(drawn, (*nodes, *shape))


def fold(key: Key[Array, "*keys"], number: int) -> Key[Array, "*keys"]:
    """Derive another stream from each key."""
    if not key.ndim:
        return jax.random.fold_in(key, number)
    return jax.vmap(lambda one: jax.random.fold_in(one, number))(key.reshape(-1)).reshape(key.shape)
