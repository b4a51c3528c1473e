"""What the page holds: words, documents and shares per node, as plain values that JSON can carry."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError
from hmom_jax.report.times import time_bins
from hmom_jax.text import count_words
from hmom_jax.tree.keywords import CONTRASTS, leave_out_variants, relevance_scores
from hmom_jax.tree.tree import Node, Tree

RELEVANCES = np.linspace(0, 1, 21)  # the steps of the slider: words are kept for these
LEAST_RELEVANCE = 1e-3  # in place of 0, where all words that occur nowhere else would tie
FIRST_RELEVANCE, FIRST_CONTRAST = 0.4, "both"  # what the page begins with: siblings share few words then
_UNIT = 1e4  # logarithms are stored as whole numbers of 1e-4: five digits instead of seventeen
_MAX_WORDS = 20_000  # in the search; the words of the bars come on top
_MAX_LABELS = 30
_EXCERPT = 240  # characters
EXCERPT_SOURCE = 4 * _EXCERPT  # characters of a document that are looked at: white space may take most of them
_MAX_TEXT = 1_500_000  # characters of all excerpts together, those of the representative documents apart
_PRIOR_LENGTH = 30  # words; without it, documents of one good word would represent every node


def name_words(tree: Tree, node: Node, n_words: int) -> list[str]:
    """Return the words that name a node, as the page does when it opens."""
    # More than are wanted, for those that are left out.
    words = tree.keywords(node, 3 * n_words, FIRST_RELEVANCE, FIRST_CONTRAST)
    return leave_out_variants(words, n_words)


class Given(NamedTuple):
    """What :meth:`Tree.to_html` is given beside the tree: lists or arrays, or None."""

    corpus: Corpus | None
    documents: Any
    labels: Any
    times: Any
    confidence: Any


def page_contents(tree: Tree, given: Given, *, n_words: int, n_documents: int) -> dict:
    """Return all that the page shows."""
    if n_words < 1:
        raise InputError(f"n_words must be at least 1; got {n_words}.")
    if n_documents < 0:
        raise InputError(f"n_documents must not be negative; got {n_documents}.")
    terms = [_terms(tree, node, n_words) for node in tree.nodes]
    contents = {
        "nDocs": tree.root.n_docs,
        "vocabulary": len(tree.vocabulary),
        "shown": n_words,
        "unit": _UNIT,
        "leastRelevance": LEAST_RELEVANCE,
        "relevance": FIRST_RELEVANCE,
        "contrast": FIRST_CONTRAST,
        "contrasts": CONTRASTS,
        "nodes": _nodes(tree, given.confidence),
    }
    contents |= _words(tree, terms)
    if given.documents is not None:
        contents["documents"] = _documents(tree, given, n_documents)
    if given.labels is not None:
        contents["labels"] = _labels(tree, given.labels)
    if given.times is not None:
        _check_length(tree, "times", given.times)
        numbers, names = time_bins(given.times)
        contents["times"] = {"names": names, "counts": _counts(tree, numbers, len(names))}
    return contents


def _nodes(tree: Tree, confidence) -> list[dict]:
    if confidence is None:
        confidence = [node.confidence for node in tree.nodes]
    values = np.array([np.nan if value is None else value for value in confidence], np.float64)
    if values.shape != (len(tree.nodes),):
        raise InputError(f"confidence must have a value per node ({len(tree.nodes)}); got shape {values.shape}.")
    if np.any((values < -1e-6) | (values > 1 + 1e-6)):
        raise InputError("confidence must lie between 0 and 1 (NaN where there is none).")
    return [
        {
            "parent": node.parent,
            "docs": node.n_docs,
            "confidence": None if np.isnan(value) else round(float(value), 3),
            "reason": node.reason,
            "stretch": round(tree.lift_stretch(node), 4),
        }
        for node, value in zip(tree.nodes, values, strict=True)
    ]


class _Terms(NamedTuple):
    """Words of a node with log-probabilities here and in the parent."""

    words: np.ndarray
    here: np.ndarray
    parent: np.ndarray


def _terms(tree: Tree, node, n_words: int) -> _Terms:
    """Return every word that some step of the slider brings among the first, against the corpus, the parent or both."""
    known = np.flatnonzero((tree.word_probability > 0) & (node.topic > 0))
    here, corpus, parent = tree.word_logarithms(node, known)
    wanted = np.zeros(len(known), bool)
    for contrast in CONTRASTS if node.parent is not None else ("corpus",):
        for relevance in np.maximum(RELEVANCES, LEAST_RELEVANCE):
            score = relevance_scores(here, corpus, parent, relevance, contrast, tree.lift_stretch(node))
            wanted[np.argpartition(-score, n_words - 1)[:n_words] if n_words < len(known) else slice(None)] = True
    return _Terms(known[wanted], here[wanted], parent[wanted])


def _words(tree: Tree, terms: list[_Terms]) -> dict:
    """Return the words by falling probability, where each is at home, and the words of each node."""
    kept = np.zeros(len(tree.vocabulary), bool)
    by_probability = np.argsort(-tree.word_probability, kind="stable")
    by_probability = by_probability[tree.word_probability[by_probability] > 0]
    kept[by_probability[:_MAX_WORDS]] = True
    for node in terms:
        kept[node.words] = True
    order = by_probability[kept[by_probability]]
    place = np.full(len(kept), -1)
    place[order] = np.arange(len(order))
    leaves = tree.leaves
    best, leaf_of, total = np.zeros(len(order)), np.zeros(len(order), np.int64), np.zeros(len(order))
    for leaf in leaves:  # one at a time: leaves x words may be large
        mass = leaf.mass * leaf.topic[order].astype(np.float64)
        leaf_of[mass > best] = leaf.id
        best, total = np.maximum(best, mass), total + mass
    share = np.rint(100 * best / np.maximum(total, np.finfo(float).tiny)).astype(int)
    rows = []
    for node in terms:
        by_place = np.argsort(place[node.words])
        numbers = place[node.words][by_place]
        rows.append(
            {
                "word": np.diff(numbers, prepend=0).tolist(),  # differences are shorter to write than numbers
                "here": _whole(node.here[by_place]),
                "parent": _whole(node.parent[by_place]),
            }
        )
    return {
        "words": [str(word) for word in tree.vocabulary[order]],
        "probability": _whole(np.log(tree.word_probability[order].astype(np.float64))),
        "home": leaf_of.tolist(),
        "homeShare": share.tolist(),
        "terms": rows,
    }


def _whole(logarithms: np.ndarray) -> list[int]:
    return np.rint(-_UNIT * logarithms).astype(np.int64).tolist()


def _documents(tree: Tree, given: Given, n_documents: int) -> dict:
    """Return excerpts, the leaf of each, and the documents that stand for each node."""
    documents = _strings(tree, given.documents)
    counts = _corpus_of(tree, documents, given.corpus)
    length = np.asarray(counts.sum(axis=1)).ravel() + _PRIOR_LENGTH
    floor = np.finfo(np.float32).tiny
    base = np.log(np.maximum(tree.word_probability.astype(np.float64), floor))
    own = np.zeros(len(documents))  # score of each document in its leaf
    first = {}
    within = documents_inside(tree)
    for node in tree.nodes[1:]:
        here = within[node.id]
        lift = np.clip(np.log(np.maximum(node.topic.astype(np.float64), floor)) - base, -8, 8)
        score = counts[here] @ lift / length[here]
        first[node.id] = here[np.argsort(-score, kind="stable")[:n_documents]]
        if node.is_leaf:
            own[here] = score
    # The root has no words of its own: the best document of each of its largest leaves stands for it.
    leaves = sorted(tree.leaves, key=lambda leaf: -leaf.n_docs)
    firsts = [first[leaf.id][:1] for leaf in leaves if leaf.id in first]
    first[0] = np.concatenate([*firsts, np.arange(len(documents) if not firsts else 0)])[:n_documents].astype(np.int64)
    chosen = np.zeros(len(documents), bool)
    chosen[np.concatenate(list(first.values()))] = True
    order = np.concatenate([np.flatnonzero(chosen), np.flatnonzero(~chosen)[np.argsort(-own[~chosen], kind="stable")]])
    texts, used = [], 0
    for rank, number in enumerate(order):
        text = _excerpt(documents[number])
        used += len(text)
        if rank >= chosen.sum() and used > _MAX_TEXT:
            break
        texts.append(text)
    order = order[: len(texts)]
    place = np.full(len(documents), -1)
    place[order] = np.arange(len(order))
    by_score = place[np.lexsort((np.arange(len(documents)), -own))]
    return {
        "text": texts,
        "number": order.tolist(),
        "leaf": tree.doc_node[order].tolist(),
        "best": [place[first[node.id]].tolist() for node in tree.nodes],
        "order": by_score[by_score >= 0].tolist(),
        "total": len(documents),
    }


def _strings(tree: Tree, documents) -> list[str]:
    if isinstance(documents, str | bytes):
        raise InputError("documents must be a list of strings, one per document; got one string.")
    documents = list(documents)
    _check_length(tree, "documents", documents)
    for number, text in enumerate(documents):
        if not isinstance(text, str):
            raise InputError(f"documents must be strings; number {number} is {type(text).__name__}.")
    return documents


def _corpus_of(tree: Tree, documents: list[str], corpus: Corpus | None):
    """Return the counts by which documents represent a node: those given, or of the documents' own words."""
    if corpus is None:
        settings = tree.metadata.get("text")
        ngrams = settings.get("ngrams") if isinstance(settings, dict) else 1
        ngrams = ngrams if type(ngrams) is int and 1 <= ngrams <= 10 else 1
        counts, _ = count_words(documents, stop_words=None, ngrams=ngrams, vocabulary=tree.vocabulary)
        return counts
    if corpus.counts.shape != (len(documents), len(tree.vocabulary)):
        raise InputError(
            f"corpus must have the tree's {len(documents)} documents and {len(tree.vocabulary)} words; "
            f"got {corpus.n_docs} and {corpus.n_words}."
        )
    return corpus.counts


