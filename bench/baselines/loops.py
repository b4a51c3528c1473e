r"""Algorithms 1 and 2 of the paper as one would first write them down: d x d arrays, and a loop over documents.

What the paper's own experiments cost: $M_2$ is formed and decomposed in full, and each document adds its part to the
whitened slices of $M_3$ in turn. Same partition as :mod:`bench.baselines.dense`, for vocabularies of thousands.
"""

import numpy as np

from bench.baselines.dense import assign, best_angle, grow_labels_by, recover, rotation_of


def grow_labels(counts: np.ndarray, depth: int) -> np.ndarray:
    """Split ``depth`` times in succession; returns a leaf number per document."""
    return grow_labels_by(split, np.asarray(counts, np.float64), depth)


def split(counts: np.ndarray) -> np.ndarray | None:
    """Return the side, 0 or 1, of each document of a node; None where the node is a leaf."""
    length = counts.sum(axis=1)
    usable = counts[length >= 3]
    if len(usable) < 2 or np.all(usable == usable[0]):
        return None
    first = counts.sum(axis=0)
    m2 = (counts.T @ counts - np.diag(first)) / (length * (length - 1)).sum()
    eigenvalues, eigenvectors = np.linalg.eigh(m2)
    eigenvalues, eigenvectors = eigenvalues[:-3:-1], eigenvectors[:, :-3:-1]
    if eigenvalues[1] <= 1e-14 * abs(eigenvalues[0]):
        return None
    factor, pinv = eigenvectors * np.sqrt(eigenvalues), (eigenvectors / np.sqrt(eigenvalues)).T
    rotation = rotation_of(best_angle(slices(counts, length, pinv)))
    sides = assign(counts, *recover(first / length.sum(), factor @ rotation, rotation.T @ pinv))
    return None if np.ptp(sides) == 0 else sides


def slices(counts: np.ndarray, length: np.ndarray, pinv: np.ndarray) -> np.ndarray:
    """Return the whitened slices of the third moment, one document at a time."""
    n_words = counts.shape[1]
    total, crossed, once = np.zeros((n_words, 2, 2)), np.zeros((n_words, 2)), np.zeros(n_words)
    for x in counts:
        z = pinv @ x
        total += x[:, None, None] * (np.outer(z, z) - (pinv * x) @ pinv.T)
        crossed += np.outer(x, z)
        once += x
    cross = pinv.T[:, :, None] * crossed[:, None, :]
    total += 2 * once[:, None, None] * pinv.T[:, :, None] * pinv.T[:, None, :] - cross - cross.transpose(0, 2, 1)
    return total / (length * (length - 1) * (length - 2)).sum()
