"""Trees made by hand, large or hostile, without growing them."""

import numpy as np

from hmom_jax import Tree
from hmom_jax.tree.keywords import relevance_scores
from hmom_jax.tree.tree import Node, number_depth_first

HOSTILE = [
    "<script>document.title='broken'</script>",
    "</script><img src=x onerror=\"document.title='broken'\">",
    "<!--",
    "<!--<script>",
    "]]>",
    '"quotes"',
    "it's",
    "back\\slash",
    "`${document.title='broken'}`",
    "{{script}}",
    "&lt;b&gt; & <b>",
    "line\u2028separator\u2029",
    "new\nline\ttab",
    "nul\x00",
    "\ud800 alone",
    "right\u202eleft",
    "עברית",
    "日本語",
    "🌲",
    "İstanbul",
    "http://example.com/x.png",
    "javascript:document.title='broken'",
    "x" * 3000,
    " ",
    "__proto__",
    "constructor",
]


def made_tree(n_leaves: int, n_words: int, seed: int = 0, n_docs: int = 1000, vocabulary=None) -> Tree:
    """Return a random tree: leaves are split at random, topics drawn, documents dealt out."""
    rng = np.random.default_rng(seed)
    node = lambda id, parent: Node(id, parent, 0, 0, 0.0, np.zeros(0))
    nodes, leaves = [node(0, None)], [0]
    while len(leaves) < n_leaves:
        split = leaves.pop(rng.integers(len(leaves)))
        nodes[split].children = (len(nodes), len(nodes) + 1)
        leaves += nodes[split].children
        nodes += [node(child, split) for child in nodes[split].children]
    place = np.concatenate([leaves, rng.choice(leaves, n_docs - n_leaves)])  # no leaf is empty
    for leaf in leaves:
        nodes[leaf].n_docs = int((place == leaf).sum())
        nodes[leaf].topic = rng.gamma(0.1, size=n_words) + 1e-6
        nodes[leaf].topic /= nodes[leaf].topic.sum()
        nodes[leaf].reason = "enough leaves"
    for inner in reversed(nodes):  # children come after their parents
        if inner.children:
            kids = [nodes[child] for child in inner.children]
            inner.n_docs = sum(kid.n_docs for kid in kids)
            inner.topic = sum(kid.n_docs * kid.topic for kid in kids) / inner.n_docs
    for one in nodes:
        one.mass = float(one.n_docs)
    nodes, new = number_depth_first(nodes, 0)
    words = np.array([f"word{i}" for i in range(n_words)] if vocabulary is None else vocabulary, dtype=object)
    return Tree(nodes, words, new[place], nodes[0].topic, "robust")


def assert_best_words(tree: Tree, node: int, words: list[str], relevance: float = 0.4, contrast: str = "both") -> None:
    """Check that the words are those of highest relevance, in order; the page's rounding may swap near ties."""
    number = {word: i for i, word in enumerate(tree.vocabulary)}
    here, corpus, parent = tree.word_logarithms(tree.nodes[node], np.arange(len(tree.vocabulary)))
    stretch = tree.lift_stretch(tree.nodes[node])
    score = relevance_scores(here, corpus, parent, relevance, contrast, stretch)
    best = tree.keywords(node, len(words), relevance, contrast)
    assert len(set(words)) == len(words)
    found, truth = (score[[number[word] for word in chosen]] for chosen in (words, best))
    np.testing.assert_allclose(found, truth, atol=3e-4 * stretch)  # rounding is stretched too
