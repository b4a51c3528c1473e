"""Words in rows, documents in columns: the layout of "NIPS Conference Papers 1987-2015" (UCI).

The first line names the documents (its first cell is empty); every other line is a word and its count in each document.
"""

import csv
import re
import warnings

import numpy as np
import scipy.sparse as sp

from hmom_jax.errors import InputError
from hmom_jax.io.entries import LARGEST, Entries
from hmom_jax.io.lines import Problems, read_lines

_FIRST_CELL = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*)),')


def read_word_rows(path, problems: Problems, *, watch=None) -> tuple[sp.csr_array, list[str]]:
    """Read counts and words."""
    lines = read_lines(path, problems, watch=watch)
    _, header = next(lines, (1, ""))
    n_docs = len(_cells(path, header)) - 1
    if n_docs < 1:
        raise InputError(f"{path}, line 1: an empty cell and the names of the documents were expected.")
    entries, words = Entries(), []
    for number, line in lines:
        if not line.strip():
            continue
        first = _FIRST_CELL.match(line)
        counts = None if first is None else _numbers(line[first.end() :])
        if counts is None or len(counts) != n_docs or not np.all((counts >= 0) & (counts <= LARGEST)):
            problems.report(path, number, f"a word and {n_docs} counts were expected; got {line[:60]!r}")
            continue
        used = np.flatnonzero(counts)
        entries.extend(used, np.full(len(used), len(words)), counts[used])
        words.append((first[1] or first[2] or "").replace('""', '"'))
    if not words:
        raise InputError(f"{path}: no words in this file.")
    return entries.matrix(n_docs, len(words)), words


def looks_like_word_rows(path) -> bool:
    """Tell whether the first line of a CSV file begins with an empty cell, as in this layout."""
    _, header = next(read_lines(path, Problems(skip_bad=True)), (1, ""))
    return header.startswith((",", '"",'))


def _cells(path, line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error as error:
        raise InputError(f"{path}, line 1: not a table row: {error}") from error


def _numbers(text: str) -> np.ndarray | None:
    """Parse numbers between commas, None where there is anything else (NumPy only warns)."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(text, np.float64, sep=",")
        except (DeprecationWarning, ValueError):
            return None
