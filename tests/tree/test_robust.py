"""The robust tree: right where the answer is known, steady where the data are odd."""

import jax
import numpy as np
import pytest
import scipy.sparse as sp

import hmom_jax as hm
from bench.corpora import load_labelled
from hmom_jax.metrics import adjusted_rand_score, normalized_mutual_info_score
from hmom_jax.tree.robust import _in_order, _limit_depth


@pytest.fixture(scope="module")
def data():
    return hm.datasets.hierarchical_topics(0)


@pytest.fixture(scope="module")
def corpus(data):
    return hm.Corpus.from_counts(data.counts, data.vocabulary)


@pytest.fixture(scope="module")
def tree(corpus):
    return hm.grow_tree(corpus, n_leaves=8)


def test_topics_of_section_4_1_come_back():
    scores = []
    for seed in range(5):
        data = hm.datasets.hierarchical_topics(seed)
        tree = hm.grow_tree(hm.Corpus.from_counts(data.counts), n_leaves=8)
        scores.append(adjusted_rand_score(data.labels, tree.labels()))
    assert np.mean(scores) > 0.98


def test_the_tree_is_consistent(tree, corpus):
    assert tree.method == "robust"
    assert tree.n_leaves == 8
    assert sum(leaf.n_docs for leaf in tree.leaves) == corpus.n_docs
    np.testing.assert_array_equal(np.bincount(tree.labels()), [leaf.n_docs for leaf in tree.leaves])
    np.testing.assert_array_equal(tree.assign(corpus), tree.labels())
    for node in tree.nodes:
        np.testing.assert_allclose(node.topic.sum(), 1, rtol=1e-4)
        if node.children:
            kids = [tree.nodes[c] for c in node.children]
            assert sum(kid.n_docs for kid in kids) == node.n_docs
            assert sum(kid.weight for kid in kids) == pytest.approx(1)
            lower, upper = np.minimum(*(kid.topic for kid in kids)), np.maximum(*(kid.topic for kid in kids))
            assert ((lower <= node.topic + 1e-6) & (node.topic <= upper + 1e-6)).all()  # a union of its children
            assert [k.mass for k in kids] == sorted((k.mass for k in kids), reverse=True)


def test_labels_of_levels_nest(tree):
    for level in range(tree.depth):
        coarse, fine = tree.labels(level), tree.labels(level + 1)
        for label in np.unique(fine):
            assert len(np.unique(coarse[fine == label])) == 1


def test_cuts_nest_and_assign_like_their_labels(tree, corpus):
    before = tree.labels()
    for n in (7, 4, 2, 1):
        cut = tree.cut(n)
        assert cut.n_leaves == n
        np.testing.assert_array_equal(cut.assign(corpus), cut.labels())
        for label in np.unique(before):
            assert len(np.unique(cut.labels()[before == label])) == 1
        before = cut.labels()


def test_order_of_documents_and_words_does_not_matter(data, tree):
    rng = np.random.default_rng(0)
    docs, words = rng.permutation(data.counts.shape[0]), rng.permutation(data.counts.shape[1])
    other = hm.grow_tree(hm.Corpus.from_counts(data.counts[docs][:, words], data.vocabulary[words]), n_leaves=8)
    assert np.mean(other.labels() != tree.labels()[docs]) < 0.01


def test_sorted_documents_have_lengths_well_mixed():
    """In order of length, the parts that a table is cut into would differ many times in size."""
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(4, 1, size=3000).astype(int)
    counts = np.stack([rng.multinomial(length, np.full(200, 1 / 200)) for length in lengths])
    order = _in_order(hm.Corpus.from_counts(counts), np.ones(len(counts)))
    assert abs(np.corrcoef(np.arange(len(order)), lengths[order])[0, 1]) < 0.1


def test_order_of_documents_changes_not_a_bit(data, tree):
    docs = np.random.default_rng(1).permutation(data.counts.shape[0])
    other = hm.grow_tree(hm.Corpus.from_counts(data.counts[docs], data.vocabulary), n_leaves=8)
    np.testing.assert_array_equal(other.labels(), tree.labels()[docs])
    np.testing.assert_array_equal(other.model.mixture.log_ratio, tree.model.mixture.log_ratio)


def test_every_row_twice_gives_the_same_tree(data, tree):
    twice = hm.grow_tree(hm.Corpus.from_counts(sp.vstack([data.counts, data.counts])), n_leaves=8)
    labels = twice.labels()
    np.testing.assert_array_equal(labels[:400], labels[400:])
    assert adjusted_rand_score(labels[:400], tree.labels()) > 0.98


