"""UCI bag of words: ``docword.NAME.txt`` with three header lines (D, W, NNZ), then ``doc word count`` lines."""

import scipy.sparse as sp

from hmom_jax.errors import InputError
from hmom_jax.io.entries import Entries, read_triples, whole_numbers
from hmom_jax.io.lines import Problems, check_size, read_lines, stored_size


def read_uci(path, problems: Problems, *, watch=None, entries: Entries | None = None) -> sp.csr_array:
    """Read the counts of a docword file; documents and words are counted from 1 in it."""
    lines = read_lines(path, problems, watch=watch)
    header = []
    for number, line in lines:
        header += whole_numbers(path, number, line, 1)
        if len(header) == 3:
            break
    if len(header) < 3:
        raise InputError(f"{path}: three header lines were expected: documents, words, nonzeros.")
    n_docs, n_words, nnz = header
    n_bytes = stored_size(path)
    check_size(path, "documents", n_docs, n_bytes)
    check_size(path, "words", n_words, n_bytes)
    bad = problems.count
    entries = read_triples(path, lines, problems, n_docs, n_words, entries=entries)
    if len(entries) + problems.count - bad != nnz:
        problems.report(path, None, f"{nnz} counts were announced, {len(entries)} are there; is the file cut off?")
    if not len(entries):
        raise InputError(f"{path}: no counts in this file.")
    return entries.matrix(n_docs, n_words)
