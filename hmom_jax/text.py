"""From text to counts: one tokeniser, used by the built-in corpora and the command line."""

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp

from hmom_jax.errors import InputError

_TOKEN = re.compile(r"[^\W\d_]{3,}")

# Function words of English of three letters and more (shorter ones are no tokens), from the closed classes:
# articles, pronouns, prepositions, conjunctions, auxiliaries, quantifiers, and adverbs without a subject.
ENGLISH_STOP_WORDS = frozenset(
    """
    about above according accordingly across actually after afterwards again against ago all almost alone along
    already also although always amid among amongst and another any anybody anyhow anyone anything anyway anywhere apart
    are aren around aside away back became because become becomes been before beforehand behind being below beneath
    beside besides between beyond both but came can cannot come comes could couldn did didn does doesn doing don done
    down during each either else elsewhere enough especially etc even ever every everybody everyone everything
    everywhere except few for former formerly forth from further furthermore gave get gets getting give given gives
    giving goes going gone got had hadn has hasn have haven having hence her here hereby herein hers herself him
    himself his how however indeed instead into isn its itself just keep keeps kept last latter least less lest let
    like likely made make makes making many may maybe meanwhile merely might mine more moreover most mostly much must
    myself namely near nearly neither never nevertheless next nobody none nonetheless noone nor not nothing now nowhere
    off often once one ones only onto other others otherwise ought our ours ourselves out over own particularly per
    perhaps please put quite rather really regarding said same saw say says see seem seemed seeming seems seen several
    shall she should shouldn since some somebody somehow someone something sometimes somewhat somewhere soon still
    such take taken takes than that the their theirs them themselves then thence there thereafter thereby therefore
    therein thereof these they thing things this those though through throughout thru thus till too took toward towards
    under unless unlike until unto upon use used uses using usually various very via was wasn way well went were weren
    what whatever when whence whenever where whereas whereby wherein wherever whether which whichever while whither who
    whoever whole whom whose why will with within without won would wouldn yes yet you your yours yourself yourselves
    """.split()
)


def tokenise(text: str) -> list[str]:
    """Split text into lower-case words of three letters or more.

    Examples
    --------
    >>> tokenise("The d x d matrix M2, in Hypothesis-free words")
    ['the', 'matrix', 'hypothesis', 'free', 'words']
    """
    return _TOKEN.findall(text.lower())


def count_words(
    texts: Iterable[str],
    *,
    stop_words: Iterable[str] = ENGLISH_STOP_WORDS,
    min_df: int = 5,
    max_words: int | None = None,
) -> tuple[sp.csr_array, np.ndarray]:
    """Count the words of each text.

    Parameters
    ----------
    texts
        One string per document.
    stop_words
        Words to leave out.
    min_df
        Leave out words that occur in fewer documents.
    max_words
        Keep only this many words, those with the largest total count.

    Returns
    -------
    counts
        Documents x words.
    vocabulary
        The words, in alphabetical order.
    """
    stop_words = frozenset(stop_words)
    number: dict[str, int] = {}
    index, data, indptr = [], [], [0]
    for text in texts:
        counter = Counter(word for word in tokenise(text) if word not in stop_words)
        index.extend(number.setdefault(word, len(number)) for word in counter)
        data.extend(counter.values())
        indptr.append(len(index))
    if len(indptr) == 1:
        raise InputError("There are no documents.")
    counts = sp.csr_array((np.array(data, np.int64), index, indptr), shape=(len(indptr) - 1, len(number)))
    words = np.array(list(number), dtype=str)
    frequency = np.bincount(counts.indices, minlength=len(number))
    total = np.asarray(counts.sum(axis=0)).ravel()
    keep = np.flatnonzero(frequency >= min_df)
    if max_words is not None:
        keep = keep[np.lexsort((words[keep], -total[keep]))[:max_words]]
    if not len(keep):
        raise InputError(f"No word occurs in {min_df} documents or more: give more text or a lower min_df.")
    keep = keep[np.argsort(words[keep])]
    return sp.csr_array(counts.tocsc()[:, keep]), words[keep]
