"""Built-in corpora, without download: one drawn at random, one of text that every install has."""

import importlib
import inspect
import pkgutil
import re
import warnings
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from hmom_jax.errors import InputError
from hmom_jax.text import ENGLISH_STOP_WORDS, count_words


class Dataset(NamedTuple):
    """Counts with their vocabulary and labels; ``topics`` and ``weights`` where they are known.

    Attributes
    ----------
    counts
        Documents x words.
    vocabulary
        The words.
    labels
        True class of each document, 0 to ``len(label_names) - 1``.
    label_names
        Names of the classes.
    topics, weights
        Parameters the corpus was drawn from, topics in columns; None for real text.
    documents
        Name and first line of each document; None where there is no text.
    """

    counts: sp.csr_array
    vocabulary: np.ndarray
    labels: np.ndarray
    label_names: np.ndarray
    topics: np.ndarray | None = None
    weights: np.ndarray | None = None
    documents: np.ndarray | None = None


def hierarchical_topics(
    seed: int = 0,
    *,
    n_docs: int = 400,
    n_words: int = 100,
    doc_length: int = 200,
    n_groups: int = 2,
    noise: float | int = 0.1,
) -> Dataset:
    r"""Draw the synthetic corpus of section 4.1: eight topics in two groups of four that share words.

    Each group owns a range of words cut into four blocks (13, 13, 13 and 11 of 50). Block 1 is high in all four
    topics of the group, block 2 in topics 1 and 3, block 3 in 1 and 2, block 4 in 3 and 4: probability 0.7 where
    high, 0.1 everywhere else, plus uniform noise, normalised.

    Parameters
    ----------
    seed
        Seed of the generator.
    n_docs, n_words, doc_length
        Size of the corpus; all documents have the same length.
    n_groups
        Number of groups of four topics (2 in the paper).
    noise
        Upper end of the uniform noise.

    Examples
    --------
    >>> data = hierarchical_topics(seed=0)
    >>> data.counts.shape, data.topics.shape
    ((400, 100), (100, 8))
    """
    if min(n_docs, doc_length, n_groups) < 1 or n_words < 4 * n_groups:
        raise InputError(
            "n_docs, doc_length and n_groups must be at least 1, n_words at least 4 per group; "
            f"got {n_docs}, {doc_length}, {n_groups} and {n_words}."
        )
    rng = np.random.default_rng(seed)
    high = [(0, 1, 2, 3), (0, 2), (0, 1), (2, 3)]  # which topics of a group are high in each block
    topics = np.full((n_words, 4 * n_groups), 0.1)
    edges = np.linspace(0, n_words, n_groups + 1).astype(int)
    for group in range(n_groups):
        start, stop = edges[group], edges[group + 1]
        size = -(-(stop - start) // 4)
        cuts = np.minimum(start + size * np.arange(5), stop)
        for block, members in enumerate(high):
            for topic in members:
                topics[cuts[block] : cuts[block + 1], 4 * group + topic] = 0.7
    topics += rng.uniform(0, noise, topics.shape)
    topics /= topics.sum(axis=0)
    weights = rng.uniform(size=4 * n_groups)
    weights /= weights.sum()
    labels = rng.choice(4 * n_groups, size=n_docs, p=weights)
    counts = np.zeros((n_docs, n_words), np.int64)
    for topic in range(4 * n_groups):
        inside = np.flatnonzero(labels == topic)
        counts[inside] = rng.multinomial(doc_length, topics[:, topic], size=len(inside))
    names = np.array([f"topic {topic + 1}" for topic in range(4 * n_groups)])
    words = np.array([f"w{word}" for word in range(n_words)])
    return Dataset(sp.csr_array(counts), words, labels, names, topics, weights)


_PACKAGES = ("numpy", "scipy", "jax")
_SKIP = ("test", "conftest", "_")

# Section heads and type words of the documentation format: in nearly every document, about nothing.
_FORMAT_WORDS = """
    parameters returns return examples example notes note see also default optional bool int float str none true
    false array arrays ndarray array_like shape dtype object type value values import numpy scipy jax jnp self args
    kwargs versionadded versionchanged deprecated ref references func class meth attr mod math doi https http org
    www com input inputs output outputs axis element elements argument arguments parameter specified following
    function functions must set based compute computes computed new two first second call called result results
    raises
    """.split()


@cache
def docstrings(min_tokens: int = 30) -> Dataset:
    """Return the documentation of the installed NumPy, SciPy and JAX as a corpus.

    One document per public function, class and method whose documentation has some length, labelled by module.
    What comes out depends on the installed versions.

    Parameters
    ----------
    min_tokens
        Leave out documentation with fewer words than this.
    """
    texts, labels, titles = [], [], []
    # All modules before the first docstring: importing SciPy edits documentation of NumPy.
    modules = {package: _public_modules(package) for package in _PACKAGES}
    for package in _PACKAGES:
        for label, name, text in _documentation(package, modules[package]):
            if len(text.split()) >= min_tokens:
                texts.append(text)
                labels.append(label)
                titles.append(f"{label}.{name}: {_summary(text)}")
    counts, vocabulary = count_words(texts, stop_words=ENGLISH_STOP_WORDS | set(_FORMAT_WORDS))
    names, numbers = np.unique(np.array(labels), return_inverse=True)
    return Dataset(counts, vocabulary, numbers, names, documents=np.array(titles))


def _summary(text: str) -> str:
    """Return the first paragraph of a docstring that is not a signature."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]
    prose = [paragraph for paragraph in paragraphs if not re.match(r"[\w.]+\(", paragraph)]
    return (prose or paragraphs or [""])[0]


def _documentation(package: str, modules):
    """Yield (module, name, docstring) of all public objects in the modules of a package, each docstring once."""
    seen = set()
    for module in modules:
        label = ".".join(module.__name__.split(".")[:2])
        for name, item in sorted(vars(module).items()):
            if name.startswith("_") or not _belongs(item, package):
                continue
            yield from _fresh(label, name, item, seen)
            if inspect.isclass(item):
                for attribute, method in sorted(vars(item).items()):
                    if not attribute.startswith("_") and callable(method):
                        yield from _fresh(label, f"{name}.{attribute}", method, seen)


def _fresh(label, name, item, seen):
    """Yield the documentation of an object unless it has been seen (modules re-export each other)."""
    text = inspect.getdoc(item) if callable(item) else None
    if text and text not in seen:
        seen.add(text)
        yield label, name, text


def _belongs(item, package: str) -> bool:
    return str(getattr(item, "__module__", None) or package).split(".")[0] in (package, "builtins")


def _public_modules(package: str) -> list:
    """Import a package and its public modules one level below; those that cannot be imported are passed over."""
    root = importlib.import_module(package)
    modules = [root]
    for info in sorted(pkgutil.iter_modules(root.__path__), key=lambda info: info.name):
        if info.name.startswith(_SKIP):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                modules.append(importlib.import_module(f"{package}.{info.name}"))
        except ImportError:
            continue
    return modules
