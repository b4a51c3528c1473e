"""Estimators with the interface of scikit-learn: thin shells over trees and decompositions.

Loaded on first use (``hmom_jax.HierarchicalTopicModel``), because scikit-learn is an extra.
"""

import warnings
from numbers import Integral

import jax
import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("The estimators need scikit-learn: pip install 'hmom-jax[sklearn]'.") from error

from hmom_jax import decompose
from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError
from hmom_jax.models import single_topic_moments
from hmom_jax.tree.grow import grow_tree
from hmom_jax.tree.probabilities import log_scores, mixture_log_likelihood, softmax
from hmom_jax.whitening import whiten

_traced_whiten = jax.jit(whiten, static_argnames="rank")  # inside jit it does not raise
METHODS = ("sidiwo", "tensor_power", "svd_method", "whitened_als", "random_projection")


class _TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """What both estimators share: input, prediction and score. Documents in rows, words in columns."""

    def fit_transform(self, X, y=None, sample_weight=None):
        """Fit, and return the topic probabilities of the same documents."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit, and return the topic of each of the same documents."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def score(self, X, y=None) -> float:
        r"""Return the log-likelihood per word of (held-out) documents: higher is better.

        $\sum_n \log \sum_j \omega_j \prod_w \mu_{jw}^{x_{nw}}$ over the number of words, topics floored at 1e-6;
        without the multinomial coefficient, which does not depend on the model.
        """
        corpus = self._corpus(X)
        return float(self._log_likelihood(corpus).sum() / max(corpus.length.sum(), 1.0))

    def _corpus(self, X, reset: bool = False) -> Corpus:
        """Check the counts as scikit-learn does, and lay them out."""
        if not reset:
            check_is_fitted(self)
        X = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float32, np.float64], ensure_min_samples=1 + reset
        )
        if (X.data if hasattr(X, "tocsr") else X).min(initial=0) < 0:
            raise ValueError(f"Negative values in data passed to {type(self).__name__}: counts are expected.")
        with warnings.catch_warnings():  # pipelines weight counts on purpose
            warnings.filterwarnings("ignore", "Many values are not whole numbers")
            return Corpus.from_counts(X, getattr(self, "feature_names_in_", None))

    def _fit_input(self, X, sample_weight):
        """Return the corpus and the weights of its documents as given (None: all alike), not all of them zero."""
        corpus = self._corpus(X, reset=True)
        if sample_weight is None:
            return corpus, None
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if weights.max() <= 0:
            raise ValueError("All sample weights are zero.")
        return corpus, weights

    def _key(self):
        """Return the JAX key of ``random_state``."""
        state = self.random_state
        seed = int(state) if isinstance(state, Integral) else check_random_state(state).randint(2**31)
        return jax.random.key(seed)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


class HierarchicalTopicModel(_TopicModel):
    """A tree of topics over word counts; see :func:`hmom_jax.grow_tree`.

    Parameters
    ----------
    depth
        Number of successive splits.
    n_leaves
        Number of leaves; where neither is given, as many as the evidence bears.
    method
        ``"robust"`` or ``"paper"`` (which needs ``depth``).
    min_leaf, max_depth
        Robust trees: least number of documents that a split may set apart, and the largest depth of a leaf.
    random_state
        Seed, or a NumPy generator of the old kind; None draws one.

    Attributes
    ----------
    tree_
        The :class:`hmom_jax.Tree`.
    labels_
        Leaf of each training document.
    components_
        Topics of the leaves, leaves x words.
    n_leaves_
        Number of leaves.
    n_features_in_, feature_names_in_
        What was seen in ``fit``.

    Examples
    --------
    >>> from hmom_jax import HierarchicalTopicModel, datasets
    >>> data = datasets.hierarchical_topics(seed=0)
    >>> model = HierarchicalTopicModel(n_leaves=8).fit(data.counts)
    >>> model.transform(data.counts).shape, model.predict(data.counts[:3]).tolist() == model.labels_[:3].tolist()
    ((400, 8), True)
    """

    def __init__(self, depth=None, n_leaves=None, method="robust", min_leaf=3, max_depth=None, random_state=0):
        self.depth = depth
        self.n_leaves = n_leaves
        self.method = method
        self.min_leaf = min_leaf
        self.max_depth = max_depth
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Grow the tree of the documents in the rows of ``X``."""
        corpus, weights = self._fit_input(X, sample_weight)
        self.tree_ = grow_tree(
            corpus,
            self.depth,
            n_leaves=self.n_leaves,
            method=self.method,
            min_leaf=self.min_leaf,
            max_depth=self.max_depth,
            key=self._key(),
            sample_weight=weights,
        )
        self.labels_ = self.tree_.labels()
        self.components_ = np.stack([leaf.topic for leaf in self.tree_.leaves])
        self.n_leaves_ = self._n_features_out = len(self.components_)
        return self

    def predict(self, X) -> np.ndarray:
        """Return the leaf of each document."""
        corpus = self._corpus(X)
        return self.tree_.assign(corpus)

    def transform(self, X) -> np.ndarray:
        """Return the probability of each leaf for each document."""
        corpus = self._corpus(X)
        return self.tree_.probabilities(corpus)

    def _log_likelihood(self, corpus: Corpus) -> np.ndarray:
        return self.tree_.log_likelihood(corpus)


