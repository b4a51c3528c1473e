r"""Pictures of a tree: a dendrogram, documents per node and label, spectrum and $F(a)$ of a node.

All are matplotlib figures of their own: nothing is shown, and nothing stays behind in pyplot.
"""

import colorsys
import functools
import io

import jax
import numpy as np

from hmom_jax.corpus import Corpus
from hmom_jax.decompose.method import whitened
from hmom_jax.decompose.rank_two import closed_rotation, quartic, quartic_coefficients
from hmom_jax.errors import InputError, default_key
from hmom_jax.models import single_topic_moments
from hmom_jax.report.contents import documents_inside, name_words, number_labels
from hmom_jax.tree.tree import Node, Tree
from hmom_jax.whitening import _whiten, default_tol

_ROW = 0.23  # inches per leaf
_FONT = 8.5  # points
_LETTER = 0.068  # inches, of a letter at that size; on the generous side
_MAX_LETTERS = 24  # of a word
_MAX_NUMBERS = 1500  # cells of a heat map that have room for a number
_PAGE_HUES = (200, 300)  # first and range, in degrees, as on the page


def plot_tree(tree: Tree, n_words: int, n_inner_words: int):
    """Draw a dendrogram, a row per leaf with its size and keywords; see :meth:`Tree.plot`."""
    _check_words(n_words=n_words, n_inner_words=n_inner_words)
    leaves, levels = tree.leaves, max(tree.depth, 1)
    names = [_name(tree, leaf, n_words) for leaf in leaves]
    inner = [node for node in tree.nodes if node.children and node.parent is not None]
    inner_names = [_name(tree, node, n_inner_words) for node in inner]
    # A level is as wide as its longest name needs, within reason: deep trees would become too wide to read.
    step = float(np.clip(0.85 * _LETTER * max(map(len, inner_names), default=0) + 0.2, 0.45, 1.15))
    digits = _LETTER * len(f"{max(leaf.n_docs for leaf in leaves):,}")
    left = step * levels + 0.15
    width = left + digits + max(map(_width, names)) + 0.3
    figure = _figure(max(width, 3.0), _ROW * (len(leaves) + 1.1))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, max(width, 3.0)), ylim=(len(leaves) - 0.3, -1.4))  # inches across, leaves down
    axes.set_axis_off()

    down, colours = _rows(tree), _colours(tree)
    across = lambda node: 0.05 + step * node.depth
    thick = lambda node: 0.8 + 5 * np.sqrt(node.n_docs / max(tree.root.n_docs, 1))
    for node in tree.nodes:
        x, y = across(node), down[node.id]
        for child in (tree.nodes[number] for number in node.children):
            path = ([x, x, across(child)], [y, down[child.id], down[child.id]])
            axes.plot(*path, color=colours[child.id], linewidth=thick(child), solid_joinstyle="miter")
        if node.is_leaf:
            axes.plot([x, left], [y, y], color=colours[node.id], linewidth=0.8, linestyle=":", zorder=0)
    for leaf, name in zip(leaves, names, strict=True):
        y = down[leaf.id]
        _text(axes, left + digits + 0.05, y, f"{leaf.n_docs:,}", ha="right", va="center_baseline", color="0.4")
        _text(axes, left + digits + 0.15, y, name, va="center_baseline")
    for node, name in zip(inner, inner_names, strict=True):
        # Above its branch: within its own rows and left of all below it, where no other name can be.
        lift = thick(node) / 144 / _ROW + 0.06
        _text(axes, across(node) - step + 0.08, down[node.id] - lift, _fitting(name, step), va="bottom", scale=0.85)
    _text(axes, 0.05, -0.95, f"{tree.root.n_docs:,} documents, {len(leaves)} leaves", va="center", color="0.4")
    return figure


