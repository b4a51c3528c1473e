r"""The paper's tree by SciPy, matrix-free and written to be fast: what ``hmom_jax`` has to beat on one machine.

Single precision; the rows of a node and the words that occur in them, as csr and as its transpose, both kept;
Lanczos (``eigsh``) for the two algebraically largest eigenpairs of $M_2$ to 1e-4; closed-form angle; node by node.
"""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from bench.baselines.dense import grow_labels_by, recover, rotation_of


def grow_labels(counts: sp.csr_array, depth: int) -> np.ndarray:
    """Split ``depth`` times in succession; returns a leaf number per document."""
    return grow_labels_by(split, sp.csr_array(counts).astype(np.float32), depth)


def split(counts: sp.csr_array) -> np.ndarray | None:
    """Return the side, 0 or 1, of each document of a node; None where the node is a leaf."""
    present = np.flatnonzero(np.bincount(counts.indices, minlength=counts.shape[1]))
    length = np.asarray(counts.sum(axis=1, dtype=np.float64)).ravel()
    if len(present) < 4 or (length >= 3).sum() < 2:
        return None
    rows = sp.csr_array(counts[:, present])
    columns = sp.csr_array(rows.T)
    first = np.asarray(rows.sum(axis=0, dtype=np.float64)).ravel()
    pairs = (length * (length - 1)).sum()
    once = (first / pairs).astype(np.float32)
    apply = lambda v: columns @ (rows @ v) / np.float32(pairs) - once * v
    operator = LinearOperator((len(present),) * 2, matvec=lambda v: apply(v.ravel()), dtype=np.float32)
    start = np.random.default_rng(0).random(len(present)).astype(np.float32)
    values, vectors = eigsh(operator, k=2, which="LA", tol=1e-4, v0=start)
    values, vectors = values[::-1], vectors[:, ::-1]
    if values[1] <= 1e-6 * abs(values[0]):
        return None
    factor, pinv = vectors * np.sqrt(values), (vectors / np.sqrt(values)).T
    rotation = rotation_of(best_angle(rows, columns, length, pinv))
    topics, weights = recover(first / length.sum(), factor @ rotation, rotation.T @ pinv)
    lead = rows @ np.log(topics[:, 1] / topics[:, 0]).astype(np.float32) + np.log(weights[1] / weights[0])
    sides = (lead > 0).astype(int)
    return None if np.ptp(sides) == 0 else sides


def best_angle(rows, columns, length, pinv) -> float:
    r"""Return the sine of the best rotation in closed form: $F$ is a quadratic form of $(\sin 2t, \cos 2t)$."""
    w1, w2 = pinv
    z = rows @ np.stack([w1, w2, w1 * w1 - w2 * w2, w1 * w2], axis=1).astype(np.float32)
    z1, z2, q_f, q_h = z.T
    g3 = np.float32(1 / (length * (length - 1) * (length - 2)).sum())
    t = g3 * (columns @ np.stack([z1 * z1 - z2 * z2 - q_f, z1 * z2 - q_h, z1, z2, np.ones_like(z1)], axis=1))
    f = t[:, 0] - 2 * (w1 * t[:, 2] - w2 * t[:, 3]) + 2 * t[:, 4] * (w1 * w1 - w2 * w2)
    h = t[:, 1] - w1 * t[:, 3] - w2 * t[:, 2] + 2 * t[:, 4] * w1 * w2
    form = np.array([[(f * f).sum() / 4, (f * h).sum() / 2], [(f * h).sum() / 2, (h * h).sum()]], np.float64)
    sine, cosine = np.linalg.eigh(form)[1][:, 0]
    return float(np.sin(np.arctan2(sine, cosine) / 2))
