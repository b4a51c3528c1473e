"""Joint-diagonalisation problems."""

import jax.numpy as jnp
import numpy as np

import hmom_jax as hm
from hmom_jax.decompose.objective import compress
from tests.helpers import random_topics


def rotated_diagonals(seed, n_problems, n_slices, rank):
    """Draw diagonal matrices under a common rotation; returns them and the rotation."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(n_problems, rank, rank)))[0]
    values = rng.normal(size=(n_problems, n_slices, rank))
    return np.einsum("nij,nrj,nkj->nrik", rotation, values, rotation), rotation


def noisy_slices(seed, n_problems, n_slices, rank, noise):
    """Add symmetric noise of the given size relative to the slices."""
    slices, _ = rotated_diagonals(seed, n_problems, n_slices, rank)
    error = np.random.default_rng([seed, 1]).normal(size=slices.shape)
    error = error + np.swapaxes(error, -1, -2)
    return slices + noise * np.linalg.norm(slices) / np.linalg.norm(error) * error


def whitened_problem(kind, seed, rank):
    """Return compressed whitened slices of a random model: exact, noisy, or with more topics than components."""
    n_topics = 2 * rank + 2 if kind == "misspecified" else rank
    topics, weights = random_topics(seed, 10 * (2 * rank + 2), n_topics)
    moments = hm.population_moments(topics.astype(np.float32), weights.astype(np.float32))
    slices = np.asarray(moments.whitened_slices(hm.whiten(moments, rank).pinv.T))
    if kind == "noisy":
        error = np.random.default_rng([seed, 1]).normal(size=slices.shape).astype(np.float32)
        error = error + np.swapaxes(error, -1, -2)
        slices = slices + 0.05 * np.linalg.norm(slices) / np.linalg.norm(error) * error
    return np.asarray(compress(jnp.asarray(slices)))
