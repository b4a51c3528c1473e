"""From any input to a folder of shards, with the memory of one shard where the input can be read document by document.

Text is counted in one pass with all its words, whose numbers then are known; the shards are written once more with the
words that are kept. UCI and Matrix Market files are written as they come, as long as they go by document. What else
there is (``.npz``, svmlight, LDA-C, words in rows) is read whole.
"""

import os
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import scipy.sparse as sp

from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError
from hmom_jax.io.entries import Entries
from hmom_jax.io.lines import Problems
from hmom_jax.io.matrix_market import read_matrix_market
from hmom_jax.io.read import (
    AS_THEY_STAND,
    TEXTUAL,
    column_names,
    guess_format,
    names_beside,
    read_corpus,
    read_documents,
)
from hmom_jax.io.texts import is_dataset, read_dataset
from hmom_jax.io.uci import read_uci
from hmom_jax.io.vocabulary import read_vocabulary
from hmom_jax.parallel.shards import DEFAULT_NONZEROS, ShardWriter, read_manifest, read_text_settings
from hmom_jax.parallel.stream import StreamedCorpus
from hmom_jax.progress import byte_bar, track
from hmom_jax.text import check_limits, choose_columns, count_blocks, frequent_words, text_settings, tokenise

_BY_DOCUMENT = {"uci": read_uci, "mtx": read_matrix_market}


def write_shards(
    source,
    folder,
    *,
    format: str | None = None,
    field: str = "text",
    encoding: str = "utf-8",
    vocabulary: str | os.PathLike | Sequence[str] | np.ndarray | None = None,
    skip_bad: bool = False,
    progress: bool = False,
    stop_words: str | Iterable[str] | None = "english",
    min_df: int | float = 5,
    max_df: int | float = 1.0,
    max_words: int | None = None,
    ngrams: int = 1,
    tokeniser: Callable[[str], Iterable[str]] = tokenise,
    n_nonzeros: int = DEFAULT_NONZEROS,
) -> Corpus:
    r"""Write counts as shards, and open them.

    Parameters
    ----------
    source, format, field, encoding, vocabulary, skip_bad, progress
        As for :func:`~hmom_jax.read_corpus`; ``source`` may also be a :class:`~hmom_jax.Corpus`.
    stop_words, min_df, max_df, max_words, ngrams, tokeniser
        How text is counted; see :func:`hmom_jax.text.count_words`.
    folder
        Where to; an existing folder of shards is replaced, once all of the new ones are written.
    n_nonzeros
        Counts of a shard.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = pathlib.Path(folder, "texts.txt")
    ...     _ = text.write_text("red apple\ngreen apple\n")
    ...     print(write_shards(text, pathlib.Path(folder, "apples.shards"), min_df=1))
    Corpus(2 documents, 3 words, 4 nonzeros)
    """
    check_limits(ngrams, max_words)
    problems = Problems(skip_bad)
    path = source if isinstance(source, str | os.PathLike) else None
    format = guess_format(path) if format is None and path is not None else format
    if isinstance(vocabulary, str | os.PathLike):
        vocabulary = read_vocabulary(vocabulary, problems)
    how = {
        "stop_words": stop_words, "min_df": min_df, "max_df": max_df, "max_words": max_words, "ngrams": ngrams,
        "tokeniser": tokeniser,
    }  # fmt: skip
    if path is not None and format in TEXTUAL:
        how |= AS_THEY_STAND if format == "mallet" else {}
        with byte_bar(progress, None, "reading") as watch:
            documents = read_documents(path, format, problems, field=field, encoding=encoding, watch=watch)
            _write_texts(documents, folder, n_nonzeros, vocabulary, **how)
    elif path is not None and format in _BY_DOCUMENT and vocabulary is None:
        with ShardWriter(folder, n_nonzeros) as writer, byte_bar(progress, None, "reading") as watch:
            shape = _BY_DOCUMENT[format](path, problems, watch=watch, entries=_Spilled(writer, n_nonzeros)).shape
            writer.finish(column_names(path, names_beside(path, problems), shape[1]))
    elif path is not None:
        about = {"format": format, "field": field, "encoding": encoding, "vocabulary": vocabulary}
        corpus = read_corpus(path, **about, skip_bad=skip_bad, progress=progress, **how)
        _write_corpus(corpus, folder, n_nonzeros, read_text_settings(path) if format == "shards" else None)
    elif isinstance(source, Corpus):
        text = source.text if isinstance(source, StreamedCorpus) else None
        if vocabulary is not None:
            source = (source.load() if isinstance(source, StreamedCorpus) else source).with_vocabulary(vocabulary)
        _write_corpus(source, folder, n_nonzeros, text)
    else:
        documents = read_dataset(source, problems, field=field) if is_dataset(source) else source
        _write_texts(track(documents, progress, "reading", unit="doc"), folder, n_nonzeros, vocabulary, **how)
    problems.finish()
    return Corpus.open(folder)


