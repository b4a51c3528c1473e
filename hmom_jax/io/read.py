"""One function that reads a corpus from whatever is there."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError
from hmom_jax.io import texts
from hmom_jax.io.lines import Problems, stored_size
from hmom_jax.io.matrix_market import read_matrix_market
from hmom_jax.io.npz import read_npz
from hmom_jax.io.pairs import read_ldac, read_svmlight
from hmom_jax.io.uci import read_uci
from hmom_jax.io.vocabulary import read_vocabulary, vocabulary_beside
from hmom_jax.io.word_rows import looks_like_word_rows, read_word_rows
from hmom_jax.parallel.shards import ENDING, read_text_settings
from hmom_jax.progress import byte_bar
from hmom_jax.text import count_words, text_settings, tokenise

_TEXT = {
    "jsonl": texts.read_jsonl,
    "csv": texts.read_table,
    "tsv": partial(texts.read_table, delimiter="\t"),
    "parquet": texts.read_parquet,
    "txt": texts.read_plain,
    "folder": texts.read_folder,
}
_COUNTS = {
    "uci": read_uci,
    "mtx": read_matrix_market,
    "svmlight": read_svmlight,
    "ldac": read_ldac,
}
FORMATS = (*_TEXT, *_COUNTS, "mallet", "npz", "word-rows", "shards")
_ENDINGS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".txt": "txt",
    ".mtx": "mtx", ".mm": "mtx", ".svmlight": "svmlight", ".libsvm": "svmlight", ".svm": "svmlight", ".ldac": "ldac",
    ".lda-c": "ldac", ".mallet": "mallet", ".npz": "npz",
}  # fmt: skip
TEXTUAL = (*_TEXT, "mallet")
# MALLET's words stay as they are: whoever wrote the file has chosen them.
AS_THEY_STAND = {
    "stop_words": None, "min_df": 1, "max_df": 1.0, "max_words": None, "ngrams": 1, "tokeniser": str.split,
}  # fmt: skip
_WITH_FIELD = ("jsonl", "csv", "tsv", "parquet")


def read_corpus(
    source,
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
) -> Corpus:
    """Read a corpus from a file, a folder, a list of strings or a Hugging Face dataset.

    Parameters
    ----------
    source
        A path (``-`` is standard input), a list or iterator of strings, or a ``datasets.Dataset``. Text comes as
        JSON lines, CSV or TSV with a header, Parquet, a folder of ``.txt`` files, or ``.txt`` with a document a line;
        counts as UCI ``docword.*.txt``, Matrix Market, svmlight, LDA-C, MALLET lines, ``.npz``, or CSV with words in
        rows. Files may be gzipped. A folder ``NAME.shards`` is opened, and stays on disk (:meth:`Corpus.open`).
    format
        One of ``FORMATS``, where the name does not tell.
    field
        Where the text is: field of JSON, column of a table.
    encoding
        Of text files.
    vocabulary
        The words (or a file of them, one a line). For text: count these alone, in this order. For counts without
        words of their own: the names of the columns; by default a file beside (``vocab.NAME.txt`` for UCI, else
        ``NAME.vocab.txt``). For counts with words: columns are chosen by name.
    skip_bad
        Leave out broken lines, with a warning, instead of stopping at the first.
    progress
        Show a progress bar.
    stop_words, min_df, max_df, max_words, ngrams, tokeniser
        How text is counted; see :func:`hmom_jax.text.count_words`.

    Raises
    ------
    InputError
        The file is not what it should be; the message names file and line.

    Examples
    --------
    >>> read_corpus(["the red apple", "a green apple"], min_df=1)
    Corpus(2 documents, 3 words, 4 nonzeros)
    """
    problems = Problems(skip_bad)
    if isinstance(vocabulary, str | os.PathLike):
        vocabulary = read_vocabulary(vocabulary, problems)
    options = {
        "stop_words": stop_words, "min_df": min_df, "max_df": max_df, "max_words": max_words, "ngrams": ngrams,
        "tokeniser": tokeniser, "vocabulary": vocabulary,
    }  # fmt: skip
    if not isinstance(source, str | os.PathLike):
        if texts.is_dataset(source):
            source = texts.read_dataset(source, problems, field=field)
        counts = count_words(source, progress=progress, **options)
        problems.finish()
        return Corpus.from_counts(*counts)
    format = guess_format(source) if format is None else format
    if format not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}; got {format!r}.")
    if format == "shards":
        corpus = Corpus.open(source)
        same = vocabulary is None or np.array_equal(corpus.vocabulary, np.asarray(vocabulary, dtype=str))
        return corpus if same else corpus.load().with_vocabulary(vocabulary)
    with byte_bar(progress, _total(source), "reading") as watch:
        if format in TEXTUAL:
            documents = read_documents(source, format, problems, field=field, encoding=encoding, watch=watch)
            counts, words = count_words(documents, **(options | AS_THEY_STAND if format == "mallet" else options))
        elif format == "npz":
            counts, words = read_npz(source)
        elif format == "word-rows":
            counts, words = read_word_rows(source, problems, watch=watch)
        else:
            counts, words = _COUNTS[format](source, problems, watch=watch), None
    if words is None:
        named = names_beside(source, problems) if vocabulary is None else vocabulary
        words = column_names(source, named, counts.shape[1])
        counts.resize(counts.shape[0], len(words))  # the last words of the vocabulary may occur nowhere
    problems.finish()
    corpus = Corpus.from_counts(counts, words)
    return corpus if vocabulary is None else corpus.with_vocabulary(vocabulary)


def settings_of(path, format: str | None, **how) -> dict | None:
    """Return how the text of a file is counted (:func:`hmom_jax.text.text_settings`); None where it has no text.

    Shards say for themselves. The words of MALLET lines stay as they are.
    """
    format = guess_format(path) if format is None else format
    if format == "shards":
        return read_text_settings(path)
    return text_settings(**how) if is_text(path, format) else None


def is_text(path, format: str | None) -> bool:
    """Tell whether the words of a file are ours to find."""
    return (guess_format(path) if format is None else format) in _TEXT


def read_documents(source, format: str, problems: Problems, *, field: str, encoding: str, watch) -> Iterator[str]:
    """Yield the texts of a file or folder, one string per document."""
    extra = {} if format == "parquet" else {"encoding": encoding, "watch": watch}
    if format in _WITH_FIELD:
        extra["field"] = field
    return (texts.read_mallet if format == "mallet" else _TEXT[format])(source, problems, **extra)


def guess_format(path) -> str:
    """Tell the format from the name of a file (or from its first cell, between the two kinds of CSV)."""
    path = Path(path)
    if str(path) == "-":
        return "jsonl"
    if path.suffix == ENDING:
        return "shards"
    if path.is_dir():
        return "folder"
    name = path.name.lower().removesuffix(".gz")
    if name.startswith("docword"):
        return "uci"
    format = _ENDINGS.get(Path(name).suffix)
    if format is None:
        raise InputError(
            f"{path}: the format cannot be told from the name; known endings are {', '.join(_ENDINGS)} (also .gz), "
            "docword.*.txt, or a folder. Or say which format it is."
        )
    return "word-rows" if format == "csv" and looks_like_word_rows(path) else format


def names_beside(source, problems: Problems):
    """Return the words of a file beside the counts, where there is one."""
    beside = vocabulary_beside(source)
    return None if beside is None else read_vocabulary(beside, problems)


def column_names(path, words, n_words: int) -> list[str]:
    """Return the names of the columns: the words given, or numbers."""
    if words is None:
        return [str(number) for number in range(n_words)]
    if len(words) < n_words:
        raise InputError(f"{path}: there are {n_words} words in the counts, and {len(words)} in the vocabulary.")
    return [str(word) for word in words]


def _total(path) -> int | None:
    """Return the number of bytes that a progress bar counts to."""
    if str(path) == "-":
        return None
    path = Path(path)
    return sum(file.stat().st_size for file in path.rglob("*.txt")) if path.is_dir() else stored_size(path)
