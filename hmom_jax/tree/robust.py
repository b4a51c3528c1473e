"""The robust tree: one eigendecomposition, splits in its space, merges, and a polish on the counts.

1. effective counts (burstiness, tempered documents); 2. one eigendecomposition of the scaled second moment without
its diagonal; 3. best-first two-way splits in that space, to more cells than asked for; 4. a few EM steps on the
counts; 5. cells are merged back, which gives the tree; 6. EM over all leaves; 7. leaves that lost their documents
get back those that they started with. The order of documents changes rounding at most, and in memory not even that;
documents near a border, where rounding may turn their side, have no say there. The key only starts the eigensolver.
"""

import numpy as np

from hmom_jax.corpus import Corpus
from hmom_jax.errors import check_finite
from hmom_jax.parallel.checkpoint import NoCheckpoint
from hmom_jax.parallel.stream import StreamedCorpus
from hmom_jax.tree.bisect import grow_cells
from hmom_jax.tree.effective import Effective, EffectiveCorpus, tempering
from hmom_jax.tree.embedding import embed, rank_for
from hmom_jax.tree.leaf_model import LeafModel
from hmom_jax.tree.merge import cut_merges, evidence_path, merge_order
from hmom_jax.tree.polish import Labels, Mixture, em, most_probable
from hmom_jax.tree.space import space_of
from hmom_jax.tree.streaming import labels_of
from hmom_jax.tree.tree import Node, Tree, number_depth_first

_OVERGROW = 2
_STEPS_CELLS, _STEPS_LEAVES, _STEPS_COLD, _STEPS_REPAIR = 10, 25, 5, 10
_REPAIRS = 5
_SPARE_WORK = 1 << 23  # nonzeros x leaves up to which idle columns cost less than another compilation
AUTO_LEAVES = 64  # "auto" grows so many, and merges back
_SORTED_NONZEROS = 1 << 24  # up to so many a sorted copy is cheap


def grow_robust(
    corpus: Corpus,
    n_leaves: int | str,
    *,
    key,
    sample_weight,
    min_leaf: int,
    max_depth: int | None,
    watch,
    checkpoint: NoCheckpoint,
) -> Tree:
    """Grow a tree of ``n_leaves`` leaves (fewer where the documents do not bear more).

    Documents of weight 0 have no part in it until leaves are assigned; only the ratios of the other weights count.
    """
    chosen = _in_order(corpus, sample_weight)
    grown = corpus if chosen is None else corpus.take(chosen)
    weights = sample_weight if chosen is None else sample_weight[chosen]
    weights = weights / corpus.gather(sample_weight.max(initial=0.0)).max()  # the mean of huge ones would overflow
    weights = weights / (corpus.add_up(weights.sum()) / grown.total_docs)
    documents = Effective.learn(grown).apply(grown)
    how = {"key": key, "sample_weight": weights, "min_leaf": min_leaf, "max_depth": max_depth, "watch": watch}
    start, merges = checkpoint.run(
        "plan",
        lambda: plan(documents, n_leaves, **how, checkpoint=checkpoint),
        save=lambda found: {**found[0]._asdict(), "merges": np.array(found[1], np.int64).reshape(-1, 2)},
        load=lambda kept: (_kept(Labels, kept), [tuple(pair) for pair in kept["merges"].tolist()]),
    )
    # A number of leaves that the data choose must not decide a shape: folds would not share their compilation.
    width = wanted = _grown(grown.total_docs, n_leaves, min_leaf)
    if grown.add_up(grown.nnz) * wanted <= _SPARE_WORK:
        width = _OVERGROW * wanted  # as for the cells
    mixture, words, alive = checkpoint.run(
        "polish",
        lambda: polish(documents, start, len(merges) + 1, weights, min_leaf, width),
        save=lambda found: {
            **found[0]._asdict(),
            "words": np.array(np.nan if found[1] is None else found[1]),
            "alive": found[2],
        },
        load=lambda kept: (
            _kept(Mixture, kept),
            None if np.isnan(kept["words"]) else float(kept["words"]),
            np.array(kept["alive"]),
        ),
    )
    watch(4, 2 * len(alive) - 1)
    share = np.exp(mixture.log_weight.astype(np.float64))
    model = LeafModel(mixture, documents.effective.bursty, words, np.arange(len(alive)))
    if grown.total_docs < corpus.total_docs:  # all processes must take the same way
        labels = model.assign(corpus)
    else:
        labels = model.assign_effective(documents)
        labels = labels if chosen is None else labels[np.argsort(chosen)]
    if n_leaves == "auto":
        reason = "the evidence bears no more leaves"
    elif len(alive) == n_leaves:
        reason = "the number of leaves is reached"
    else:
        reason = "the largest depth is reached, or too few documents to split"
    return assemble(corpus, sample_weight, labels, share / share.sum(), merges, alive, model, reason)


