"""Trees in files: arrays without pickles, everything else as JSON, in one zip that any language can open.

Members: ``tree.json`` (format version, nodes, settings), ``vocabulary.json``, and arrays in NumPy's format. A file is
checked from end to end before a tree is made of it: it may come from anywhere, and nothing in it is run.
"""

import json
import math

import numpy as np

from hmom_jax.errors import InputError
from hmom_jax.io.npz import parse_array, read_members
from hmom_jax.io.write import write_npz
from hmom_jax.tree.leaf_model import LeafModel
from hmom_jax.tree.polish import Mixture
from hmom_jax.tree.tree import Node, Tree

FORMAT = "hmom_jax tree"
VERSION = 1
_KIND = "a tree saved by `hmom tree --save` (or Tree.save)"
_NUMBERS = ("mass", "weight")
_DIAGNOSTICS = ("spectral_gap", "off_diagonal", "simplex_violation", "confidence")
_FIELDS = {"parent", "depth", "n_docs", "component", "children", "reason", "converged", "split_order"}
_FIELDS |= {*_NUMBERS, *_DIAGNOSTICS}
_METHODS = ("robust", "paper")


def save_tree(tree: Tree, path) -> None:
    """Write a tree to one file, atomically; :func:`load_tree` reads it back.

    Labels, assignment of new documents, keywords and exports are the same after a round trip.
    """
    model = tree.model
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "method": tree.method,
        "nodes": [{name: getattr(node, name) for name in sorted(_FIELDS)} for node in tree.nodes],
        "model": None if model is None else {"bursty": model.bursty, "words": model.words},
        "metadata": tree.metadata,
    }
    arrays = {
        "topics": np.stack([node.topic for node in tree.nodes]),
        "doc_node": tree.doc_node.astype(np.int32),
        "word_probability": tree.word_probability,
    }
    if model is not None:
        arrays |= {
            "log_ratio": np.asarray(model.mixture.log_ratio),
            "log_weight": np.asarray(model.mixture.log_weight),
            "mean": np.asarray(model.mixture.mean),
            "component_node": model.node.astype(np.int32),
        }
    write_npz(path, arrays, {"tree.json": _json(meta), "vocabulary.json": _json(tree.vocabulary.tolist())})


def load_tree(path) -> Tree:
    """Read a tree that :meth:`Tree.save` wrote.

    Parameters
    ----------
    path
        The file. It may come from anywhere: sizes, types, numbers and the shape of the tree are checked, and
        nothing in it is run.

    Raises
    ------
    InputError
        Not a tree, damaged, or of a newer format.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from hmom_jax import Corpus, datasets, grow_tree
    >>> tree = grow_tree(Corpus.from_counts(datasets.hierarchical_topics(0).counts), depth=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tree.save(pathlib.Path(folder, "my.hmom"))
    ...     (load_tree(pathlib.Path(folder, "my.hmom")).labels() == tree.labels()).all().item()
    True
    """
    members = read_members(path, _KIND)
    need = _Checks(path)
    meta = need.json(members, "tree.json", dict)
    if meta.get("format") != FORMAT:
        raise InputError(f"{path}: not {_KIND}.")
    version = meta.get("version")
    if type(version) is not int or version < 1:
        raise InputError(f"{path}: the format version is {version!r}; a whole number was expected.")
    if version > VERSION:
        raise InputError(
            f"{path}: written in format {version} by a newer hmom_jax; this one reads up to {VERSION}: upgrade it."
        )
    method = meta.get("method")
    need(method in _METHODS, f"the method {method!r} is not one of {', '.join(_METHODS)}")
    words = need.json(members, "vocabulary.json", list)
    need(bool(words) and all(type(word) is str for word in words), "the vocabulary is not a list of words")
    need(len(set(words)) == len(words), "the vocabulary repeats words")
    nodes = _nodes(need, meta.get("nodes"))
    n_words, n_nodes = len(words), len(nodes)
    topics = need.array(members, "topics", "f", (n_nodes, n_words))
    need.distribution("topics", topics)
    probability = need.array(members, "word_probability", "f", (n_words,))
    need.distribution("word_probability", probability)
    doc_node = need.array(members, "doc_node", "i", (None,)).astype(np.int64)
    is_leaf = np.array([node.is_leaf for node in nodes])
    need.leaves("doc_node", doc_node, is_leaf)
    for node, topic in zip(nodes, topics, strict=True):
        node.topic = topic
    metadata = meta.get("metadata", {})
    need(isinstance(metadata, dict), "the metadata are not a JSON object")
    model = _model(need, members, meta.get("model"), n_words, is_leaf)
    need((model is None) == (method == "paper"), f"the method is {method!r}, which does not fit the rest")
    vocabulary = np.array(words, dtype=str)
    return Tree(nodes, vocabulary, doc_node, probability.astype(np.float64), method, model, metadata)


