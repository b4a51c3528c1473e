"""What people would use instead, for comparison: each from counts to labels, imported where it is used."""

import warnings

import numpy as np
import scipy.sparse as sp

_LSA = 100


def tfidf(counts: sp.csr_array) -> sp.csr_array | sp.csr_matrix:
    """Return tf-idf weights with logarithms of counts."""
    from sklearn.feature_extraction.text import TfidfTransformer

    return TfidfTransformer(sublinear_tf=True).fit_transform(counts)


def lsa(counts: sp.csr_array, seed: int = 0) -> np.ndarray:
    """Return documents in the space of the largest 100 singular vectors of tf-idf, scaled to unit length."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    rank = max(1, min(_LSA, counts.shape[1] - 1))
    return normalize(TruncatedSVD(rank, random_state=seed).fit_transform(tfidf(counts)))


def kmeans(features, n_clusters: int, seed: int = 0, n_init: int = 1) -> np.ndarray:
    """Return k-means clusters; one start is scikit-learn's default, ten find better ones."""
    from sklearn.cluster import KMeans

    return KMeans(n_clusters, n_init=n_init, random_state=seed).fit(features).labels_


def bisecting(features, n_clusters: int, seed: int = 0):
    """Return a fitted model of bisecting k-means: ``labels_``, and the tree of its splits."""
    from sklearn.cluster import BisectingKMeans

    return BisectingKMeans(n_clusters, random_state=seed).fit(features)


def tomotopy_lda(counts: sp.csr_array, vocabulary: np.ndarray, n_topics: int, seed: int, workers: int) -> np.ndarray:
    """Return the most probable topic of each document after 200 iterations of tomotopy's LDA."""
    import tomotopy

    model = tomotopy.LDAModel(k=n_topics, seed=seed)
    kept = train_tomotopy(model, counts, vocabulary, 200, workers)
    labels = np.zeros(counts.shape[0], int)
    labels[kept] = [int(np.argmax(document.get_topic_dist())) for document in model.docs]
    return labels


def train_tomotopy(model, counts: sp.csr_array, vocabulary: np.ndarray, n_iterations: int, workers: int) -> np.ndarray:
    """Feed a corpus to a tomotopy model, train it, and return the documents that it kept."""
    kept = []
    for number in range(counts.shape[0]):
        start, stop = counts.indptr[number : number + 2]
        words = np.repeat(vocabulary[counts.indices[start:stop]], counts.data[start:stop].astype(int))
        if len(words):
            model.add_doc(words.tolist())
            kept.append(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that several workers give other topics each time
        model.train(n_iterations, workers=workers)
    return np.array(kept)
