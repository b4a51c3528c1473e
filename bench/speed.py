"""How fast are the trees? Ours, two baselines of the paper's tree, and the usual tools; quality beside each time.

    python -m bench.speed                            # all cases: some minutes on two cores
    python -m bench.speed --cases 20newsgroups --repeats 5

Times go from counts in memory to labels. *Warm* times are interleaved in one process, best of several, so that a noisy
machine slows all alike; ratios are taken between them. A contender keeps its turn for a quarter of a second at least:
of those that take less, the first call finds the threads and caches of the one before. *Cold* times and peak memory
come from a process of their own each: the first run (with compilation; no compilation cache) and the memory at its end,
what JAX takes included. Rivals that take more than a few seconds run once; gensim is left out where it is not
installed. Writes bench/results/speed.md, .json (its layout is named by "schema") and .png.
"""

import argparse
import json
import os
import sys
import time

import numpy as np

from bench.common import RESULTS, in_child, machine, markdown, turn, write
from bench.corpora import load_counts, load_labelled
from hmom_jax.cli.bench import import_seconds, pass_speed

SCHEMA = "hmom_jax/bench/speed/1"
# case -> (contenders, in interleaved rounds; contenders that run once)
CASES = {
    "nips_uci_bow": (("paper", "sparse_tree"), ("loops",)),
    "20newsgroups": (
        ("robust", "kmeans_lsa_once", "kmeans_lsa", "bisecting_lsa"),
        ("tomotopy_lda", "nmf", "lda", "gensim_lda"),
    ),
    "ai_conference_abstracts": (("robust", "kmeans_lsa_once", "bisecting_lsa"), ("kmeans_lsa", "tomotopy_lda")),
}
NAMES = {
    "paper": "ours, the paper's tree",
    "robust": "ours, robust",
    "sparse_tree": "baseline: the paper's tree by SciPy",
    "loops": "baseline: d x d arrays, loop over documents",
    "gensim_lda": "LDA (gensim)",
}


def load(case: str):
    """Return (data, labels); the labels are None where the corpus has none."""
    if case == "nips_uci_bow":
        counts, vocabulary, _ = load_counts(case)
        return (counts, vocabulary, 8), None
    data = load_labelled(case)
    return data, data.labels


def contender(name: str, case: str, data):
    """Return a function without arguments that goes from counts to labels."""
    from bench import quality

    if name in quality.TOOLS and case != "nips_uci_bow":
        return lambda: quality.TOOLS[name][1](data, 0)[0]
    counts = data[0]
    if name == "paper":
        import hmom_jax as hm

        return lambda: hm.grow_tree(hm.Corpus.from_counts(counts), depth=3).labels()
    if name == "sparse_tree":
        from bench.baselines import sparse_tree

        return lambda: sparse_tree.grow_labels(counts, 3)
    if name == "loops":
        from bench.baselines import loops

        return lambda: loops.grow_labels(counts.toarray(), 3)
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel

    return lambda: gensim_lda(data, Sparse2Corpus, LdaModel)


def gensim_lda(data, Sparse2Corpus, LdaModel):
    """One pass of online variational LDA, gensim's default."""
    bags = Sparse2Corpus(data.counts, documents_columns=False)
    model = LdaModel(bags, num_topics=data.n_clusters, id2word=dict(enumerate(data.vocabulary)), random_state=0)
    return np.array([max(model[bag], key=lambda pair: pair[1])[0] if bag else 0 for bag in bags])


def quality_of(labels, truth, reference) -> dict:
    """Agreement with the labels of the corpus, or with the baseline's partition where there are none."""
    from hmom_jax.metrics import adjusted_rand_score, normalized_mutual_info_score

    if truth is not None:
        return {"NMI with the labels": normalized_mutual_info_score(truth, labels)}
    return {"ARI with the SciPy baseline": adjusted_rand_score(reference, labels)}


# ---------------------------------------------------------------- one process each
def warm(case: str, repeats: int) -> dict:
    """Interleave the quick contenders; run the slow ones once. Returns seconds and quality by contender."""
    data, truth = load(case)
    quick, slow = CASES[case]
    rows = {}
    runs = {name: contender(name, case, data) for name in quick}
    for name in quick:
        rows[name] = {"seconds": [], "labels": runs[name]()}  # compiles, and fills caches of any kind
    for _ in range(repeats):
        for name in quick:
            rows[name]["seconds"] += turn(runs[name])
    for name in slow:
        try:
            run = contender(name, case, data)
        except ImportError as error:
            rows[name] = {"failed": str(error)}
            continue
        start = time.perf_counter()
        labels = run()
        rows[name] = {"seconds": [time.perf_counter() - start], "labels": labels}
    reference = rows["sparse_tree"]["labels"] if "sparse_tree" in rows else None
    for row in rows.values():
        if "labels" in row:
            row |= quality_of(row.pop("labels"), truth, reference)
    return rows


