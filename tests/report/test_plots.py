"""Pictures of a tree: what is in them, and that nothing in a corpus can break them."""

import io
import subprocess
import sys

import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.tree.keywords import leave_out_variants
from tests.report.trees import HOSTILE, made_tree

pytest.importorskip("matplotlib")

# Not every font has every letter; that is for the one who draws to know.
pytestmark = pytest.mark.filterwarnings("ignore:Glyph .* missing from font")


def drawn(figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return file.getvalue()


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("n_leaves", [1, 2, 9, 64])
def test_dendrogram_has_a_row_for_each_leaf(n_leaves):
    tree = made_tree(n_leaves, 200)
    figure = tree.plot(n_words=3)
    assert drawn(figure)
    written = texts(figure.axes[0])
    for leaf in tree.leaves:
        assert " ".join(tree.keywords(leaf, 3, 0.4, "both")) in written
        assert f"{leaf.n_docs:,}" in written
    # A row for each leaf, from the top in the order of labels.
    names = [" ".join(tree.keywords(leaf, 3, 0.4, "both")) for leaf in tree.leaves]
    heights = [next(text.get_position()[1] for text in figure.axes[0].texts if text.get_text() == n) for n in names]
    assert heights == list(range(n_leaves))


def overlapping(figure) -> list[tuple[str, str]]:
    """Return the pairs of texts that cover each other."""
    drawn(figure)
    boxes = [(text.get_text(), text.get_window_extent()) for text in figure.axes[0].texts if text.get_text()]
    return [(a, b) for i, (a, one) in enumerate(boxes) for b, two in boxes[i + 1 :] if one.overlaps(two)]


@pytest.mark.parametrize("n_leaves", [8, 32, 64])
def test_names_in_the_dendrogram_do_not_cover_each_other(n_leaves):
    wide = [f"{'mw'[i % 2] * (i % 9 + 3)}{i}" for i in range(300)]  # no letters are wider
    figure = made_tree(n_leaves, 300, seed=n_leaves, vocabulary=wide).plot(n_inner_words=0)
    drawn(figure)
    assert all(text.get_window_extent().x1 <= figure.get_window_extent().width for text in figure.axes[0].texts)
    tree = made_tree(n_leaves, 300, seed=n_leaves)
    figure = tree.plot()
    assert overlapping(figure) == []
    width = figure.get_window_extent().width
    assert all(text.get_window_extent().x1 <= width for text in figure.axes[0].texts)


def test_nothing_is_shown_or_left_behind():
    program = (
        "import sys, numpy as np, hmom_jax as hm\n"
        "tree = hm.grow_tree(hm.Corpus.from_counts(np.eye(6) * 9 + 1), n_leaves=2)\n"
        "figure = tree.plot()\n"
        "from matplotlib.figure import Figure\n"
        "assert isinstance(figure, Figure) and 'matplotlib.pyplot' not in sys.modules\n"
        "assert figure._repr_png_().startswith(b'\\x89PNG')\n"  # which notebooks ask for
        "from hmom_jax.report import plots\n"
        "plots._picture_class.cache_clear()\n"
        "sys.modules['matplotlib.figure'] = None\n"
        "try:\n    tree.plot()\n"
        "except ImportError as error:\n    assert 'hmom-jax[plot]' in str(error)\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_hostile_vocabulary_is_only_text():
    words = ["$\\frac{$", "$x^2$", "a_b^", *HOSTILE[3:]]
    tree = made_tree(6, len(words), vocabulary=words, n_docs=100)
    labels = np.array(["$\\bad{", "\ud800", "x" * 500, "line\nbreak"])[np.arange(100) % 4]
    corpus = hm.Corpus.from_counts(np.random.default_rng(0).integers(0, 5, (100, len(words))), words)
    for figure in (tree.plot(n_words=8), tree.plot_labels(labels), tree.plot_node(1, corpus, rank=3)):
        assert drawn(figure)
    assert not any("\n" in text for text in texts(tree.plot(n_words=20).axes[0]))


def test_heat_map_counts_documents_per_node_and_label():
    tree = made_tree(7, 50, n_docs=300)
    labels = np.array(["few", "many", "many"])[np.arange(300) % 3]
    axes = tree.plot_labels(labels, n_words=0).axes[0]
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert sorted(names) == ["few", "many"]
    rows = [tick.get_text().strip() for tick in axes.get_yticklabels()]
    assert rows[:2] == ["all", "1"]
    assert len(rows) == len(tree.nodes)
    found = {tuple(int(x) for x in text.get_position()[::-1]): int(text.get_text()) for text in axes.texts}
    for node in tree.nodes:
        below = [node.id]
        for other in tree.nodes[node.id + 1 :]:
            below += [other.id] if other.parent in below else []
        for column, name in enumerate(names):
            here = int(np.sum(np.isin(tree.doc_node, below) & (labels == name)))
            assert found.get((node.id, column), 0) == here
            share = np.ma.filled(axes.images[0].get_array(), 0)[node.id, column]
            assert share == pytest.approx(here / np.sum(labels == name))


@pytest.mark.parametrize("n_leaves", [2, 32])
def test_names_of_rows_stay_outside_the_heat_map(n_leaves):
    figure = made_tree(n_leaves, 300, vocabulary=[f"gene{1000 + i}" for i in range(300)]).plot_labels(
        np.arange(1000) % 7
    )
    drawn(figure)
    axes = figure.axes[0]
    edges = [tick.get_window_extent() for tick in axes.get_yticklabels()]
    assert max(edge.x1 for edge in edges) <= axes.get_window_extent().x0 + 1
    assert min(edge.x0 for edge in edges) >= 0


def test_heat_map_draws_on_given_axes():
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    assert made_tree(3, 20).plot_labels(np.arange(1000) % 2, axes=axes) is figure
    assert axes.images


def test_node_shows_its_spectrum_and_the_minimum_of_the_objective():
    data = hm.datasets.hierarchical_topics(0)
    corpus = hm.Corpus.from_counts(data.counts)
    tree = made_tree(2, 100, n_docs=400)
    tree.doc_node = np.where(data.labels < 4, 1, 2)
    left, right = tree.plot_node(1, corpus, rank=4).axes
    inside = (tree.doc_node == 1).astype(float)
    moments = hm.single_topic_moments(corpus, membership=inside)
    heights = [bar.get_height() for bar in left.patches]
    np.testing.assert_allclose(heights, hm.whiten(moments, 4).eigenvalues, rtol=1e-4)
    curve, minimum = right.lines
    a, objective = curve.get_data()
    assert objective[np.abs(a - minimum.get_xdata()[0]).argmin()] <= objective.min() + 1e-3 * objective.max()
    # Theorem 3.3: the objective that SIDIWO reports is 2 sqrt(F(a)).
    reported = float(hm.sidiwo(moments, 2).objective)
    np.testing.assert_allclose((reported / 2) ** 2, objective.min(), atol=1e-3 * objective.max())


def test_a_node_without_two_directions_says_so():
    tree = made_tree(2, 6, n_docs=20)
    corpus = hm.Corpus.from_counts(np.tile([3, 2, 1, 1, 1, 1], (20, 1)))
    figure = tree.plot_node(0, corpus, rank=3)
    assert "no split" in texts(figure.axes[1])[0]
    assert drawn(figure)


def test_wrong_input_is_named():
    tree = made_tree(3, 20, n_docs=30)
    corpus = hm.Corpus.from_counts(np.ones((30, 20)))
    with pytest.raises(hm.InputError, match="n_words"):
        tree.plot(n_words=-1)
    with pytest.raises(hm.InputError, match="n_inner_words"):
        tree.plot(n_inner_words=-1)
    with pytest.raises(hm.InputError, match="one value per document"):
        tree.plot_labels([1, 2, 3])
    with pytest.raises(hm.InputError, match="rank"):
        tree.plot_node(0, corpus, rank=1)
    with pytest.raises(hm.InputError, match="corpus must be the tree's"):
        tree.plot_node(0, hm.Corpus.from_counts(np.ones((29, 20))))
    with pytest.raises(hm.InputError, match="no node"):
        tree.plot_node(99, corpus)


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["function", "functions", "series"], ["function", "series"]),
        (["matrices", "matrix", "vertices", "vertex", "vertexes"], ["matrices", "vertices"]),
        (["categories", "category", "Category"], ["categories"]),
        (["class", "classes", "glass"], ["class", "glass"]),
        (["gas", "ga", "bus", "as"], ["gas", "ga", "bus", "as"]),
    ],
)
def test_names_leave_out_plurals_of_what_was_said(words, kept):
    assert leave_out_variants(words, 5) == kept
    assert leave_out_variants(words, 1) == kept[:1]
