"""The tree of topics: what it holds and what can be asked of it."""

import json
from dataclasses import dataclass, field, replace

import numpy as np

from hmom_jax.assign import choose_topic
from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError
from hmom_jax.files import write_text
from hmom_jax.tree.keywords import check_contrast, lift_stretch, parent_logarithm, relevance_scores
from hmom_jax.tree.leaf_model import LeafModel


@dataclass
class Node:
    r"""One node: a set of documents and its topic.

    Attributes
    ----------
    id, parent, children, depth
        Place in the tree; nodes are numbered depth first, children stand by descending size.
    n_docs
        Documents in the node.
    mass
        Their sample weights, added up.
    topic
        Distribution over words.
    weight
        Share of the topic in its parent's split.
    component
        Which component of its parent's split it is.
    reason
        Why a leaf was not split; None for inner nodes.
    spectral_gap
        $(\lambda_l - \lambda_{l+1}) / \lambda_l$ of the node's own second moment: near 1, the cut is sharp.
    off_diagonal
        What the rotation left off the diagonal, as a share: near 0, the node is a clean mixture.
    simplex_violation
        Largest negative mass of a child topic before projection: near 0, the fit is good.
    converged
        Whether the node's split reached its tolerances.
    split_order
        When the node was split, counted from 0: what :meth:`Tree.cut` goes by.
    confidence
        How surely the split comes out again under resampling, once :func:`~hmom_jax.split_confidence` has been run.
    """

    id: int
    parent: int | None
    depth: int
    n_docs: int
    mass: float
    topic: np.ndarray
    weight: float = 1.0
    component: int = 0
    children: tuple[int, ...] = ()
    reason: str | None = None
    spectral_gap: float | None = None
    off_diagonal: float | None = None
    simplex_violation: float | None = None
    converged: bool | None = None
    split_order: int | None = None
    confidence: float | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether the node has no children."""
        return not self.children


@dataclass
class Tree:
    """A tree of topics over a corpus. Made by :func:`~hmom_jax.grow_tree`.

    Attributes
    ----------
    nodes
        All nodes; the root first.
    vocabulary
        The words.
    doc_node
        Leaf (node id) of each training document.
    word_probability
        $p(w)$ in the training corpus.
    method
        How the tree was grown.
    model
        The mixture that assigns documents to leaves (robust trees); None where documents walk down.
    metadata
        What whoever grew the tree wants to keep with it, as plain JSON values; saved and loaded. The command line
        keeps its way of reading text here.
    """

    nodes: list[Node]
    vocabulary: np.ndarray
    doc_node: np.ndarray
    word_probability: np.ndarray
    method: str
    model: LeafModel | None = None
    metadata: dict = field(default_factory=dict)

    @property
    def root(self) -> Node:
        """The node of all documents."""
        return self.nodes[0]

    @property
    def leaves(self) -> list[Node]:
        """Leaves in depth-first order; leaf i has label i."""
        return [node for node in self.nodes if node.is_leaf]

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.leaves)

    @property
    def depth(self) -> int:
        """Depth of the deepest node; the root has 0."""
        return max(node.depth for node in self.nodes)

    def labels(self, level: int | None = None) -> np.ndarray:
        """Return the label of each training document, counted from 0 in depth-first order.

        Parameters
        ----------
        level
            None for leaves; a depth for the ancestors at that depth (leaves above it stand for themselves), so
            that labels at different levels nest.
        """
        return self._labels_of(self.doc_node, level)

    def assign(self, corpus: Corpus, level: int | None = None) -> np.ndarray:
        """Return labels for new documents over the same vocabulary.

        The most probable leaf in a robust tree; in the paper's, documents walk down. On the training corpus it gives
        :meth:`labels`.
        """
        self._check_vocabulary(corpus)
        place = self._walk(corpus) if self.model is None else self.model.assign(corpus)
        return self._labels_of(place, level)

    def probabilities(self, corpus: Corpus) -> np.ndarray:
        """Return the probability of each leaf for each document, documents x leaves."""
        from hmom_jax.tree.probabilities import leaf_probabilities

        self._check_vocabulary(corpus)
        return leaf_probabilities(self, corpus)

    def log_likelihood(self, corpus: Corpus) -> np.ndarray:
        r"""Return $\log \sum_j \omega_j \prod_w \mu_{jw}^{x_w}$ over the leaves for each document.

        Topics are those by which documents are assigned (smoothed, in a robust tree), floored at 1e-6. Divide
        the sum by the number of words for the log-likelihood per word.
        """
        from hmom_jax.tree.probabilities import log_likelihood

        self._check_vocabulary(corpus)
        return log_likelihood(self, corpus)

    def split(self, node: "Node | int", corpus: Corpus, n_leaves: int = 2, **options) -> "Tree":
        """Return a tree with one leaf split further.

        The documents of the leaf get a tree of their own, which takes the place of the leaf; in a robust tree a few
        documents near its border may change sides.

        Parameters
        ----------
        node
            A leaf, or its number.
        corpus
            The corpus that this tree was grown on.
        n_leaves
            Leaves in place of the one.
        options
            Passed to :func:`~hmom_jax.grow_tree`.
        """
        from hmom_jax.tree.refine import split_leaf

        return split_leaf(self, node, corpus, n_leaves, **options)

    def cut(self, n_leaves: int) -> "Tree":
        """Return the tree after its first ``n_leaves - 1`` splits, in the order in which they were chosen."""
        if n_leaves < 1:
            raise InputError(f"n_leaves must be at least 1; got {n_leaves}.")
        by_order = sorted((node for node in self.nodes if not node.is_leaf), key=lambda node: node.split_order)
        split, leaves = set(), 1
        for node in by_order:
            if leaves + len(node.children) - 1 > n_leaves:
                break
            split.add(node.id)
            leaves += len(node.children) - 1
        ancestor = np.arange(len(self.nodes))
        for node in self.nodes[1:]:
            if node.parent not in split:
                ancestor[node.id] = ancestor[node.parent]
        kept = np.unique(ancestor)
        new = np.full(len(self.nodes), -1)
        new[kept] = np.arange(len(kept))
        nodes = []
        for old in kept:
            node = replace(self.nodes[old])
            node.id, node.parent = int(new[old]), None if node.parent is None else int(new[node.parent])
            node.children = tuple(int(new[child]) for child in node.children) if old in split else ()
            if old not in split and node.reason is None:
                node.reason = "cut here"
            nodes.append(node)
        place = new[ancestor]
        model = None if self.model is None else self.model._replace(node=place[self.model.node])
        return replace(self, nodes=nodes, doc_node=place[self.doc_node], model=model, metadata=dict(self.metadata))

    def keywords(self, node: "Node | int", n: int = 10, relevance: float = 0.7, contrast: str = "corpus") -> list[str]:
        r"""Return the words of highest relevance at a node.

        $\lambda \log p(w \mid \text{node}) + (1 - \lambda) \log (p(w \mid \text{node}) / q(w))$; 1 ranks by
        probability alone, 0 by lift alone.

        Parameters
        ----------
        node
            A node, or its number.
        n
            How many words.
        relevance
            $\lambda$, from 0 to 1.
        contrast
            What $q$ is: ``"corpus"``, $p(w)$; ``"parent"``, $p(w \mid \text{parent})$; ``"both"``, their geometric
            mean, with the second term stretched in nodes of many documents, where it would count for nothing.
            :meth:`to_html` begins with both at a relevance of 0.4: siblings then share fewer words.

        References
        ----------
        Sievert and Shirley (2014), "LDAvis".
        """
        node = self._node(node)
        if not 0 <= relevance <= 1:
            raise InputError(f"relevance must lie between 0 and 1; got {relevance}.")
        if n < 0:
            raise InputError(f"n must not be negative; got {n}.")
        check_contrast(contrast)
        seen = np.flatnonzero(self.word_probability > 0)
        here, corpus, parent = self.word_logarithms(node, seen)
        score = relevance_scores(here, corpus, parent, relevance, contrast, self.lift_stretch(node))
        best = seen[np.argsort(-score, kind="stable")[:n]]
        return self.vocabulary[best].tolist()

    def word_logarithms(self, node: Node, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""Return $\log p(w \mid \text{node})$, $\log p(w)$ and $\log p(w \mid \text{parent})$ of some words."""
        here = np.log(node.topic[words].astype(np.float64))
        corpus = np.log(self.word_probability[words])
        if node.parent is None:
            return here, corpus, corpus
        above = self.nodes[node.parent]
        share = max(node.n_docs, 1) / max(above.n_docs, node.n_docs, 1)
        return here, corpus, parent_logarithm(here, above.topic[words], share, corpus)

    def lift_stretch(self, node: Node) -> float:
        """Return by how much lift is stretched at a node whose words are compared with corpus and parent."""
        above = node if node.parent is None else self.nodes[node.parent]
        return 1.0 if above is node else lift_stretch(node.n_docs, above.n_docs, self.root.n_docs)

    def to_dict(self, n_words: int = 10) -> dict:
        """Return the tree as nested dictionaries of plain Python values."""

        def describe(node: Node) -> dict:
            return {
                "id": node.id,
                "n_docs": node.n_docs,
                "mass": node.mass,
                "weight": node.weight,
                "keywords": self.keywords(node, n_words),
                "reason": node.reason,
                "spectral_gap": node.spectral_gap,
                "off_diagonal": node.off_diagonal,
                "simplex_violation": node.simplex_violation,
                "converged": node.converged,
                "confidence": node.confidence,
                "children": [describe(self.nodes[child]) for child in node.children],
            }

        return {"format": 1, "method": self.method, "n_leaves": self.n_leaves, "root": describe(self.root)}

    def to_json(self, path=None, n_words: int = 10) -> str:
        """Return the tree as JSON, and write it to ``path`` (atomically) where one is given."""
        text = json.dumps(self.to_dict(n_words), indent=2, ensure_ascii=False, allow_nan=False)
        if path is not None:
            write_text(path, text + "\n")
        return text

    def to_newick(self, n_words: int = 3) -> str:
        """Return the tree in Newick notation, nodes named by number and keywords."""
        from hmom_jax.tree.exports import to_newick

        return to_newick(self, n_words)

    def to_networkx(self, n_words: int = 10):
        """Return a ``networkx.DiGraph`` from parents to children (needs the ``networkx`` extra)."""
        from hmom_jax.tree.exports import to_networkx

        return to_networkx(self, n_words)

    def to_pandas(self, table: str = "nodes", n_words: int = 10):
        """Return a ``pandas.DataFrame`` (needs the ``pandas`` extra).

        ``"nodes"``: a row per node. ``"topics"``: leaves x words. ``"documents"``: the leaf of each document.
        """
        from hmom_jax.tree.exports import to_pandas

        return to_pandas(self, table, n_words)

    def to_html(
        self,
        path=None,
        *,
        documents=None,
        corpus: Corpus | None = None,
        labels=None,
        times=None,
        confidence=None,
        title: str = "Topic tree",
        n_words: int = 20,
        n_documents: int = 5,
    ) -> str:
        """Return the tree as one page of HTML, and write it to ``path`` (atomically) where one is given.

        The page needs no network and no other file: a tree to open and close, the words of each node by relevance,
        and a search. What else is given is shown too; all of it goes by the training documents, in their order.

        Parameters
        ----------
        path
            Where to write the page.
        documents
            Texts or titles, one string per document: some stand for each node, and the search finds them. Excerpts
            of 240 characters are kept, of as many documents as keep the page small.
        corpus
            The training corpus, by which documents are chosen that stand for a node; by default the words of
            ``documents`` are counted.
        labels
            A label per document: the page shows their shares in each node.
        times
            A number (a year, say) or a date per document: the page shows the share of each node over time.
        confidence
            A value per node, from :func:`~hmom_jax.split_confidence`; by default what that has left in the nodes.
        title
            Heading of the page.
        n_words, n_documents
            Words and documents per node.

        Examples
        --------
        >>> import hmom_jax as hm
        >>> texts = ["cats chase mice", "dogs chase cats", "stocks and bonds", "bonds or stocks"] * 5
        >>> tree = hm.grow_tree(hm.read_corpus(texts, min_df=1), n_leaves=2)
        >>> page = tree.to_html(documents=texts, title="Pets & money")  # to_html("tree.html") writes a file
        >>> "<title>Pets &amp; money</title>" in page
        True
        """
        from hmom_jax.report import Given, tree_page

        given = Given(corpus, documents, labels, times, confidence)
        return tree_page(self, path, given, title=title, n_words=n_words, n_documents=n_documents)

    def plot(self, n_words: int = 6, n_inner_words: int = 2):
        """Return a dendrogram as a ``matplotlib.figure.Figure`` (needs the ``plot`` extra); it is not shown.

        A row per leaf with its documents and keywords, names above the branches of inner nodes; thickness is size,
        colours are those of :meth:`to_html`, and so are the keywords (relevance 0.4, compared with the parent too).

        Parameters
        ----------
        n_words, n_inner_words
            Keywords of a leaf and of an inner node; of these as many as there is room for.

        Examples
        --------
        >>> import hmom_jax as hm
        >>> corpus = hm.read_corpus(["cats chase mice", "dogs chase cats", "stocks and bonds"] * 5, min_df=1)
        >>> figure = hm.grow_tree(corpus, n_leaves=2).plot()  # figure.savefig("tree.png") keeps it
        >>> figure.axes[0].texts[-1].get_text()
        '15 documents, 2 leaves'
        """
        from hmom_jax.report.plots import plot_tree

        return plot_tree(self, n_words, n_inner_words)

    def plot_labels(self, labels, n_words: int = 3, axes=None):
        """Return a heat map of the documents per node and label (needs the ``plot`` extra); it is not shown.

        Figure 1b of the paper: a row per node, a column per label, in each cell how many documents with the label are
        in the node. The colour is their share of the label's documents.

        Parameters
        ----------
        labels
            A label per training document; beyond 30 different ones the rarest are taken together.
        n_words
            Keywords that name a node; 0 for its path, as ``1.2.1``.
        axes
            Matplotlib axes to draw on; by default a figure is made.
        """
        from hmom_jax.report.plots import plot_labels

        return plot_labels(self, labels, n_words, axes)

    def plot_node(self, node: "Node | int", corpus: Corpus, *, rank: int = 10, beta: float = 0.0, word_scale=None):
        r"""Return a picture of a node's moments (needs the ``plot`` extra); it is not shown.

        Left the largest eigenvalues of the second moment of the node's documents, right $F(a)$ of Theorem 3.3 with its
        minimum: what a two-way SIDIWO split of the node has to go by. A clear gap after the second bar and a valley
        that comes down to near zero say that the node is two groups.

        Parameters
        ----------
        node
            A node, or its number.
        corpus
            The corpus that the tree was grown on.
        rank
            Eigenvalues shown.
        beta, word_scale
            Which moments; see :func:`~hmom_jax.single_topic_moments`.
        """
        from hmom_jax.report.plots import plot_node

        return plot_node(self, self._node(node), corpus, rank=rank, beta=beta, word_scale=word_scale)

    def _repr_html_(self) -> str:
        """Return the tree for notebooks: nested lists that unfold."""
        from hmom_jax.report import static_tree

        return static_tree(self)

    def save(self, path) -> None:
        """Write the tree to one file, atomically; :func:`~hmom_jax.load_tree` reads it back."""
        from hmom_jax.io.model import save_tree

        save_tree(self, path)

    def __repr__(self):
        counts = f"{self.root.n_docs} documents, {len(self.vocabulary)} words, {self.n_leaves} leaves"
        return f"Tree({counts}, method={self.method!r})"

    def __str__(self):
        return self.format()

    def format(self, n_words: int = 8, ascii_only: bool = False) -> str:
        """Draw the tree as text, a line per node with its size and keywords."""
        tee, last, bar = ("|- ", "`- ", "|  ") if ascii_only else ("├─ ", "└─ ", "│  ")
        width = len(str(self.root.n_docs))
        lines = []

        def draw(node, lead, branch):
            words = "(all documents)" if node.parent is None else " ".join(self.keywords(node, n_words))
            lines.append(f"{lead}{branch}{node.n_docs:>{width}} {words}")
            below = lead + ("" if not branch else "   " if branch == last else bar)
            for child in node.children:
                draw(self.nodes[child], below, last if child == node.children[-1] else tee)

        draw(self.root, "", "")
        return "\n".join(lines)

    def _check_vocabulary(self, corpus: Corpus) -> None:
        if corpus.n_words != len(self.vocabulary) or not np.array_equal(corpus.vocabulary, self.vocabulary):
            raise InputError(
                f"The new corpus must have the tree's vocabulary ({len(self.vocabulary)} words in the same order); "
                f"got {corpus.n_words} words. Corpus.with_vocabulary(tree.vocabulary) makes it so."
            )

    def _node(self, node) -> Node:
        if isinstance(node, Node):
            return node
        if not 0 <= node < len(self.nodes):
            raise InputError(f"There is no node {node}; the tree has nodes 0 to {len(self.nodes) - 1}.")
        return self.nodes[node]

    def _labels_of(self, doc_node, level):
        """Return the numbers of the ancestors at ``level`` of the given leaves."""
        if level is not None and level < 0:
            raise InputError(f"level must be at least 0; got {level}.")
        ancestor = np.arange(len(self.nodes))
        for node in self.nodes:  # parents come before their children
            if level is not None and node.depth > level:
                ancestor[node.id] = ancestor[node.parent]
        kept = np.array(sorted({ancestor[leaf.id] for leaf in self.leaves}))
        return np.searchsorted(kept, ancestor[doc_node])

    def _walk(self, corpus: Corpus) -> np.ndarray:
        """Send documents down the tree, a level at a time, all nodes of a level in one pass."""
        place = np.zeros(corpus.n_docs, np.int64)
        inner = [node for node in self.nodes if not node.is_leaf]
        if not inner:
            return place
        rank = max(len(node.children) for node in inner)
        # In the order of components, not of sizes: ties fall as they fell while growing.
        by_component = [sorted(node.children, key=lambda c: self.nodes[c].component) for node in inner]
        slot_of = np.full(len(self.nodes), -1)
        slot_of[[node.id for node in inner]] = np.arange(len(inner))
        topics = np.stack([self._padded([self.nodes[c].topic for c in kids], rank) for kids in by_component])
        weights = np.array(
            [[self.nodes[c].weight for c in kids] + [0.0] * (rank - len(kids)) for kids in by_component], corpus.dtype
        )
        for _ in range(self.depth):
            slot = slot_of[place]
            offset = corpus.pad((np.maximum(slot, 0) * corpus.n_words).astype(np.int32))
            choice = choose_topic(corpus.by_doc, topics.astype(corpus.dtype), weights, offset)
            choice = np.asarray(choice)[: corpus.n_docs]
            for index, kids in enumerate(by_component):
                here = slot == index
                place[here] = np.asarray(kids)[choice[here]]
        return place

    @staticmethod
    def _padded(topics, rank):
        """Stack child topics in columns; a node with fewer children repeats the last, with weight zero."""
        return np.stack(topics + topics[-1:] * (rank - len(topics)), axis=-1)


def number_depth_first(nodes: list[Node], root: int) -> tuple[list[Node], np.ndarray]:
    """Order children by size, then by their top word, and number the nodes depth first.

    Returns the nodes in their new order and the new number of each old one.
    """
    by_size = lambda child: (-nodes[child].mass, -nodes[child].n_docs, int(np.argmax(nodes[child].topic)))
    order, stack = [], [(root, 0)]
    while stack:
        number, depth = stack.pop()
        node = nodes[number]
        node.depth = depth
        node.children = tuple(sorted(node.children, key=by_size))
        order.append(number)
        stack.extend((child, depth + 1) for child in reversed(node.children))
    new = np.empty(len(nodes), np.int64)
    new[order] = np.arange(len(order))
    for number in order:
        node = nodes[number]
        node.id = int(new[number])
        node.parent = None if node.parent is None else int(new[node.parent])
        node.children = tuple(int(new[child]) for child in node.children)
    return [nodes[number] for number in order], new
