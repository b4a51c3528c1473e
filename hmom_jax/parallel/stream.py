"""A corpus that stays on disk: what is asked of it is added up shard by shard.

Sums over words and labels run over the shards as stored. For products the counts are laid out once, shard by shard, in
a scratch folder, and mapped into memory from there: a CPU computes on the mapped pages themselves, other devices get
copies, the next shard being read while the current one computes.
"""

import mmap
import shutil
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import jax
import numpy as np
import scipy.sparse as sp

from hmom_jax.corpus import Corpus, sums_by_label, with_data
from hmom_jax.errors import InputError
from hmom_jax.parallel.scratch import make_scratch
from hmom_jax.parallel.shards import Shard, read_manifest, read_text_settings
from hmom_jax.rows import Rows, geometric
from hmom_jax.sparse import fold_rows


@dataclass(frozen=True)
class Part:
    """The documents of a shard, laid out for products on the device.

    Attributes
    ----------
    docs
        Which documents of the corpus they are.
    by_doc, by_word
        Both layouts.
    dtype
        Of the counts.
    """

    docs: slice
    by_doc: Rows
    by_word: Rows
    dtype: np.dtype

    def over_docs(self, values: np.ndarray) -> np.ndarray:
        """Return the values of these documents out of those of all, padded, in the type of the counts."""
        return pad_rows(values[self.docs], self.by_doc.n_rows, self.dtype)

    def fetch(self, values) -> np.ndarray:
        """Bring values over these documents back to the host, without padding."""
        return np.asarray(values)[: self.docs.stop - self.docs.start]


def pad_rows(values: np.ndarray, n_rows: int, dtype) -> np.ndarray:
    """Copy rows into a larger table of zeros."""
    padded = np.zeros((n_rows, *values.shape[1:]), dtype)
    padded[: len(values)] = values
    return padded


