"""Counts in a folder: plain ``.npy`` arrays that can be mapped into memory, and a manifest in JSON.

Each shard holds some documents, one after the other, as compressed sparse rows in three files: ``NNNNN.indptr.npy``,
``NNNNN.indices.npy`` and ``NNNNN.data.npy``. ``manifest.json`` has the format and its version, the vocabulary's file,
how text was counted, and for each file type, shape and checksum (CRC-32). It is written last: a folder without it is
not complete.
"""

import json
import os
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import scipy.sparse as sp

from hmom_jax.errors import InputError
from hmom_jax.files import atomic_file, is_aside, write_text
from hmom_jax.parallel.scratch import OWNER, SCRATCH, has_owner, is_abandoned, make_scratch
from hmom_jax.text import is_text_settings

FORMAT = "hmom_jax shards"
VERSION = 1
ENDING = ".shards"
# Counts of a shard: enough to keep a device busy, few beside what memory holds.
DEFAULT_NONZEROS = 1 << 21
_MANIFEST, _VOCABULARY = "manifest.json", "vocabulary.json"
_PARTS = ("indptr", "indices", "data")
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Shard:
    """Some documents on disk.

    Attributes
    ----------
    folder, name
        Where its files are, and what their names begin with.
    n_docs, nnz, n_words
        Its size.
    longest
        Most counts that a document has.
    files
        For each part: type, shape and checksum, as in the manifest.
    """

    folder: Path
    name: str
    n_docs: int
    nnz: int
    n_words: int
    longest: int
    files: dict

    def path(self, part: str) -> Path:
        """Return the file of a part."""
        return self.folder / f"{self.name}.{part}.npy"

    def check_sizes(self) -> None:
        """Raise where a file is missing or has not the size that the manifest says: no data is read."""
        for part, about in self.files.items():
            path = self.path(part)
            if not path.is_file():
                raise InputError(f"{path}: this part of the shards is missing; write the folder anew.")
            size, expected = path.stat().st_size, about["bytes"]
            if size != expected:
                raise InputError(f"{path}: {expected} bytes were written, {size} are there: cut off or replaced.")

    def verify(self) -> None:
        """Raise where a file is not, bit for bit, what was written."""
        self.check_sizes()
        for part, about in self.files.items():
            if checksum(self.path(part)) != about["crc32"]:
                raise InputError(f"{self.path(part)}: the checksum is wrong: the file is damaged; write it anew.")
        # A folder may come from anywhere, and compiled code trusts its indices.
        indptr, indices, data = self._arrays()
        shapes = (indptr.shape, indices.shape, data.shape) == ((self.n_docs + 1,), (self.nnz,), (self.nnz,))
        kinds = (indptr.dtype, indices.dtype) == (np.int64, np.int32) and data.dtype.kind in "uf"
        if not (shapes and kinds and indptr[0] == 0 and indptr[-1] == self.nnz):
            raise InputError(f"{self.path('indptr')}: types and sizes are not those of the manifest.")
        lengths, inside = np.diff(indptr), not self.nnz or (indices.min() >= 0 and indices.max() < self.n_words)
        sound = lengths.min(initial=0) >= 0 and lengths.max(initial=0) <= self.longest and inside
        if not sound or not np.all(np.isfinite(data)) or data.min(initial=0) < 0:
            raise InputError(f"{self.path('indices')}: these are not counts of {self.n_words} words.")

    def counts(self, dtype) -> sp.csr_array:
        """Map the shard into memory; values in the type asked for."""
        indptr, indices, data = self._arrays()
        return sp.csr_array((data.astype(dtype), indices, indptr), shape=(self.n_docs, self.n_words))

    def _arrays(self) -> list[np.ndarray]:
        try:
            return [np.load(self.path(part), mmap_mode="r", allow_pickle=False) for part in _PARTS]
        except (ValueError, OSError) as error:
            raise InputError(f"{self.folder / self.name}: this shard cannot be read ({error}).") from error