def _in_order(corpus: Corpus, sample_weight: np.ndarray) -> np.ndarray | None:
    """Return the documents of positive weight, sorted by what they say; None for all of them as they are.

    Sums in another order are rounded otherwise, which can turn a close call. Sorted by content, the order in which
    documents came decides nothing. Large corpora, and those on disk or on several devices, stay as they are.
    """
    weighty = sample_weight > 0
    docs = np.flatnonzero(weighty)
    if type(corpus) is Corpus and corpus.nnz <= _SORTED_NONZEROS:
        signatures = corpus.signatures[docs]
        # By what follows the point: the whole grows with the length, and parts of a table need lengths well mixed.
        return docs[np.lexsort((sample_weight[docs], signatures, signatures % 1))]
    return None if corpus.add_up((~weighty).sum()) == 0 else docs


def plan(
    documents: EffectiveCorpus, n_leaves, *, key, sample_weight, min_leaf, max_depth, watch,
    checkpoint: NoCheckpoint | None = None,
):  # fmt: skip
    """Find the tree before its polish: the leaf of each document, and the merges that join leaves up to the root."""
    counts = documents.corpus
    auto = n_leaves == "auto"
    wanted = _grown(counts.total_docs, n_leaves, min_leaf)
    checkpoint = NoCheckpoint() if checkpoint is None else checkpoint
    z = checkpoint.run(
        "embedding",
        lambda: embed(documents, sample_weight, rank_for(wanted, counts.n_words), key),
        save=lambda z: {"z": counts.fetch(z)},
        load=lambda kept: counts.restore(kept["z"]),
    )
    watch(1, 1)
    space = space_of(counts, z)
    labels, n_cells = checkpoint.run(
        "cells",
        lambda: _cells(space, sample_weight, _OVERGROW * wanted, min_leaf),
        save=lambda found: {**found[0]._asdict(), "n": np.array(found[1])},
        load=lambda kept: (_kept(Labels, kept), int(kept["n"])),
    )
    watch(2, n_cells)
    temper = documents.temper(documents.effective.words)
    prior = documents.effective.prior
    width = _OVERGROW * wanted  # also where fewer cells came out
    responsibility, _ = em(counts, temper, sample_weight, labels, _STEPS_CELLS, n_cells, prior, width)
    labels = _best(counts, responsibility)
    watch(3, n_cells)
    order = merge_order(space.label_sums(labels.leaf, sample_weight * labels.sure, n_cells))
    k = min(wanted, n_cells)
    if auto:
        k = _best_number(
            counts, labels.leaf, order, n_cells, sample_weight, temper if documents.effective.bursty else 1.0
        )
    leaf, merges = cut_merges(order, n_cells, k)
    leaf, merges = _limit_depth(leaf, merges, k, max_depth)
    return labels._replace(leaf=leaf[labels.leaf]), merges


def _cells(space, sample_weight, wanted: int, min_leaf: int) -> tuple[Labels, int]:
    """Split the documents into cells; returns the cell of each, and their number."""
    cells, _ = grow_cells(space, sample_weight, wanted, min_leaf=min_leaf)
    labels = Labels(np.zeros(len(sample_weight), np.int64), np.ones(len(sample_weight)))
    for number, cell in enumerate(cells):
        labels.leaf[cell.docs], labels.sure[cell.docs] = number, cell.sure
    return labels, len(cells)


def _kept(kind, kept):
    """Return a named tuple from what a checkpoint kept of its fields."""
    return kind(*(np.array(kept[name]) for name in kind._fields))


