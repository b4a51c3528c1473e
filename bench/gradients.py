"""What derivatives cost: value and gradient of a topic's weight in all document weights, against the value alone.

    python -m bench.gradients

Claim: implicit derivatives take at most three times as long as the forward pass, and memory that does not depend on the
number of iterations. Warm, best of several, interleaved; the built-in docstring corpus. Writes results/gradients.md
and .json.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import hmom_jax as hm
from bench.common import machine, markdown, write


def case(corpus: hm.Corpus, rank: int, repeats: int) -> dict:
    """Time one rank."""

    def weight(arrays, membership, max_iter=500):
        return hm.sidiwo(hm.single_topic_moments(arrays, 0.0, membership), rank, max_iter=max_iter).weights[0]

    runs = {"forward": jax.jit(weight), "both": jax.jit(jax.value_and_grad(weight, argnums=1))}
    everyone = jnp.ones(corpus.n_docs, corpus.dtype)
    best = dict.fromkeys(runs, np.inf)
    for run in runs.values():
        jax.block_until_ready(run(corpus.arrays, everyone))
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            jax.block_until_ready(run(corpus.arrays, everyone))
            best[name] = min(best[name], time.perf_counter() - start)
    short = jax.value_and_grad(lambda arrays, membership: weight(arrays, membership, max_iter=5), argnums=1)
    memory = {
        name: run.lower(corpus.arrays, everyone).compile().memory_analysis().temp_size_in_bytes
        for name, run in (runs | {"both, 5 iterations": jax.jit(short)}).items()
    }
    gradient = runs["both"](corpus.arrays, everyone)[1]
    return {"seconds": best, "bytes": memory, "finite": bool(jnp.isfinite(gradient).all())}


def main() -> None:
    """Run all ranks in both precisions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args()
    data = hm.datasets.docstrings()
    rows, results = [], {}
    for precision in ("float32", "float64"):
        with jax.enable_x64(precision == "float64"):
            corpus = hm.Corpus.from_counts(data.counts.astype(precision), data.vocabulary)
            for rank in (2, 3, 8):
                found = results[f"{precision}/{rank}"] = case(corpus, rank, options.repeats)
                seconds, memory = found["seconds"], found["bytes"]
                rows.append(
                    [precision, rank, f"{seconds['forward']:.3f}", f"{seconds['both']:.3f}",
                     f"{seconds['both'] / seconds['forward']:.2f}", f"{memory['forward'] / 2**20:.1f}",
                     f"{memory['both'] / 2**20:.1f}", f"{memory['both, 5 iterations'] / 2**20:.1f}",
                     "yes" if found["finite"] else "no"]
                )  # fmt: skip
    head = [
        "precision",
        "rank",
        "forward, s",
        "with gradient, s",
        "ratio",
        "forward, MiB",
        "with gradient, MiB",
        "the same, at most 5 iterations",
        "finite",
    ]
    text = f"# Cost of derivatives\n\n{machine()}; {corpus}\n\n" + markdown(head, rows)
    write("gradients", text, {"machine": machine(), "cases": results})


if __name__ == "__main__":
    main()
