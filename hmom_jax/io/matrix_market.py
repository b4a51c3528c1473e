"""Matrix Market coordinate files, documents in rows."""

import scipy.sparse as sp

from hmom_jax.errors import InputError
from hmom_jax.io.entries import Entries, read_triples, whole_numbers
from hmom_jax.io.lines import Problems, check_size, read_lines, stored_size

_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")


def read_matrix_market(path, problems: Problems, *, watch=None, entries: Entries | None = None) -> sp.csr_array:
    """Read counts; symmetric, complex and dense files are not counts of words, and are refused."""
    lines = read_lines(path, problems, watch=watch)
    number, first = next(lines, (1, ""))
    banner = first.lower().split()
    if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"]:
        raise InputError(f"{path}, line {number}: a line '%%MatrixMarket matrix ...' was expected; got {first[:60]!r}.")
    if banner[2] != "coordinate" or banner[3] not in _FIELDS or banner[4] != "general":
        raise InputError(
            f"{path}, line {number}: 'coordinate', one of {', '.join(_FIELDS)}, and 'general' are read; "
            f"got {' '.join(banner[2:])!r}."
        )
    for number, line in lines:
        if line.strip() and not line.lstrip().startswith("%"):
            n_docs, n_words, nnz = whole_numbers(path, number, line, 3)
            break
    else:
        raise InputError(f"{path}: the line with the sizes is missing.")
    n_bytes = stored_size(path)
    check_size(path, "rows", n_docs, n_bytes)
    check_size(path, "columns", n_words, n_bytes)
    body = ((number, line) for number, line in lines if not line.lstrip().startswith("%"))
    bad = problems.count
    entries = read_triples(path, body, problems, n_docs, n_words, pattern=banner[3] == "pattern", entries=entries)
    if len(entries) + problems.count - bad != nnz:
        problems.report(path, None, f"{nnz} entries were announced, {len(entries)} are there; is the file cut off?")
    if not len(entries):
        raise InputError(f"{path}: no counts in this file.")
    return entries.matrix(n_docs, n_words)
