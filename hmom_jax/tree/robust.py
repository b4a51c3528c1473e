"""The robust tree: one eigendecomposition, splits in its space, merges, and a polish on the counts.

1. effective counts (burstiness, tempered documents); 2. one eigendecomposition of the scaled second moment without
its diagonal; 3. best-first two-way splits in that space, to more cells than asked for; 4. a few EM steps on the
counts; 5. cells are merged back, which gives the tree; 6. EM over all leaves; 7. leaves that lost their documents
get back those that they started with. Nothing depends on the order of documents; the key only starts the eigensolver.
"""

import numpy as np
import scipy.sparse as sp

from hmom_jax.corpus import Corpus
from hmom_jax.tree.bisect import grow_cells
from hmom_jax.tree.effective import Effective
from hmom_jax.tree.embedding import embed
from hmom_jax.tree.merge import cut_merges, evidence_path, merge_order
from hmom_jax.tree.polish import Mixture, em
from hmom_jax.tree.tree import LeafModel, Node, Tree, number_depth_first

_LEAST_RANK = 32
_OVERGROW = 2
_STEPS_CELLS, _STEPS_LEAVES, _STEPS_COLD, _STEPS_REPAIR = 10, 25, 5, 10
_REPAIRS = 5
_AUTO_LEAVES = 64


