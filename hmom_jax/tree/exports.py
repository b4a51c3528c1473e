"""The tree in other people's forms: Newick, networkx, pandas."""

import numpy as np

from hmom_jax.errors import InputError
from hmom_jax.tree.tree import Node, Tree

TABLES = ("topics", "nodes", "documents")


def to_newick(tree: Tree, n_words: int = 3) -> str:
    """Return the tree in Newick notation, nodes named by number and keywords."""

    def describe(node: Node) -> str:
        name = " ".join([str(node.id), *tree.keywords(node, n_words)])
        name = " ".join(name.split()).replace("'", "''")  # quotes are doubled; white space is never kept by readers
        below = ",".join(describe(tree.nodes[child]) for child in node.children)
        return f"({below})'{name}'" if below else f"'{name}'"

    return describe(tree.root) + ";"


def to_networkx(tree: Tree, n_words: int = 10):
    """Return a ``networkx.DiGraph`` from parents to children, what is known of a node as its attributes."""
    try:
        import networkx
    except ImportError as error:
        raise ImportError("Graphs need networkx: pip install 'hmom-jax[networkx]'.") from error
    graph = networkx.DiGraph()
    for node in tree.nodes:
        graph.add_node(
            node.id,
            depth=node.depth,
            n_docs=node.n_docs,
            mass=node.mass,
            weight=node.weight,
            keywords=tree.keywords(node, n_words),
            is_leaf=node.is_leaf,
        )
        if node.parent is not None:
            graph.add_edge(node.parent, node.id)
    return graph


def to_pandas(tree: Tree, table: str = "nodes", n_words: int = 10):
    """Return a table as ``pandas.DataFrame``: topics, nodes or documents."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("Tables need pandas: pip install 'hmom-jax[pandas]'.") from error
    if table not in TABLES:
        raise InputError(f"table must be one of {', '.join(TABLES)}; got {table!r}.")
    if table == "topics":
        leaves = tree.leaves
        names = pandas.Index(range(len(leaves)), name="leaf")
        return pandas.DataFrame(np.stack([leaf.topic for leaf in leaves]), names, tree.vocabulary)
    if table == "documents":
        labels = tree.labels()
        words = np.array([" ".join(tree.keywords(leaf, n_words)) for leaf in tree.leaves], dtype=object)
        columns = {"leaf": labels, "node": tree.doc_node, "keywords": words[labels]}
        return pandas.DataFrame(columns, pandas.Index(range(len(labels)), name="document"))
    names = ("parent", "depth", "n_docs", "mass", "weight", "spectral_gap", "off_diagonal", "simplex_violation")
    rows = [
        {name: getattr(node, name) for name in names}
        | {"is_leaf": node.is_leaf, "keywords": " ".join(tree.keywords(node, n_words)), "reason": node.reason}
        for node in tree.nodes
    ]
    frame = pandas.DataFrame(rows, pandas.Index(range(len(rows)), name="node"))
    return frame.astype({"parent": "Int64"})
