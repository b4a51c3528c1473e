"""From text to counts."""

import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.text import ENGLISH_STOP_WORDS, count_words, tokenise


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
