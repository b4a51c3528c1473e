"""From any input to shards: the same counts as read whole, in the memory of a shard."""

import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.cli import main
from hmom_jax.errors import InputError
from hmom_jax.io import read_corpus, write_counts, write_shards
from hmom_jax.parallel.shards import ShardWriter

WORDS = "red green blue apple pear plum the and sweet sour big small round".split()


@pytest.fixture
def texts(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(" ".join(rng.choice(WORDS, rng.integers(2, 12))) for _ in range(60)) + "\n")
    return path


def check_same(corpus, expected):
    np.testing.assert_array_equal(corpus.vocabulary, expected.vocabulary)
    np.testing.assert_array_equal(corpus.load().counts.toarray(), expected.counts.toarray())


@pytest.mark.parametrize(
    "how",
    [{}, {"min_df": 20, "max_words": 4}, {"ngrams": 2, "min_df": 0.05}, {"vocabulary": ["sweet", "nowhere", "apple"]}],
)
def test_text_gives_the_same_counts(texts, tmp_path, how):
    found = write_shards(texts, tmp_path / "x.shards", n_nonzeros=50, **how)
    assert len(found.shards) > 1
    check_same(found, read_corpus(texts, **how))
    assert not list((tmp_path / "x.shards").glob(".*"))


@pytest.mark.parametrize("name", ["docword.x.txt", "x.mtx", "x.svmlight", "x.npz"])
def test_counts_give_the_same_counts(texts, tmp_path, name):
    expected = read_corpus(texts)
    write_counts(expected, tmp_path / name)
    found = write_shards(tmp_path / name, tmp_path / "x.shards", n_nonzeros=50)
    assert len(found.shards) > 3
    check_same(found, expected)


def test_empty_documents_at_the_ends_are_kept(tmp_path):
    counts = np.zeros((9, 4))
    counts[3], counts[5, 1] = 2, 1
    corpus = hm.Corpus.from_counts(counts)
    write_counts(corpus, tmp_path / "docword.x.txt")
    found = write_shards(tmp_path / "docword.x.txt", tmp_path / "x.shards", n_nonzeros=2)
    np.testing.assert_array_equal(found.load().counts.toarray(), counts)


def test_memory_is_that_of_a_shard(texts, tmp_path, monkeypatch):
    """No more counts wait to be written than make a shard, and one document."""
    write_counts(read_corpus(texts), tmp_path / "docword.x.txt")
    waiting = []
    add = ShardWriter.add
    monkeypatch.setattr(
        ShardWriter, "add", lambda self, part: (waiting.append(self.n_waiting + part.nnz), add(self, part))
    )
    monkeypatch.setattr("hmom_jax.io.entries._CHUNK", 5)
    for source in (texts, tmp_path / "docword.x.txt"):
        write_shards(source, tmp_path / "x.shards", n_nonzeros=60)
        assert 0 < max(waiting) < 60 + 60
        waiting.clear()


def test_counts_that_do_not_go_by_document_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("hmom_jax.io.entries._CHUNK", 2)
    (tmp_path / "docword.x.txt").write_text("3\n3\n4\n1 1 1\n2 1 1\n3 2 1\n1 3 1\n")
    with pytest.raises(InputError, match="Document 1 comes after document 2"):
        write_shards(tmp_path / "docword.x.txt", tmp_path / "x.shards", n_nonzeros=1)


def test_the_command_line_converts_and_grows(texts, tmp_path, capsys):
    shards, tree = str(tmp_path / "x.shards"), str(tmp_path / "x.hmom")
    assert main(["convert", str(texts), shards, "--quiet"]) == 0
    assert main(["tree", shards, "--leaves", "2", "--save", tree, "--no-cache"]) == 0
    assert "stay on disk" in capsys.readouterr().err
    assert main(["assign", tree, shards, "--quiet", "--no-cache"]) == 0
    assert len(capsys.readouterr().out.split()) == 60
    assert main(["convert", shards, str(tmp_path / "back.npz"), "--quiet"]) == 0
    check_same(hm.Corpus.open(shards), read_corpus(tmp_path / "back.npz"))
    (tmp_path / "x.shards" / "00000.data.npy").unlink()
    assert main(["tree", shards, "--no-cache"]) == 2
    assert "00000.data.npy" in capsys.readouterr().err


