"""The paper's tree (Algorithm 2): every node split in turn, down to a given depth, a level per round."""

from functools import partial

import numpy as np

from hmom_jax.corpus import Corpus
from hmom_jax.tree.rounds import fit_round, layout_by_word, n_slots_for, shares_words
from hmom_jax.tree.tree import Node, Tree, number_depth_first


def grow_by_levels(
    corpus: Corpus, depth: int, *, branching, decompose, key, sample_weight, beta, word_scale, watch
) -> Tree:
    """Split every node ``depth`` times in succession.

    ``watch`` is called after every round with the depth reached and the number of nodes so far.
    """
    growth = _Growth(corpus, sample_weight)
    widest = branching ** (depth - 1)
    slots_for = partial(n_slots_for, n_words=corpus.n_words, rank=branching, itemsize=corpus.dtype.itemsize)
    by_word = None  # one layout for all rounds whose nodes can share it
    for level in range(depth):
        open_nodes = []
        for node in growth.level(level):
            node.reason = _too_poor(corpus, growth.docs(node), sample_weight)
            if node.reason is None:
                open_nodes.append(node)
        n_slots = slots_for(len(open_nodes), widest)
        shared = shares_words(n_slots, branching)
        if shared and by_word is None:
            by_word = layout_by_word(corpus)
        for first in range(0, len(open_nodes), n_slots):
            group = open_nodes[first : first + n_slots]
            slot = growth.slots(group)
            choice, topics, found = fit_round(
                corpus, slot, sample_weight, [growth.path[node.id] for node in group], key,
                by_word=by_word if shared else None, n_slots=n_slots, beta=beta, word_scale=word_scale,
                decompose=decompose, rank=branching,
            )  # fmt: skip
            growth.split(group, slot, corpus.fetch(choice), np.asarray(topics), _host(found))
        watch(level + 1, len(growth.nodes))
        if not open_nodes:
            break
    for node in growth.level(depth):
        node.reason = "the depth asked for is reached"
    return growth.finish("paper")


class _Growth:
    """Nodes made so far and where each document sits (host side)."""

    def __init__(self, corpus: Corpus, sample_weight: np.ndarray):
        self.corpus = corpus
        self.sample_weight = sample_weight
        total = np.asarray(sample_weight @ corpus.counts).ravel().astype(np.float64)
        self.word_probability = total / max(total.sum(), np.finfo(float).tiny)
        topic = self.word_probability.astype(corpus.dtype)
        self.nodes = [Node(0, None, 0, corpus.n_docs, float(sample_weight.sum()), topic)]
        self.path = [1]
        self.place = np.zeros(corpus.n_docs, np.int64)

    def level(self, depth: int) -> list[Node]:
        return [node for node in self.nodes if node.depth == depth]

    def docs(self, node: Node) -> np.ndarray:
        return np.flatnonzero(self.place == node.id)

    def slots(self, group: list[Node]) -> np.ndarray:
        """Slot of each document: the place of its node in the group, -1 outside."""
        slot_of = np.full(len(self.nodes), -1)
        slot_of[[node.id for node in group]] = np.arange(len(group))
        return slot_of[self.place]

    def split(self, group, slot, choice, topics, found) -> None:
        """Give each node of the group its children, or the reason why it has none."""
        for index, node in enumerate(group):
            docs = np.flatnonzero(slot == index)
            _record(node, index, found)
            if found["n_void"][index] > found["weights"].shape[1] - 2:
                node.reason = "fewer than 2 positive eigenvalues"
                continue
            used = np.unique(choice[docs])
            if len(used) < 2:
                node.reason = "all documents on one side"
                continue
            children = []
            for component in used:
                inside = docs[choice[docs] == component]
                topic = topics[index, : self.corpus.n_words, component].copy()
                child = Node(
                    id=0, parent=node.id, depth=node.depth + 1, n_docs=len(inside),
                    mass=float(self.sample_weight[inside].sum()), topic=topic,
                    weight=float(found["weights"][index, component]), component=int(component),
                )  # fmt: skip
                children.append((child, inside))
            children.sort(key=lambda pair: (-pair[0].mass, -pair[0].n_docs, int(np.argmax(pair[0].topic))))
            for order, (child, inside) in enumerate(children):
                child.id = len(self.nodes)
                self.nodes.append(child)
                self.path.append((self.path[node.id] * (len(topics[index][0]) + 1) + order + 1) % 2**32)
                self.place[inside] = child.id
            node.children = tuple(child.id for child, _ in children)

    def finish(self, method: str) -> Tree:
        """Return the tree, its nodes numbered depth first."""
        order = sorted((node.depth, node.id) for node in self.nodes if node.children)
        for number, (_, name) in enumerate(order):
            self.nodes[name].split_order = number
        nodes, new = number_depth_first(self.nodes, root=0)
        return Tree(nodes, self.corpus.vocabulary, new[self.place], self.word_probability, method)


def _record(node: Node, index: int, found: dict) -> None:
    """Keep the diagnostics of a node's split."""
    last = found["eigenvalues"][index, -1]
    gap = (last - found["next_eigenvalue"][index]) / last if last > 0 else 0.0
    node.spectral_gap = float(gap)
    node.off_diagonal = float(found["relative_objective"][index])
    node.simplex_violation = float(found["simplex_violation"][index].max())
    node.converged = bool(found["converged"][index])


def _host(found) -> dict:
    """Bring the small diagnostics to the host (the rotations and factors stay where they are)."""
    small = {
        "weights": found.weights,
        "n_void": np.maximum(np.asarray(found.void).sum(-1), np.asarray(found.whitening.void).sum(-1)),
        "eigenvalues": found.whitening.eigenvalues,
        "next_eigenvalue": found.whitening.next_eigenvalue,
        "relative_objective": found.relative_objective,
        "simplex_violation": found.simplex_violation,
        "converged": found.converged,
    }
    return {name: np.asarray(value) for name, value in small.items()}


def _too_poor(corpus: Corpus, docs: np.ndarray, sample_weight: np.ndarray) -> str | None:
    """Say why a node cannot even be tried, before any pass over its counts."""
    usable = docs[(sample_weight[docs] > 0) & (corpus.length[docs] >= 3)]
    if len(usable) < 2:
        return "fewer than 2 documents with 3 words"
    if np.ptp(corpus.length[usable]) == 0 and np.ptp(corpus.signatures[usable]) == 0:
        return "identical documents"
    return None
