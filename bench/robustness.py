"""What keeps the robust tree right: known topics, garbage, and each ingredient taken away in turn.

    python bench/robustness.py                       # all three parts
    python bench/robustness.py --parts synthetic --seeds 20

Prints Markdown tables and writes them to bench/results/robustness_*.md, a part at a time.
"""

import argparse
import contextlib
import sys
import time
from pathlib import Path
from unittest import mock

import jax
import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import hmom_jax as hm  # noqa: E402
from bench.corpora import load_labelled  # noqa: E402
from hmom_jax.metrics import adjusted_rand_score, normalized_mutual_info_score  # noqa: E402
from hmom_jax.tree import bisect, effective, embedding, robust  # noqa: E402

SMALL = ("20newsgroups", "bbc_news", "planetmath", "dblp_titles", "m10_titles")


def synthetic(n_seeds: int) -> str:
    """Compare the tree's leaves with the topics that section 4.1's corpora were drawn from."""
    lines = [
        "| words per document | ARI, mean | sd | least | Bayes | trees with 8 leaves |",
        "|---|---|---|---|---|---|",
    ]
    for length in (200, 60):
        found, bayes, full = [], [], 0
        for seed in range(n_seeds):
            data = hm.datasets.hierarchical_topics(seed, doc_length=length)
            tree = hm.grow_tree(hm.Corpus.from_counts(data.counts), n_leaves=8)
            known = (data.counts @ np.log(data.topics) + np.log(data.weights)).argmax(1)
            found.append(adjusted_rand_score(data.labels, tree.labels()))
            bayes.append(adjusted_rand_score(data.labels, known))
            full += tree.n_leaves == 8
        lines.append(
            f"| {length} | {np.mean(found):.4f} | {np.std(found):.4f} | {min(found):.3f} | {np.mean(bayes):.4f} "
            f"| {full} of {n_seeds} |"
        )
    return "\n".join(lines)


def _with_garbage(counts, seed: int):
    """Replace 1% of the documents: half by random words, half by one word repeated 1000 times."""
    rng = np.random.default_rng(seed)
    n_docs, n_words = counts.shape
    bad = rng.choice(n_docs, max(2, n_docs // 100), replace=False)
    length = np.maximum(np.asarray(counts.sum(axis=1)).ravel()[bad], 5).astype(int)
    rows = np.zeros((len(bad), n_words), np.float32)
    for i in range(len(bad)):
        if i % 2:
            rows[i, rng.integers(n_words)] = 1000
        else:
            rows[i] = np.bincount(rng.integers(n_words, size=length[i]), minlength=n_words)
    clean = np.ones(n_docs, bool)
    clean[bad] = False
    keep = sp.diags_array(clean.astype(np.float32))
    place = sp.csr_array((np.ones(len(bad), np.float32), (bad, np.arange(len(bad)))), shape=(n_docs, len(bad)))
    return sp.csr_array(keep @ counts + place @ sp.csr_array(rows)), clean


def garbage(n_draws: int) -> str:
    """Score the untouched documents with and without garbage in the corpus."""
    lines = [
        "| corpus | NMI clean | NMI with garbage | mean loss | worst loss | leaves mainly untouched, least |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("bbc_news", "m10_titles", "20newsgroups", "dblp_titles"):
        data = load_labelled(name)
        grow = lambda counts, k=data.n_clusters: hm.grow_tree(hm.Corpus.from_counts(counts), n_leaves=k).labels()
        before = grow(data.counts)
        rows = []
        for draw in range(n_draws):
            counts, clean = _with_garbage(data.counts, draw)
            after = grow(counts)
            score = [normalized_mutual_info_score(data.labels[clean], labels[clean]) for labels in (before, after)]
            inside = np.array([clean[after == leaf].mean() for leaf in np.unique(after)])
            rows.append((*score, score[0] - score[1], (inside > 0.5).mean()))
        clean, dirty, loss, pure = np.array(rows).T
        lines.append(
            f"| {name} | {clean.mean():.3f} | {dirty.mean():.3f} | {loss.mean():.4f} | {loss.max():.4f} "
            f"| {pure.min():.2f} |"
        )
    return "\n".join(lines)


def _plain_scale(word_scale, m1):
    del word_scale
    return (m1 > 0).astype(m1.dtype)


def _no_squares(corpus):
    counts = corpus.counts.copy()
    counts.data = np.zeros_like(counts.data)
    return counts


def ingredients():
    """Return, for each ingredient, how to take it away."""
    value = mock.PropertyMock
    learn = effective.Effective.learn
    return {
        "all of it": contextlib.nullcontext,
        "no log of counts": lambda: mock.patch.object(
            effective.Effective, "learn", return_value=effective.Effective(False)
        ),
        "log of counts always": lambda: mock.patch.object(
            effective.Effective, "learn", return_value=effective.Effective(True)
        ),
        "no tempering": lambda: mock.patch.object(
            effective.Effective, "learn", lambda *c: effective.Effective(learn(*c).bursty, words=1e9)
        ),
        "no word scaling": lambda: mock.patch.object(embedding, "resolve_scale", _plain_scale),
        "diagonal kept in M2": lambda: mock.patch.object(hm.Corpus, "squares", property(_no_squares)),
        "coordinates not weighted": lambda: mock.patch.object(embedding, "POWER", 0.0),
        "every document alike (beta 1)": lambda: mock.patch.object(embedding, "BETA", 1.0),
        "hard borders between cells": lambda: mock.patch.object(bisect, "_BORDER", 1e-9),
        "no growing beyond and merging back": lambda: mock.patch.object(robust, "_OVERGROW", 1),
        "one step of EM before the merges": lambda: mock.patch.object(robust, "_STEPS_CELLS", 1),
        "topic prior 1% of a leaf": lambda: mock.patch.object(
            effective.Effective, "prior", new_callable=value, return_value=0.01
        ),
    }


def ablation(corpora=SMALL) -> str:
    """Take away one ingredient at a time (one seed)."""
    lines = ["| NMI | " + " | ".join(corpora) + " |", "|---" * (len(corpora) + 1) + "|"]
    data = {name: load_labelled(name) for name in corpora}
    for name, without in ingredients().items():
        scores = []
        jax.clear_caches()  # constants are baked into compiled code
        with without():
            for corpus in corpora:
                counts, labels, k = data[corpus].counts, data[corpus].labels, data[corpus].n_clusters
                tree = hm.grow_tree(hm.Corpus.from_counts(counts), n_leaves=k)
                scores.append(normalized_mutual_info_score(labels, tree.labels()))
        lines.append(f"| {name} | " + " | ".join(f"{score:.3f}" for score in scores) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", default="synthetic,garbage,ablation")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    options = parser.parse_args()
    parts = {
        "synthetic": lambda: synthetic(options.seeds),
        "garbage": lambda: garbage(options.draws),
        "ablation": ablation,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.parts.split(","):
        start = time.perf_counter()
        table = parts[name]()
        (options.out / f"robustness_{name}.md").write_text(table + "\n")
        print(f"\n## {name} ({time.perf_counter() - start:.0f} s)\n\n{table}", flush=True)


if __name__ == "__main__":
    main()
