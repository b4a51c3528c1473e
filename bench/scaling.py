"""Time and memory of the robust tree as corpora, vocabularies and trees grow.

Claims: at 10,000 words the time per nonzero at 100 million nonzeros is at most 1.5 times that at 10 million; memory
beyond the counts is at most 24 bytes per nonzero at rest and 60 at the peak; a vocabulary of a million words works.

    python bench/scaling.py                  # up to 10 million nonzeros, some ten minutes
    python bench/scaling.py --largest        # and 100 million, which needs some 8 GiB

Corpora have Zipf words, about a hundred different ones in a document, 32 topics. Each tree is grown in a process of its
own: first with everything to compile ("cold"), then from the same counts again ("warm": layouts and tree, nothing to
compile). Memory at rest is what the process holds once the tree is there, its layouts included, at the peak the
most that it ever held, both less what it held before the corpus was made and less the counts (8 bytes a nonzero).
OpenBLAS gets one thread: on a machine that other work shares, its waiting threads burn up to twenty times the work.
"""

import argparse
import gc
import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

LENGTH = 100
BASE = {"nnz": 1_000_000, "n_words": 10_000, "n_leaves": 16}
SIZES = (1_000_000, 10_000_000)
LARGEST = 100_000_000
VOCABULARIES = (3_000, 30_000, 100_000, 1_000_000)
LEAVES = (2, 8, 64, 256)


def zipf_corpus(n_docs: int, length: int, n_words: int, *, n_topics: int = 32, seed: int = 0) -> sp.csr_array:
    """Draw documents of about ``length`` different words: half from Zipf's law, half from a topic's shift of it.

    Made in parts, so that memory stays near that of the result.
    """
    rng = np.random.default_rng(seed)
    law = np.cumsum(1 / np.arange(1, n_words + 1))
    law /= law[-1]
    shift = rng.integers(n_words, size=n_topics)
    shuffle = rng.permutation(n_words).astype(np.int32)  # frequent words are not neighbours

    def part(size, draws):
        topic = rng.integers(n_topics, size=size)
        word = np.searchsorted(law, rng.random((size, draws)))
        word += np.where(rng.random((size, draws)) < 0.5, shift[topic][:, None], 0)
        word = shuffle[word % n_words]
        place = np.broadcast_to(np.arange(size)[:, None], word.shape).ravel()
        counts = sp.csr_array((np.ones(word.size, np.float32), (place, word.ravel())), shape=(size, n_words))
        counts.sum_duplicates()
        return counts

    draws = length
    for _ in range(4):  # words repeat: draw as many as leave ``length`` different ones
        draws = max(length, round(draws * length / (part(500, draws).nnz / 500)))
    step = max(1, 2_000_000 // draws)
    parts = [part(min(step, n_docs - first), draws) for first in range(0, n_docs, step)]
    ends = np.cumsum([0] + [p.nnz for p in parts])
    starts = [p.indptr[:-1].astype(np.int64) + end for p, end in zip(parts, ends, strict=False)]
    indptr = np.concatenate([*starts, ends[-1:]]).astype(np.int32)
    indices, data = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.float32)
    for number, end in enumerate(ends[1:]):
        indices[ends[number] : end], data[ends[number] : end] = parts[number].indices, parts[number].data
        parts[number] = None
    return sp.csr_array((data, indices, indptr), shape=(n_docs, n_words))