def test_same_key_same_bits(corpus, tree):
    again = hm.grow_tree(corpus, n_leaves=8)
    np.testing.assert_array_equal(again.labels(), tree.labels())
    for a, b in zip(again.nodes, tree.nodes, strict=True):
        np.testing.assert_array_equal(a.topic, b.topic)


def test_documents_of_weight_zero_are_only_assigned(data):
    garbage = np.zeros((40, 100), int)
    garbage[:, 0] = 500
    counts = sp.vstack([data.counts, sp.csr_array(garbage)])
    weight = np.r_[np.ones(400), np.zeros(40)]
    tree = hm.grow_tree(hm.Corpus.from_counts(counts), n_leaves=8, sample_weight=weight)
    assert adjusted_rand_score(data.labels, tree.labels()[:400]) > 0.95


@pytest.mark.parametrize("doc_length", [60, 200])
def test_auto_finds_about_the_true_number_of_leaves(doc_length):
    data = hm.datasets.hierarchical_topics(1, doc_length=doc_length)
    tree = hm.grow_tree(hm.Corpus.from_counts(data.counts))
    assert 6 <= tree.n_leaves <= 12


def test_depth_can_be_limited(corpus):
    tree = hm.grow_tree(corpus, n_leaves=8, max_depth=2)
    assert tree.depth <= 2
    np.testing.assert_array_equal(tree.assign(corpus), tree.labels())
    leaf, merges = _limit_depth(np.arange(4), [(2, 3), (1, 2), (0, 1)], 4, 1)
    assert leaf.tolist() == [0, 1, 1, 1]
    assert merges == [(0, 1)]


def odd_corpora():
    """Yield corpora that have broken such methods before."""
    rng = np.random.default_rng(0)
    data = hm.datasets.hierarchical_topics(0)
    counts = data.counts.toarray()
    flood = counts.copy()
    flood[0] = 0
    flood[0, :30] = int(0.3 * counts.sum() / 30)
    yield "one document is 30% of all words", flood
    common = np.c_[counts, 20 * (rng.random(400) < 0.9)].astype(int)
    yield "one word in 90% of the documents", common
    yield "near-duplicates", np.r_[counts, counts[:5].repeat(60, axis=0)]
    yield "boilerplate", counts + 5 * (np.arange(100) < 10)
    titles = np.stack([rng.multinomial(5, data.topics[:, k]) for k in data.labels])
    yield "titles of five words", titles