class SpectralTopicModel(_TopicModel):
    """Flat topics by one decomposition of the moments.

    Parameters
    ----------
    n_components
        Number of topics; fewer, with a warning, where the second moment has fewer positive eigenvalues.
    method
        ``"sidiwo"``, ``"tensor_power"``, ``"svd_method"``, ``"whitened_als"`` or ``"random_projection"``: the functions
        of the same names.
    beta, word_scale
        Which moments; see :func:`hmom_jax.single_topic_moments`.
    random_state
        Seed, or a NumPy generator of the old kind; None draws one.

    Attributes
    ----------
    components_
        Topics, topics x words.
    weights_
        Their weights.
    labels_
        Topic of each training document.
    decomposition_
        All that the method reports: objective, convergence, and more.
    n_features_in_, feature_names_in_
        What was seen in ``fit``.

    Examples
    --------
    >>> from hmom_jax import SpectralTopicModel, datasets
    >>> data = datasets.hierarchical_topics(seed=0)
    >>> SpectralTopicModel(n_components=4).fit(data.counts).transform(data.counts).shape
    (400, 4)
    """

    def __init__(self, n_components=8, method="sidiwo", beta=0.0, word_scale=None, random_state=0):
        self.n_components = n_components
        self.method = method
        self.beta = beta
        self.word_scale = word_scale
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Decompose the moments of the documents in the rows of ``X``."""
        if self.method not in METHODS:
            raise InputError(f"method must be one of {', '.join(METHODS)}; got {self.method!r}.")
        corpus, weights = self._fit_input(X, sample_weight)
        if corpus.n_words < self.n_components:
            raise InputError(
                f"n_components is {self.n_components}; there are fewer words: n_features = {corpus.n_words}."
            )
        membership = None if weights is None else weights / weights.max()
        moments = single_topic_moments(corpus, beta=self.beta, membership=membership, word_scale=self.word_scale)
        self.decomposition_ = found = self._decompose(moments)
        self.components_ = np.ascontiguousarray(np.asarray(found.topics).T)
        self.weights_ = np.asarray(found.weights)
        self._n_features_out = len(self.components_)
        self.labels_ = self._scores(corpus).argmax(1)
        return self

    def _decompose(self, moments):
        """Decompose; where the documents bear fewer topics than asked for, say so and go on with those."""
        method, key = getattr(decompose, self.method), self._key()
        try:
            return method(moments, self.n_components, key=key)
        except InputError:
            rank = min(self.n_components, moments.m1.shape[-1])
            void = _traced_whiten(moments, rank, key).void
            positive = int(np.sum(~np.asarray(void)))
            if not 0 < positive < self.n_components:
                raise
        warnings.warn(
            f"The documents bear {positive} topic(s); {self.n_components} were asked for.",
            ConvergenceWarning,
            stacklevel=3,
        )
        return method(moments, positive, key=key)

    def predict(self, X) -> np.ndarray:
        """Return the most probable topic of each document."""
        corpus = self._corpus(X)
        return self._scores(corpus).argmax(1)

    def transform(self, X) -> np.ndarray:
        """Return the probability of each topic for each document."""
        scores = self._scores(self._corpus(X))
        return softmax(scores).astype(self.components_.dtype)

    def _scores(self, corpus: Corpus) -> np.ndarray:
        return log_scores(corpus, self.components_.T, self.weights_)

    def _log_likelihood(self, corpus: Corpus) -> np.ndarray:
        return mixture_log_likelihood(corpus, self.components_.T, self.weights_)