def _write_corpus(corpus: Corpus, folder, n_nonzeros: int, text: dict | None) -> None:
    counts = corpus.load().counts if isinstance(corpus, StreamedCorpus) else corpus.counts
    with ShardWriter(folder, n_nonzeros) as writer:
        writer.add(counts)
        writer.finish(corpus.vocabulary, text)


def _write_texts(
    documents, folder, n_nonzeros, vocabulary, *, stop_words, min_df, max_df, max_words, ngrams, tokeniser
) -> None:
    if not isinstance(stop_words, str | None):
        stop_words = frozenset(stop_words)  # it may be an iterator, and is asked twice
    text = text_settings(stop_words, ngrams, tokeniser)
    fixed = vocabulary is not None
    number = {str(word): i for i, word in enumerate(vocabulary)} if fixed else {}
    how = {"stop_words": stop_words, "ngrams": ngrams, "tokeniser": tokeniser, "size": n_nonzeros}
    blocks = count_blocks(documents, number, grow=not fixed, **how)
    with ShardWriter(folder, n_nonzeros) as writer:
        if fixed:
            for block in blocks:
                writer.add(_sound(block))
            writer.finish(number, text)
            return
        raw = ShardWriter(writer.aside / "words", n_nonzeros)
        frequency = total = np.zeros(0)
        for block in blocks:
            new = (0, len(number) - len(total))  # words of this block alone
            frequency = np.pad(frequency, new) + np.bincount(block.indices, minlength=len(number))
            total = np.pad(total, new) + np.bincount(block.indices, block.data, minlength=len(number))
            raw.add(block)
        raw.finish(number)
        shards, words, dtype = read_manifest(raw.folder)
        n_docs = sum(shard.n_docs for shard in shards)
        keep = frequent_words(words, frequency, total, n_docs, min_df, max_df, max_words)
        for shard in shards:
            writer.add(choose_columns(shard.counts(dtype), keep))
        writer.finish(words[keep], text)


class _Spilled(Entries):
    """Entries that come by document, and go to disk as soon as there are enough."""

    def __init__(self, writer: ShardWriter, size: int):
        super().__init__()
        self.writer, self.size = writer, size
        self.first, self.n_spilled = 0, 0  # the first document that is not on disk; entries that are

    def __len__(self):
        return self.n_spilled + len(self.doc)

    def extend(self, doc: np.ndarray, word: np.ndarray, count: np.ndarray) -> None:
        """Add entries that have been checked."""
        if len(doc) and doc.min() < self.first:
            raise InputError(
                f"Document {int(doc.min()) + 1} comes after document {self.first + 1}: sort the file by document first."
            )
        super().extend(doc, word, count)
        if len(self.doc) >= self.size:
            self._spill(int(np.frombuffer(self.doc, np.int32).max()))

    def matrix(self, n_docs: int, n_words: int) -> sp.csr_array:
        """Write what is left; the matrix that is returned has the shape alone."""
        self._spill(n_docs, n_words)
        return sp.csr_array((n_docs, n_words))

    def _spill(self, end: int, n_words: int | None = None) -> None:
        """Write all documents before ``end``: of that one there may be more to come."""
        doc, word, count = self.doc, self.word, self.count
        super().__init__()
        parts = [np.frombuffer(part, kind) for part, kind in ((doc, np.int32), (word, np.int32), (count, np.float64))]
        done = parts[0] < end
        now, later = [part[done] for part in parts], [part[~done] for part in parts]
        super().extend(*later)
        width = max(int(now[1].max(initial=0)) + 1, n_words or 0)
        shape = (end - self.first, width)
        block = sp.coo_array((now[2].astype(np.float32), (now[0] - self.first, now[1])), shape=shape)
        self.writer.add(_sound(sp.csr_array(block)))
        self.first, self.n_spilled = end, self.n_spilled + int(done.sum())


def _sound(counts: sp.csr_array) -> sp.csr_array:
    """Return counts without duplicates and zeros, sorted by word."""
    counts.sum_duplicates()
    counts.eliminate_zeros()
    return counts