@pytest.mark.parametrize(
    ("name", "counts"), list(odd_corpora()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_odd_documents_do_not_break_the_tree(name, counts):
    tree = hm.grow_tree(hm.Corpus.from_counts(counts), n_leaves=8)
    assert tree.n_leaves >= 6
    assert max(leaf.n_docs for leaf in tree.leaves) < 0.75 * len(counts)
    assert all(np.isfinite(node.topic).all() for node in tree.nodes)


@pytest.mark.parametrize(
    "counts",
    [
        np.array([[3, 1, 0]]),
        np.array([[3, 1, 0], [0, 2, 2]]),
        np.tile([[2, 1, 1]], (30, 1)),
        np.eye(20, dtype=int) * 5,
        np.vstack([np.zeros((5, 4), int), np.ones((3, 4), int)]),
    ],
    ids=["one document", "two documents", "identical", "disjoint words", "mostly empty"],
)
@pytest.mark.parametrize("n_leaves", [1, 4, "auto"])
def test_tiny_corpora_give_a_tree_with_fewer_leaves(counts, n_leaves):
    tree = hm.grow_tree(hm.Corpus.from_counts(counts), n_leaves=n_leaves)
    assert tree.labels().shape == (len(counts),)
    assert 1 <= tree.n_leaves <= max(1, len(counts))
    assert all(np.isfinite(node.topic).all() for node in tree.nodes)


def test_wrong_options_are_named(corpus):
    with pytest.raises(hm.InputError, match="not both"):
        hm.grow_tree(corpus, depth=2, n_leaves=4)
    with pytest.raises(hm.InputError, match="n_leaves"):
        hm.grow_tree(corpus, n_leaves=0)
    with pytest.raises(hm.InputError, match="method='paper'"):
        hm.grow_tree(corpus, n_leaves=4, branching=3)
    with pytest.raises(hm.InputError, match="needs depth"):
        hm.grow_tree(corpus, n_leaves=4, method="paper")


@pytest.mark.parametrize("n_leaves", [8, "auto"])
def test_weights_of_any_scale_give_the_same_tree(corpus, n_leaves):
    plain = hm.grow_tree(corpus, n_leaves=n_leaves)
    for scale in (1e-20, 0.1, 1e30):
        scaled = hm.grow_tree(corpus, n_leaves=n_leaves, sample_weight=np.full(corpus.n_docs, scale))
        np.testing.assert_array_equal(scaled.labels(), plain.labels())
        assert [scaled.keywords(leaf) for leaf in scaled.leaves] == [plain.keywords(leaf) for leaf in plain.leaves]


@pytest.mark.parametrize("n_leaves", [4, "auto"])
def test_documents_of_weight_zero_do_not_shape_the_tree(corpus, n_leaves):
    weight = (np.arange(corpus.n_docs) < 200).astype(float)
    all_of_it = hm.grow_tree(corpus, n_leaves=n_leaves, sample_weight=weight)
    part = hm.grow_tree(hm.Corpus.from_counts(corpus.counts[:200]), n_leaves=n_leaves)
    assert all_of_it.n_leaves == part.n_leaves
    assert hm.metrics.adjusted_rand_score(all_of_it.labels()[:200], part.labels()) == 1
    np.testing.assert_array_equal(all_of_it.assign(corpus), all_of_it.labels())


def test_words_never_seen_say_nothing(corpus):
    counts = np.pad(corpus.counts.toarray(), [(0, 1), (0, 2)])
    counts[-1, -2:] = 10  # a document of two words of its own, of weight 0
    weight = (np.arange(len(counts)) < len(counts) - 1).astype(float)
    tree = hm.grow_tree(hm.Corpus.from_counts(counts), n_leaves=4, sample_weight=weight)
    share = np.exp(tree.model.mixture.log_weight.astype(float))
    found = tree.probabilities(hm.Corpus.from_counts(counts))[-1]
    np.testing.assert_allclose(np.sort(found), np.sort(share / share.sum()), rtol=1e-4)


def test_confidence_tells_true_splits_from_made_up_ones(corpus, tree):
    found = hm.split_confidence(tree, corpus, n_bootstrap=8)
    assert found[0] > 0.9  # the two groups of topics
    assert np.isnan(found[[leaf.id for leaf in tree.leaves]]).all()
    assert tree.root.confidence == pytest.approx(found[0])
    with pytest.raises(hm.InputError, match="one weight per document"):
        hm.split_confidence(tree, corpus, sample_weight=np.ones(3))
    rng = np.random.default_rng(0)
    noise = hm.Corpus.from_counts(rng.multinomial(60, np.full(50, 0.02), size=300))
    made_up = hm.grow_tree(noise, n_leaves=2)
    assert made_up.n_leaves == 1 or hm.split_confidence(made_up, noise, n_bootstrap=8)[0] < 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("bbc_news", 0.74), ("m10_titles", 0.45), ("dblp_titles", 0.30)])
def test_real_corpora_agree_with_their_labels(name, least, data_folder):
    data = load_labelled(name, data_folder)
    tree = hm.grow_tree(hm.Corpus.from_counts(data.counts, data.vocabulary), n_leaves=data.n_clusters)
    assert normalized_mutual_info_score(data.labels, tree.labels()) >= least


@pytest.mark.slow
def test_garbage_does_not_take_over(data_folder):
    data = load_labelled("bbc_news", data_folder)
    rng = np.random.default_rng(0)
    counts = data.counts.toarray()
    bad = rng.choice(len(counts), len(counts) // 100, replace=False)
    counts[bad] = 0
    counts[bad[::2], rng.integers(counts.shape[1], size=len(bad[::2]))] = 1000
    counts[bad[1::2]] = rng.multinomial(100, np.full(counts.shape[1], 1 / counts.shape[1]), size=len(bad[1::2]))
    clean = np.setdiff1d(np.arange(len(counts)), bad)
    grow = lambda c: hm.grow_tree(hm.Corpus.from_counts(c), n_leaves=8, key=jax.random.key(0)).labels()
    before, after = grow(data.counts), grow(counts)
    loss = normalized_mutual_info_score(data.labels[clean], before[clean]) - normalized_mutual_info_score(
        data.labels[clean], after[clean]
    )
    assert loss < 0.03
    mainly_clean = [np.isin(np.flatnonzero(after == leaf), clean).mean() > 0.5 for leaf in np.unique(after)]
    assert np.mean(mainly_clean) >= 0.75
