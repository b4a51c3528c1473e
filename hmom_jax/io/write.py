"""Writers of counts, each the inverse of a reader; files appear complete or not at all."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError
from hmom_jax.files import atomic_file, write_text
from hmom_jax.io.read import guess_format
from hmom_jax.parallel.shards import smallest

WRITABLE = ("npz", "uci", "mtx", "svmlight", "ldac")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same counts give the same bytes


def write_counts(corpus: Corpus, path, format: str | None = None) -> None:
    """Write the counts of a corpus; the ending of ``path`` says how, unless ``format`` does.

    Words go into ``.npz`` with the counts, and else into a file beside: ``vocab.NAME.txt`` for ``docword.NAME.txt``,
    ``NAME.vocab.txt`` otherwise.

    Parameters
    ----------
    corpus
        The counts.
    path
        Where to; not compressed, except ``.npz``.
    format
        ``npz``, ``uci``, ``mtx``, ``svmlight`` or ``ldac``.
    """
    format = guess_format(path) if format is None else format
    if format not in WRITABLE:
        raise InputError(f"Counts are written as {', '.join(WRITABLE)}; got {format!r} for {path}.")
    path, counts = Path(path), corpus.counts
    if path.name.lower().endswith(".gz"):
        raise InputError(f"{path}: compressed files are read, not written; leave out .gz.")
    if format == "npz":
        shape = np.array(counts.shape, np.int64)
        parts = {"format": np.array(b"csr"), "data": smallest(counts.data), "indices": counts.indices}
        write_npz(path, {**parts, "indptr": counts.indptr, "shape": shape, "vocab": corpus.vocabulary})
        return
    with atomic_file(path) as file:
        for line in {"uci": _uci, "mtx": _mtx, "svmlight": _svmlight, "ldac": _ldac}[format](counts):
            file.write(line.encode("ascii"))
    name = path.name
    beside = "vocab" + name.removeprefix("docword") if name.startswith("docword") else f"{path.stem}.vocab.txt"
    if any("\n" in word or word != word.strip() for word in corpus.vocabulary.tolist()):
        raise InputError("Words with line breaks or spaces around them cannot go into a file of words; use .npz.")
    write_text(path.with_name(beside), "".join(f"{word}\n" for word in corpus.vocabulary.tolist()))


def write_npz(path, arrays: dict[str, np.ndarray], members: dict[str, bytes] | None = None) -> None:
    """Write arrays (and other members) to a compressed ``.npz`` file, without pickles and without the time of day."""
    contents = dict(members or {})
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array) if array.ndim else array, allow_pickle=False)
        contents[f"{name}.npy"] = buffer.getvalue()
    with atomic_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)


def _uci(counts: sp.csr_array) -> Iterator[str]:
    yield f"{counts.shape[0]}\n{counts.shape[1]}\n{counts.nnz}\n"
    for doc, words, values in _rows(counts):
        yield "".join(f"{doc + 1} {word + 1} {value}\n" for word, value in zip(words, values, strict=True))


def _mtx(counts: sp.csr_array) -> Iterator[str]:
    kind = "integer" if np.all(counts.data == np.floor(counts.data)) else "real"
    yield f"%%MatrixMarket matrix coordinate {kind} general\n{counts.shape[0]} {counts.shape[1]} {counts.nnz}\n"
    for doc, words, values in _rows(counts):
        yield "".join(f"{doc + 1} {word + 1} {value}\n" for word, value in zip(words, values, strict=True))


def _svmlight(counts: sp.csr_array) -> Iterator[str]:
    for _, words, values in _rows(counts):
        yield "0" + "".join(f" {word + 1}:{value}" for word, value in zip(words, values, strict=True)) + "\n"


def _ldac(counts: sp.csr_array) -> Iterator[str]:
    for _, words, values in _rows(counts):
        yield str(len(words)) + "".join(f" {word}:{value}" for word, value in zip(words, values, strict=True)) + "\n"


def _rows(counts: sp.csr_array) -> Iterator[tuple[int, list[int], list[str]]]:
    """Yield document, words, and counts as they are written: whole numbers without a point."""
    for doc in range(counts.shape[0]):
        part = slice(counts.indptr[doc], counts.indptr[doc + 1])
        values = [str(int(v)) if v == int(v) else repr(v) for v in counts.data[part].tolist()]
        yield doc, counts.indices[part].tolist(), values
