"""Merging cells back to the number of leaves asked for: the merges, read backwards, are the tree."""

import numpy as np


def merge_order(sums: np.ndarray) -> list[tuple[int, int]]:
    r"""Merge clusters greedily by least loss $|a| + |b| - |a + b|$ of their sum vectors.

    Returns pairs (kept, absorbed) down to one cluster.

    Examples
    --------
    >>> merge_order(np.array([[1.0, 0.0], [0.0, 3.0], [0.9, 0.1]]))
    [(0, 2), (0, 1)]
    """
    sums = sums.astype(np.float64).copy()
    n = len(sums)
    norm = np.linalg.norm(sums, axis=1)
    together = np.sqrt(np.maximum(norm[:, None] ** 2 + norm**2 + 2 * sums @ sums.T, 0))
    loss = norm[:, None] + norm - together
    loss[np.tril_indices(n)] = np.inf
    alive = np.ones(n, bool)
    order = []
    for _ in range(n - 1):
        a, b = np.unravel_index(np.argmin(loss), loss.shape)
        order.append((int(a), int(b)))
        sums[a] += sums[b]
        norm[a] = np.linalg.norm(sums[a])
        alive[b] = False
        loss[b], loss[:, b] = np.inf, np.inf
        row = norm[a] + norm - np.linalg.norm(sums + sums[a], axis=1)
        row[~alive] = np.inf
        row[a] = np.inf
        after = np.arange(n) > a
        loss[a] = np.where(after, row, np.inf)
        loss[:, a] = np.where(after, np.inf, row)
    return order


def cut_merges(order, n_cells: int, n_leaves: int) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the leaf of each cell once ``n_leaves`` are left, and the merges that follow, on leaf numbers."""
    leaf = np.arange(n_cells)
    for kept, absorbed in order[: n_cells - n_leaves]:
        leaf[leaf == absorbed] = kept
    names, number = np.unique(leaf, return_inverse=True)
    place = {int(name): i for i, name in enumerate(names)}
    return number, [(place[a], place[b]) for a, b in order[n_cells - n_leaves :]]


def evidence_path(counts: np.ndarray, docs: np.ndarray, order, mass: float, mean: np.ndarray) -> np.ndarray:
    """Return the log evidence of the partition after 0, 1, 2, ... merges.

    The Dirichlet-multinomial marginal likelihood of each leaf's effective counts (prior ``mass`` times ``mean``),
    relative to the mean, plus the log-probability of the assignments, less half a log of documents per weight.
    """
    from scipy.special import gammaln  # a fifth of the time that importing this library takes

    prior = mass * mean + 1e-9
    base, log_mean = gammaln(prior).sum(), np.log(mean + 1e-12)

    def leaf(count, n):
        total = count.sum()
        fit = gammaln(mass) - gammaln(mass + total) + gammaln(prior + count).sum() - base - (count * log_mean).sum()
        return fit + (n * np.log(n) if n > 0 else 0.0)

    counts, docs = counts.astype(np.float64).copy(), docs.astype(np.float64).copy()
    n_docs, n_cells = docs.sum(), len(counts)
    values = np.array([leaf(count, n) for count, n in zip(counts, docs, strict=True)])
    path = []
    for merged in range(n_cells):
        path.append(values.sum() - n_docs * np.log(n_docs) - 0.5 * (n_cells - merged) * np.log(n_docs))
        if merged < n_cells - 1:
            a, b = order[merged]
            counts[a] += counts[b]
            docs[a] += docs[b]
            values[a], values[b] = leaf(counts[a], docs[a]), 0.0
    return np.array(path)
