"""Formats of one document a line with ``word:count`` pairs: svmlight and LDA-C."""

import numpy as np
import scipy.sparse as sp

from hmom_jax.io.entries import Entries, pairs_matrix, read_pairs
from hmom_jax.io.lines import Problems, read_lines


def read_svmlight(path, problems: Problems, *, watch=None) -> sp.csr_array:
    """Read ``label word:count word:count ... # comment``; labels and query ids are left out.

    Words are counted from 1, as in the original program, unless word 0 occurs.
    """

    def pairs(number, line):
        parts = line.split("#", 1)[0].split()
        if not parts:
            return None
        if ":" in parts[0]:
            problems.report(path, number, f"a label was expected before the pairs; got {parts[0][:40]!r}")
            return None
        rest = parts[1:]
        if rest and rest[0].startswith("qid:"):
            rest = rest[1:]
        return read_pairs(path, number, " ".join(rest), problems)

    return _read(path, problems, pairs, watch, base=None)


def read_ldac(path, problems: Problems, *, watch=None) -> sp.csr_array:
    """Read Blei's LDA-C format: the number of pairs, then ``word:count`` pairs, words counted from 0."""

    def pairs(number, line):
        parts = line.split(None, 1)
        if not parts:
            return None
        found = read_pairs(path, number, parts[1] if len(parts) == 2 else "", problems)
        if found is not None and parts[0] != str(len(found[0])):
            problems.report(path, number, f"{parts[0][:20]} pairs were announced, {len(found[0])} are there")
            return None
        return found

    return _read(path, problems, pairs, watch, base=0)


def _read(path, problems: Problems, parse, watch, base: int | None) -> sp.csr_array:
    entries, n_docs, n_bytes = Entries(), 0, 0
    for number, line in read_lines(path, problems, watch=watch):
        n_bytes += len(line) + 1
        found = parse(number, line)
        if found is not None:
            word, count = found
            entries.extend(np.full(len(word), n_docs), word, count)
            n_docs += 1
    if base is None:
        base = 0 if len(entries) and min(entries.word) == 0 else 1
    return pairs_matrix(path, entries, n_docs, n_bytes, base)