def test_shards_stay_until_others_can_take_their_place(texts, tmp_path):
    folder = tmp_path / "x.shards"
    before = write_shards(texts, folder, n_nonzeros=50).load()
    (tmp_path / "broken.jsonl").write_text('{"text": "red"}\n{"text": \n')
    (tmp_path / "docword.x.txt").write_text("2\n2\n2\n1 1 1\n2 nonsense 1\n")
    (tmp_path / "empty.txt").write_text("")
    for name in ("missing.jsonl", "broken.jsonl", "docword.x.txt", "missing.npz", "empty.txt"):
        for where in (folder, tmp_path / "new.shards"):
            with pytest.raises((InputError, OSError)):
                write_shards(tmp_path / name, where, n_nonzeros=1)
        assert not (tmp_path / "new.shards").exists()
        check_same(hm.Corpus.open(folder), before)
        assert not list(folder.glob(".*"))


def test_shards_are_written_over_themselves(texts, tmp_path):
    folder = tmp_path / "x.shards"
    before = write_shards(texts, folder, n_nonzeros=50).load()
    found = write_shards(folder, folder, n_nonzeros=100)
    check_same(found, before)
    check_same(write_shards(found, folder, n_nonzeros=30), before)
    assert sorted({path.name[0] for path in folder.iterdir()}) == ["0", "m", "v"]


def test_strings_and_corpora_are_sources_too(texts, tmp_path):
    lines = texts.read_text().splitlines()
    expected = read_corpus(lines, ngrams=2)
    for source in (lines, iter(lines), texts):
        found = write_shards(source, tmp_path / "x.shards", n_nonzeros=50, ngrams=2)
        check_same(found, expected)
        assert len(found.shards) > 3
        assert found.text == {"stop_words": "english", "ngrams": 2}
    chosen = write_shards(expected, tmp_path / "y.shards", vocabulary=["apple", "nowhere"])
    check_same(chosen, expected.with_vocabulary(["apple", "nowhere"]))
    chosen = write_shards(found, tmp_path / "y.shards", vocabulary=["apple", "nowhere"])
    check_same(chosen, expected.with_vocabulary(["apple", "nowhere"]))
    assert chosen.text == found.text
    with pytest.raises(InputError, match="Document 1 is not text"):
        write_shards(iter([3]), tmp_path / "z.shards")


@pytest.mark.parametrize("name", ["texts.txt", "docword.x.txt", "x.npz"])
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"max_words": -3}, "max_words must be at least 1; got -3"),
        ({"ngrams": 0}, "ngrams must be at least 1; got 0"),
        ({"n_nonzeros": 0}, "n_nonzeros must be a whole number of at least 1; got 0"),
        ({"max_word": 5}, "max_word"),
    ],
)
def test_wrong_options_are_refused_whatever_the_input(texts, tmp_path, name, option, message):
    if name != texts.name:
        write_counts(read_corpus(texts), tmp_path / name)
    with pytest.raises((InputError, TypeError), match=message):
        write_shards(tmp_path / name, tmp_path / "x.shards", **option)
    assert not (tmp_path / "x.shards").exists()


@pytest.mark.filterwarnings("ignore:Many values are not whole")
@pytest.mark.parametrize("value", [1, 0.5, 2**40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_of_the_counts_is_kept(tmp_path, x64, dtype, value):
    corpus = hm.Corpus.from_counts(value * np.eye(3, dtype=dtype))
    found = write_shards(corpus, tmp_path / "x.shards", n_nonzeros=1)
    assert found.dtype == found.load().dtype == corpus.dtype == dtype
    check_same(found, corpus)


def test_text_has_the_default_type(texts, tmp_path, dtype):
    assert write_shards(texts, tmp_path / "x.shards").dtype == read_corpus(texts).dtype == dtype