def plot_labels(tree: Tree, labels, n_words: int, axes=None):
    """Draw documents per node and label, on axes where they are given; see :meth:`Tree.plot_labels`."""
    _check_words(n_words=n_words)
    label_names, numbers = number_labels(tree, labels)
    counts = np.stack([np.bincount(numbers[docs], minlength=len(label_names)) for docs in documents_inside(tree)])
    # Labels in the order of the leaves that hold most of their documents: the tree becomes visible as blocks.
    leaves = [leaf.id for leaf in tree.leaves]
    order = np.argsort(counts[leaves].argmax(0), kind="stable")
    counts, label_names = counts[:, order], [_tame(label_names[number]) for number in order]
    names = _paths(tree) if n_words == 0 else [_name(tree, node, n_words) for node in tree.nodes]
    names = [
        "all" if node.parent is None else "   " * node.depth + name
        for node, name in zip(tree.nodes, names, strict=True)
    ]

    room = 0.12 + max(map(_width, names))
    if axes is None:
        cell = 0.42 if counts.size <= _MAX_NUMBERS else 0.25
        figure = _figure(
            room + cell * len(label_names) + 1.1, 0.055 * max(map(len, label_names)) + 0.19 * len(names) + 0.5
        )
        axes = figure.add_subplot()
        figure.set_layout_engine("constrained")
    shares = counts / np.maximum(counts[:1], 1)
    image = axes.imshow(np.where(counts > 0, shares, np.nan), aspect="auto", cmap="Blues", vmin=0, vmax=1.15)
    if counts.size <= _MAX_NUMBERS:
        for row, column in np.argwhere(counts):
            colour = "white" if shares[row, column] > 0.5 else "black"
            _text(axes, column, row, counts[row, column], ha="center", va="center", color=colour, scale=0.8)
    axes.set_xticks(range(len(label_names)), label_names)
    axes.set_yticks(range(len(names)), names)
    sideways = max(map(len, label_names)) > 3
    axes.xaxis.tick_top()
    for tick in axes.get_xticklabels():
        tick.set(parse_math=False, rotation=90 if sideways else 0, fontsize=_FONT)
    for tick in axes.get_yticklabels():
        tick.set(parse_math=False, fontsize=_FONT, ha="left")
    axes.tick_params(axis="both", length=0)
    axes.tick_params(axis="y", pad=72 * room)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(image, ax=axes, label="share of the label's documents", pad=0.02, anchor=(0, 1),
        shrink=min(0.6, 2.5 / axes.figure.get_figheight()))  # fmt: skip
    bar.ax.set_ylim(0, 1)
    return axes.figure


