"""Splitting one leaf by hand: the rest of the tree stays."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError
from hmom_jax.tree.effective import Effective
from hmom_jax.tree.grow import grow_tree
from hmom_jax.tree.leaf_model import LeafModel
from hmom_jax.tree.polish import Mixture
from hmom_jax.tree.tree import Node, Tree, number_depth_first


def split_leaf(tree: Tree, node: Node | int, corpus: Corpus, n_leaves: int = 2, **options) -> Tree:
    """Return the tree with one leaf split into ``n_leaves``, by growing a tree of its documents alone.

    See :meth:`Tree.split`.
    """
    leaf = tree._node(node)
    if not leaf.is_leaf:
        raise InputError(f"Node {leaf.id} is not a leaf.")
    if corpus.n_docs != len(tree.doc_node):
        raise InputError(f"The corpus the tree was grown on is needed ({len(tree.doc_node)} documents).")
    tree._check_vocabulary(corpus)
    inside = np.flatnonzero(tree.doc_node == leaf.id)
    part = corpus.take(inside)
    if tree.model is None:
        if n_leaves < 2 or n_leaves & (n_leaves - 1):
            raise InputError(f"n_leaves must be a power of two in the paper's tree; got {n_leaves}.")
        options = {"depth": n_leaves.bit_length() - 1, **options}
    else:
        options = {"n_leaves": n_leaves, **options}
    grown = grow_tree(part, method=tree.method, **options)
    if grown.n_leaves < 2:
        raise InputError(f"Leaf {leaf.id} does not split further: {grown.root.reason or 'too few documents'}.")
    nodes, ids = _graft(tree, leaf, grown)
    model = None if tree.model is None else _split_model(tree, leaf, grown, part, ids)
    nodes, new = number_depth_first(nodes, root=0)
    doc_node = tree.doc_node.copy()
    doc_node[inside] = ids[grown.doc_node]
    doc_node = new[doc_node]
    if model is not None:
        model = model._replace(node=new[model.node])
        doc_node = model.assign(corpus)
        _recount(nodes, doc_node)
    result = replace(tree, nodes=nodes, doc_node=doc_node, model=model)
    result.nodes, new = number_depth_first(result.nodes, root=0)  # sizes may have changed
    result.doc_node = new[result.doc_node]
    if model is not None:
        result.model = model._replace(node=new[model.node])
    return result


def _graft(tree: Tree, leaf: Node, grown: Tree) -> tuple[list[Node], np.ndarray]:
    """Hang the nodes below the root of ``grown`` under the leaf; returns all nodes and where the new ones are."""
    nodes = [replace(node) for node in tree.nodes]
    ids = np.concatenate([[leaf.id], len(nodes) + np.arange(len(grown.nodes) - 1)])
    after = 1 + max((node.split_order for node in tree.nodes if node.split_order is not None), default=-1)
    for node in grown.nodes:
        node = replace(node, id=int(ids[node.id]), children=tuple(int(ids[child]) for child in node.children))
        if node.split_order is not None:
            node.split_order += after
        if node.parent is None:
            old = nodes[leaf.id]
            nodes[leaf.id] = replace(
                old, children=node.children, split_order=node.split_order, reason=None, converged=node.converged,
                spectral_gap=node.spectral_gap, off_diagonal=node.off_diagonal,
                simplex_violation=node.simplex_violation,
            )  # fmt: skip
        else:
            node.parent = int(ids[node.parent])
            nodes.append(node)
    return nodes, ids


def _split_model(tree: Tree, leaf: Node, grown: Tree, part: Corpus, ids: np.ndarray) -> LeafModel:
    """Replace the leaf's component by one for each new leaf, on the scale of the tree's own mixture."""
    model = tree.model
    documents = Effective(model.bursty).apply(part)
    temper = documents.temper(model.words)
    mean = np.asarray(model.mixture.mean, np.float64)
    labels, k = grown.labels(), grown.n_leaves
    member = sp.csr_array((temper, (labels, np.arange(part.n_docs))), shape=(k, part.n_docs))
    sums = (member @ documents.corpus.counts).toarray().astype(np.float64)
    topics = sums + documents.effective.prior * sums.sum() / k * mean + 1e-9
    topics /= topics.sum(1, keepdims=True)
    sizes = np.bincount(labels, minlength=k) + 1
    here = model.node == leaf.id
    weight = np.log(np.exp(np.asarray(model.mixture.log_weight, np.float64)[here]).sum() * sizes / sizes.sum())
    dtype = model.mixture.log_ratio.dtype
    ratio = np.where(mean[:, None] > 0, np.log(topics.T) - np.log(mean + 1e-12)[:, None], 0.0)
    mixture = Mixture(
        np.concatenate([np.asarray(model.mixture.log_ratio)[:, ~here], ratio.astype(dtype)], axis=1),
        np.concatenate([np.asarray(model.mixture.log_weight)[~here], weight.astype(dtype)]),
        model.mixture.mean,
    )
    node = np.concatenate([model.node[~here], ids[[leaf.id for leaf in grown.leaves]]])
    return model._replace(mixture=mixture, node=node)


def _recount(nodes: list[Node], doc_node: np.ndarray) -> None:
    """Count documents anew: near the border of the split leaf a few may have changed sides."""
    docs = np.bincount(doc_node, minlength=len(nodes))
    for node in reversed(nodes):
        if node.children:
            docs[node.id] = docs[list(node.children)].sum()
        if node.n_docs != docs[node.id]:
            node.mass *= docs[node.id] / max(node.n_docs, 1)
            node.n_docs = int(docs[node.id])
