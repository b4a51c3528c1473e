"""From text to counts: one tokeniser, used by the built-in corpora, the readers and the command line."""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from hmom_jax.errors import InputError
from hmom_jax.progress import track
from hmom_jax.stop_words import STOP_WORDS

_TOKEN = re.compile(r"[^\W\d_]{3,}")
_LONGEST_PHRASE = 10  # that a file may ask for
ENGLISH_STOP_WORDS = STOP_WORDS["english"]


def tokenise(text: str) -> list[str]:
    """Split text into lower-case words of three letters or more.

    Examples
    --------
    >>> tokenise("The d x d matrix M2, in Hypothesis-free words")
    ['the', 'matrix', 'hypothesis', 'free', 'words']
    """
    return _TOKEN.findall(text.lower())


def resolve_stop_words(stop_words: str | Iterable[str] | None) -> frozenset[str]:
    """Return a set of words from names of languages (``"english+german"``), from words, or from None.

    Examples
    --------
    >>> "und" in resolve_stop_words("english+german"), len(resolve_stop_words(None))
    (True, 0)
    """
    if stop_words is None:
        return frozenset()
    if not isinstance(stop_words, str):
        return frozenset(stop_words)
    names = [name.strip().lower() for name in stop_words.split("+")]
    unknown = [name for name in names if name not in STOP_WORDS]
    if unknown:
        raise InputError(f"There are stop words for {', '.join(STOP_WORDS)}; got {unknown[0]!r}.")
    return frozenset().union(*(STOP_WORDS[name] for name in names))


def text_settings(stop_words, ngrams: int, tokeniser: Callable = tokenise) -> dict | None:
    """Return how text is counted as plain values, to be kept with counts and trees; None where values cannot say it.

    Examples
    --------
    >>> text_settings({"und", "der"}, 2)
    {'stop_words': ['der', 'und'], 'ngrams': 2}
    """
    if tokeniser is not tokenise or ngrams > _LONGEST_PHRASE:
        return None
    plain = stop_words is None or isinstance(stop_words, str)
    return {"stop_words": stop_words if plain else sorted(map(str, stop_words)), "ngrams": int(ngrams)}


def is_text_settings(value) -> bool:
    """Tell whether this is what :func:`text_settings` returns; files may come from anywhere."""
    if not isinstance(value, dict) or set(value) != {"stop_words", "ngrams"}:
        return False
    stop, ngrams = value["stop_words"], value["ngrams"]
    words = stop is None or isinstance(stop, str) or (isinstance(stop, list) and all(type(w) is str for w in stop))
    return words and type(ngrams) is int and 1 <= ngrams <= _LONGEST_PHRASE


def count_words(
    texts: Iterable[str],
    *,
    stop_words: str | Iterable[str] | None = "english",
    min_df: int | float = 5,
    max_df: int | float = 1.0,
    max_words: int | None = None,
    ngrams: int = 1,
    tokeniser: Callable[[str], Iterable[str]] = tokenise,
    vocabulary: Sequence[str] | np.ndarray | None = None,
    progress: bool = False,
) -> tuple[sp.csr_array, np.ndarray]:
    """Count the words of each text.

    Texts are taken one at a time and never held: memory is 8 bytes per nonzero count, and the distinct words.

    Parameters
    ----------
    texts
        One string per document: a list, or any iterator.
    stop_words
        Words to leave out, or the names of languages (``"english"``, ``"french+german"``); None for none.
    min_df, max_df
        Leave out words that occur in fewer, or in more, documents: a number of documents, or a share where the
        value is a float.
    max_words
        Keep only this many words, those with the largest total count.
    ngrams
        Also count sequences of up to this many words that stand together, stop words taken out (``"new_york"``).
    tokeniser
        From a text to its words.
    vocabulary
        Count these words alone, in this order; the limits above do not apply.
    progress
        Show a progress bar.

    Returns
    -------
    counts
        Documents x words.
    vocabulary
        The words, in alphabetical order.

    Examples
    --------
    >>> counts, words = count_words(["red red apple", "green apple"], min_df=1)
    >>> words.tolist(), counts.toarray().tolist()
    (['apple', 'green', 'red'], [[1, 0, 2], [1, 1, 0]])
    """
    if isinstance(texts, str):
        raise InputError("texts must be a list (or iterator) of strings, one per document; got one string.")
    check_limits(ngrams, max_words)
    fixed = vocabulary is not None
    number = {str(word): i for i, word in enumerate(vocabulary)} if fixed else {}
    how = {"stop_words": stop_words, "ngrams": ngrams, "tokeniser": tokeniser}
    blocks = list(count_blocks(track(texts, progress, "reading", unit="doc"), number, grow=not fixed, **how))
    if not blocks:
        raise InputError("There are no documents.")
    counts, words = blocks[0], np.array(list(number), dtype=str)
    if fixed:
        counts.sort_indices()
        return counts, words
    frequency = np.bincount(counts.indices, minlength=len(words))
    total = np.bincount(counts.indices, counts.data, minlength=len(words))
    keep = frequent_words(words, frequency, total, counts.shape[0], min_df, max_df, max_words)
    return choose_columns(counts, keep), words[keep]


