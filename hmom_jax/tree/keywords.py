r"""Which words name a node: relevance, against the corpus and against the parent.

$\lambda \log p(w \mid \text{node}) + (1 - \lambda) \log (p(w \mid \text{node}) / q(w))$, where $q$ is what the node is
compared with. Compared with both, the second term is stretched in large nodes (:func:`lift_stretch`).
"""

import numpy as np

from hmom_jax.errors import InputError

# Share of the parent in log q; the rest is the corpus. Against the parent alone, words come up that are common in the
# corpus and merely rare in the sibling, and coherence falls (bench/results/keywords.md).
CONTRASTS = {"corpus": 0.0, "both": 0.5, "parent": 1.0}

# What lift can reach, as a logarithm, in a leaf of some thirty: half of log 32 (corpus) and half of log 2 (parent).
LIFT_REACH = 2.0
MAX_STRETCH = 8.0  # a node of nearly all documents has hardly any lift, and most of that is noise


def check_contrast(contrast: str) -> None:
    """Raise unless there is such a comparison."""
    if contrast not in CONTRASTS:
        raise InputError(f"contrast must be one of {', '.join(CONTRASTS)}; got {contrast!r}.")


def parent_logarithm(here: np.ndarray, above: np.ndarray, share: float, corpus: np.ndarray) -> np.ndarray:
    r"""Return $\log p(w \mid \text{parent})$, never below what the child alone gives.

    Parameters
    ----------
    here, corpus
        $\log p(w \mid \text{node})$ and $\log p(w)$.
    above
        $p(w \mid \text{parent})$; fits have zeros that a mixture of the children cannot have.
    share
        Documents of the node as a share of its parent's.
    """
    with np.errstate(divide="ignore"):
        parent = np.maximum(np.log(above.astype(np.float64)), here + np.log(share))
    return np.where(np.isfinite(parent), parent, corpus)


def lift_stretch(n_docs: int, n_above: int, n_all: int) -> float:
    r"""Return by how much the lift of a node is stretched where it is compared with both.

    No word can be more than $1 / \text{share}$ times as frequent in a node as elsewhere. In a node of most documents
    lift then counts for nothing, and its words are the most frequent of the corpus. Stretched to what lift reaches in a
    leaf, they are the words that only this node has.

    Parameters
    ----------
    n_docs, n_above, n_all
        Documents of the node, of its parent and of the corpus.

    Examples
    --------
    >>> round(lift_stretch(600, 1000, 1000), 2), lift_stretch(10, 20, 1000)
    (3.92, 1.0)
    """
    n_docs = max(n_docs, 1)
    reach = 0.5 * np.log(max(n_all, n_docs) / n_docs) + 0.5 * np.log(max(n_above, n_docs) / n_docs)
    return float(np.clip(LIFT_REACH / max(reach, LIFT_REACH / MAX_STRETCH), 1.0, MAX_STRETCH))


def relevance_scores(
    here: np.ndarray, corpus: np.ndarray, parent: np.ndarray, relevance: float, contrast: str, stretch: float = 1.0
) -> np.ndarray:
    """Return the relevance of each word from logarithms of its probabilities; only ``"both"`` is stretched."""
    weight = CONTRASTS[contrast]
    base = corpus if weight == 0 else parent if weight == 1 else (1 - weight) * corpus + weight * parent
    if contrast != "both" or stretch == 1:
        return here - (1 - relevance) * base
    return relevance * here + (1 - relevance) * stretch * (here - base)


def leave_out_variants(words: list[str], n: int) -> list[str]:
    """Return the first ``n`` words, leaving out plurals and singulars of words before them.

    By English endings alone: a name has room for few words, and "number numbers prime primes" says only half of what it
    could. The page does the same (``keywords`` in page.js).

    Examples
    --------
    >>> leave_out_variants(["primes", "matrix", "prime", "matrices", "body", "class"], 4)
    ['primes', 'matrix', 'body', 'class']
    """
    kept, seen = [], set()
    for word in words:
        if len(kept) == n:
            break
        forms = _forms(str(word).lower())
        if not forms & seen:
            kept.append(word)
            seen |= forms
    return kept


def _forms(word: str) -> set[str]:
    """Return the word and what its singular may be."""
    forms = {word}
    if len(word) > 3:
        if word.endswith("ies"):
            forms.add(word[:-3] + "y")
        if word.endswith("ices"):
            forms |= {word[:-4] + "ix", word[:-4] + "ex"}
        if word.endswith("es"):
            forms.add(word[:-2])
        if word.endswith("s") and not word.endswith("ss"):
            forms.add(word[:-1])
    return forms