def grow_robust(
    corpus: Corpus, n_leaves: int | str, *, key, sample_weight, min_leaf: int, max_depth: int | None, watch
) -> Tree:
    """Grow a tree of ``n_leaves`` leaves (fewer where the documents do not bear more)."""
    auto = n_leaves == "auto"
    wanted = min(_AUTO_LEAVES, max(2, corpus.n_docs // (4 * min_leaf))) if auto else n_leaves
    effective = Effective.learn(corpus)
    documents = effective.apply(corpus)
    counts = documents.corpus
    z = embed(documents, sample_weight, min(max(_LEAST_RANK, 2 * wanted), counts.n_words), key)
    watch(1, 1)
    cells, _ = grow_cells(z, sample_weight, _OVERGROW * wanted, min_leaf=min_leaf)
    watch(2, len(cells))
    labels = np.zeros(corpus.n_docs, np.int64)
    for number, cell in enumerate(cells):
        labels[cell.docs] = number
    tempered = documents.temper(effective.words)
    polish = lambda start, steps, k, temper: em(counts, temper, sample_weight, start, steps, k)
    best = lambda responsibility: np.asarray(responsibility)[: corpus.n_docs].argmax(1)  # padding leaves never win

    responsibility, mixture = polish(labels, _STEPS_CELLS, len(cells), tempered)
    labels = best(responsibility)
    watch(3, len(cells))
    order = merge_order(_sums(labels, sample_weight, len(cells), np.asarray(z)[: corpus.n_docs]))
    k = min(wanted, len(cells))
    if auto:
        k = _best_number(counts, labels, order, len(cells), sample_weight * (tempered if effective.bursty else 1.0))
    leaf, merges = cut_merges(order, len(cells), k)
    leaf, merges, k = _limit_depth(leaf, merges, k, max_depth)
    start = leaf[labels]

    cold = tempered if effective.bursty else documents.temper(None)
    responsibility, mixture = polish(start, _STEPS_LEAVES, k, tempered)
    responsibility, mixture = polish(responsibility, _STEPS_COLD, k, cold)
    words = effective.words
    final_temper = words if effective.bursty else None
    for repair in range(_REPAIRS + 1):
        labels = best(responsibility)
        sizes = np.bincount(labels, minlength=k)
        dead = np.flatnonzero(sizes < min(min_leaf, max(1, corpus.n_docs // (50 * k))))
        if not len(dead) or repair == _REPAIRS:
            break
        labels = np.where(np.isin(start, dead), start, labels)
        words = 2 * words  # the tempering gives way
        final_temper = words if effective.bursty else None
        temper = documents.temper(final_temper)
        responsibility, mixture = polish(labels, max(1, _STEPS_REPAIR >> repair), k, temper)
    watch(4, 2 * k - 1)
    return _assemble(corpus, sample_weight, effective, final_temper, mixture, merges, np.setdiff1d(range(k), dead))


def _sums(labels, weights, n_labels: int, table) -> np.ndarray:
    """Add up the rows of each label, dense or sparse."""
    member = sp.csr_array(
        (weights.astype(table.dtype), (labels, np.arange(len(labels)))), shape=(n_labels, len(labels))
    )
    sums = member @ table
    return sums.toarray() if sp.issparse(sums) else sums


def _best_number(counts: Corpus, labels, order, n_cells: int, weights) -> int:
    """Choose the number of leaves whose partition has the highest evidence."""
    cells = _sums(labels, weights, n_cells, counts.counts)
    mean = cells.sum(0) / cells.sum()
    path = evidence_path(cells, np.bincount(labels, minlength=n_cells), order, float(counts.n_words), mean)
    return max(1, n_cells - int(path.argmax()))


def _limit_depth(leaf: np.ndarray, merges, n_leaves: int, max_depth: int | None):
    """Join leaves below ``max_depth`` with their ancestor there."""
    if max_depth is None:
        return leaf, merges, n_leaves
    kept, depth = [], {merges[-1][0] if merges else 0: 0}
    joined = np.arange(n_leaves)
    for a, b in reversed(merges):  # from the root down: a stays, b branches off
        if depth[a] < max_depth:
            depth[a] += 1
            depth[b] = depth[a]
            kept.append((a, b))
        else:
            joined[b], depth[b] = joined[a], depth[a]
    names, number = np.unique(joined, return_inverse=True)
    place = {int(name): i for i, name in enumerate(names)}
    return number[leaf], [(place[int(joined[a])], place[int(joined[b])]) for a, b in reversed(kept)], len(names)


def _assemble(corpus: Corpus, sample_weight, effective, words, mixture: Mixture, merges, alive) -> Tree:
    """Build the tree over the leaves that are alive; inner nodes are unions of leaves."""
    mixture = Mixture(
        np.asarray(mixture.log_ratio)[:, alive], np.asarray(mixture.log_weight)[alive], np.asarray(mixture.mean)
    )
    topics = np.exp(mixture.log_ratio.astype(np.float64)) * mixture.mean[:, None]
    topics /= topics.sum(0)
    weights = np.exp(mixture.log_weight.astype(np.float64))
    weights /= weights.sum()
    model = LeafModel(mixture, effective.bursty, words, np.arange(len(alive)))
    labels = model.assign(corpus)
    docs, mass = np.bincount(labels, minlength=len(alive)), np.bincount(labels, sample_weight, len(alive))

    place = {int(leaf): i for i, leaf in enumerate(alive)}
    members: dict[int, list[int]] = {leaf: [place[leaf]] if leaf in place else [] for leaf in _leaves_of(merges, alive)}
    groups: list[list[int]] = [[i] for i in range(len(alive))]  # components of each node: leaves first
    top = {leaf: place.get(leaf) for leaf in members}  # node that a leaf number stands for
    children: list[tuple[int, ...]] = [()] * len(alive)
    splits: list[int | None] = [None] * len(alive)
    for step, (a, b) in enumerate(merges):
        if top[a] is None or top[b] is None:  # one side has died: the other stands for both
            top[a] = top[b] if top[a] is None else top[a]
            continue
        groups.append(groups[top[a]] + groups[top[b]])
        children.append((top[a], top[b]))
        splits.append(len(merges) - 1 - step)
        top[a] = len(groups) - 1
    share = [weights[group].sum() for group in groups]
    parent: list[int | None] = [None] * len(groups)
    for number, pair in enumerate(children):
        for child in pair:
            parent[child] = number

    def describe(number: int) -> Node:
        group = groups[number]
        topic = topics[:, group] @ (weights[group] / share[number])
        above = parent[number]
        return Node(
            id=number,
            parent=above,
            depth=0,
            n_docs=int(docs[group].sum()),
            mass=float(mass[group].sum()),
            topic=topic.astype(corpus.dtype),
            weight=1.0 if above is None else float(share[number] / share[above]),
            children=children[number],
            split_order=splits[number],
            reason=None if children[number] else "the number of leaves is reached",
        )

    nodes = [describe(number) for number in range(len(groups))]
    total = np.asarray(sample_weight @ corpus.counts).ravel().astype(np.float64)
    nodes, new = number_depth_first(nodes, root=len(groups) - 1)
    model = model._replace(node=new[: len(alive)])
    return Tree(nodes, corpus.vocabulary, new[labels], total / total.sum(), "robust", model)


def _leaves_of(merges, alive) -> list[int]:
    """Return all leaf numbers, dead ones included."""
    return sorted({int(leaf) for leaf in alive} | {leaf for pair in merges for leaf in pair})