def check_limits(ngrams: int, max_words: int | None) -> None:
    """Raise where these are no numbers of words."""
    if ngrams < 1:
        raise InputError(f"ngrams must be at least 1; got {ngrams}.")
    if max_words is not None and max_words < 1:
        raise InputError(f"max_words must be at least 1; got {max_words}.")


def count_blocks(
    texts: Iterable[str], number: dict[str, int], *, grow: bool, size: int | None = None, stop_words, ngrams, tokeniser
) -> Iterator[sp.csr_array]:
    """Yield the counts of the texts, some documents at a time.

    Parameters
    ----------
    texts
        One string per document.
    number
        The column of each word. Where ``grow`` is set, new words are added to it.
    grow
        Whether words that have no column get one, or are left out.
    size
        Counts after which a block is yielded; None for one block of all.
    stop_words, ngrams, tokeniser
        As for :func:`count_words`.
    """
    stop = resolve_stop_words(stop_words)
    index, data, indptr = array("i"), array("i"), array("q", [0])

    def block() -> sp.csr_array:
        parts = np.frombuffer(data, np.int32), np.frombuffer(index, np.int32), np.frombuffer(indptr, np.int64)
        return sp.csr_array(parts, shape=(len(indptr) - 1, len(number)))

    for place, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise InputError(f"Document {place} is not text: got {type(text).__name__}.")
        words = [word for word in tokeniser(text) if word not in stop]
        counter = Counter(words)
        for length in range(2, ngrams + 1):
            counter.update("_".join(words[i : i + length]) for i in range(len(words) - length + 1))
        if grow:
            index.extend(number.setdefault(word, len(number)) for word in counter)
        else:
            counter = {word: times for word, times in counter.items() if word in number}
            index.extend(number[word] for word in counter)
        data.extend(counter.values())
        indptr.append(len(index))
        if size is not None and len(index) >= size:
            yield block()
            index, data, indptr = array("i"), array("i"), array("q", [0])
    if len(indptr) > 1:
        yield block()


def frequent_words(
    words: np.ndarray, frequency: np.ndarray, total: np.ndarray, n_docs: int, min_df, max_df, max_words
) -> np.ndarray:
    """Return the columns to keep, in alphabetical order of their words.

    ``frequency`` is the number of documents that a word is in, ``total`` its count in all.
    """
    limit = lambda value: value * n_docs if isinstance(value, float) else value
    keep = np.flatnonzero((frequency >= limit(min_df)) & (frequency <= limit(max_df)))
    if max_words is not None:
        keep = keep[np.lexsort((words[keep], -total[keep]))[:max_words]]
    if not len(keep):
        wanted = f"{min_df} documents or more" if max_df == 1.0 else f"{min_df} to {max_df} documents"
        raise InputError(f"No word occurs in {wanted}: give more text, a lower min_df or a higher max_df.")
    return keep[np.argsort(words[keep])]


def choose_columns(counts: sp.csr_array, keep: np.ndarray) -> sp.csr_array:
    """Select columns without the copies that scipy's own indexing makes."""
    new = np.full(counts.shape[1], -1, np.int32)
    new[keep] = np.arange(len(keep), dtype=np.int32)
    index = new[counts.indices]
    kept = index >= 0
    ends = np.concatenate([[0], np.cumsum(kept)])[counts.indptr]
    chosen = sp.csr_array((counts.data[kept], index[kept], ends), shape=(counts.shape[0], len(keep)))
    chosen.sort_indices()
    return chosen
