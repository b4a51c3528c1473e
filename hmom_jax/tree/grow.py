"""Growing a tree: the one function that users call."""

import zlib
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Key

from hmom_jax.corpus import Corpus
from hmom_jax.decompose.sidiwo import SOLVERS, resolve_solver, sidiwo
from hmom_jax.errors import InputError, check_finite, check_sample_weight, default_key
from hmom_jax.parallel.checkpoint import Checkpoint, NoCheckpoint
from hmom_jax.parallel.mesh import on_mesh
from hmom_jax.parallel.stream import StreamedCorpus
from hmom_jax.progress import progress_bar
from hmom_jax.tree.paper import grow_by_levels
from hmom_jax.tree.robust import grow_robust
from hmom_jax.tree.tree import Tree

METHODS = ("robust", "paper")


def grow_tree(
    corpus: Corpus,
    depth: int | None = None,
    *,
    n_leaves: int | str | None = None,
    method: str | None = None,
    min_leaf: int = 3,
    max_depth: int | None = None,
    key: Key[Array, ""] | None = None,
    decompose=sidiwo,
    solver: str = "auto",
    branching: int = 2,
    sample_weight=None,
    beta: float | int = 0.0,
    word_scale: str | None = None,
    progress: bool = False,
    mesh=None,
    checkpoint=None,
    resume: bool = False,
) -> Tree:
    """Grow a tree of topics over a corpus.

    Parameters
    ----------
    corpus
        The documents, in memory or (robust trees) on disk, see :meth:`Corpus.open`.
    depth
        Number of successive splits: up to ``branching ** depth`` leaves.
    n_leaves
        Number of leaves, or ``"auto"`` (the default where ``depth`` is not given): as many as the evidence bears.
    method
        ``"robust"``, made for real text; or ``"paper"``, Algorithm 2 of the paper: every node split down to
        ``depth`` by SIDIWO. By default ``"paper"`` where ``depth`` is given, else ``"robust"``. A robust tree asked for
        by ``depth`` has ``2 ** depth`` leaves.
    min_leaf, max_depth
        Robust trees: least number of documents that a split may set apart, and the largest depth of a leaf.
    key
        Random key; None is a fixed key. Each node's key is folded with its path.
    decompose
        How a node's moments are decomposed (paper's tree, like all that follows up to ``word_scale``): any method with
        the signature of :func:`~hmom_jax.sidiwo`.
    solver
        Passed to :func:`~hmom_jax.sidiwo`; ``"grid"`` is the paper's own, for two children per split.
    branching
        Children per split.
    sample_weight
        Weight of each document, 1 by default. Documents of weight 0 are only assigned.
    beta, word_scale
        Which moments; see :func:`~hmom_jax.single_topic_moments`.
    progress
        Show a progress bar on standard error (needs the ``cli`` extra).
    mesh
        Robust trees: devices to spread the documents over, as ``jax.make_mesh((n,), ("docs",),
        axis_types=(jax.sharding.AxisType.Auto,))`` makes them. With several processes (``jax.distributed``) each one
        gives its own documents; all get the same tree, in which those of process 0 come first.
    checkpoint, resume
        Robust trees: a folder to keep what each round found; with ``resume`` a tree that was cut short goes on after
        its last complete round, and comes out the same. Another corpus, release or other options are refused.

    References
    ----------
    Ruffini, Rabusseau and Balle (2017), Algorithm 2.

    Examples
    --------
    >>> from hmom_jax import Corpus, datasets
    >>> data = datasets.hierarchical_topics(seed=0)
    >>> tree = grow_tree(Corpus.from_counts(data.counts), depth=3)
    >>> tree.n_leaves
    8
    """
    if not isinstance(corpus, Corpus):
        raise InputError(f"corpus must be a Corpus (see Corpus.from_counts); got {type(corpus).__name__}.")
    if method is None:
        method = "robust" if depth is None else "paper"
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    if depth is not None:
        if n_leaves is not None:
            raise InputError("Give depth or n_leaves, not both.")
        depth = _whole("depth", depth, 1)
    sample_weight = check_sample_weight(sample_weight, corpus.n_docs)
    if resume and checkpoint is None:
        raise InputError("resume needs checkpoint: the folder to go on from.")
    if checkpoint is not None and method == "paper":
        raise InputError("checkpoint is an option of method='robust'.")
    if mesh is not None:
        if method == "paper":
            raise InputError("mesh is an option of method='robust'; the paper's tree grows on one device.")
        corpus = on_mesh(corpus.load() if isinstance(corpus, StreamedCorpus) else corpus, mesh)
    elif method == "paper" and isinstance(corpus, StreamedCorpus):
        raise InputError("The paper's tree grows in memory: Corpus.open(folder).load() brings the counts there.")
    if not corpus.add_up(np.count_nonzero((corpus.length > 0) & (sample_weight > 0))):
        raise InputError("No document of positive weight has any words.")
    if method == "robust":
        if decompose is not sidiwo or solver != "auto" or branching != 2 or beta != 0 or word_scale is not None:
            raise InputError("decompose, solver, branching, beta and word_scale are options of method='paper'.")
        if depth is not None:
            n_leaves = 2**depth
        elif n_leaves is None:
            n_leaves = "auto"
        if n_leaves != "auto":
            n_leaves = _whole("n_leaves", n_leaves, 1)
        key, min_leaf = default_key(key), _whole("min_leaf", min_leaf, 1)
        max_depth = None if max_depth is None else _whole("max_depth", max_depth, 1)
        keeper = NoCheckpoint()
        if checkpoint is not None:
            options = {
                "n_leaves": n_leaves,
                "min_leaf": min_leaf,
                "max_depth": max_depth,
                "key": np.asarray(jax.random.key_data(key)).tolist(),
                "sample_weight": f"{zlib.crc32(sample_weight.tobytes()):08x}",
            }
            keeper = Checkpoint(checkpoint, corpus, options, resume)
        with progress_bar(progress, 4, "growing") as watch:
            return grow_robust(
                corpus,
                n_leaves,
                key=key,
                sample_weight=sample_weight,
                min_leaf=min_leaf,
                max_depth=max_depth,
                watch=watch,
                checkpoint=keeper,
            )
    if not np.any((corpus.length >= 3) & (sample_weight > 0)):
        raise InputError("No document of positive weight has 3 words or more: the third moment needs three.")
    if depth is None:
        raise InputError("method='paper' needs depth: the number of successive splits.")
    branching = _whole("branching", branching, 2)
    if solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}; got {solver!r}.")
    if decompose is sidiwo:
        decompose = _Method(sidiwo, [("solver", resolve_solver(solver, branching))])
    elif solver != "auto":
        raise InputError("solver is for decompose=sidiwo; set options of other methods with functools.partial.")
    else:
        decompose = _Method(decompose)
    check_finite("beta", beta)
    if word_scale is not None and not isinstance(word_scale, str):
        raise InputError("word_scale must be None or 'inverse_sqrt' in a tree: it follows each node's own words.")
    with progress_bar(progress, depth, "splitting") as watch:
        return grow_by_levels(
            corpus,
            depth,
            branching=branching,
            decompose=decompose,
            key=default_key(key),
            sample_weight=sample_weight,
            beta=float(beta),
            word_scale=word_scale,
            watch=watch,
        )


class _Method:
    """A decomposition with its options, equal to any other of the same function and options.

    ``functools.partial`` objects compare by identity, which would compile anew for every call.
    """

    def __init__(self, function, options=()):
        while isinstance(function, partial):
            if function.args:
                raise InputError("decompose takes its options by keyword: functools.partial(method, option=value).")
            options = (*function.keywords.items(), *options)
            function = function.func
        self.function, self.options = function, tuple(sorted(options))

    def __call__(self, moments, rank, key):
        return self.function(moments, rank, key=key, **dict(self.options))

    def __eq__(self, other):
        return isinstance(other, _Method) and (self.function, self.options) == (other.function, other.options)

    def __hash__(self):
        return hash((self.function, self.options))


def _whole(name: str, value, least: int) -> int:
    """Check a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    return int(value)
