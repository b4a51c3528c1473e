"""Scores of partitions, trees and topics."""

from collections.abc import Sequence

import numpy as np

from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError
from hmom_jax.tree.tree import Tree


def contingency(first, second) -> np.ndarray:
    """Count the documents for each pair of labels."""
    first, second = np.asarray(first).ravel(), np.asarray(second).ravel()
    if first.shape != second.shape or not first.size:
        raise InputError(f"Two labellings of the same documents are needed; got {first.size} and {second.size}.")
    rows, i = np.unique(first, return_inverse=True)
    columns, j = np.unique(second, return_inverse=True)
    table = np.zeros((len(rows), len(columns)), np.int64)
    np.add.at(table, (i, j), 1)
    return table


def adjusted_rand_score(truth, labels) -> float:
    """Return the adjusted Rand index: 1 for equal partitions, 0 on average for random ones.

    Examples
    --------
    >>> adjusted_rand_score([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    table = contingency(truth, labels)
    pairs = lambda counts: float((counts * (counts - 1.0) / 2).sum())
    together, rows, columns = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    expected = rows * columns / max(pairs(np.array([table.sum()])), 1.0)
    most = (rows + columns) / 2
    return 1.0 if most == expected else (together - expected) / (most - expected)


def normalized_mutual_info_score(truth, labels) -> float:
    """Return the mutual information over the mean of the two entropies: 1 for equal partitions.

    Examples
    --------
    >>> round(normalized_mutual_info_score([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.8
    """
    joint = contingency(truth, labels) / np.asarray(truth).size
    rows, columns = joint.sum(1), joint.sum(0)
    entropy = lambda p: float(-(p[p > 0] * np.log(p[p > 0])).sum())
    mean = (entropy(rows) + entropy(columns)) / 2
    if mean == 0:
        return 1.0
    return max(0.0, (entropy(rows) + entropy(columns) - entropy(joint))) / mean


def purity_score(truth, labels) -> float:
    """Return the share of documents that belong to the majority class of their cluster.

    Examples
    --------
    >>> purity_score([0, 0, 1, 1], [0, 0, 0, 1])
    0.75
    """
    table = contingency(truth, labels)
    return float(table.max(0).sum() / table.sum())


def dendrogram_purity(tree: Tree, truth) -> float:
    """Return how pure the smallest subtree is that holds two documents of one class, averaged over such pairs.

    1 where every class is a subtree of its own. Documents with a negative label are left out.

    References
    ----------
    Heller and Ghahramani (2005), "Bayesian hierarchical clustering".
    """
    truth = np.asarray(truth)
    if truth.shape != tree.doc_node.shape:
        raise InputError(f"There are {len(tree.doc_node)} documents in the tree; got {truth.size} labels.")
    known = truth >= 0
    classes, number = np.unique(truth[known], return_inverse=True)
    counts = np.zeros((len(tree.nodes), len(classes)))
    np.add.at(counts, (tree.doc_node[known], number), 1)
    for node in reversed(tree.nodes):  # children come after their parents
        if node.parent is not None:
            counts[node.parent] += counts[node.id]
    pairs = counts * (counts - 1) / 2
    meet = pairs.copy()  # pairs whose smallest common subtree is the node
    for node in tree.nodes:
        for child in node.children:
            meet[node.id] -= pairs[child]
    purity = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    total = meet.sum()
    return float((meet * purity).sum() / total) if total else 1.0


def npmi_coherence(topics: Sequence[Sequence[str]], corpus: Corpus) -> float:
    """Return the mean normalised pointwise mutual information of word pairs within topics, between -1 and 1.

    Probabilities are shares of documents. A pair that never meets counts -1; a word that never occurs too.

    Parameters
    ----------
    topics
        The top words of each topic.
    corpus
        Where to count.
    """
    present, counts, number = _presence(topics, corpus)
    n_docs = corpus.n_docs
    scores = []
    for words in topics:
        for i, j in _pairs(words, number):
            both = counts[i, j] / n_docs
            if both == 0:
                scores.append(-1.0)
            elif both == 1:
                scores.append(1.0)
            else:
                scores.append(np.log(both * n_docs**2 / (present[i] * present[j])) / -np.log(both))
    return float(np.mean(scores)) if scores else 0.0


def umass_coherence(topics: Sequence[Sequence[str]], corpus: Corpus, smoothing: float = 1.0) -> float:
    """Return the mean over pairs of log((documents with both + smoothing) / documents with the more frequent one).

    Pairs whose conditioning word never occurs are left out.

    References
    ----------
    Mimno, Wallach, Talley, Leenders and McCallum (2011), with ``smoothing`` 1.
    """
    present, counts, number = _presence(topics, corpus)
    scores = []
    for words in topics:
        for i, j in _pairs(words, number):  # i stands before j in the list: the condition
            if present[i] > 0:
                scores.append(np.log((counts[i, j] + smoothing) / present[i]))
    return float(np.mean(scores)) if scores else 0.0


def perplexity(tree: Tree, corpus: Corpus) -> float:
    """Return the perplexity per word of (held-out) documents under the mixture of a tree's leaves: lower is better.

    The exponential of minus :meth:`~hmom_jax.Tree.log_likelihood`, summed and divided by the number of words; without
    the multinomial coefficient, which does not depend on the model.
    """
    n_words = corpus.length.sum()
    if n_words == 0:
        raise InputError("The documents have no words.")
    return float(np.exp(-tree.log_likelihood(corpus).sum() / n_words))


def topic_diversity(topics: Sequence[Sequence[str]]) -> float:
    """Return the share of distinct words among the top words of all topics.

    Examples
    --------
    >>> topic_diversity([["a", "b"], ["b", "c"]])
    0.75
    """
    words = [word for topic in topics for word in topic]
    return len(set(words)) / len(words) if words else 0.0


def _presence(topics, corpus: Corpus):
    """Return document frequencies and co-occurrences of all words in the topics, and the number of each word."""
    place = {word: index for index, word in enumerate(corpus.vocabulary.tolist())}
    words = sorted({word for topic in topics for word in topic})
    unknown = [word for word in words if word not in place]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not in the vocabulary of the corpus.")
    present = corpus.counts.tocsc()[:, [place[word] for word in words]] > 0
    present = present.astype(np.float64)
    together = (present.T @ present).toarray()
    return np.diag(together), together, {word: index for index, word in enumerate(words)}


def _pairs(words, number):
    return [(number[words[i]], number[words[j]]) for j in range(len(words)) for i in range(j)]
