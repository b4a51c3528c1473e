r"""Algorithms 1 and 2 of the paper, word for word, in NumPy and double precision: the reference of the partitions.

Everything is formed: $M_2$ has d x d entries, $M_3$ has d x d x d, and the tree is a recursion. It is for a hundred
words or so, and slow; ``hmom_jax`` must give the same partition without forming any of it.

Paper -> code: $X$ -> ``counts`` (documents x words), $M_1, M_2, M_3$ -> ``m1, m2, m3``, $E_l$ -> ``factor``,
$E_l^+$ -> ``pinv``, $H_r$ -> ``slices``, $O_a$ -> ``rotation``, $\tilde M, \tilde\omega$ -> ``topics, weights``.
"""

import numpy as np

FLOOR = 1e-6
GRID = np.linspace(-1, 1, 200_001)  # step 1e-5


def grow_labels(counts: np.ndarray, depth: int) -> np.ndarray:
    """Split ``depth`` times in succession (Algorithm 2); returns a leaf number per document."""
    return grow_labels_by(split, np.asarray(counts, np.float64), depth)


def grow_labels_by(split, counts, depth: int) -> np.ndarray:
    """Split ``depth`` times in succession by any function that tells the sides of a node's documents."""
    labels = np.zeros(counts.shape[0], np.int64)

    def grow(docs: np.ndarray, depth: int) -> None:
        sides = split(counts[docs]) if depth > 0 else None
        if sides is None:
            labels[docs] = labels.max() + 1
            return
        for side in (0, 1):
            grow(docs[sides == side], depth - 1)

    grow(np.arange(counts.shape[0]), depth)
    return labels - 1


def split(counts: np.ndarray) -> np.ndarray | None:
    """Return the side, 0 or 1, of each document of a node; None where the node is a leaf."""
    usable = counts[counts.sum(axis=1) >= 3]
    if len(usable) < 2 or np.all(usable == usable[0]):
        return None
    found = sidiwo(*moments(counts))
    if found is None:
        return None
    sides = assign(counts, *found)
    return None if np.ptp(sides) == 0 else sides


def moments(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimate the three moments, equations (4)-(6): all pairs and triples of distinct places of a document."""
    n_docs, n_words = counts.shape
    length = counts.sum(axis=1)
    first = counts.sum(axis=0)
    pairs = counts.T @ counts  # sum over documents of x x'
    triples = counts.T @ (counts[:, :, None] * counts[:, None, :]).reshape(n_docs, -1)
    m3 = triples.reshape(n_words, n_words, n_words)
    r = np.arange(n_words)
    m3[r, r, :] -= pairs
    m3[r, :, r] -= pairs
    m3[:, r, r] -= pairs
    m3[r, r, r] += 2 * first
    m2 = pairs - np.diag(first)
    pair_count = (length * (length - 1)).sum()
    triple_count = (length * (length - 1) * (length - 2)).sum()
    return first / length.sum(), m2 / pair_count, m3 / triple_count


def sidiwo(m1: np.ndarray, m2: np.ndarray, m3: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (topics, weights) for two topics (Algorithm 1); None without two positive eigenvalues."""
    eigenvalues, eigenvectors = np.linalg.eigh(m2)
    eigenvalues, eigenvectors = eigenvalues[:-3:-1], eigenvectors[:, :-3:-1]
    if eigenvalues[1] <= 1e-14 * abs(eigenvalues[0]):
        return None
    factor = eigenvectors * np.sqrt(eigenvalues)
    pinv = (eigenvectors / np.sqrt(eigenvalues)).T
    slices = np.stack([pinv @ slice_r @ pinv.T for slice_r in m3])
    rotation = rotation_of(best_angle(slices))
    return recover(m1, factor @ rotation, rotation.T @ pinv)


def quartic(slices: np.ndarray, a: np.ndarray) -> np.ndarray:
    r"""Evaluate $F(a)$, Theorem 3.3."""
    h = slices[:, 0, 1]
    f = slices[:, 0, 0] - slices[:, 1, 1]
    c1 = (4 * h**2 - f**2).sum()
    c2 = -4 * (f * h).sum()
    c3 = 2 * (f * h).sum()
    c4 = (f**2 - 4 * h**2).sum()
    c5 = (h**2).sum()
    root = np.sqrt(1 - a**2)
    return c1 * a**4 + c2 * a**3 * root + c3 * a * root + c4 * a**2 + c5


def best_angle(slices: np.ndarray) -> float:
    r"""Minimise $F$ over the grid."""
    return GRID[np.argmin(quartic(slices, GRID))]


def rotation_of(a: float) -> np.ndarray:
    r"""Return $O_a$."""
    c = np.sqrt(1 - a**2)
    return np.array([[c, a], [-a, c]])


def recover(m1: np.ndarray, columns: np.ndarray, pinv: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Solve $M \Omega^{1/2} = D^+$ and $M \omega = M_1$; $D^+$ is ``columns``, $D$ is ``pinv``."""
    sign = np.where(columns.sum(axis=0) < 0, -1, 1)
    topics = columns / columns.sum(axis=0)
    topics = np.stack([project_simplex(topic) for topic in topics.T], axis=1)
    topics = np.maximum(topics, FLOOR)
    topics /= topics.sum(axis=0)
    weights = np.maximum(sign * (pinv @ m1), FLOOR) ** 2
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    return topics[:, order], weights[order]


def project_simplex(point: np.ndarray) -> np.ndarray:
    """Project on the probability simplex by sorting (Duchi et al. 2008, figure 1)."""
    descending = np.sort(point)[::-1]
    thresholds = (np.cumsum(descending) - 1) / np.arange(1, len(point) + 1)
    last = np.flatnonzero(descending > thresholds)[-1]
    return np.maximum(point - thresholds[last], 0)


def assign(counts: np.ndarray, topics: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the likelier topic of each document; ties go to the first."""
    return np.argmax(counts @ np.log(topics) + np.log(weights), axis=1)