def _excerpt(text: str) -> str:
    text = " ".join(text[:EXCERPT_SOURCE].split())
    return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1].rstrip() + "…"


def documents_inside(tree: Tree) -> list[np.ndarray]:
    """Return the documents of each node."""
    order = np.argsort(tree.doc_node, kind="stable")
    ends = np.searchsorted(tree.doc_node[order], np.arange(len(tree.nodes) + 1))
    last = np.arange(len(tree.nodes))  # the last node of each subtree: nodes are numbered depth first
    for node in reversed(tree.nodes):
        if node.children:
            last[node.id] = last[node.children[-1]]
    return [np.sort(order[ends[node.id] : ends[last[node.id] + 1]]) for node in tree.nodes]


def _labels(tree: Tree, labels) -> dict:
    """Return the names of the labels, most frequent first, and their counts in each leaf."""
    names, numbers = number_labels(tree, labels)
    return {"names": names, "counts": _counts(tree, numbers, len(names))}


def number_labels(tree: Tree, labels) -> tuple[list[str], np.ndarray]:
    """Return the names of the labels, most frequent first and the rarest as one, and the number of each document's."""
    if isinstance(labels, str | bytes):
        raise InputError("labels must have one value per document; got one string.")
    labels = ["(none)" if label is None or label != label else str(label) for label in labels]
    _check_length(tree, "labels", labels)
    times = Counter(labels)
    names = sorted(times, key=lambda name: (-times[name], name))
    place = {name: number for number, name in enumerate(names)}
    numbers = np.array([place[label] for label in labels], np.int64)
    if len(names) > _MAX_LABELS:
        names = [*names[: _MAX_LABELS - 1], f"{len(names) - _MAX_LABELS + 1} others"]
        numbers = np.minimum(numbers, _MAX_LABELS - 1)
    return names, numbers


def _counts(tree: Tree, numbers: np.ndarray, n_values: int) -> list:
    """Return, for each node, its counts as [value, count, value, count, ...]; inner nodes are added up in the page."""
    table = np.zeros((len(tree.nodes), n_values), np.int64)
    known = numbers >= 0
    np.add.at(table, (tree.doc_node[known], numbers[known]), 1)
    return [[int(x) for value in np.flatnonzero(row) for x in (value, row[value])] for row in table]


def _check_length(tree: Tree, name: str, values) -> None:
    try:
        length = len(values)
    except TypeError:
        raise InputError(f"{name} must be a list or array; got {type(values).__name__}.") from None
    if length != len(tree.doc_node):
        raise InputError(f"{name} must have one value per document ({len(tree.doc_node)}); got {length}.")
