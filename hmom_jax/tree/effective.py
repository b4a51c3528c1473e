r"""Effective counts: what a document really says, when words come in bursts and in company.

Two departures from the single-topic model rule real text. A word that has occurred once occurs again (burstiness),
so the second occurrence says less than the first: where the corpus shows it, counts $x$ become $\log_2(1 + x)$. And
words of a document hang together in more ways than by topic, so a document of $N$ words is worth fewer independent
ones: it is weighted by $(1 + s) / (N + s)$, the design effect of clustered samples, which lets it speak with at most
$s + 1$ words.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from hmom_jax.corpus import Corpus, with_data

# A document says no more than this many independent words' worth, plus one.
EFFECTIVE_WORDS = 50.0


def tempering(corpus: Corpus, words: float = EFFECTIVE_WORDS) -> np.ndarray:
    """Return the weight of each document with which it speaks for at most ``words + 1`` words."""
    return (1 + words) / (np.maximum(corpus.length, 1) + words)


def burst_share(counts: sp.csr_array) -> float:
    """Return the share of equal word pairs within documents that chance does not explain, 0 for independent words.

    Compares how often two positions of a document hold the same word with how often positions of two different
    documents do.
    """
    return _burst_share(burst_sums(counts))


def burst_sums(counts: sp.csr_array) -> np.ndarray:
    """Return what :func:`burst_share` needs to know of some documents, as numbers that add up."""
    length = counts.sum(axis=1, dtype=np.float64)
    squares = with_data(counts, np.square(counts.data, dtype=np.float64)).sum(axis=1)
    usable = length >= 2
    equal = (squares - length)[usable] / (length * (length - 1))[usable]
    weight = 1 / np.maximum(length, 1)
    total = weight @ counts
    return np.array([equal.sum(), usable.sum(), (squares * weight**2).sum(), (length > 0).sum(), *total])


def _burst_share(sums: np.ndarray) -> float:
    equal, usable, squares, n_docs, *total = sums
    if usable == 0:
        return 0.0
    equal, n_docs = equal / usable, max(n_docs, 2)
    chance = ((np.array(total) ** 2).sum() - squares) / (n_docs * (n_docs - 1))
    return float((equal - chance) / equal) if equal > 0 else 0.0


@dataclass(frozen=True)
class Effective:
    """How counts are transformed; learnt on the training corpus, applied to new documents alike."""

    bursty: bool
    words: float = EFFECTIVE_WORDS

    @property
    def prior(self) -> float:
        """Mass of a topic's pseudo-counts as a share of an average leaf: more where words repeat themselves."""
        return 0.3 if self.bursty else 0.1

    @classmethod
    def learn(cls, corpus: Corpus) -> "Effective":
        """Decide whether words come in bursts."""
        return cls(bursty=_burst_share(corpus.sum_over(burst_sums)) > 0.5)

    def apply(self, corpus: Corpus) -> "EffectiveCorpus":
        """Return the corpus with transformed counts."""
        if not self.bursty:
            return EffectiveCorpus(corpus, self)
        return EffectiveCorpus(corpus.map_counts(lambda counts: np.log2(1 + counts)), self)  # one occurrence stays one


@dataclass(frozen=True)
class EffectiveCorpus:
    """A corpus of transformed counts; tempering is a weight per document, so that the counts stay as laid out."""

    corpus: Corpus
    effective: Effective

    def temper(self, words: float | None) -> np.ndarray:
        """Return the weight of each document; None leaves all at 1."""
        return np.ones(self.corpus.n_docs) if words is None else tempering(self.corpus, words)