def cold(case: str, name: str) -> dict:
    """Time a first run in a fresh process: what someone waits for who types it for the first time."""
    import resource

    run = contender(name, case, load(case)[0])
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    return {"first": first, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10}


def passes() -> dict:
    """Return the speed of one pass over the nonzeros of 20newsgroups."""
    import hmom_jax as hm

    return pass_speed(hm.Corpus.from_counts(load_labelled("20newsgroups").counts))


def spawn(*arguments, limit: float = 3600.0) -> dict:
    """Run one of the above in its own process."""
    return in_child(["-m", "bench.speed", *arguments], limit)


# ---------------------------------------------------------------- results
def table(case: str, rows: dict) -> str:
    """Return one case as a Markdown table."""
    from bench.quality import TOOLS

    ours = next(iter(rows))
    base = min(rows[ours]["seconds"])
    lines = []
    for name, row in rows.items():
        title = NAMES.get(name) or TOOLS[name][0]
        if "failed" in row:
            lines.append([title, "not run: " + row["failed"], "", "", "", ""])
            continue
        first = row.get("cold", {})
        score = next((f"{value:.3f} ({key})" for key, value in row.items() if key.startswith(("NMI", "ARI"))), "")
        seconds = min(row["seconds"])
        show = lambda key, form, first=first: format(first[key], form) if key in first else ""
        lines.append(
            [title, f"{seconds:.3g}" + ("" if len(row["seconds"]) > 1 else " (one run)"), f"{seconds / base:.2f}",
             show("first", ".1f"), show("peak_mib", ".0f"), score]
        )  # fmt: skip
    head = ["", "warm, s", "times ours", "first run, s", "peak, MiB", "quality"]
    return f"**{case}**\n\n" + markdown(head, lines)


def plot(results: dict) -> None:
    """Draw warm seconds on a logarithmic axis, a panel per case."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    from bench.quality import TOOLS

    sizes = [len(rows) for rows in results.values()]
    figure, axes = plt.subplots(
        len(results), 1, figsize=(8, 0.42 * sum(sizes) + 1.1 * len(sizes)), layout="constrained", squeeze=False,
        gridspec_kw={"height_ratios": sizes},
    )  # fmt: skip
    for axis, (case, rows) in zip(axes.ravel(), results.items(), strict=True):
        done = [name for name in rows if "seconds" in rows[name]][::-1]
        seconds = [min(rows[name]["seconds"]) for name in done]
        colours = ["#b2182b" if name in ("paper", "robust") else "#92a8c4" for name in done]
        axis.barh([NAMES.get(name) or TOOLS[name][0] for name in done], seconds, color=colours)
        for place, value in enumerate(seconds):
            axis.text(value, place, f" {value:.2g} s", va="center", fontsize=8)
        axis.set(xscale="log", title=case)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.margins(x=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("seconds from counts to labels, warm")
    figure.savefig(RESULTS / "speed.png", dpi=150)


def main() -> None:
    """Run the cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warm", metavar="CASE", help=argparse.SUPPRESS)
    parser.add_argument("--cold", nargs=2, metavar=("CASE", "CONTENDER"), help=argparse.SUPPRESS)
    parser.add_argument("--passes", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.warm or options.cold or options.passes:
        found = (
            warm(options.warm, options.repeats) if options.warm else cold(*options.cold) if options.cold else passes()
        )
        print(json.dumps(found))
        return
    saved = RESULTS / "speed.json"
    earlier = json.loads(saved.read_text(encoding="utf-8")) if saved.exists() else {}
    results = earlier.get("cases", {}) if earlier.get("machine") == machine() else {}  # cases not run now stay
    for case in options.cases.split(","):
        results[case] = spawn("--warm", case, "--repeats", options.repeats)
        if "failed" in results[case]:
            raise SystemExit(f"{case}: {results[case]['failed']}")
        for name in CASES[case][0]:
            results[case][name]["cold"] = spawn("--cold", case, name)
            if "failed" in results[case][name]["cold"]:
                raise SystemExit(f"{case}, {name}, cold: {results[case][name]['cold']['failed']}")
        print(case, results[case], file=sys.stderr, flush=True)
    speed, imported = spawn("--passes"), import_seconds()
    text = [
        "# Speed",
        f"{os.cpu_count()} cores; {machine()}. One pass over the nonzeros of 20newsgroups with 32 columns: "
        f"{speed['nonzeros_per_second'] / 1e6:.0f} million nonzeros and at least "
        f"{speed['bytes_per_second'] / 1e9:.1f} GB per second. `import hmom_jax` takes {imported:.1f} s.",
        *(table(case, rows) for case, rows in results.items()),
    ]
    data = {
        "schema": SCHEMA,
        "machine": machine(),
        "cores": os.cpu_count(),
        "pass": speed,
        "import": imported,
        "cases": results,
    }
    write("speed", "\n\n".join(text), data)
    plot(results)


if __name__ == "__main__":
    main()