class StreamedCorpus(Corpus):
    """Word counts in a folder of shards; made by :meth:`Corpus.open`.

    Has all that a robust tree asks of a corpus, but no ``counts`` and no ``arrays``. ``text`` says how text was counted
    (:func:`hmom_jax.text.text_settings`); None where there was none.
    """

    text: dict | None = None

    def __init__(self, shards: list[Shard], vocabulary: np.ndarray, dtype, scratch: Path, function=None, docs=None):
        self.vocabulary = vocabulary
        self.shards, self.scratch = shards, scratch
        self._dtype, self.function = np.dtype(dtype), function
        # Documents of each shard, where not all are wanted, and where each shard's begin.
        self.docs = docs
        sizes = [shard.n_docs for shard in shards] if docs is None else [len(chosen) for chosen in docs]
        self.bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._verified: set[str] = set()

    def load(self) -> Corpus:
        """Bring the counts into memory."""
        return Corpus(sp.csr_array(sp.vstack([counts for _, counts in self._stored()], format="csr")), self.vocabulary)

    def part(self, number: int, n_parts: int) -> "StreamedCorpus":
        """Return one of ``n_parts`` runs of shards, of about as many nonzeros each: a process's own documents."""
        if not 0 <= number < n_parts:
            raise InputError(f"Parts are numbered from 0 to {n_parts - 1}; got {number}.")
        if self.docs is not None:
            raise InputError("Documents that were taken out of shards have no parts: take from the part instead.")
        if n_parts > len(self.shards):
            there = "There is 1 shard" if len(self.shards) == 1 else f"There are {len(self.shards)} shards"
            raise InputError(
                f"{there}; {n_parts} parts cannot be had of them: write the shards again, smaller ones "
                "(hmom convert --shard-size N, write_shards(n_nonzeros=N))."
            )
        ends = np.cumsum([shard.nnz for shard in self.shards])
        goals = np.searchsorted(ends, np.arange(1, n_parts) / n_parts * ends[-1])
        cuts = [0]
        for k, goal in enumerate(goals, 1):  # none may be empty
            cuts.append(int(np.clip(goal, cuts[-1] + 1, len(self.shards) - (n_parts - k))))
        cuts.append(len(self.shards))
        return self._like(shards=self.shards[cuts[number] : cuts[number + 1]])

    def take(self, docs: np.ndarray) -> "StreamedCorpus":
        """Return some of the documents; they stay in their order."""
        docs = np.asarray(docs)
        if np.any(docs[1:] <= docs[:-1]):
            raise InputError("Documents on disk are taken in their own order, each once.")
        cuts = np.searchsorted(docs, self.bounds)
        chosen = [docs[a:b] - first for a, b, first in zip(cuts[:-1], cuts[1:], self.bounds[:-1], strict=True)]
        if self.docs is not None:
            chosen = [before[now] for before, now in zip(self.docs, chosen, strict=True)]
        return self._like(docs=chosen)

    def map_counts(self, function: Callable[[np.ndarray], np.ndarray]) -> "StreamedCorpus":
        """Return the corpus with another value for each count; zero must stay zero."""
        before = self.function
        return self._like(function=function if before is None else lambda counts: function(before(counts)))

    def _like(self, **changed) -> "StreamedCorpus":
        kept = {"shards": self.shards, "function": self.function, "docs": self.docs} | changed
        new = StreamedCorpus(vocabulary=self.vocabulary, dtype=self._dtype, scratch=self.scratch, **kept)
        new._verified, new.text = self._verified, self.text
        return new

    @property
    def n_docs(self) -> int:
        """Number of documents, empty ones included."""
        return int(self.bounds[-1])

    @property
    def n_words(self) -> int:
        """Size of the vocabulary."""
        return len(self.vocabulary)

    @property
    def nnz(self) -> int:
        """Number of nonzero counts of the shards."""
        return sum(shard.nnz for shard in self.shards)

    @property
    def dtype(self):
        """Floating type of the counts and of all results."""
        return self._dtype

    @cached_property
    def length(self) -> np.ndarray:
        """Words in each document, as doubles; summed in the type of the counts."""
        return self._row_sums(lambda counts: counts)

    @cached_property
    def square_length(self) -> np.ndarray:
        """Sum of the squared counts of each document, as doubles; summed in the type of the counts."""
        return self._row_sums(lambda counts: with_data(counts, counts.data**2))

    def restore(self, values: np.ndarray) -> np.ndarray:
        """Return values over documents that have been kept in a file as they are."""
        return values

    def _row_sums(self, function) -> np.ndarray:
        return np.concatenate([function(counts).sum(axis=1, dtype=np.float64) for _, counts in self._stored()])

    def sum_over(self, function: Callable[[sp.csr_array], np.ndarray]) -> np.ndarray:
        """Add up what a function says of the counts of each shard."""
        return sum(function(counts) for _, counts in self._stored())

    def word_sums(self, weights: np.ndarray, squares: bool = False) -> np.ndarray:
        """Add up the counts of each word (or their squares), documents weighted."""
        square = lambda counts: with_data(counts, counts.data**2) if squares else counts
        return sum(weights[docs] @ square(counts) for docs, counts in self._stored())

    def label_sums(self, labels: np.ndarray, weights: np.ndarray, n_labels: int) -> np.ndarray:
        """Add up the counts of the documents of each label: labels x words."""
        total = np.zeros((n_labels, self.n_words))
        for docs, counts in self._stored():
            total += sums_by_label(labels[docs], weights[docs], n_labels, counts)
        return total

    def _stored(self) -> Iterator[tuple[slice, sp.csr_array]]:
        """Yield the documents of each shard, with their counts as stored."""
        for number, shard in enumerate(self.shards):
            if shard.name not in self._verified:
                shard.verify()
                self._verified.add(shard.name)
            counts = shard.counts(self.dtype)
            if self.docs is not None:
                counts = sp.csr_array(counts[self.docs[number]])
            if self.function is not None:
                counts = with_data(counts, self.function(counts.data).astype(self.dtype))
            yield slice(*self.bounds[number : number + 2].tolist()), counts

    def parts(self) -> Iterator[Part]:
        """Yield the documents of each shard, laid out on the device; the next is fetched in the meantime."""
        layouts = self._layouts
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self._fetch_part, layouts[0])
            for following in [*layouts[1:], None]:
                part = coming.result()
                if following is not None:
                    coming = reader.submit(self._fetch_part, following)
                yield part

    def fold_parts(self, function, state):
        """Apply ``state = function(state, part)`` to each shard, one at a time: memory is bounded."""
        for part in self.parts():
            state = jax.block_until_ready(function(state, part))
        return state

    def map_parts(self, function):
        """Join what a function of each shard says of its documents, in one array or several."""
        found = [jax.tree.map(part.fetch, function(part)) for part in self.parts()]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)

    @property
    def part_rows(self) -> int:
        """Documents of a part, padding included."""
        return geometric(int(np.diff(self.bounds).max()))

    @cached_property
    def folder(self) -> Path:
        """A folder of our own for large temporary files; it goes when the corpus does.

        What a killed process of this machine left beside it goes too.
        """
        try:
            folder = make_scratch(self.scratch)
        except OSError as error:
            raise InputError(
                f"{self.scratch}: no scratch folder can be made here ({error.strerror}); give another by scratch= "
                "(--scratch)."
            ) from error
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)  # Windows keeps files that are still mapped
        return folder

    @cached_property
    def _layouts(self) -> list[tuple[slice, tuple[Path, list], object]]:
        """Lay every shard out in the scratch folder; shapes are the same for all, so that they share programs."""
        capacity = geometric(max(shard.nnz for shard in self.shards))
        longest = max(1, *(shard.longest for shard in self.shards))
        layouts = []
        for number, (docs, counts) in enumerate(self._stored()):
            indptr = np.pad(counts.indptr, (0, self.part_rows - counts.shape[0]), mode="edge")
            fold = lambda rows, indptr, longest: fold_rows(
                indptr, rows.indices, rows.data, capacity=capacity, longest=longest, dtype=self.dtype
            )
            by_word = counts.tocsc()
            both = fold(counts, indptr, longest), fold(by_word, by_word.indptr, self.part_rows)
            leaves, structure = jax.tree.flatten(both)
            layouts.append((docs, _lay_down(self.folder / f"{number:05d}", leaves), structure))
        return layouts

    def _fetch_part(self, layout) -> Part:
        docs, stored, structure = layout
        by_doc, by_word = jax.tree.unflatten(structure, jax.device_put(_pick_up(*stored)))
        return Part(docs, by_doc, by_word, self.dtype)


