r"""Exact moments of known parameters: the oracle of every method.

Paper -> code: $M = [\mu_1 \dots \mu_k]$ -> ``topics``, $\omega$ -> ``weights``; equations (1)-(3).
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hmom_jax.errors import InputError, is_traced
from hmom_jax.models.moments import DenseMoments, check_dense, resolve_scale
from hmom_jax.pytree import pytree


@pytree
@dataclass(frozen=True)
class PopulationMoments:
    r"""$M_1 = M\omega$, $M_2 = M \Omega M'$, $M_3 = \sum_j \omega_j \mu_j^{\otimes 3}$, never formed."""

    topics: Float[Array, "*nodes n_words n_topics"]
    weights: Float[Array, "*nodes n_topics"]
    m1: Float[Array, "*nodes n_words"]
    word_scale: Float[Array, "*nodes n_words"]

    @jax.jit
    def m2_times(self, block: Float[Array, "*nodes n_words columns"]) -> Float[Array, "*nodes n_words columns"]:
        """Multiply the second moment with a thin block."""
        inner = jnp.einsum("...wk,...wc->...kc", self.topics, block, precision="highest")
        inner = self.weights[..., None] * inner
        return jnp.einsum("...wk,...kc->...wc", self.topics, inner, precision="highest")

    @jax.jit
    def whitened_slices(self, w: Float[Array, "*nodes n_words rank"]) -> Float[Array, "*nodes n_words rank rank"]:
        r"""Return $H_r = s_r \sum_j \omega_j \mu_{jr} (W'\mu_j)(W'\mu_j)'$."""
        z = jnp.einsum("...wk,...wi->...ki", self.topics, w, precision="highest")
        loaded = self.word_scale[..., None] * self.topics * self.weights[..., None, :]
        return jnp.einsum("...wk,...ki,...kj->...wij", loaded, z, z, precision="highest")

    def dense(self) -> DenseMoments:
        """Form the three moments as arrays."""
        check_dense(self.m1)
        loaded = self.topics * self.weights[None, :]
        return DenseMoments(
            self.m1,
            jnp.einsum("rk,sk->rs", loaded, self.topics, precision="highest"),
            jnp.einsum("rk,sk,tk->rst", loaded, self.topics, self.topics, precision="highest"),
        )


def population_moments(topics, weights, word_scale=None) -> PopulationMoments:
    r"""Return the exact moments of a single-topic model with known parameters.

    Parameters
    ----------
    topics
        Topics in columns, shape (n_words, n_topics). Not required to be normalised: any
        non-negative symmetric model is welcome (Appendix A uses such).
    weights
        Topic probabilities (or any positive weights).
    word_scale
        None for the paper's moments, ``"inverse_sqrt"`` or an array of length n_words.

    Examples
    --------
    >>> import numpy as np
    >>> moments = population_moments(np.eye(3), np.array([0.5, 0.25, 0.25]))
    >>> moments.m1.tolist()
    [0.5, 0.25, 0.25]
    """
    topics, weights = jnp.asarray(topics), jnp.asarray(weights)
    dtype = jnp.result_type(topics.dtype, weights.dtype, jnp.zeros(()).dtype if topics.dtype.kind != "f" else topics)
    topics, weights = topics.astype(dtype), weights.astype(dtype)
    if topics.ndim != 2 or weights.shape != topics.shape[1:]:
        raise InputError(
            f"topics must be (n_words, n_topics) and weights (n_topics,); got {topics.shape} and {weights.shape}."
        )
    if not is_traced(topics, weights) and not (np.isfinite(topics).all() and np.isfinite(weights).all()):
        raise InputError("topics and weights must be finite; got NaN or infinity.")
    m1 = jnp.einsum("wk,k->w", topics, weights, precision="highest")
    return PopulationMoments(topics, weights, m1, resolve_scale(word_scale, m1))
