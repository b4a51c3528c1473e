"""Counts written as numbers on lines: entries gathered in typed buffers, with the line of whatever is wrong."""

from array import array
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from hmom_jax.errors import InputError
from hmom_jax.io.lines import Problems, check_size

_CHUNK = 20_000
LARGEST = float(np.finfo(np.float32).max)


class Entries:
    """Counts of (document, word), 16 bytes each."""

    def __init__(self):
        self.doc, self.word, self.count = array("i"), array("i"), array("d")

    def __len__(self):
        return len(self.doc)

    def extend(self, doc: np.ndarray, word: np.ndarray, count: np.ndarray) -> None:
        """Add entries that have been checked."""
        self.doc.frombytes(np.ascontiguousarray(doc, np.int32).tobytes())
        self.word.frombytes(np.ascontiguousarray(word, np.int32).tobytes())
        self.count.frombytes(np.ascontiguousarray(count, np.float64).tobytes())

    def matrix(self, n_docs: int, n_words: int) -> sp.csr_array:
        """Return documents x words; entries that occur twice are summed."""
        values = (np.frombuffer(self.count, np.float64) if len(self) else np.zeros(0)).astype(np.float32)
        place = tuple(np.frombuffer(part, np.int32) if len(self) else np.zeros(0, np.int32) for part in self.places)
        return sp.csr_array(sp.coo_array((values, place), shape=(n_docs, n_words)))

    @property
    def places(self):
        """Rows and columns."""
        return self.doc, self.word


def read_triples(
    path,
    lines: Iterator[tuple[int, str]],
    problems: Problems,
    n_docs: int,
    n_words: int,
    *,
    pattern: bool = False,
    entries: Entries | None = None,
) -> Entries:
    """Read lines of document, word and count, the first two counted from 1.

    ``pattern``: no count is given, and each entry counts 1. ``entries``: where they go.
    """
    entries = Entries() if entries is None else entries
    width = 2 if pattern else 3
    numbers, tokens = [], []

    def flush():
        if numbers:
            table = _parse(path, numbers, tokens, width, problems)
            doc, word = table[:, 0], table[:, 1]
            count = np.ones(len(table)) if pattern else table[:, 2]
            good = (doc >= 1) & (doc <= n_docs) & (word >= 1) & (word <= n_words) & (count >= 0) & (count <= LARGEST)
            good &= (doc == np.floor(doc)) & (word == np.floor(word))
            for bad in np.flatnonzero(~good):
                shown = " ".join(tokens[width * bad : width * (bad + 1)])[:80]
                problems.report(
                    path, numbers[bad], f"document 1-{n_docs}, word 1-{n_words}, count >= 0 expected; got {shown!r}"
                )
            entries.extend(doc[good] - 1, word[good] - 1, count[good])
        numbers.clear()
        tokens.clear()

    for number, line in lines:
        parts = line.split()
        if not parts:
            continue
        if len(parts) != width:
            problems.report(path, number, f"{width} numbers were expected; got {line[:80]!r}")
            continue
        numbers.append(number)
        tokens.extend(parts)
        if len(numbers) == _CHUNK:
            flush()
    flush()
    return entries


def _parse(path, numbers, tokens, width, problems: Problems) -> np.ndarray:
    """Turn tokens into a table; where that fails, find the lines at fault and leave them out of all three lists."""
    try:
        return np.array(tokens, np.float64).reshape(-1, width)
    except ValueError:
        kept_numbers, kept_tokens, rows = [], [], []
        for i, number in enumerate(numbers):
            parts = tokens[width * i : width * (i + 1)]
            try:
                rows.append([float(part) for part in parts])
            except ValueError:
                problems.report(path, number, f"numbers were expected; got {' '.join(parts)[:80]!r}")
                continue
            kept_numbers.append(number)
            kept_tokens.extend(parts)
        numbers[:], tokens[:] = kept_numbers, kept_tokens
        return np.array(rows, np.float64).reshape(-1, width)


def whole_numbers(path, line: int, text: str, n: int) -> list[int]:
    """Parse a header line of ``n`` whole numbers."""
    parts = text.split()
    if len(parts) != n or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise InputError(f"{path}, line {line}: {n} whole number(s) were expected; got {text[:80]!r}.")
    return [int(part) for part in parts]


def read_pairs(path, number: int, text: str, problems: Problems) -> tuple[np.ndarray, np.ndarray] | None:
    """Parse ``word:count word:count ...``; None where the line is broken."""
    try:
        pairs = [part.split(":") for part in text.split()]
        table = np.array(pairs, np.float64) if pairs else np.zeros((0, 2))
        if table.shape[1:] != (2,):
            raise ValueError("not pairs")
    except ValueError:
        problems.report(path, number, f"word:count pairs were expected; got {text[:80]!r}")
        return None
    word, count = table[:, 0], table[:, 1]
    if not np.all((word >= 0) & (word < 2**31 - 1) & (word == np.floor(word)) & (count >= 0) & (count <= LARGEST)):
        problems.report(path, number, f"whole words and counts of at least 0 were expected; got {text[:80]!r}")
        return None
    return word, count


def pairs_matrix(path, entries: Entries, n_docs: int, n_bytes: int, base: int) -> sp.csr_array:
    """Build documents x words from pairs, whose words are counted from ``base``."""
    words = np.frombuffer(entries.word, np.int32) if len(entries) else np.zeros(0, np.int32)
    n_words = check_size(path, "words", int(words.max(initial=base - 1)) + 1 - base, n_bytes)
    if n_docs == 0 or n_words == 0:
        raise InputError(f"{path}: no counts in this file.")
    return entries.matrix(n_docs, n_words + base)[:, base:]