def _grown(n_docs: int, n_leaves, min_leaf: int) -> int:
    """Return the number of leaves to grow, from which ``"auto"`` merges back."""
    return min(AUTO_LEAVES, max(2, n_docs // (4 * min_leaf))) if n_leaves == "auto" else n_leaves


def polish(
    documents: EffectiveCorpus, start: Labels, n_leaves: int, sample_weight, min_leaf: int, width: int | None = None
):
    """Run EM over all leaves from labels; returns the mixture, its tempering, and the leaves that kept documents.

    Tempered documents first; then, unless the words come in bursts, the counts as they are. A leaf that loses its
    documents gets back those that it started with, as surely as it had them, while tempering and prior give way.
    """
    counts, effective = documents.corpus, documents.effective
    cooled = lambda words: words if effective.bursty else None
    run = lambda start, steps, words, prior: em(
        counts, documents.temper(words), sample_weight, start, steps, n_leaves, prior, width
    )
    words, prior = effective.words, effective.prior
    responsibility, mixture = run(start, _STEPS_LEAVES, words, prior)
    responsibility, mixture = run(responsibility, _STEPS_COLD, cooled(words), prior)
    least = min(min_leaf, max(1, counts.total_docs // (50 * n_leaves)))  # small topics may be true
    for repair in range(_REPAIRS + 1):
        labels = _best(counts, responsibility)
        dead = np.flatnonzero(counts.add_up(np.bincount(labels.leaf, minlength=n_leaves)) < least)
        if not len(dead) or repair == _REPAIRS:
            break
        back = np.isin(start.leaf, dead)
        labels = Labels(*(np.where(back, old, new) for old, new in zip(start, labels, strict=True)))
        words, prior = 2 * words, prior / 2
        responsibility, mixture = run(labels, max(1, _STEPS_REPAIR >> repair), cooled(words), prior)
    alive = np.setdiff1d(np.arange(n_leaves), dead)
    mixture = Mixture(
        np.asarray(mixture.log_ratio)[:, alive], np.asarray(mixture.log_weight)[alive], np.asarray(mixture.mean)
    )
    return mixture, cooled(words), alive


def _best(corpus: Corpus, responsibility) -> Labels:
    if isinstance(corpus, StreamedCorpus):
        return labels_of(corpus, responsibility)
    labels = Labels(*map(corpus.fetch, most_probable(responsibility)))
    check_finite("The probabilities of the leaves (counts or weights may be too large)", labels.sure)
    return labels


def _best_number(counts: Corpus, labels, order, n_cells: int, sample_weight, temper) -> int:
    """Choose the number of leaves whose partition has the highest evidence."""
    cells = counts.label_sums(labels, sample_weight * temper, n_cells)
    mean = cells.sum(0) / cells.sum()
    docs = counts.add_up(np.bincount(labels, sample_weight, n_cells))
    path = evidence_path(cells, docs, order, float(counts.n_words), mean)
    return max(1, n_cells - int(path.argmax()))


def _limit_depth(leaf: np.ndarray, merges, n_leaves: int, max_depth: int | None):
    """Join leaves below ``max_depth`` with their ancestor there."""
    if max_depth is None or not merges:
        return leaf, merges
    kept, depth = [], {merges[-1][0]: 0}
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
    return number[leaf], [(place[int(joined[a])], place[int(joined[b])]) for a, b in reversed(kept)]


def assemble(corpus: Corpus, sample_weight, labels, weights, merges, alive, model=None, reason=None) -> Tree:
    """Build the tree over the leaves that are alive; inner nodes are unions of leaves.

    ``labels`` and ``weights`` number the living leaves; ``merges`` all of them. The topic of a node is for reading: the
    words of its documents as they stand (repetition is what makes a subject word stand out), no document speaking
    for more than some fifty of them.
    """
    largest = corpus.gather(sample_weight.max(initial=0.0)).max()  # the scale of the weights must not show in the words
    spoken = corpus.label_sums(labels, sample_weight / largest * tempering(corpus), len(alive)).astype(np.float64)
    docs = corpus.add_up(np.bincount(labels, minlength=len(alive)))
    mass = corpus.add_up(np.bincount(labels, sample_weight, len(alive)))
    groups: list[list[int]] = [[leaf] for leaf in range(len(alive))]  # the leaves below each node
    children: list[tuple[int, ...]] = [()] * len(alive)
    splits: list[int | None] = [None] * len(alive)
    stands_for: dict[int, int | None] = {leaf: None for pair in merges for leaf in pair}
    stands_for |= {int(leaf): number for number, leaf in enumerate(alive)}
    for step, (a, b) in enumerate(merges):
        first, second = stands_for[a], stands_for[b]
        if first is None or second is None:  # one side has died: the other stands for both
            stands_for[a] = second if first is None else first
            continue
        groups.append(groups[first] + groups[second])
        children.append((first, second))
        splits.append(len(merges) - 1 - step)
        stands_for[a] = len(groups) - 1
    share = [weights[group].sum() for group in groups]
    parent: list[int | None] = [None] * len(groups)
    for number, pair in enumerate(children):
        for child in pair:
            parent[child] = number

    def describe(number: int) -> Node:
        group = groups[number]
        topic = spoken[group].sum(0)
        topic = (topic + 1e-9) / (topic + 1e-9).sum()
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
            reason=None if children[number] else reason,
        )

    nodes, new = number_depth_first([describe(number) for number in range(len(groups))], root=len(groups) - 1)
    total = spoken.sum(0)
    model = None if model is None else model._replace(node=new[: len(alive)])
    return Tree(nodes, corpus.vocabulary, corpus.gather_docs(new[labels]), total / total.sum(), "robust", model)
