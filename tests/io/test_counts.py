"""Readers and writers of counts: round trips, golden files, and files that lie about their size."""

import io
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import hmom_jax as hm
from hmom_jax.io import write_counts

COUNTS = np.array([[2, 0, 1, 0], [0, 3, 0, 0], [0, 0, 0, 12], [1, 1, 1, 1]])
WORDS = ["ápple", "pear", "plum", "kiwi"]


def corpus():
    return hm.Corpus.from_counts(COUNTS, WORDS)


def same(read, counts=COUNTS, words=WORDS):
    np.testing.assert_array_equal(read.counts.toarray(), counts)
    assert read.vocabulary.tolist() == list(words)


@pytest.mark.parametrize("name", ["a.npz", "a.mtx", "docword.a.txt", "a.svmlight", "a.ldac"])
def test_counts_and_words_survive_a_round_trip(name, tmp_path):
    write_counts(corpus(), tmp_path / name)
    same(hm.read_corpus(tmp_path / name))
    assert len(list(tmp_path.iterdir())) == (1 if name == "a.npz" else 2)


@pytest.mark.parametrize("name", ["a.npz", "a.mtx", "a.svmlight", "a.ldac"])
def test_weights_survive_too(name, tmp_path):
    values = np.array([[0.5, 2.0], [1.25, 0.0]], np.float32)
    with pytest.warns(UserWarning, match="whole numbers"):
        weighted = hm.Corpus.from_counts(values)
    write_counts(weighted, tmp_path / name)
    with pytest.warns(UserWarning, match="whole numbers"):
        np.testing.assert_array_equal(hm.read_corpus(tmp_path / name).counts.toarray(), values)


def test_other_programs_read_what_we_write(tmp_path):
    write_counts(corpus(), tmp_path / "a.mtx")
    np.testing.assert_array_equal(scipy.io.mmread(tmp_path / "a.mtx").toarray(), COUNTS)
    write_counts(corpus(), tmp_path / "a.npz")
    np.testing.assert_array_equal(sp.load_npz(tmp_path / "a.npz").toarray(), COUNTS)
    svm = pytest.importorskip("sklearn.datasets")
    write_counts(corpus(), tmp_path / "a.svmlight")
    np.testing.assert_array_equal(svm.load_svmlight_file(str(tmp_path / "a.svmlight"))[0].toarray(), COUNTS)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.csr_matrix])
def test_scipy_files_are_read(kind, tmp_path):
    sp.save_npz(tmp_path / "a.npz", kind(COUNTS))
    same(hm.read_corpus(tmp_path / "a.npz"), words="0123")


def test_scipy_matrix_market_is_read(tmp_path):
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.coo_array(COUNTS), comment="made by scipy")
    same(hm.read_corpus(tmp_path / "a.mtx"), words="0123")


