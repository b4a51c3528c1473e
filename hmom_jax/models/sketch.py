r"""Sums over documents that add up: what a map-reduce (Spark, Dask, Ray) needs to find $M_1$ and the space of $M_2$.

Each worker sketches its own documents with the same block $\Omega$ (words x columns): the numerators of $M_1$ and of
$Y = M_2 \Omega$, and their constants. Sketches add, in any order. From the sum, Nystrom's formula
$M_2 \approx Y (\Omega' Y)^+ Y'$ gives the leading eigenpairs; word scaling can be applied afterwards, once $M_1$ is
known.

**One pass is not always enough.** With a random $\Omega$ the eigenvectors are as good as the eigenvalues beyond the
columns are small, and those of text fall slowly: a *second pass* with $\Omega$ the basis that the first one found is
needed for eigenvectors that a tree could be grown from, and each further one gains as a step of subspace iteration.
Assigning documents, and EM, are passes of their own: nothing that is linear in the documents replaces them.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError, default_key
from hmom_jax.keys import normal
from hmom_jax.models.single_topic import document_weights, single_topic_moments


class MomentSketch(NamedTuple):
    r"""Sums over some documents, in double precision on the host; a pytree of NumPy arrays.

    Attributes
    ----------
    constants
        $C_1$ and $C_2$.
    first
        $C_1 M_1$.
    product
        $C_2 M_2 \Omega$.
    """

    constants: Float[np.ndarray, "2"]
    first: Float[np.ndarray, " n_words"]
    product: Float[np.ndarray, "n_words columns"]


def random_block(n_words: int, columns: int, key=None) -> Float[np.ndarray, "n_words columns"]:
    r"""Return a Gaussian $\Omega$ for the first pass: the same on every worker that uses the same key.

    Examples
    --------
    >>> random_block(5, 2).shape
    (5, 2)
    """
    return np.asarray(normal(default_key(key), (), (n_words, columns), np.float32), np.float64)


def sketch_moments(corpus: Corpus, block: np.ndarray, beta: float | int = 0.0) -> MomentSketch:
    """Add up the documents of a corpus; add sketches of others with :func:`add_sketches`.

    Parameters
    ----------
    corpus
        Some of the documents, over the common vocabulary.
    block
        What to multiply the second moment with: :func:`random_block`, or the vectors found by a first pass.
    beta
        As for :func:`~hmom_jax.single_topic_moments`.

    Examples
    --------
    >>> from functools import reduce
    >>> counts = np.random.default_rng(0).poisson(1.0, (30, 6)).astype("f4")
    >>> parts = [Corpus.from_counts(part) for part in np.split(counts, 3)]  # each on its own machine
    >>> block = random_block(6, 3)
    >>> sketch = reduce(add_sketches, (sketch_moments(part, block) for part in parts))
    >>> again = reduce(add_sketches, (sketch_moments(part, sketched_eigenpairs(sketch, block)[1]) for part in parts))
    >>> bool(np.allclose(again.first, sketch.first))
    True
    """
    block = np.asarray(block, np.float64)
    if block.ndim != 2 or len(block) != corpus.n_words:
        raise InputError(f"block must be words x columns, with {corpus.n_words} words; got shape {block.shape}.")
    moments = single_topic_moments(corpus, beta)
    _, constants = document_weights(corpus.length, np.ones(corpus.n_docs), beta)
    constants = np.asarray(constants[:2], np.float64)
    product = np.asarray(moments.m2_times(block.astype(corpus.dtype)), np.float64)
    return MomentSketch(constants, constants[0] * np.asarray(moments.m1, np.float64), constants[1] * product)


def add_sketches(first: MomentSketch, second: MomentSketch) -> MomentSketch:
    """Add the sketches of two sets of documents, made with the same block."""
    return MomentSketch(*(a + b for a, b in zip(first, second, strict=True)))


def sketched_eigenpairs(
    sketch: MomentSketch, block: np.ndarray, word_scale: np.ndarray | None = None, tol: float = 1e-10
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return eigenvalues and eigenvectors of $S M_2 S$ as far as the sketch knows them, largest first.

    Parameters
    ----------
    sketch, block
        The sum of all sketches, and the block they were made with.
    word_scale
        The scaling $s$; None for 1.
    tol
        Directions in which the block saw nothing, relative to the largest, are left out.
    """
    scale = np.ones(len(block)) if word_scale is None else np.asarray(word_scale, np.float64)
    product = sketch.product / max(sketch.constants[1], np.finfo(float).tiny)
    core = np.asarray(block, np.float64).T @ product
    values, vectors = np.linalg.eigh(0.5 * (core + core.T))
    kept = np.abs(values) > tol * np.abs(values).max(initial=np.finfo(float).tiny)
    basis, triangle = np.linalg.qr(scale[:, None] * product)
    half = triangle @ vectors[:, kept]
    values, rotation = np.linalg.eigh((half / values[kept]) @ half.T)
    return values[::-1], basis @ rotation[:, ::-1]
