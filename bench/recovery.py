"""Lemma 3.1: with exact moments and l = k, every method returns the topics.

    python -m bench.recovery [--problems 100]

Topics from Dirichlet(0.3), d = 10 l. Success: largest L1 error of a topic below 1e-4 in float32, 1e-8 in float64.
"""

import argparse
from functools import partial

import jax
import numpy as np
from scipy.optimize import linear_sum_assignment

import hmom_jax as hm
from bench.common import METHODS, machine, markdown, write

RANKS = (2, 3, 5, 10, 20)
PLAIN = {"ALS (plain, as published)": partial(hm.whitened_als, n_orthogonal=0)}


def main() -> None:
    """Run every method at every rank in both precisions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=100)
    n_problems = parser.parse_args().problems
    results = {}
    for dtype, limit in ((np.float32, 1e-4), (np.float64, 1e-8)):
        with jax.enable_x64(dtype is np.float64):
            for name, method in (METHODS | PLAIN).items():
                for rank in RANKS:
                    errors = [error(method, seed, rank, dtype) for seed in range(n_problems)]
                    results[f"{name} / {dtype.__name__} / {rank}"] = errors
                    print(name, dtype.__name__, rank, f"{np.mean(np.array(errors) < limit):.2f} {max(errors):.1e}")
    parts = ["# Lemma 3.1: exact moments, l = k", f"{n_problems} problems each. Machine: {machine()}."]
    for dtype, limit in (("float32", 1e-4), ("float64", 1e-8)):
        rows = []
        for name in METHODS | PLAIN:
            errors = [np.array(results[f"{name} / {dtype} / {rank}"]) for rank in RANKS]
            rows.append([name, *(f"{np.mean(e < limit):.0%} ({e.max():.0e})" for e in errors)])
        parts += [
            f"**{dtype}**: share of problems with all topics within {limit:.0e} (largest error)",
            markdown(["method", *(f"l = {rank}" for rank in RANKS)], rows),
        ]
    quantiles = {name: np.quantile(errors, (0, 0.5, 0.9, 1)).tolist() for name, errors in results.items()}
    write("recovery", "\n\n".join(parts), {"machine": machine(), "least, median, 90%, largest error": quantiles})


def error(method, seed: int, rank: int, dtype) -> float:
    """Return the largest L1 error of a topic, topics matched."""
    rng = np.random.default_rng([seed, rank])
    topics = rng.dirichlet(np.full(10 * rank, 0.3), rank).T
    weights = rng.dirichlet(np.full(rank, 5.0))
    found = np.asarray(method(hm.population_moments(topics.astype(dtype), weights.astype(dtype)), rank).topics)
    distance = np.abs(found[:, :, None] - topics[:, None, :]).sum(0)
    return float(distance[linear_sum_assignment(distance)].max())


if __name__ == "__main__":
    main()