def _absent(name: str) -> property:
    def refuse(self):
        raise InputError(f"A corpus on disk has no .{name}; .load() brings it into memory.")

    return property(refuse, doc="Not for a corpus on disk.")


for _name in ("counts", "arrays", "by_doc", "places", "squares"):
    setattr(StreamedCorpus, _name, _absent(_name))


def _lay_down(file: Path, arrays: list[np.ndarray]) -> tuple[Path, list]:
    """Write arrays to one file, and say where each lies: at multiples of 64 bytes, which JAX takes over on a CPU."""
    places, at = [], 0
    with open(file, "wb") as out:
        for array in arrays:
            out.write(b"\0" * (-at % 64))
            at += -at % 64
            places.append((at, array.nbytes, array.dtype, array.shape))
            out.write(np.ascontiguousarray(array).data)
            at += array.nbytes
    return file, places


def _pick_up(file: Path, places: list) -> list[np.ndarray]:
    """Map the file, and have the system read it now, where it can be asked to."""
    with open(file, "rb") as stored:
        mapped = mmap.mmap(stored.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_WILLNEED)
    whole = np.frombuffer(mapped, np.uint8)
    return [whole[at : at + size].view(dtype).reshape(shape) for at, size, dtype, shape in places]


def open_shards(folder, scratch=None) -> StreamedCorpus:
    """Open a folder of shards; see :meth:`Corpus.open`."""
    shards, words, dtype = read_manifest(folder)
    scratch = Path(folder if scratch is None else scratch)
    corpus = StreamedCorpus(shards, words, jax.dtypes.canonicalize_dtype(dtype), scratch)
    corpus.text = read_text_settings(folder)
    return corpus