def _resident() -> int:
    """Bytes that the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _phases():
    """Time the parts of a robust tree by wrapping them; returns seconds by part, filled as they run."""
    import jax

    from hmom_jax.tree import robust

    seconds = {}

    def timed(name, function):
        def run(*arguments, **options):
            start = time.perf_counter()
            result = jax.block_until_ready(function(*arguments, **options))
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
            return result

        return run

    for name in ("embed", "grow_cells", "em", "merge_order", "assemble"):
        setattr(robust, name, timed(name, getattr(robust, name)))
    return seconds


def one(nnz: int, n_words: int, n_leaves: int) -> dict:
    """Grow the tree twice, in this process."""
    import jax

    import hmom_jax as hm

    jax.block_until_ready(jax.numpy.ones(3) + 1)
    held = _resident()  # before drawing: what that leaves behind in the heap must not hide what the tree needs
    counts = zipf_corpus(nnz // LENGTH, LENGTH, n_words)
    drawn = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    _reset_peak()
    corpus = hm.Corpus.from_counts(counts)
    shape, n_counts = counts.shape, counts.nnz
    del counts
    seconds, phases = {}, _phases()
    for state in ("cold", "warm"):
        phases.clear()
        fresh = hm.Corpus(corpus.counts, corpus.vocabulary)  # without the layouts of the tree before
        start = time.perf_counter()
        tree = hm.grow_tree(fresh, n_leaves=n_leaves)
        seconds[state] = time.perf_counter() - start
    gc.collect()
    peak = _peak()
    return {
        "nnz": n_counts,
        "n_docs": shape[0],
        "n_words": shape[1],
        "asked": n_leaves,
        "leaves": tree.n_leaves,
        **seconds,
        "phases": dict(phases),
        "rest": (_resident() - held) / n_counts - 8,
        "peak": (peak - held) / n_counts - 8,
        "largest_resident": max(drawn, peak),
    }


def _reset_peak() -> None:
    """Forget the peak so far: drawing the corpus is not what is measured."""
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Most bytes held since the last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child(limit: float, **case) -> dict:
    """Run :func:`one` in a process of its own; a failure is a row, not a gap."""
    from bench.common import in_child  # here: each case starts with a process that has imported nothing

    return case | in_child([Path(__file__).resolve(), "--one", json.dumps(case)], limit, OPENBLAS_NUM_THREADS="1")


def slope(rows: list[dict], by: str, value: str = "warm") -> float:
    """Fit the exponent of growth on logarithmic axes."""
    rows = [row for row in rows if "failed" not in row]
    if len(rows) < 2:
        return float("nan")
    return float(np.polyfit(np.log([row[by] for row in rows]), np.log([row[value] for row in rows]), 1)[0])


def report(series: dict[str, list[dict]]) -> str:
    """Write the tables, the slopes and the targets."""
    from bench.common import machine, markdown

    head = ["nonzeros", "words", "leaves (asked)", "cold, s", "warm, s", "warm, ns per nonzero"]
    head += ["at rest, bytes per nonzero", "peak, bytes per nonzero", "where the time goes"]
    text = ["# How the robust tree scales\n", f"{machine()}.\n"]
    for by, rows in series.items():
        table = []
        for row in rows:
            if "failed" in row:
                table.append([row["nnz"], row["n_words"], row["n_leaves"], f"failed: {row['failed']}", *[""] * 5])
                continue
            parts = sorted(row["phases"].items(), key=lambda part: -part[1])
            table.append(
                [f"{row['nnz']:,}", f"{row['n_words']:,}", f"{row['leaves']} ({row['asked']})", f"{row['cold']:.2f}"]
                + [f"{row['warm']:.2f}", f"{row['warm'] / row['nnz'] * 1e9:.0f}", f"{row['rest']:.1f}"]
                + [f"{row['peak']:.1f}", ", ".join(f"{name} {part / row['warm']:.0%}" for name, part in parts[:3])]
            )
        exponent = slope(rows, by)
        text += [f"## By {by}\n", markdown(head, table), f"\nTime grows as {by} to the power {exponent:.2f}.\n"]
    return "\n".join([*text, "## Targets\n", markdown(["target", "measured", "holds"], targets(series))])


def targets(series) -> list[list[str]]:
    """Compare with what is claimed."""
    verdict = lambda good: "yes" if good else "no"
    rows = []
    done = {row["nnz"]: row for row in series["nnz"] if "failed" not in row}
    ten, hundred = (
        next((row for n, row in done.items() if abs(n / size - 1) < 0.1), None) for size in (SIZES[-1], LARGEST)
    )
    if ten and hundred:
        ratio = hundred["warm"] / hundred["nnz"] / (ten["warm"] / ten["nnz"])
        rows.append(["time per nonzero, 100 M over 10 M, at most 1.5", f"{ratio:.2f}", verdict(ratio <= 1.5)])
    large = hundred or ten
    if large:
        size = f"{round(large['nnz'] / 1e6)} M"
        rows.append([f"at rest at most 24 bytes, {size}", f"{large['rest']:.1f}", verdict(large["rest"] <= 24)])
        rows.append([f"peak at most 60 bytes, {size}", f"{large['peak']:.1f}", verdict(large["peak"] <= 60)])
    for row in series["n_words"]:
        if row["n_words"] == VOCABULARIES[-1]:
            good = "failed" not in row
            rows.append(["a million words", f"{row['warm']:.1f} s" if good else row["failed"], verdict(good)])
    return rows


def plot(series: dict[str, list[dict]], path) -> None:
    """Draw time against each size, and memory against nonzeros."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
    names = {"nnz": "nonzeros", "n_words": "words", "leaves": "leaves"}
    for axis, (by, rows) in zip(axes.flat, series.items(), strict=False):
        rows = sorted((row for row in rows if "failed" not in row), key=lambda row: row[by])
        if not rows:
            continue
        size = [row[by] for row in rows]
        axis.plot(size, [row["cold"] for row in rows], "o:", color="#878787", label="cold")
        axis.plot(size, [row["warm"] for row in rows], "o-", color="#b2182b", label="warm")
        axis.set(xscale="log", yscale="log", xlabel=names[by], ylabel="seconds", title=f"power {slope(rows, by):.2f}")
        axis.legend()
    rows = [row for row in series["nnz"] if "failed" not in row]
    axis = axes[1, 1]
    for name, colour, limit in (("rest", "#2166ac", 24), ("peak", "#b2182b", 60)):
        axis.plot([row["nnz"] for row in rows], [row[name] for row in rows], "o-", color=colour, label=name)
        axis.axhline(limit, color=colour, linewidth=1, linestyle="--")
    axis.set(xscale="log", xlabel="nonzeros", ylabel="bytes per nonzero beyond the counts", ylim=(0, None))
    axis.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--largest", action="store_true", help="also 100 million nonzeros")
    parser.add_argument("--only", default="nnz,n_words,leaves", help="which series; others are kept from the last run")
    parser.add_argument("--limit", type=float, default=240, help="seconds for one tree (900 for the largest)")
    parser.add_argument("--name", default="scaling", help="name of the result files")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(**json.loads(options.one))))
        return
    from bench.common import RESULTS, write

    stored = RESULTS / f"{options.name}.json"
    series = json.loads(stored.read_text())["series"] if stored.exists() else {}
    plans = {
        "nnz": [{**BASE, "nnz": size} for size in SIZES],
        "n_words": [{**BASE, "n_words": size} for size in VOCABULARIES],
        "leaves": [{**BASE, "n_leaves": size} for size in LEAVES],
    }
    wanted = options.only.split(",")
    for by, cases in plans.items():
        if by in wanted:
            kept = [row for row in series.get(by, []) if by == "nnz" and row["nnz"] > LARGEST / 2]
            series[by] = [_told(child(options.limit, **case)) for case in cases] + kept
    if options.largest:
        series["nnz"] = [row for row in series.get("nnz", []) if row["nnz"] < LARGEST / 2]
        series["nnz"].append(_told(child(900, **{**BASE, "nnz": LARGEST})))
    series = {by: series.get(by, []) for by in plans}
    write(options.name, report(series), {"series": series})
    plot(series, RESULTS / f"{options.name}.png")


def _told(row: dict) -> dict:
    """Show a row while the bench goes on."""
    print(json.dumps({name: value for name, value in row.items() if name != "phases"}), file=sys.stderr, flush=True)
    return row


if __name__ == "__main__":
    main()
