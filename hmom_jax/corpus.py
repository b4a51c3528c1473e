"""A corpus of word counts: the host object and what compiled code sees of it."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int, PyTree

from hmom_jax.errors import InputError, check_nonnegative
from hmom_jax.pytree import pytree
from hmom_jax.rows import Rows, geometric, take_rows
from hmom_jax.sparse import fold_rows
from hmom_jax.sparse_rules import transposable_product
from hmom_jax.stacks import fold_columns


@pytree
@dataclass(frozen=True)
class CorpusArrays:
    """Counts laid out for products with X (``by_doc``) and with its transpose (``by_word``).

    A pytree: pass it to ``jit`` as an argument. Document vectors are padded with empty documents up to
    ``by_doc.n_rows``.
    """

    by_doc: Rows
    by_word: Rows
    length: Float[Array, " padded_docs"] | np.ndarray

    @property
    def n_words(self) -> int:
        """Size of the vocabulary."""
        return self.by_word.n_rows


@pytree
@dataclass(frozen=True)
class CountPlaces:
    """Number of the count, from 1, at each entry of both layouts; 0 for padding. A pytree."""

    by_doc: PyTree[Int[Array, "..."] | np.ndarray]
    by_word: PyTree[Int[Array, "..."] | np.ndarray]


def put_counts(
    arrays: CorpusArrays, places: CountPlaces, counts: Float[Array, " nonzeros"] | np.ndarray
) -> CorpusArrays:
    """Return a corpus with other counts at the same places, differentiable in them.

    Parameters
    ----------
    arrays, places
        ``corpus.arrays`` and ``corpus.places``; pass them to ``jit`` as arguments.
    counts
        The counts, in the order of ``corpus.counts.data`` (row by row). May be traced. For soft counts that are dense,
        make the corpus of a matrix of ones, and give the rows one after the other.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from hmom_jax import Corpus, single_topic_moments
    >>> corpus = Corpus.from_counts(np.array([[2.0, 0.0, 2.0], [0.0, 4.0, 0.0]]))
    >>> def share(counts):  # of the first word
    ...     return single_topic_moments(put_counts(corpus.arrays, corpus.places, counts)).m1[0]
    >>> jax.grad(share)(corpus.counts.data).tolist()
    [0.09375, -0.03125, -0.03125]
    """
    counts = jnp.concatenate([jnp.zeros(1, counts.dtype), jnp.asarray(counts)])
    put = lambda rows, places: replace(rows, count=jax.tree.map(partial(take_rows, counts), places))
    by_doc, by_word = put(arrays.by_doc, places.by_doc), put(arrays.by_word, places.by_word)
    length = transposable_product(by_doc, by_word, jnp.ones((arrays.n_words, 1), counts.dtype))[:, 0]
    return CorpusArrays(by_doc, by_word, length)


class Corpus:
    """Word counts of a collection of documents.

    Make one with :meth:`from_counts`.

    Attributes
    ----------
    counts
        The counts on the host, a ``scipy.sparse.csr_array`` of floats, documents in rows.
    vocabulary
        The words, a NumPy array of strings.

    Examples
    --------
    >>> import numpy as np
    >>> corpus = Corpus.from_counts(np.array([[2, 0, 1], [0, 3, 0]]), vocabulary=["a", "b", "c"])
    >>> corpus
    Corpus(2 documents, 3 words, 3 nonzeros)
    """

    def __init__(self, counts: sp.csr_array, vocabulary: np.ndarray):
        self.counts = counts
        self.vocabulary = vocabulary

    @classmethod
    def from_counts(cls, counts, vocabulary: Iterable[str] | None = None) -> "Corpus":
        """Take counts in any usual form.

        Parameters
        ----------
        counts
            Documents x words: ``scipy.sparse`` matrix or array of any format, NumPy or JAX array, or
            nested lists. Integers become the default float; duplicates are summed.
        vocabulary
            One distinct string per column; column numbers if None.

        Raises
        ------
        InputError
            Negative or non-finite counts, not two-dimensional, empty, or a vocabulary that does not fit.

        Warns
        -----
        UserWarning
            When many values are not whole numbers: moments are meant for counts.
        """
        csr = _to_csr(counts)
        n_docs, n_words = csr.shape
        if n_docs == 0 or n_words == 0:
            raise InputError(f"The corpus is empty: got {n_docs} documents and {n_words} words.")
        check_nonnegative("Counts", csr.data)
        if np.count_nonzero(csr.data != np.rint(csr.data)) > 0.1 * csr.nnz:
            warnings.warn(
                "Many values are not whole numbers (tf-idf?). The method of moments is meant for raw "
                "word counts; it goes on, but the moments are no longer unbiased.",
                stacklevel=2,
            )
        return cls(csr, _check_vocabulary(vocabulary, n_words))

    @staticmethod
    def open(folder, scratch=None) -> "Corpus":
        """Open a folder of shards, as ``hmom convert INPUT NAME.shards`` writes it; the counts stay on disk.

        Robust trees grow from it in any memory that holds their tables and a few numbers per document; the products
        with the counts read the folder again and again. ``.load()`` brings all of it into memory, ``.part(i, n)``
        is the i-th of n parts, for processes that each take their own.

        Parameters
        ----------
        folder
            The folder.
        scratch
            Where to keep the counts as laid out for products, and the documents' coordinates, while a tree grows: some
            20 bytes a nonzero, and 4 a document and coordinate. By default in the folder itself.
        """
        from hmom_jax.parallel.stream import open_shards

        return open_shards(folder, scratch)

    def __repr__(self):
        return f"Corpus({self.n_docs} documents, {self.n_words} words, {self.nnz} nonzeros)"

    def with_vocabulary(self, words: Iterable[str]) -> "Corpus":
        """Return the same documents over other words, chosen by name; words that are not here count 0.

        Examples
        --------
        >>> import numpy as np
        >>> corpus = Corpus.from_counts(np.array([[2, 1], [0, 3]]), vocabulary=["a", "b"])
        >>> corpus.with_vocabulary(["b", "c"]).counts.toarray().tolist()
        [[1.0, 0.0], [3.0, 0.0]]
        """
        words = np.array([str(word) for word in words], dtype=str)
        if np.array_equal(words, self.vocabulary):
            return self
        place = {word: i for i, word in enumerate(words.tolist())}
        here = [i for i, word in enumerate(self.vocabulary.tolist()) if word in place]
        if not here:
            raise InputError("The two vocabularies have no word in common.")
        to = [place[word] for word in self.vocabulary[here].tolist()]
        choose = sp.csr_array((np.ones(len(here), self.dtype), (here, to)), shape=(self.n_words, len(words)))
        counts = sp.csr_array(self.counts @ choose)
        counts.sort_indices()
        return Corpus(counts, _check_vocabulary(words, len(words)))

    def take(self, docs: np.ndarray) -> "Corpus":
        """Return some of the documents, in the order given."""
        return self.with_counts(sp.csr_array(self.counts[docs]))

    def with_counts(self, counts: sp.csr_array) -> "Corpus":
        """Return other counts of the same words, kept where these are."""
        return Corpus(counts, self.vocabulary)

    @property
    def n_docs(self) -> int:
        """Number of documents, empty ones included."""
        return self.counts.shape[0]

    @property
    def n_words(self) -> int:
        """Size of the vocabulary."""
        return self.counts.shape[1]

    @property
    def nnz(self) -> int:
        """Number of nonzero counts."""
        return self.counts.nnz

    @property
    def dtype(self):
        """Floating type of the counts and of all results."""
        return self.counts.dtype

    @cached_property
    def length(self) -> np.ndarray:
        """Words in each document, as doubles; summed in the type of the counts."""
        return self.counts.sum(axis=1, dtype=np.float64)

    @cached_property
    def signatures(self) -> np.ndarray:
        """A number per document that is the same for equal documents and, but for chance, for no others.

        Documents count as equal that differ by less than the rounding of their length in double precision.
        """
        return self.counts @ np.random.default_rng(0).random(self.n_words)  # double: single would tell few apart

    @cached_property
    def by_doc(self) -> Rows:
        """Layout for products with X; document rows padded to a geometric grid."""
        return _on_device(self._fold_docs(self.counts.data))

    @cached_property
    def arrays(self) -> CorpusArrays:
        """Return what compiled code sees, both layouts on the default device."""
        length = self.pad(self.length).astype(self.dtype)
        return CorpusArrays(self.by_doc, *_on_device((self._fold_words(self.counts.data), length)))

    @cached_property
    def places(self) -> CountPlaces:
        """Where each count stands in ``arrays``: what :func:`put_counts` needs to put others there."""
        numbers = np.arange(1, self.nnz + 1, dtype=np.int32)  # 0 is padding
        return _on_device(CountPlaces(self._fold_docs(numbers).count, self._fold_words(numbers).count))

    @property
    def total_docs(self) -> int:
        """Number of documents, those of other processes included."""
        return self.n_docs

    @cached_property
    def square_length(self) -> np.ndarray:
        """Sum of the squared counts of each document, as doubles; summed in the type of the counts."""
        return self.squares.sum(axis=1, dtype=np.float64)

    @property
    def squares(self) -> sp.csr_array:
        """The squared counts, made anew each time (kept, they would take four bytes a nonzero)."""
        return with_data(self.counts, self.counts.data**2)

    def sum_over(self, function: Callable[[sp.csr_array], np.ndarray]) -> np.ndarray:
        """Add up what a function says of the counts; it must be one whose values for parts of the documents add up."""
        return self.add_up(function(self.counts))

    def map_counts(self, function: Callable[[np.ndarray], np.ndarray]) -> "Corpus":
        """Return the corpus with another value for each count; zero must stay zero."""
        return self.with_counts(with_data(self.counts, function(self.counts.data).astype(self.dtype)))

    def word_sums(self, weights: np.ndarray, squares: bool = False) -> np.ndarray:
        """Add up the counts of each word (or their squares), documents weighted."""
        return self.add_up(weights @ (self.squares if squares else self.counts))

    def label_sums(self, labels: np.ndarray, weights: np.ndarray, n_labels: int) -> np.ndarray:
        """Add up the counts of the documents of each label: labels x words."""
        return self.add_up(sums_by_label(labels, weights, n_labels, self.counts))

    def gather(self, values) -> np.ndarray:
        """Stack what every process holds of a small array; there is only this one."""
        return np.asarray(values)[None]

    def add_up(self, values):
        """Add up what every process holds of an array; there is only this one."""
        return values

    def gather_docs(self, values: np.ndarray) -> np.ndarray:
        """Join the values of the documents of all processes; there is only this one."""
        return values

    def over_docs(self, values: np.ndarray):
        """Put values over documents where compiled code wants them: padded, in the type of the counts."""
        return self.pad(np.asarray(values)).astype(self.dtype)

    def fetch(self, values) -> np.ndarray:
        """Bring values over documents back to the host, without padding."""
        return np.asarray(values)[: self.n_docs]

    def restore(self, values: np.ndarray):
        """Undo :meth:`fetch`."""
        return self.over_docs(values)

    def _fold_docs(self, data: np.ndarray) -> Rows:
        """Lay out values at the places of the counts, by document."""
        indptr = self.counts.indptr
        padded = np.concatenate([indptr, np.full(geometric(self.n_docs) - self.n_docs, indptr[-1])])
        longest = int(np.diff(indptr).max(initial=1))
        capacity = geometric(self.nnz)
        return fold_rows(
            padded, self.counts.indices, data,
            capacity=capacity, longest=longest, dtype=data.dtype, table=self.n_words, snug=True,
        )  # fmt: skip

    def _fold_words(self, data: np.ndarray) -> Rows:
        """Lay out values at the places of the counts, by word; of many documents, part by part."""
        counts = with_data(self.counts, data)
        return fold_columns(counts, n_table=geometric(self.n_docs), capacity=geometric(self.nnz))

    def pad(self, values: np.ndarray) -> np.ndarray:
        """Extend a vector or table over documents with zeros to the padded number of documents."""
        missing = self.by_doc.n_rows - len(values)
        return np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)])


def with_data(counts: sp.csr_array, data: np.ndarray) -> sp.csr_array:
    """Return other values at the same places, which are shared, not copied."""
    return sp.csr_array((data, counts.indices, counts.indptr), shape=counts.shape)


def sums_by_label(labels: np.ndarray, weights: np.ndarray, n_labels: int, table) -> np.ndarray:
    """Add up the rows of each label, dense or sparse, each with its weight."""
    member = sp.csr_array(
        (weights.astype(table.dtype), (labels, np.arange(len(labels)))), shape=(n_labels, len(labels))
    )
    sums = member @ table
    return sums.toarray() if sp.issparse(sums) else sums


def _on_device(arrays):
    """Put arrays on the default device, also from inside a trace, which must not be kept as tracers."""
    with jax.ensure_compile_time_eval():
        return jax.device_put(arrays)


def _to_csr(counts) -> sp.csr_array:
    """Convert to canonical csr with a floating type that JAX keeps."""
    if sp.issparse(counts):
        if counts.ndim != 2:
            raise InputError(f"Counts must be documents x words; got {counts.ndim} dimension(s).")
        csr = sp.csr_array(counts)
    else:
        try:
            dense = np.asarray(counts)
        except (TypeError, ValueError) as error:
            raise InputError(f"Counts must be a numeric table, documents x words: {error}") from error
        if dense.ndim != 2:
            raise InputError(f"Counts must be documents x words; got {dense.ndim} dimension(s).")
        if dense.dtype.kind not in "biuf":
            raise InputError(f"Counts must be real numbers; got dtype {dense.dtype}.")
        csr = sp.csr_array(dense.astype(np.float32) if dense.dtype == np.float16 else dense)  # SciPy has no float16
    if csr.dtype.kind not in "biuf":
        raise InputError(f"Counts must be real numbers; got dtype {csr.dtype}.")
    keep = csr.dtype.kind == "f" and csr.dtype.itemsize >= 4
    dtype = jax.dtypes.canonicalize_dtype(csr.dtype) if keep else jnp.zeros(()).dtype
    check_nonnegative("Counts", csr.data)  # before the cast: a large negative integer must not hide
    with np.errstate(over="ignore"):  # what becomes infinite is refused by the caller
        csr = csr.astype(dtype)  # a copy: the caller's matrix stays as it is
    csr.sum_duplicates()
    if csr.nnz and csr.data.min() == 0:
        csr.eliminate_zeros()
    return csr


def _check_vocabulary(vocabulary, n_words: int) -> np.ndarray:
    """Return the vocabulary as an array of strings; column numbers where none is given."""
    if vocabulary is None:
        return np.arange(n_words).astype(str)
    if isinstance(vocabulary, str):
        raise InputError("The vocabulary must be a sequence of words; got one string.")
    words = np.array([str(word) for word in vocabulary], dtype=str)
    if len(words) != n_words:
        raise InputError(f"The vocabulary has {len(words)} words; the counts have {n_words} columns.")
    unique, times = np.unique(words, return_counts=True)
    if len(unique) != len(words):
        raise InputError(f"The vocabulary must not repeat words; {str(unique[times > 1][0])!r} occurs twice or more.")
    return words
