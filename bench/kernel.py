"""The two sparse products against SciPy and jax.experimental.sparse, and against what memory allows.

Targets: on one core our product within 1.1 times of SciPy's better layout in single precision, and two cores at least
1.5 times as fast as one. The report says how far they are reached.

    python bench/kernel.py                # about ten minutes
    python bench/kernel.py --quick        # a tenth of the nonzeros

X (documents x words, Zipf words) times a dense block ("by document"), and its transpose times one ("by word"). Two
processes, one pinned to a core before JAX starts and one free, take turns, a quarter of a second for each contender, so
that other work on the machine hits both alike; of all calls the best counts. A call is eight products, as eigensolvers
and EM make them: for JAX in one compiled loop, in which memory is taken once. Compilation is timed apart. Least traffic
is what any method has to move once: indices and counts, the dense block, the result.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from functools import cache, partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

LENGTHS, WORDS, COLUMNS = (10, 50, 200), (3_000, 100_000), (1, 8, 32, 64)
PRODUCTS = 8  # of a call
TICKS = (0.2, 0.4, 0.6, 1, 1.5)  # of the plot
SLOW = ("BCOO", "segment_sum")  # several times slower: fewer calls
OURS, SCIPY = "ours", ("SciPy csr", "SciPy csc")


def worker(cores: str) -> None:
    """Answer one line of JSON on standard input by one on standard output."""
    if cores == "one":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from bench.common import turn  # which imports JAX

    cases = {}
    for line in sys.stdin:
        ask = json.loads(line)
        if ask["do"] == "bandwidth":
            answer = _bandwidth()
        elif ask["do"] == "prepare":
            cases.clear()
            cases.update(_contenders(**ask["case"], extra=cores == "one"))
            answer = {name: _first(case) for name, case in cases.items()}
            answer["nnz"] = next(iter(cases.values())).nnz
        else:
            best = lambda name: min(turn(cases[name].run, least=1 if name[1] in SLOW else 3))
            answer = {name: best(name) / PRODUCTS for name in cases if ask["slow"] or name[1] not in SLOW}
        print(json.dumps([[*key, value] if isinstance(key, tuple) else [key, value] for key, value in answer.items()]))
        sys.stdout.flush()


def _seconds(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _bandwidth() -> dict:
    """Bytes per second that a copy and a compiled addition read and write."""
    import jax
    import numpy as np

    source, target = np.ones(1 << 25, np.float32), np.ones(1 << 25, np.float32)
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    value = jax.block_until_ready(add(source))
    seconds = {"copy": [], "add": []}
    for _ in range(7):
        seconds["copy"].append(_seconds(lambda: np.copyto(target, source)))
        start = time.perf_counter()
        value = jax.block_until_ready(add(value))
        seconds["add"].append(time.perf_counter() - start)
    return {name: 2 * source.nbytes / min(times) for name, times in seconds.items()}


class _Case:
    """A contender: how to run it, and the result it should have."""

    def __init__(self, run, expected, nnz=None):
        self.run, self.expected, self.nnz = run, expected, nnz


def _first(case) -> dict:
    """Compile, run once, and compare with SciPy."""
    import numpy as np

    start = time.perf_counter()
    found = np.asarray(case.run())[: len(case.expected)]
    compiled = time.perf_counter() - start - _seconds(case.run)
    error = float(np.abs(found - case.expected).max() / np.abs(case.expected).max())
    return {"compile": max(compiled, 0.0), "error": error}


@cache
def _corpus(n_docs: int, length: int, n_words: int):
    import hmom_jax as hm
    from bench.scaling import zipf_corpus

    return hm.Corpus.from_counts(zipf_corpus(n_docs, length, n_words))


def _contenders(n_docs: int, length: int, n_words: int, columns: int, extra: bool) -> dict:
    """Lay out one problem for every method; the free process runs ours alone (SciPy has one thread)."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import scipy.sparse as sp
    from jax.experimental import sparse as jsparse

    from hmom_jax.compilation import quick_jit
    from hmom_jax.sparse import product

    def in_loop(times, matrix, block):
        def step(_, state):  # each product waits for the one before it
            block, found = state
            # Written before it is read, the block stays in place: read before, it would be copied for every product.
            block = block.at[0, 0].add(1e-30 * found[0, 0])
            return block, times(matrix, block)

        shape = jax.eval_shape(times, matrix, block)
        return jax.lax.fori_loop(0, PRODUCTS, step, (block, jnp.zeros(shape.shape, shape.dtype)))[1]

    def jax_case(times, matrix, block, expected, jit=jax.jit):
        looped = jit(partial(in_loop, times))
        matrix, block = jax.device_put((matrix, block))
        return _Case(lambda: jax.block_until_ready(looped(matrix, block)), expected)

    def scipy_case(matrix, block, expected):
        def run():
            for _ in range(PRODUCTS):
                found = matrix @ block
            return found

        return _Case(run, expected)

    def segment(n_rows, entries, block):
        data, rows, at = entries
        taken = data[:, None] * block.at[at].get(mode="promise_in_bounds")
        return jax.ops.segment_sum(taken, rows, n_rows, indices_are_sorted=True)

    corpus = _corpus(n_docs, length, n_words)
    rng = np.random.default_rng(1)
    blocks = {
        "document": rng.normal(size=(n_words, columns)).astype(np.float32),
        "word": rng.normal(size=(corpus.by_doc.n_rows, columns)).astype(np.float32),
    }
    found = {}
    for side, layout in (("document", corpus.by_doc), ("word", corpus.arrays.by_word)):
        matrix = corpus.counts if side == "document" else sp.csr_array(corpus.counts.T)
        block = blocks[side][: matrix.shape[1]]
        expected = matrix @ block
        found[side, OURS] = jax_case(product, layout, blocks[side], expected, quick_jit)
        found[side, OURS].nnz = corpus.nnz
        if not extra:
            continue
        found[side, "SciPy csr"] = scipy_case(matrix, block, expected)
        found[side, "SciPy csc"] = scipy_case(matrix.tocsc(), block, expected)
        times = lambda matrix, block: matrix @ block
        bcsr = jsparse.BCSR((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        found[side, "BCSR"] = jax_case(times, bcsr, block, expected)
        coo = matrix.tocoo()
        pairs = np.stack(coo.coords, axis=1)
        bcoo = jsparse.BCOO((coo.data, pairs), shape=matrix.shape, indices_sorted=True, unique_indices=True)
        found[side, "BCOO"] = jax_case(times, bcoo, block, expected)
        entries = (coo.data, *map(np.asarray, coo.coords))
        found[side, "segment_sum"] = jax_case(partial(segment, len(expected)), entries, block, expected)
    return found


class _Child:
    """The bench's worker in a process of its own."""

    def __init__(self, cores: str):
        command = [sys.executable, str(Path(__file__).resolve()), "--worker", cores]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, do: str, **more) -> dict:
        """Send one request, wait for the answer."""
        self.process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("A process of the bench ended before its answer.")
        return {tuple(name) if len(name) > 1 else name[0]: value for *name, value in json.loads(line)}

    def close(self):
        """Let the process end."""
        self.process.stdin.close()
        self.process.wait()


def measure(nnz: int, turns: int, lengths) -> tuple[list[dict], dict]:
    """Run all cases; returns one row for each, and the bandwidths."""
    one, free = _Child("one"), _Child("free")
    rows = []
    try:
        bandwidth = {"one core": one.ask("bandwidth"), "two cores": free.ask("bandwidth")}
        for length in lengths:
            for n_words in WORDS:
                for columns in COLUMNS:
                    case = {"n_docs": nnz // length, "length": length, "n_words": n_words, "columns": columns}
                    rows += _measure_case(one, free, case, turns)
                    print(length, n_words, columns, [round(row["ratio"], 2) for row in rows[-2:]], file=sys.stderr)
    finally:
        one.close()
        free.close()
    return rows, bandwidth


def _measure_case(one, free, case, turns):
    first = one.ask("prepare", case=case)
    free.ask("prepare", case=case)
    best: dict = {}
    for turn in range(turns):
        for cores, child in (("one", one), ("free", free)):
            for (side, name), seconds in child.ask("run", slow=turn < 2).items():
                key = side, name if cores == "one" else "ours, two cores"
                best[key] = min(seconds, best.get(key, seconds))
    rows = []
    for side in ("document", "word"):
        seconds = {name: value for (at, name), value in best.items() if at == side}
        n_rows = case["n_docs"], case["n_words"]
        rows.append(
            {
                **case,
                "nnz": first["nnz"],
                "side": side,
                "seconds": seconds,
                "compile": first[side, OURS]["compile"],
                "error": max(first[side, name]["error"] for name in seconds if (side, name) in first),
                "ratio": seconds[OURS] / min(seconds[name] for name in SCIPY),
                "speedup": seconds[OURS] / seconds["ours, two cores"],
                "least_bytes": 8 * first["nnz"] + 4 * case["columns"] * sum(n_rows),
            }
        )
    return rows


def report(rows: list[dict], bandwidth: dict) -> str:
    """Write the tables and what they say of the targets."""
    import numpy as np

    from bench.common import machine, markdown

    names = [OURS, "ours, two cores", *SCIPY, "BCSR", *SLOW]
    table = []
    stream = max(bandwidth["one core"].values())
    for row in rows:
        cells = [f"{row['seconds'][name] / row['nnz'] * 1e9:.2f}" for name in names]
        reached = row["least_bytes"] / row["seconds"][OURS] / stream
        table.append(
            [row["side"], row["length"], row["n_words"], row["columns"], *cells]
            + [f"{row['ratio']:.2f}", f"{row['speedup']:.2f}", f"{reached:.0%}", f"{row['compile']:.2f}"]
        )
    head = [
        "by",
        "nonzeros per document",
        "words",
        "columns",
        *names,
        "ours / best SciPy",
        "one core / two",
        "roofline",
    ]
    ratio, speedup = (np.array([row[name] for row in rows]) for name in ("ratio", "speedup"))
    wide = np.array([row["columns"] > 1 for row in rows])
    middle = lambda values: f"{np.exp(np.log(values).mean()):.2f} ({values.min():.2f} to {values.max():.2f})"
    speed = {cores: {name: f"{value / 1e9:.1f} GB/s" for name, value in at.items()} for cores, at in bandwidth.items()}
    return "\n".join(
        [
            "# Sparse products\n",
            f"{machine()}. Nanoseconds per nonzero, best call; one core where nothing else is said.\n",
            markdown([*head, "compile, s"], table),
            "\n## Targets\n",
            markdown(
                ["target", "geometric mean (range)", "cases that reach it"],
                [
                    [
                        "ours / best SciPy at most 1.1, one core",
                        middle(ratio),
                        f"{(ratio <= 1.1).sum()} of {len(rows)}",
                    ],
                    [
                        "same, more than one column",
                        middle(ratio[wide]),
                        f"{(ratio[wide] <= 1.1).sum()} of {wide.sum()}",
                    ],
                    ["two cores at least 1.5 times", middle(speedup), f"{(speedup >= 1.5).sum()} of {len(rows)}"],
                ],
            ),
            f"\nStreaming (read and write): one core {speed['one core']}, two {speed['two cores']}. The roofline"
            " column is least traffic over time, as a share of the faster stream of one core; tables that do not fit in"
            " cache are read many times over. Largest difference from SciPy, relative:"
            f" {max(row['error'] for row in rows):.1e}.",
        ]
    )


def plot(rows: list[dict], path) -> None:
    """Draw the ratio to SciPy's better layout, one panel per side and vocabulary; a line at the target of 1.1."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 6.6), sharex=True, sharey=True, layout="constrained")
    for axis, (side, n_words) in zip(axes.flat, [(s, w) for s in ("document", "word") for w in WORDS], strict=True):
        for length, colour in zip(LENGTHS, ("#2166ac", "#b2182b", "#1b7837"), strict=True):
            here = [r for r in rows if (r["side"], r["n_words"], r["length"]) == (side, n_words, length)]
            best = [min(r["seconds"][name] for name in SCIPY) for r in here]
            columns = [r["columns"] for r in here]
            for name, style in ((OURS, "-"), ("ours, two cores", ":")):
                times = [r["seconds"][name] / b for r, b in zip(here, best, strict=True)]
                axis.plot(columns, times, style, color=colour, marker="o", label=f"{length} per document, {name}")
        axis.axhline(1.1, color="#878787", linewidth=1)
        axis.set(title=f"by {side}, {n_words:,} words", xscale="log", yscale="log")
        axis.set_xticks(COLUMNS, COLUMNS)
        axis.set_yticks(TICKS, TICKS)
        axis.minorticks_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("time / best SciPy")
    for axis in axes[1]:
        axis.set_xlabel("columns")
    lines = axes[0, 0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--lengths", default="10,50,200", help="nonzeros per document; others are kept from the last run"
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--name", default="kernel", help="name of the result files")
    parser.add_argument("--worker", choices=["one", "free"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker)
        return
    from bench.common import RESULTS, write

    lengths = [int(length) for length in options.lengths.split(",")]
    stored = RESULTS / f"{options.name}.json"
    kept = json.loads(stored.read_text())["rows"] if stored.exists() else []
    rows, bandwidth = measure(200_000 if options.quick else 2_000_000, options.turns, lengths)
    rows = sorted([row for row in kept if row["length"] not in lengths] + rows, key=lambda row: row["length"])
    write(options.name, report(rows, bandwidth), {"rows": rows, "bandwidth": bandwidth})
    if {row["length"] for row in rows} == set(LENGTHS):
        plot(rows, RESULTS / f"{options.name}.png")


if __name__ == "__main__":
    main()