class _Checks:
    """Assertions about one file; all failures are input errors that name it."""

    def __init__(self, path):
        self.path = path

    def __call__(self, condition: bool, otherwise: str) -> None:
        if not condition:
            raise InputError(f"{self.path}: {otherwise}.")

    def member(self, members, name: str) -> bytes:
        self(name in members, f"not {_KIND}: {name!r} is missing")
        return members[name]

    def json(self, members, name: str, kind: type):
        try:
            value = json.loads(self.member(members, name).decode("utf-8"))
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path}: {name!r} is not JSON ({error}).") from error
        self(type(value) is kind, f"{name!r} is not a JSON {'object' if kind is dict else 'list'}")
        return value

    def array(self, members, name: str, kinds: str, shape: tuple) -> np.ndarray:
        array = parse_array(self.path, name, self.member(members, f"{name}.npy"))
        fits = len(array.shape) == len(shape) and all(
            want is None or want == have for want, have in zip(shape, array.shape, strict=True)
        )
        self(fits and array.dtype.kind in kinds, f"{name!r} has type {array.dtype} and shape {array.shape}")
        self(kinds != "f" or array.dtype.itemsize in (4, 8), f"{name!r} has type {array.dtype}")
        self(bool(np.all(np.isfinite(array))), f"{name!r} holds values that are not finite")
        return array

    def distribution(self, name: str, array: np.ndarray) -> None:
        sums = array.sum(-1, dtype=np.float64)
        self(bool(np.all(array >= 0) and np.all(np.abs(sums - 1) < 1e-2)), f"{name!r} does not hold probabilities")

    def leaves(self, name: str, node: np.ndarray, is_leaf: np.ndarray) -> None:
        inside = bool(np.all((node >= 0) & (node < len(is_leaf)))) and bool(np.all(is_leaf[node]))
        self(inside, f"{name!r} names nodes that are not leaves")


def _nodes(need: _Checks, records) -> list[Node]:
    """Rebuild the nodes, and see that they make a tree numbered depth first."""
    need(type(records) is list and len(records) > 0, "there are no nodes")
    whole = lambda value: type(value) is int and 0 <= value < 2**62
    real = lambda value: type(value) in (int, float) and math.isfinite(value)
    nodes = []
    for number, record in enumerate(records):
        bad = f"node {number} is not described as it should be"
        need(type(record) is dict and set(record) == _FIELDS, bad)
        need(all(whole(record[name]) for name in ("depth", "n_docs", "component")), bad)
        need(all(real(record[name]) and record[name] >= 0 for name in _NUMBERS), bad)
        need(all(record[name] is None or real(record[name]) for name in _DIAGNOSTICS), bad)
        need(record["reason"] is None or type(record["reason"]) is str, bad)
        need(record["converged"] is None or type(record["converged"]) is bool, bad)
        need(type(record["children"]) is list and all(whole(child) for child in record["children"]), bad)
        children = record["children"]
        need(len(children) != 1 and (record["split_order"] is None) == (not children), bad)
        need(record["split_order"] is None or whole(record["split_order"]), bad)
        parent = record["parent"]
        if number == 0:
            need(parent is None and record["depth"] == 0, bad)
        else:
            need(whole(parent) and parent < number, bad)
            need(record["depth"] == nodes[parent].depth + 1 and number in nodes[parent].children, bad)
        need(all(number < child < len(records) for child in children) and len(set(children)) == len(children), bad)
        values = {name: float(record[name]) for name in _NUMBERS}
        values |= {name: None if record[name] is None else float(record[name]) for name in _DIAGNOSTICS}
        nodes.append(Node(**{**record, **values, "children": tuple(children)}, id=number, topic=np.zeros(0)))
    for node in nodes:
        need(all(nodes[child].parent == node.id for child in node.children), f"node {node.id} has foreign children")
    return nodes


def _model(need: _Checks, members, settings, n_words: int, is_leaf: np.ndarray) -> LeafModel | None:
    """Rebuild the mixture of a robust tree."""
    if settings is None:
        return None
    need(type(settings) is dict and set(settings) == {"bursty", "words"}, "the model's settings are not as expected")
    bursty, words = settings["bursty"], settings["words"]
    fits = words is None or (type(words) in (int, float) and math.isfinite(words) and words >= 0)
    need(type(bursty) is bool and fits, "the model's settings are not as expected")
    log_ratio = need.array(members, "log_ratio", "f", (n_words, None))
    n_components = log_ratio.shape[1]
    log_weight = need.array(members, "log_weight", "f", (n_components,))
    mean = need.array(members, "mean", "f", (n_words,))
    node = need.array(members, "component_node", "i", (n_components,)).astype(np.int64)
    need(n_components > 0, "the model has no components")
    need.leaves("component_node", node, is_leaf)
    need(bool(np.all(mean >= 0)), "'mean' does not hold probabilities")
    return LeafModel(Mixture(log_ratio, log_weight, mean), bursty, None if words is None else float(words), node)


def _json(value) -> bytes:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
