"""Labelled corpora for the benches, read from a data folder that is not part of the repository."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

# name -> (label array, hierarchical labels for dendrogram purity, number of clusters)
LABELLED = {
    "20newsgroups": ("labels", ("labels", "labels_coarse"), 32),
    "bbc_news": ("labels", (), 8),
    "planetmath": ("labels_coarse", ("labels", "labels_coarse"), 64),
    "dblp_titles": ("labels", (), 4),
    "m10_titles": ("labels", (), 16),
    "ai_conference_abstracts": ("labels_coarse", (), 8),
    "peerread_arxiv_fulltext": ("labels_primary", (), 64),
}


class Labelled(NamedTuple):
    """Counts over the most frequent words, with labels."""

    counts: sp.csr_array
    vocabulary: np.ndarray
    labels: np.ndarray
    hierarchical: dict[str, np.ndarray]
    n_clusters: int


def default_folder() -> Path:
    """Return the folder of corpora: HMOM_DATA, or ``shared/data`` beside the repository."""
    return Path(os.environ.get("HMOM_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def load_counts(name: str, folder: Path | None = None, n_words: int | None = 3000):
    """Return (counts, vocabulary, the file) with the ``n_words`` words of largest total count."""
    file = np.load((folder or default_folder()) / f"{name}.npz", allow_pickle=False)
    counts = sp.csr_array(
        (file["data"].astype(np.float32), file["indices"], file["indptr"]), shape=tuple(file["shape"])
    )
    vocabulary = file["vocab"]
    if n_words is not None:
        total = np.asarray(counts.sum(axis=0)).ravel()
        keep = np.sort(np.argsort(-total, kind="stable")[:n_words])
        counts, vocabulary = counts[:, keep], vocabulary[keep]
    return counts, vocabulary, file


def load_labelled(name: str, folder: Path | None = None, n_words: int | None = 3000) -> Labelled:
    """Load one of the labelled corpora."""
    label, hierarchical, n_clusters = LABELLED[name]
    counts, vocabulary, file = load_counts(name, folder, n_words)
    return Labelled(counts, vocabulary, file[label], {key: file[key] for key in hierarchical}, n_clusters)
