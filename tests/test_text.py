"""From text to counts."""

import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.stop_words import STOP_WORDS
from hmom_jax.text import ENGLISH_STOP_WORDS, count_words, resolve_stop_words, tokenise


def test_tokens_are_lower_case_words_of_three_letters():
    assert tokenise("The QR of a 3x3 Matrix_name, don't; naïve ΣΤΑ 数学者") == [
        "the",
        "matrix",
        "name",
        "don",
        "naïve",
        "στα",
        "数学者",
    ]
    assert tokenise("") == []


def test_counts_stand_in_alphabetical_order_without_stop_words():
    counts, words = count_words(["tree of trees, tree", "the forest", "tree forest"], min_df=1)
    assert words.tolist() == ["forest", "tree", "trees"]
    np.testing.assert_array_equal(counts.toarray(), [[0, 2, 1], [1, 0, 0], [1, 1, 0]])
    assert not set(words) & ENGLISH_STOP_WORDS


def test_rare_words_are_left_out_and_documents_stay():
    counts, words = count_words(["alpha beta", "alpha gamma", "delta", ""], min_df=2)
    assert words.tolist() == ["alpha"]
    np.testing.assert_array_equal(counts.toarray(), [[1], [1], [0], [0]])


def test_vocabulary_cap_keeps_the_most_frequent():
    texts = ["alpha alpha alpha beta beta gamma", "delta beta"]
    _, words = count_words(texts, min_df=1, max_words=2)
    assert words.tolist() == ["alpha", "beta"]
    _, tied = count_words(texts, min_df=1, max_words=3)
    assert tied.tolist() == ["alpha", "beta", "delta"]  # ties by the alphabet


def test_texts_may_come_from_a_generator():
    counts, _ = count_words((text for text in ["some words", "more words"]), min_df=1, stop_words=())
    assert counts.shape == (2, 3)


@pytest.mark.parametrize(
    ("texts", "message"),
    [([], "no documents"), (["", "a b"], "No word occurs in 5"), (["one word here"], "lower min_df")],
)
def test_text_without_words_is_refused(texts, message):
    with pytest.raises(hm.InputError, match=message):
        count_words(texts)


def test_words_are_chosen_by_document_frequency():
    texts = ["apple pear", "apple plum", "apple pear plum", "apple"]
    assert count_words(texts, min_df=2)[1].tolist() == ["apple", "pear", "plum"]
    assert count_words(texts, min_df=1, max_df=0.5)[1].tolist() == ["pear", "plum"]
    assert count_words(texts, min_df=0.75)[1].tolist() == ["apple"]
    assert count_words(texts, min_df=1, max_words=2)[1].tolist() == ["apple", "pear"]  # ties by alphabet


def test_phrases_are_counted_over_what_stop_words_leave():
    counts, words = count_words(["state of the art", "state of art"], min_df=1, ngrams=2)
    assert words.tolist() == ["art", "state", "state_art"]
    assert counts.toarray().tolist() == [[1, 1, 1], [1, 1, 1]]


def test_a_given_vocabulary_is_counted_in_its_own_order():
    counts, words = count_words(["pear apple apple", "kiwi"], vocabulary=["pear", "plum", "apple"], min_df=99)
    assert words.tolist() == ["pear", "plum", "apple"]
    assert counts.toarray().tolist() == [[1, 0, 2], [0, 0, 0]]


def test_own_tokeniser_and_own_stop_words():
    _, words = count_words(["a-b c", "a-b d"], min_df=1, tokeniser=str.split, stop_words={"c"})
    assert words.tolist() == ["a-b", "d"]


def test_texts_are_taken_one_at_a_time():
    alive = []

    class Text(str):
        def __del__(self):
            alive.pop()

    def stream():
        for number in range(50):
            alive.append(number)
            assert len(alive) <= 2
            yield Text(f"apple number{number}")

    counts, _ = count_words(stream(), min_df=2)
    assert counts.shape == (50, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"texts": "one string"}, "list"),
        ({"texts": []}, "no documents"),
        ({"texts": ["ab"], "min_df": 1}, "No word occurs"),
        ({"texts": iter(["abc", 7])}, "Document 2 is not text"),
        ({"texts": ["abc"], "ngrams": 0}, "ngrams"),
        ({"texts": ["abc"], "max_words": 0}, "max_words"),
        ({"texts": ["abc"], "stop_words": "klingon"}, "klingon"),
    ],
)
def test_wrong_input_is_told(options, message):
    with pytest.raises(hm.InputError, match=message):
        count_words(options.pop("texts"), **options)


def test_stop_words_are_tokens():
    assert resolve_stop_words("english") == ENGLISH_STOP_WORDS
    for words in STOP_WORDS.values():
        assert len(words) > 150
        assert all(tokenise(word) == [word] for word in words)


def test_columns_are_chosen_by_name():
    corpus = hm.Corpus.from_counts(np.array([[1, 2, 3]]), ["a", "b", "c"])
    assert corpus.with_vocabulary(["a", "b", "c"]) is corpus
    moved = corpus.with_vocabulary(["c", "x", "a"])
    assert moved.counts.toarray().tolist() == [[3, 0, 1]]
    with pytest.raises(hm.InputError, match="no word in common"):
        corpus.with_vocabulary(["x"])
