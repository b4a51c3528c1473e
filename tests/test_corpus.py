"""Corpora: every form of input gives the same one, and wrong input is refused with words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

import hmom_jax as hm
from tests.helpers import random_corpus

COUNTS = random_corpus(0, dtype=np.int64)

FORMS = {
    "numpy": lambda c: c,
    "numpy bool": lambda c: c > 0,
    "jax": jnp.asarray,
    "lists": lambda c: c.tolist(),
    **{
        f"{kind}_array": (lambda c, kind=kind: sp.coo_array(c).asformat(kind)) for kind in "csr csc coo lil dok".split()
    },
    **{f"{kind}_matrix": (lambda c, kind=kind: sp.coo_matrix(c).asformat(kind)) for kind in "csr csc bsr dia".split()},
}


def with_int64_indices(counts):
    matrix = sp.csr_array(counts)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_counts_gives_the_same_corpus(form):
    counts = COUNTS if form != "numpy bool" else (COUNTS > 0).astype(int)
    corpus = hm.Corpus.from_counts(FORMS[form](COUNTS))
    np.testing.assert_array_equal(corpus.counts.toarray(), counts)
    assert (corpus.n_docs, corpus.n_words, corpus.nnz) == (*counts.shape, np.count_nonzero(counts))
    np.testing.assert_array_equal(corpus.length, counts.sum(1))


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint16, np.int32, np.int64, np.uint64, np.float16, np.float32, np.float64]
)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_counts_of_any_type_are_the_same(kind, container):
    if kind is np.float16:  # SciPy has no such matrices
        container = np.asarray
    corpus = hm.Corpus.from_counts(container(COUNTS.astype(kind)))
    np.testing.assert_array_equal(corpus.counts.toarray(), COUNTS)


def test_index_type_does_not_matter():
    wide = hm.Corpus.from_counts(with_int64_indices(COUNTS))
    for a, b in zip(jax.tree.leaves(wide.arrays), jax.tree.leaves(hm.Corpus.from_counts(COUNTS).arrays), strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)


def test_integers_become_the_default_float_and_floats_stay(dtype):
    assert hm.Corpus.from_counts(COUNTS).dtype == dtype
    assert hm.Corpus.from_counts(COUNTS.astype(np.float32)).dtype == np.float32
    assert hm.Corpus.from_counts(COUNTS.astype(np.float64)).dtype == dtype


def test_duplicates_are_summed_and_stored_zeros_dropped():
    matrix = sp.coo_array(([1, 2, 4, 0], ([0, 0, 1, 1], [1, 1, 0, 1])), shape=(2, 2))
    corpus = hm.Corpus.from_counts(matrix)
    np.testing.assert_array_equal(corpus.counts.toarray(), [[0, 3], [4, 0]])
    assert corpus.nnz == 2


def test_caller_keeps_its_matrix():
    matrix = sp.csr_array(([1.0, 2.0, 0.0], [1, 1, 0], [0, 3]), shape=(1, 2))
    hm.Corpus.from_counts(matrix)
    assert matrix.nnz == 3


def test_large_sparse_input_is_not_made_dense():
    matrix = sp.coo_array((np.ones(3), ([0, 1, 10**6 - 1], [0, 10**6 - 1, 5])), shape=(10**6, 10**6))
    corpus = hm.Corpus.from_counts(matrix)  # dense it would take 4 terabytes
    assert corpus.nnz == 3


def test_arrays_are_a_pytree_that_jit_takes_as_an_argument():
    corpus = hm.Corpus.from_counts(COUNTS)
    total = jax.jit(lambda arrays: arrays.length.sum())(corpus.arrays)
    assert total == COUNTS.sum()
    assert corpus.arrays.n_words == COUNTS.shape[1]


def test_vocabulary_is_kept_and_numbers_stand_in_for_it():
    words = [f"word{i}" for i in range(COUNTS.shape[1])]
    assert hm.Corpus.from_counts(COUNTS, words).vocabulary.tolist() == words
    assert hm.Corpus.from_counts(COUNTS, vocabulary=np.array(words)).vocabulary.tolist() == words
    assert hm.Corpus.from_counts(COUNTS).vocabulary[:3].tolist() == ["0", "1", "2"]


def changed(value):
    counts = COUNTS.astype(float)
    counts[5, 2] = value
    return counts


BAD = {
    "negative": (lambda: changed(-1), "must not be negative; the smallest value is -1"),
    "negative integers": (lambda: -COUNTS, "must not be negative"),
    "negative sparse": (lambda: sp.csr_array(changed(-2)), "smallest value is -2"),
    "most negative integer": (lambda: np.full((2, 2), -(2**63)), "must not be negative"),
    "negative, lost in single precision": (lambda: changed(-1e-300), "must not be negative"),
    "NaN": (lambda: changed(np.nan), "must be finite; got NaN"),
    "NaN sparse": (lambda: sp.csr_array(changed(np.nan)), "must be finite; got NaN"),
    "infinite": (lambda: changed(np.inf), "must be finite"),
    "one-dimensional": (lambda: COUNTS[0], r"documents x words; got 1 dimension"),
    "three-dimensional": (lambda: COUNTS[None], r"documents x words; got 3 dimension"),
    "one-dimensional sparse": (lambda: sp.coo_array(COUNTS[0]), r"documents x words; got 1 dimension"),
    "scalar": (lambda: 3, r"documents x words; got 0 dimension"),
    "no documents": (lambda: np.zeros((0, 3)), "empty: got 0 documents and 3 words"),
    "no words": (lambda: np.zeros((3, 0)), "empty: got 3 documents and 0 words"),
    "text": (lambda: np.array([["a", "b"]]), "real numbers; got dtype <U1"),
    "objects": (lambda: np.array([[None, 1]]), "real numbers; got dtype object"),
    "complex": (lambda: COUNTS * 1j, "real numbers; got dtype complex128"),
    "complex sparse": (lambda: sp.csr_array(COUNTS * 1j), "real numbers; got dtype complex128"),
    "ragged": (lambda: [[1, 2], [3]], "numeric table"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_counts_are_refused_with_what_came(case):
    make, message = BAD[case]
    with pytest.raises(hm.InputError, match=message):
        hm.Corpus.from_counts(make())


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (["a", "b"], "has 2 words; the counts have 3 columns"),
        (["a", "b", "c", "d"], "has 4 words; the counts have 3 columns"),
        (["a", "b", "a"], "must not repeat words; 'a' occurs"),
        ("abc", "a sequence of words; got one string"),
        ([], "has 0 words"),
    ],
)
def test_bad_vocabulary_is_refused(vocabulary, message):
    with pytest.raises(ValueError, match=message):
        hm.Corpus.from_counts(np.ones((2, 3)), vocabulary)


def test_tf_idf_works_with_a_warning():
    weighted = COUNTS * np.random.default_rng(0).uniform(0.1, 3, COUNTS.shape[1])
    with pytest.warns(UserWarning, match="not whole numbers"):
        corpus = hm.Corpus.from_counts(weighted)
    tree = hm.grow_tree(corpus, 2)
    assert len(tree.labels()) == len(COUNTS)
    assert all(np.isfinite(node.topic).all() for node in tree.nodes)


def test_whole_numbers_in_floats_do_not_warn():
    hm.Corpus.from_counts(COUNTS.astype(np.float64))  # warnings are errors here


def test_counts_too_large_for_the_type_are_refused():
    with pytest.raises(hm.InputError, match="finite"):
        hm.Corpus.from_counts(np.array([[1e300, 1.0], [1.0, 1.0]]))


@pytest.mark.parametrize("scale", [1, 3, 1000])
def test_documents_that_differ_have_different_signatures(scale):
    every = (np.arange(1 << 12)[:, None] >> np.arange(12) & 1) * scale  # all sets of twelve words
    signatures = hm.Corpus.from_counts(sp.csr_array(every).astype(np.float64)).signatures
    assert len(np.unique(signatures)) == len(every)
    again = hm.Corpus.from_counts(every[::-1].astype(np.float64)).signatures
    np.testing.assert_array_equal(again[::-1], signatures)


def test_long_documents_that_differ_in_one_word_have_different_signatures():
    long = np.full((3000, 3000), 1000, np.float32) + np.eye(3000, dtype=np.float32)
    assert len(np.unique(hm.Corpus.from_counts(long).signatures)) == len(long)
