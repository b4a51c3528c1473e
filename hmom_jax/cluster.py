"""Flat clustering: one decomposition, one topic per document."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Key

from hmom_jax.assign import choose_topic, floor_topics
from hmom_jax.corpus import Corpus
from hmom_jax.decompose.recovery import Decomposition
from hmom_jax.decompose.sidiwo import sidiwo
from hmom_jax.errors import InputError
from hmom_jax.models.single_topic import single_topic_moments


class Clustering(NamedTuple):
    """Labels with the topics they come from.

    Attributes
    ----------
    labels
        Topic of each document, 0 to k - 1, in the order of ``decomposition.topics`` (descending weight).
    decomposition
        The topics and what is needed to judge them.
    """

    labels: np.ndarray
    decomposition: Decomposition


def cluster(corpus: Corpus, k: int, decompose=sidiwo, key: Key[Array, ""] | None = None) -> Clustering:
    r"""Group documents by topic: decompose the moments once, then give each document its likeliest topic.

    The label of document $n$ is the argmax of $\sum_w x_{nw} \log\mu_{jw} + \log\omega_j$. Documents too short for
    the moments are labelled all the same.

    Parameters
    ----------
    corpus
        The documents.
    k
        Number of topics. Fewer groups than this may come out: a topic need not win any document.
    decompose
        Any method with the signature of :func:`~hmom_jax.sidiwo`; options by ``functools.partial``.
    key
        Random key; None is a fixed key.

    References
    ----------
    Ruffini, Rabusseau and Balle (2017), section 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from hmom_jax import Corpus
    >>> counts = np.array([[3, 1, 0, 0], [2, 2, 0, 0], [0, 0, 3, 2], [0, 0, 2, 1], [1, 2, 0, 0]])
    >>> cluster(Corpus.from_counts(counts), 2).labels.tolist()
    [0, 0, 1, 1, 0]
    """
    if not isinstance(corpus, Corpus):
        raise InputError(f"corpus must be a Corpus (see Corpus.from_counts); got {type(corpus).__name__}.")
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= corpus.n_words:
        raise InputError(f"k must be a whole number from 1 to the {corpus.n_words} words of the corpus; got {k!r}.")
    found = decompose(single_topic_moments(corpus), int(k), key=key)
    if k == 1:  # nothing to choose between
        return Clustering(np.zeros(corpus.n_docs, int), found)
    topics = floor_topics(found.topics)
    offset = np.zeros(corpus.by_doc.n_rows, np.int32)
    choice = choose_topic(corpus.by_doc, topics[None], found.weights[None], offset)
    return Clustering(np.asarray(choice)[: corpus.n_docs].astype(int), found)
