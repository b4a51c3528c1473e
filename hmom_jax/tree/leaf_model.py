"""The model of a robust tree: how documents, also new ones, find their leaf."""

from typing import NamedTuple

import numpy as np

from hmom_jax.corpus import Corpus
from hmom_jax.tree.effective import Effective, EffectiveCorpus
from hmom_jax.tree.polish import Mixture, best_leaf, leaf_scores


class LeafModel(NamedTuple):
    """The polished mixture behind a robust tree: documents go to the most probable leaf.

    Attributes
    ----------
    mixture
        Topics and weights of the components.
    bursty, words
        How counts are transformed before they are scored; see :mod:`hmom_jax.tree.effective`.
    node
        Node id of each component (several components share one after :meth:`Tree.cut`).
    """

    mixture: Mixture
    bursty: bool
    words: float | None
    node: np.ndarray

    def assign(self, corpus: Corpus) -> np.ndarray:
        """Return the node of each document."""
        return self.assign_effective(Effective(self.bursty).apply(corpus))

    def assign_effective(self, documents: EffectiveCorpus) -> np.ndarray:
        """Return the node of each document whose counts are transformed already."""
        return self.node[best_leaf(documents.corpus, documents.temper(self.words), self.mixture)]

    def scores(self, corpus: Corpus) -> np.ndarray:
        """Return documents x components: log-probabilities up to a constant per document."""
        documents = Effective(self.bursty).apply(corpus)
        return leaf_scores(documents.corpus, documents.temper(self.words), self.mixture)

    def topics(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the topics (in columns) and weights of the components, smoothed as they are used for assignment."""
        topics = np.exp(np.asarray(self.mixture.log_ratio, np.float64)) * np.asarray(self.mixture.mean)[:, None]
        weights = np.exp(np.asarray(self.mixture.log_weight, np.float64))
        return topics / topics.sum(0), weights / weights.sum()
