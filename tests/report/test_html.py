"""The page: what it holds, that no text can break out of it, and what is said about wrong input."""

import datetime
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.report.contents import RELEVANCES
from hmom_jax.tree.keywords import relevance_scores
from tests.report.trees import HOSTILE, assert_best_words, made_tree

TEXTS = [
    *["cats chase mice and sleep"] * 4,
    "cats cats sleep",
    *["stocks and bonds in funds"] * 4,
    "bonds bonds funds",
]


@pytest.fixture(scope="module")
def corpus():
    return hm.read_corpus(TEXTS * 4, min_df=1)


@pytest.fixture(scope="module")
def grown(corpus):
    return hm.grow_tree(corpus, n_leaves=2)


def data_of(page: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


class Elements(HTMLParser):
    """Counts elements, and keeps what the data element holds."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attributes]


def words_at(contents: dict, node: int, relevance: float, contrast: str) -> list[str]:
    """Rank the words of a node as the page does."""
    terms = contents["terms"][node]
    number = np.cumsum(terms["word"])
    here, parent = (-np.array(terms[name]) / contents["unit"] for name in ("here", "parent"))
    corpus = -np.array(contents["probability"])[number] / contents["unit"]
    stretch = contents["nodes"][node]["stretch"]
    score = relevance_scores(here, corpus, parent, max(relevance, contents["leastRelevance"]), contrast, stretch)
    return [contents["words"][i] for i in number[np.lexsort((number, -score))][: contents["shown"]]]


@pytest.mark.parametrize("contrast", ["corpus", "both", "parent"])
@pytest.mark.parametrize("relevance", [0.05, 0.4, 0.7, 1.0])
def test_every_step_of_the_slider_finds_the_words_that_the_tree_has(relevance, contrast):
    tree = made_tree(12, 3000)
    contents = data_of(tree.to_html())
    assert relevance in np.round(RELEVANCES, 2)
    for node in tree.nodes[1:]:
        words = words_at(contents, node.id, relevance, contrast)
        assert len(words) == 20
        assert_best_words(tree, node.id, words, relevance, contrast)


def test_hostile_text_stays_text():
    tree = made_tree(5, len(HOSTILE), vocabulary=HOSTILE, n_docs=100)
    texts = [HOSTILE[i % len(HOSTILE)] for i in range(100)]
    page = tree.to_html(documents=texts, labels=texts, title=HOSTILE[1])
    plain = made_tree(5, len(HOSTILE), n_docs=100)
    harmless = plain.to_html(documents=["a"] * 100, labels=["a"] * 100, title="a")
    assert Elements(page).tags == Elements(harmless).tags
    assert Elements(page).attributes == Elements(harmless).attributes
    contents = data_of(page)
    whole = {text.replace("\ud800", "\ufffd") for text in HOSTILE}
    assert set(contents["words"]) == whole
    assert set(contents["labels"]["names"]) == whole
    assert not set("\u2028\u2029<>&") & set(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    page.encode("utf-8")


def test_static_tree_escapes_words_and_folds_long_trees():
    tree = made_tree(5, len(HOSTILE), vocabulary=HOSTILE, n_docs=100)
    static = tree._repr_html_()
    assert set(Elements(static).tags) == {"ul", "li", "b", "details", "summary"}
    assert set(Elements(static).attributes) <= {"class", "open"}
    large = made_tree(400, 50)._repr_html_()
    assert large.count("<li>") == large.count("</li>") <= 300
    assert "…" in large


def test_policy_lets_no_request_out_and_only_our_script_run(grown):
    page = grown.to_html()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert not re.findall(r'(?:src|href)="(?!data:,")', page)
    assert "innerHTML" not in page


def test_page_is_written_and_is_the_same_again(grown, tmp_path):
    page = grown.to_html(tmp_path / "tree.html", documents=TEXTS * 4)
    assert (tmp_path / "tree.html").read_bytes() == page.encode("utf-8")
    assert grown.to_html(documents=TEXTS * 4) == page
    assert [file.name for file in tmp_path.iterdir()] == ["tree.html"]


def test_page_of_a_large_tree_is_a_few_megabytes():
    tree = made_tree(250, 10_000, n_docs=20_000)
    text = "a document of more than one hundred characters, which is what an ordinary title or first line may have " * 2
    page = tree.to_html(documents=[text] * 20_000, labels=["x"] * 20_000, times=np.arange(20_000) % 30)
    assert len(tree.nodes) == 499
    assert len(page.encode("utf-8")) < 4e6
    documents = data_of(page)["documents"]
    assert len(documents["text"]) < documents["total"] == 20_000
    assert set(np.concatenate(documents["best"])) <= set(range(len(documents["text"])))


def test_documents_stand_for_their_node(grown, corpus):
    texts = [f"{i} {text}" for i, text in enumerate(TEXTS * 4)]
    with_corpus, with_texts = (
        data_of(grown.to_html(documents=texts, corpus=given))["documents"] for given in (corpus, None)
    )
    assert with_corpus == with_texts
    assert sorted(with_texts["text"]) == sorted(texts)
    for node in grown.nodes[1:]:
        assert len(with_texts["best"][node.id]) == 5
        for document in with_texts["best"][node.id]:
            assert with_texts["leaf"][document] == node.id
            assert grown.doc_node[with_texts["number"][document]] == node.id
    assert {with_texts["leaf"][document] for document in with_texts["best"][0]} == {1, 2}


def test_long_documents_are_cut_and_white_space_is_folded(grown):
    contents = data_of(grown.to_html(documents=["two\n  words " + "long " * 1000] * 40))
    assert contents["documents"]["text"][0].startswith("two words long")
    assert contents["documents"]["text"][0].endswith("…")
    assert len(contents["documents"]["text"][0]) <= 240


def test_labels_and_times_are_counted_per_leaf(grown):
    labels = ["pets"] * 5 + ["money"] * 5
    contents = data_of(grown.to_html(labels=labels * 4, times=[2000] * 20 + [2002] * 20))
    assert sorted(contents["labels"]["names"]) == ["money", "pets"]
    assert contents["labels"]["counts"][0] == []
    assert sorted(pairs[1] for pairs in contents["labels"]["counts"][1:]) == [20, 20]
    assert contents["times"] == {"names": ["2000", "2001", "2002"], "counts": [[], [0, 10, 2, 10], [0, 10, 2, 10]]}
    many = data_of(grown.to_html(labels=range(40)))["labels"]["names"]
    assert len(many) == 30
    assert many[-1] == "11 others"
    missing = data_of(grown.to_html(labels=[None, float("nan"), *["x"] * 38]))["labels"]
    assert missing["names"] == ["x", "(none)"]


def test_confidence_comes_from_the_nodes_or_from_outside(grown, corpus):
    assert data_of(grown.to_html())["nodes"][0]["confidence"] is None
    given = data_of(grown.to_html(confidence=[0.25, np.nan, None]))["nodes"]
    assert [node["confidence"] for node in given] == [0.25, None, None]
    tree = grown.cut(2)
    hm.split_confidence(tree, corpus, n_bootstrap=2)
    assert data_of(tree.to_html())["nodes"][0]["confidence"] == pytest.approx(tree.root.confidence, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"documents": ["one"]}, r"documents must have one value per document \(40\); got 1"),
        ({"documents": "one string"}, "list of strings"),
        ({"documents": [1] * 40}, "number 0 is int"),
        ({"labels": ["x"] * 41}, r"labels .* \(40\); got 41"),
        ({"labels": "x" * 40}, "one string"),
        ({"times": [2000]}, r"times .* \(40\); got 1"),
        ({"times": 2000}, "list or array"),
        ({"times": ["yesterday"] * 40}, "2024-05-01"),
        ({"times": [2000, datetime.date(2001, 1, 1)] * 20}, "all numbers or all dates"),
        ({"confidence": [0.5]}, r"per node \(3\)"),
        ({"confidence": [0.5, 2, 0.5]}, "between 0 and 1"),
        ({"n_words": 0}, "n_words"),
        ({"n_documents": -1}, "n_documents"),
    ],
)
def test_wrong_input_is_named(grown, tmp_path, options, message):
    with pytest.raises(hm.InputError, match=message):
        grown.to_html(tmp_path / "tree.html", **options)
    assert not list(tmp_path.iterdir())


def test_a_corpus_that_does_not_fit_is_named(grown):
    other = hm.Corpus.from_counts(np.ones((40, 2)))
    with pytest.raises(hm.InputError, match="40 documents and 7 words"):
        grown.to_html(documents=TEXTS * 4, corpus=other)


def test_odd_trees_have_a_page(corpus):
    alone = hm.grow_tree(corpus, n_leaves=1)
    contents = data_of(alone.to_html(documents=TEXTS * 4, n_documents=2))
    assert contents["documents"]["best"] == [[0, 1]]
    assert data_of(alone.to_html(documents=TEXTS * 4, n_documents=0))["documents"]["best"] == [[]]
    paper = hm.grow_tree(corpus, depth=1)  # its topics have zeros
    for node, terms in enumerate(data_of(paper.to_html())["terms"]):
        assert len(terms["word"]) == (paper.nodes[node].topic > 0).sum()
