"""How fast trees grow on this machine, beside the tools that others would use, as far as they are installed."""

import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from hmom_jax import metrics
from hmom_jax.cli import rivals
from hmom_jax.cli.machine import device_line, watch_compilation
from hmom_jax.corpus import Corpus
from hmom_jax.sparse import product
from hmom_jax.tree import grow_tree

# Layout of the JSON file; results from other machines can be compared as long as it is the same.
SCHEMA = "hmom_jax/bench/1"
_COLUMNS = 32


def measure(corpus: Corpus, labels: np.ndarray | None, n_leaves: int, repeats: int, say) -> dict:
    """Time the robust tree and its rivals, interleaved; ``say`` is told what goes on."""
    compiled, start = watch_compilation(), time.perf_counter()
    tree = grow_tree(corpus, n_leaves=n_leaves)
    first, compiling = time.perf_counter() - start, compiled()
    say(f"first tree {first:.1f} s, of which {compiling:.1f} s compiling")
    runs = {"hmom_jax": lambda: grow_tree(Corpus(corpus.counts, corpus.vocabulary), n_leaves=n_leaves).labels()}
    rows = {"hmom_jax": {"seconds": [], "labels": tree.labels()}}
    for name, rival in RIVALS.items():
        try:
            begin = time.perf_counter()
            rows[name] = {"labels": rival(corpus, n_leaves)}
            rows[name]["seconds"] = [time.perf_counter() - begin]
            runs[name] = lambda rival=rival: rival(corpus, n_leaves)
        except ImportError as error:
            say(f"{name} left out: {error}")
    for number in range(repeats):
        say(f"round {number + 1} of {repeats}")
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            rows[name]["seconds"].append(time.perf_counter() - begin)
    for row in rows.values():
        found = row.pop("labels")
        if labels is not None:
            row["nmi"] = metrics.normalized_mutual_info_score(labels, found)
    return {
        "schema": SCHEMA,
        "device": device_line(),
        "jax": jax.__version__,
        "cores": os.cpu_count(),
        "documents": corpus.n_docs,
        "words": corpus.n_words,
        "nonzeros": corpus.nnz,
        "leaves": n_leaves,
        "import_seconds": import_seconds(),
        "first_seconds": first,
        "compile_seconds": compiling,
        "pass": pass_speed(corpus),
        "tools": rows,
    }


def report(found: dict) -> str:
    """Return the results as Markdown."""
    ours = min(found["tools"]["hmom_jax"]["seconds"])
    lines = [
        f"{found['documents']} documents, {found['words']} words, {found['nonzeros']} nonzeros, {found['leaves']} "
        f"leaves; {found['device']}, {found['cores']} cores, jax {found['jax']}",
        f"import {found['import_seconds']:.1f} s, first tree {found['first_seconds']:.1f} s (compiling "
        f"{found['compile_seconds']:.1f} s); one pass with {_COLUMNS} columns: "
        f"{found['pass']['nonzeros_per_second'] / 1e6:.0f} million nonzeros, at least "
        f"{found['pass']['bytes_per_second'] / 1e9:.1f} GB, per second",
        "",
        "| tool | seconds, best | times ours | NMI with the labels |",
        "|---|---|---|---|",
    ]
    for name, row in found["tools"].items():
        best = min(row["seconds"])
        score = f"{row['nmi']:.3f}" if "nmi" in row else ""
        lines.append(f"| {name} | {best:.3g} | {best / ours:.2f} | {score} |")
    return "\n".join(lines)


def import_seconds() -> float:
    """Time the import of the library in a process that has imported nothing yet."""
    code = "import time; start = time.perf_counter(); import hmom_jax; print(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def pass_speed(corpus: Corpus) -> dict:
    """Return nonzeros per second of one pass by document, and the bytes that it must move in that time."""
    table = jnp.ones((corpus.n_words, _COLUMNS), corpus.dtype)
    best = np.inf
    for _ in range(20):
        start = time.perf_counter()
        jax.block_until_ready(product(corpus.by_doc, table))
        best = min(best, time.perf_counter() - start)
    size, index = corpus.dtype.itemsize, jax.tree.leaves(corpus.by_doc.index)[0].dtype.itemsize
    moved = corpus.nnz * (index + size) + (corpus.n_docs + corpus.n_words) * _COLUMNS * size
    return {"nonzeros_per_second": corpus.nnz / best, "bytes_per_second": moved / best}


# name -> (corpus, number of clusters) -> labels
RIVALS = {
    "k-means, tf-idf + LSA (scikit-learn)": lambda corpus, n: rivals.kmeans(rivals.lsa(corpus.counts), n),
    "bisecting k-means, tf-idf + LSA (scikit-learn)": lambda corpus, n: (
        rivals.bisecting(rivals.lsa(corpus.counts), n).labels_
    ),
    "LDA, 200 iterations (tomotopy)": lambda corpus, n: rivals.tomotopy_lda(
        corpus.counts, corpus.vocabulary, n, seed=0, workers=os.cpu_count() or 1
    ),
}