GOLDEN = {
    "docword.g.txt": "2\n3\n3\n1 1 4\n1 3 1\n2 2 2\n",
    "g.mtx": "%%MatrixMarket matrix coordinate integer general\n% note\n2 3 3\n1 1 4\n1 3 1\n2 2 2\n",
    "g.svmlight": "+1 qid:3 1:4 3:1 # first\n# nothing\n-1 2:2\n",
    "g.ldac": "2 0:4 2:1\n1 1:2\n",
    "g.csv": '"","1987_1","1987_2"\n"ab",4,0\n"say ""x""",0,2\n"zz",1,0\n',
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_files(name, tmp_path):
    (tmp_path / name).write_text(GOLDEN[name])
    read = hm.read_corpus(tmp_path / name)
    assert read.counts.toarray().tolist() == [[4, 0, 1], [0, 2, 0]]
    if name == "g.csv":
        assert read.vocabulary.tolist() == ["ab", 'say "x"', "zz"]


def test_mallet_lines_are_counted_as_they_stand(tmp_path):
    (tmp_path / "a.mallet").write_text("doc1 en The red the\ndoc2 en\ndoc3 fr red of\n")
    read = hm.read_corpus(tmp_path / "a.mallet")
    assert read.vocabulary.tolist() == ["The", "of", "red", "the"]
    assert read.counts.toarray().tolist() == [[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]]


def test_a_pattern_counts_one_each(tmp_path):
    (tmp_path / "p.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 2\n2 1\n")
    assert hm.read_corpus(tmp_path / "p.mtx").counts.toarray().tolist() == [[0, 1], [1, 0]]


def test_the_vocabulary_chooses_columns_by_name(tmp_path):
    write_counts(corpus(), tmp_path / "a.npz")
    chosen = hm.read_corpus(tmp_path / "a.npz", vocabulary=["kiwi", "ápple"])
    same(chosen, COUNTS[:, [3, 0]], ["kiwi", "ápple"])
    (tmp_path / "names.txt").write_text("a\nb\nc\nd\n")
    (tmp_path / "b.ldac").write_text("1 3:2\n")
    same(hm.read_corpus(tmp_path / "b.ldac", vocabulary=tmp_path / "names.txt"), [[0, 0, 0, 2]], "abcd")


BROKEN = {
    "docword.a.txt": ("2\n3\n2\n1 1 4\n1 9 1\n", 5, "word 1-3"),
    "docword.b.txt": ("2\n3\n2\n1 1 4\n1 x 1\n", 5, "numbers were expected"),
    "docword.c.txt": ("2\n3\n2\n1 1 4\n1 2\n", 5, "3 numbers"),
    "docword.d.txt": ("2\n3\n2\n1 1 4\n2 2 -1\n", 5, "count >= 0"),
    "docword.e.txt": ("2\n3\n2\n1 1 4\n2 2 nan\n", 5, "count >= 0"),
    "a.mtx": ("%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 1\n1.5 1 1\n", 4, "1.5"),
    "a.svmlight": ("1 1:2\n1 1:2:3\n", 2, "pairs"),
    "b.svmlight": ("1 1:2\n1:2 2:1\n", 2, "label"),
    "a.ldac": ("1 0:1\n2 0:1\n", 2, "announced"),
    "b.ldac": ("1 0:1\n1 -1:1\n", 2, "whole words"),
    "a.csv": ('"","a","b"\n"w",1,2\n"v",1,x\n', 3, "2 counts"),
    "a.mallet": ("one en red\ntwo\n", 2, "a name, a label"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_lines_are_named_and_can_be_skipped(name, tmp_path):
    content, line, message = BROKEN[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(hm.InputError, match=message) as caught:
        hm.read_corpus(tmp_path / name)
    assert f"{name}, line {line}:" in str(caught.value)
    with pytest.warns(UserWarning, match=f"broken line.*line {line}"):
        assert hm.read_corpus(tmp_path / name, skip_bad=True).nnz > 0


def test_missing_counts_are_not_called_a_broken_line(tmp_path):
    (tmp_path / "docword.a.txt").write_text("2\n3\n5\n1 1 4\n1 x 1\n")
    missing = pytest.warns(UserWarning, match="^incomplete or damaged input: .*5 counts were announced, 1 are there")
    with missing, pytest.warns(UserWarning, match="^1 broken line"):
        assert hm.read_corpus(tmp_path / "docword.a.txt", skip_bad=True).nnz == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("docword.a.txt", "2\n3\n5\n1 1 4\n", "cut off"),
        ("docword.a.txt", "2\n3\n", "three header lines"),
        ("docword.a.txt", "two\n3\n1\n", "whole number"),
        ("docword.a.txt", "999999999999\n3\n1\n1 1 1\n", "cannot be meant"),
        ("a.mtx", "hello\n", "MatrixMarket"),
        ("a.mtx", "%%MatrixMarket matrix array real general\n2 2\n", "coordinate"),
        ("a.mtx", "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 1 1\n", "general"),
        ("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 99999999999 1\n1 1 1\n", "cannot be meant"),
        ("a.ldac", "1 2147483000:1\n", "cannot be meant"),
        ("a.ldac", "", "no counts"),
        ("a.svmlight", "# nothing\n", "no counts"),
        ("a.npz", "PK not a zip", "damaged"),
    ],
)
def test_files_that_cannot_be_are_refused(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(hm.InputError, match=message):
        hm.read_corpus(tmp_path / name)


def npz(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def parts(**changes):
    csr = sp.csr_array(COUNTS)
    arrays = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": np.array(csr.shape)}
    return {**arrays, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": np.full(8, 9)},
        {"indices": np.full(8, -1)},
        {"indptr": np.array([0, 8, 3, 4, 8])},
        {"indptr": np.array([0, 2])},
        {"data": np.ones(3)},
        {"data": np.array(["a"] * 8)},
        {"data": np.ones(8, complex)},
        {"shape": np.array([4])},
        {"shape": np.array([4, 10**12])},
        {"shape": np.array([-4, 4])},
        {"vocab": np.array(["a", "b"])},
        {"vocab": np.arange(4)},
        {"format": np.array("bsr")},
        {"data": np.array([None] * 8)},
        {"data": np.full(8, -1.0)},
        {"data": np.full(8, np.nan)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes, tmp_path):
    with pytest.raises(hm.InputError):
        hm.read_corpus(npz(tmp_path / "a.npz", **parts(**changes)))


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("data.npy", "w") as member:
        for _ in range(300):
            member.write(bytes(2**20))
    with pytest.raises(hm.InputError, match="would unpack to 314572800"):
        hm.read_corpus(path)


def test_an_array_header_that_lies_allocates_nothing(tmp_path):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("data.npy", buffer.getvalue())
    with pytest.raises(hm.InputError, match="10000000000000 entries"):
        hm.read_corpus(tmp_path / "a.npz")


def test_words_that_no_file_of_words_can_hold_need_npz(tmp_path):
    odd = hm.Corpus.from_counts(np.ones((2, 2)), ["a b", "c\nd"])
    with pytest.raises(hm.InputError, match="use .npz"):
        write_counts(odd, tmp_path / "a.mtx")
    write_counts(odd, tmp_path / "a.npz")
    assert hm.read_corpus(tmp_path / "a.npz").vocabulary.tolist() == ["a b", "c\nd"]
    with pytest.raises(hm.InputError, match="written as"):
        write_counts(odd, tmp_path / "a.jsonl")