def plot_node(tree: Tree, node: Node, corpus: Corpus, *, rank: int, beta: float, word_scale):
    """Draw spectrum and objective of a node; see :meth:`Tree.plot_node`."""
    if corpus.n_docs != len(tree.doc_node) or corpus.n_words != len(tree.vocabulary):
        raise InputError(
            f"corpus must be the tree's, {len(tree.doc_node)} documents and {len(tree.vocabulary)} words; "
            f"got {corpus.n_docs} and {corpus.n_words}."
        )
    if not 2 <= rank <= corpus.n_words:
        raise InputError(f"rank must lie between 2 and the {corpus.n_words} words; got {rank}.")
    membership = np.zeros(corpus.n_docs)
    membership[documents_inside(tree)[node.id]] = 1
    moments = single_topic_moments(corpus, beta=beta, membership=membership, word_scale=word_scale)
    key, tol = default_key(None), default_tol(None, moments.m1.dtype)
    values = np.asarray(_whiten(moments, key, tol, rank=rank).eigenvalues)
    whitening, slices = whitened(moments, key, tol, 2)

    figure = _figure(8.5, 3.1)
    figure.set_layout_engine("constrained")
    left, right = figure.subplots(1, 2)
    places = np.arange(1, rank + 1)
    left.bar(places, values, color=np.where(places <= 2, "#b2182b", "#b8c4d4"), width=0.7)
    left.axhline(0, color="0.3", linewidth=0.8)
    left.set(xlabel="eigenvalue of the second moment", title="Spectrum: a split keeps two")
    left.set_xticks(places[:: max(1, rank // 10)])
    right.set(title="$F(a)$: what a rotation leaves off the diagonal")
    if np.any(whitening.void):
        right.text(0.5, 0.5, "fewer than two positive eigenvalues:\nno split", ha="center", transform=right.transAxes)
        right.set(xticks=[], yticks=[])
    else:
        grid = np.linspace(-1, 1, 1001)
        coefficients = quartic_coefficients(slices)
        objective = np.asarray(jax.vmap(quartic, in_axes=(None, 0))(coefficients, grid.astype(slices.dtype)))
        best = float(closed_rotation(slices)[0, 1])
        right.plot(grid, objective, color="0.25")
        right.axvline(best, color="#b2182b", linewidth=1, linestyle="--")
        right.set(xlabel=f"$a$ (dashed: the minimum, {best:.3f})", xticks=(-1, -0.5, 0, 0.5, 1))
        right.set_ylim(0, 1.08 * max(float(objective.max()), np.finfo(np.float32).tiny))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    name = "all documents" if node.parent is None else _name(tree, node, 5)
    title = figure.suptitle(f"Node {node.id}, {node.n_docs:,} documents: {name}", fontsize=_FONT + 1.5)
    title.set(parse_math=False, usetex=False)
    return figure


def _figure(width: float, height: float):
    return _picture_class()(figsize=(width, height), dpi=100, facecolor="white")


@functools.cache
def _picture_class():
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'hmom-jax[plot]'.") from error

    class Picture(Figure):
        """A figure that notebooks show by itself, also where nobody has started pyplot."""

        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    return Picture


def _check_words(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 0:
            raise InputError(f"{name} must not be negative; got {value}.")


def _text(axes, x, y, text, *, scale: float = 1.0, **style) -> None:
    """Write text that is only text: a dollar sign in a vocabulary starts no formula."""
    axes.text(x, y, str(text), fontsize=scale * _FONT, parse_math=False, usetex=False, **style)


def _width(text: str) -> float:
    """Return the width of a text in inches, and a tenth for letters that few dots per inch make wider."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    return 1.1 * text_to_path.get_text_width_height_descent(text, FontProperties(size=_FONT), ismath=False)[0] / 72


def _tame(word: str) -> str:
    """Return a word without what a font cannot draw on one line, and not too long."""
    word = "".join(letter if letter.isprintable() else "\ufffd" for letter in str(word)).strip()
    return word if len(word) <= _MAX_LETTERS else word[: _MAX_LETTERS - 1] + "…"


def _name(tree: Tree, node: Node, n_words: int) -> str:
    return " ".join(_tame(word) for word in name_words(tree, node, n_words))


def _fitting(name: str, width: float) -> str:
    """Return as many words as fit into the width, the first at least in part."""
    room = max(3, int((width - 0.1) / (0.85 * _LETTER)))
    words = name.split(" ")
    while len(words) > 1 and len(" ".join(words)) > room:
        words.pop()
    name = " ".join(words)
    return name if len(name) <= room else name[: room - 1] + "…"


def _rows(tree: Tree) -> np.ndarray:
    """Return the height of each node: leaves count from 0, others lie half-way between their first and last child."""
    rows = np.zeros(len(tree.nodes))
    rows[[leaf.id for leaf in tree.leaves]] = np.arange(tree.n_leaves)
    for node in reversed(tree.nodes):  # children come after their parents
        if node.children:
            rows[node.id] = 0.5 * (rows[node.children[0]] + rows[node.children[-1]])
    return rows


def _colours(tree: Tree) -> list[tuple[float, float, float]]:
    """Return the colours that nodes have on the page: one way round the wheel over the documents."""
    start = np.zeros(len(tree.nodes))
    for node in tree.nodes:
        sizes = [tree.nodes[child].n_docs for child in node.children]
        start[list(node.children)] = start[node.id] + np.concatenate([[0], np.cumsum(sizes)[:-1]]) if sizes else 0
    first, extent = _PAGE_HUES
    total = max(tree.root.n_docs, 1)
    hues = [(extent * (start[node.id] + node.n_docs / 2) / total + first) % 360 / 360 for node in tree.nodes]
    return [colorsys.hls_to_rgb(hue, 0.52, 0.5) for hue in hues]


def _paths(tree: Tree) -> list[str]:
    """Return names like 1.2.1: the way from the root."""
    paths = [""] * len(tree.nodes)
    for node in tree.nodes:
        for place, child in enumerate(node.children, 1):
            paths[child] = f"{paths[node.id]}.{place}".lstrip(".")
    return paths