class ShardWriter:
    """Writes a folder of shards, a few documents at a time; memory is bounded by one shard.

    Parameters
    ----------
    folder
        Made where it is not there; one that holds other files is refused.
    n_nonzeros
        Counts of a shard, at most, unless a single document has more.

    Files are written to a hidden folder inside, and moved to their places by :meth:`finish`: until then the shards that
    were there before stay as they are, also where the input turns out to be no good.

    Examples
    --------
    >>> import tempfile, numpy as np, scipy.sparse as sp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ShardWriter(folder, n_nonzeros=2) as writer:
    ...         writer.add(sp.csr_array(np.array([[1, 0], [2, 3], [0, 4]])))
    ...         writer.finish(["a", "b"])
    ...     shards, _, _ = read_manifest(folder)
    >>> [(shard.n_docs, shard.nnz) for shard in shards]
    [(1, 1), (1, 2), (1, 1)]
    """

    def __init__(self, folder, n_nonzeros: int = DEFAULT_NONZEROS):
        if isinstance(n_nonzeros, bool) or not isinstance(n_nonzeros, int | np.integer) or n_nonzeros < 1:
            raise InputError(f"n_nonzeros must be a whole number of at least 1; got {n_nonzeros!r}.")
        self.folder, self.n_nonzeros = Path(folder), int(n_nonzeros)
        self.is_new = not self.folder.exists()
        self.folder.mkdir(exist_ok=True)
        strange = [path.name for path in self.folder.iterdir() if not _is_ours(path)]
        if strange:
            raise InputError(f"{self.folder}: holds other files ({strange[0]!r}); give an empty folder, or a new one.")
        self.aside = make_scratch(self.folder)
        self.waiting: list[sp.csr_array] = []
        self.n_waiting = 0
        self.shards: list[dict] = []
        self.dtype = np.dtype(np.float32)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Remove what was not finished, and the folder where nothing was there before."""
        shutil.rmtree(self.aside, ignore_errors=True)
        if self.is_new and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def add(self, counts: sp.csr_array) -> None:
        """Append documents; counts must be sorted by word, without duplicates or zeros."""
        # The files do not tell: they hold whole numbers as such. Integers become the default float, as in a corpus.
        kind = counts.dtype if counts.dtype.kind == "f" else jax.dtypes.canonicalize_dtype(float)
        self.dtype = np.promote_types(self.dtype, kind)
        self.waiting.append(counts)
        self.n_waiting += counts.nnz
        if self.n_waiting >= self.n_nonzeros:
            self._flush(everything=False)

    def finish(self, vocabulary, text: dict | None = None) -> None:
        """Write what is left, the words and the manifest; the columns of the counts are the first words.

        ``text`` says how text was counted (:func:`hmom_jax.text.text_settings`), where there was text.
        """
        self._flush(everything=True)
        words = [str(word) for word in vocabulary]
        write_text(self.aside / _VOCABULARY, json.dumps(words, ensure_ascii=True))
        if not self.shards:
            raise InputError("The corpus is empty: there are no documents.")
        totals = {name: sum(shard[name] for shard in self.shards) for name in ("n_docs", "nnz")}
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            **totals,
            "n_words": len(words),
            "dtype": self.dtype.name,
            "vocabulary": {"file": _VOCABULARY, "crc32": checksum(self.aside / _VOCABULARY)},
            **({} if text is None else {"text": text}),
            "shards": self.shards,
        }
        self._replace_old()
        write_text(self.folder / _MANIFEST, json.dumps(manifest, indent=1) + "\n")

    def _replace_old(self) -> None:
        """Remove the shards that were there before, and move the new ones to their places."""
        # First the manifest: until the new one is there, the folder must not pass for complete.
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name != _MANIFEST):
            if not path.is_dir():
                path.unlink()
            elif not has_owner(path) or is_abandoned(path):  # another process may be at work in it
                shutil.rmtree(path)
        for path in self.aside.iterdir():
            if path.is_file() and path.name != OWNER:
                os.replace(path, self.folder / path.name)
        shutil.rmtree(self.aside, ignore_errors=True)

    def _flush(self, everything: bool) -> None:
        """Write full shards, and at the end the last one."""
        if not self.waiting:
            return
        n_words = max(part.shape[1] for part in self.waiting)
        for part in self.waiting:
            part.resize(part.shape[0], n_words)
        counts = sp.csr_array(sp.vstack(self.waiting, format="csr")) if len(self.waiting) > 1 else self.waiting[0]
        first = 0
        while first < counts.shape[0]:
            left = counts.nnz - counts.indptr[first]
            if left < self.n_nonzeros and not everything:
                break
            last = int(np.searchsorted(counts.indptr, counts.indptr[first] + self.n_nonzeros, side="right")) - 1
            last = min(max(last, first + 1), counts.shape[0])
            self._write(counts[first:last])
            first = last
        self.waiting = [counts[first:]] if first < counts.shape[0] else []
        self.n_waiting = sum(part.nnz for part in self.waiting)

    def _write(self, counts: sp.csr_array) -> None:
        name = f"{len(self.shards):05d}"
        data = smallest(counts.data)
        arrays = {"indptr": counts.indptr.astype(np.int64), "indices": counts.indices.astype(np.int32), "data": data}
        files = {}
        for part, array in arrays.items():
            path = self.aside / f"{name}.{part}.npy"
            with atomic_file(path) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
            about = {"dtype": array.dtype.str, "shape": list(array.shape), "bytes": path.stat().st_size}
            files[part] = about | {"crc32": checksum(path)}
        longest = int(np.diff(counts.indptr).max(initial=0))
        record = {"name": name, "n_docs": counts.shape[0], "nnz": int(counts.nnz), "longest": longest, "files": files}
        self.shards.append(record)


def read_manifest(folder) -> tuple[list[Shard], np.ndarray, np.dtype]:
    """Return shards, vocabulary and type of a folder; sizes of files are checked, their contents are not yet read."""
    folder = Path(folder)
    path = folder / _MANIFEST
    if not path.is_file():
        raise InputError(f"{folder}: not a folder of shards, or one that was not finished: {_MANIFEST} is missing.")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        if about["format"] != FORMAT:
            raise InputError(f"{path}: the format is {about['format']!r}; {FORMAT!r} was expected.")
        if about["version"] != VERSION:
            raise InputError(f"{path}: version {about['version']} is not one that this release reads ({VERSION}).")
        if checksum(folder / _VOCABULARY) != about["vocabulary"]["crc32"]:
            raise InputError(f"{folder / _VOCABULARY}: the checksum is wrong: the file is damaged.")
        words = np.array(json.loads((folder / _VOCABULARY).read_text(encoding="utf-8")), dtype=str)
        n_words, dtype = int(about["n_words"]), np.dtype(about["dtype"])
        shards = [
            Shard(
                folder, str(shard["name"]), int(shard["n_docs"]), int(shard["nnz"]), n_words, int(shard["longest"]),
                {part: _about_file(shard["files"][part]) for part in _PARTS},
            )
            for shard in about["shards"]
        ]  # fmt: skip
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: this part of the shards is missing; write the folder anew.") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: not a manifest of shards, or a damaged one ({error!r}).") from error
    if len(words) != n_words or not shards or dtype.kind != "f":
        raise InputError(f"{path}: vocabulary, sizes and types do not fit together.")
    for shard in shards:
        if not shard.name.isdigit():  # it becomes part of a path
            raise InputError(f"{path}: shard {shard.name!r} has no proper name.")
        shard.check_sizes()
    return shards, words, dtype


def _about_file(about: dict) -> dict:
    """Return what the manifest says of a file, seen to have what is asked of it later."""
    for name in ("bytes", "crc32"):
        if type(about[name]) is not int:
            raise ValueError(f"{name} is {about[name]!r}")
    return about


def read_text_settings(folder) -> dict | None:
    """Return how the text of a folder of shards was counted; None where it does not say, or where there was no text."""
    path = Path(folder) / _MANIFEST
    text = json.loads(path.read_text(encoding="utf-8")).get("text")
    if text is not None and not is_text_settings(text):
        raise InputError(f"{path}: the settings for reading text are not as expected.")
    return text


def checksum(path) -> int:
    """Return the CRC-32 of a file."""
    value = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return value


def smallest(values: np.ndarray) -> np.ndarray:
    """Return whole counts in the smallest type that holds them."""
    if np.any(values != np.floor(values)) or values.max(initial=0) >= 2**32:
        return values
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _is_ours(path: Path) -> bool:
    number, _, part = path.name.partition(".")
    if path.name.startswith(SCRATCH) or is_aside(path):  # left by a process that was killed
        return True
    if path.name in (_MANIFEST, _VOCABULARY):
        return True
    return number.isdigit() and part.removesuffix(".npy") in _PARTS
