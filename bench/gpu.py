"""The GPU without a GPU: what XLA makes of every compiled entry point for an H100, and the time its memory allows.

    python bench/gpu.py --target h100.txtpb                     # all sizes, some minutes
    python bench/gpu.py --target h100.txtpb --sizes 20newsgroups

Needs the extra ``cuda13`` (for its compiler; no device) and a text with the properties of the device, a
``GpuTargetConfigProto`` of XLA: memory_bandwidth, core_count, l2_cache_size and the like. The default is
HMOM_GPU_TARGET, or ``shared/h100.txtpb`` beside the repository. Corpora are shapes only: nothing is allocated and
nothing runs, so kernels, memory and bytes are facts of the compiler, seconds are predictions.

Writes Markdown and JSON to bench/results/gpu.*. Where JAX has a GPU the script measures instead, on random counts of
the size of 20newsgroups, and writes bench/results/gpu_measured.*.
"""

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

if not Path("/dev/nvidiactl").exists():  # read when JAX is imported: the compiler must not look for a device
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import hmom_jax as hm  # noqa: E402
from bench.common import machine, markdown, timed, write  # noqa: E402
from hmom_jax.assign import choose_topic  # noqa: E402
from hmom_jax.buckets import _FOLD as FOLD  # noqa: E402
from hmom_jax.buckets import BucketRows, BucketShape, _nest, bucket_shape  # noqa: E402
from hmom_jax.rows import geometric  # noqa: E402
from hmom_jax.sparse import product  # noqa: E402
from hmom_jax.tree import bisect, grow, robust, rounds  # noqa: E402
from hmom_jax.tree.embedding import _embed, rank_for  # noqa: E402
from hmom_jax.tree.polish import Mixture, _best_leaf, _em, spare_leaves  # noqa: E402
from hmom_jax.whitening import krylov_shape  # noqa: E402

MEMORY, BANDWIDTH, CACHE = 80e9, 3.35e12, 50e6  # of an H100: bytes, bytes per second, bytes of second-level cache
LAUNCH = 3e-6  # seconds that a kernel costs however little it does: an assumption
# Shares of rows, and how many entries these have at most in the two corpora that were at hand.
SHARES = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1)
POSTS = (0, 15, 25, 41, 66, 104, 142, 216, 291, 397, 752, 939)
WORDS_OF_POSTS = (6, 104, 137, 205, 367, 681, 1041, 1641, 2151, 3409, 6161, 9723)
ABSTRACTS = (0, 38, 48, 59, 71, 81, 87, 94, 98, 103, 115, 391)
WORDS_OF_ABSTRACTS = (242, 587, 791, 1390, 2974, 6035, 9532, 15361, 26675, 32744, 51335, 66363)


class Size(NamedTuple):
    """A corpus by its numbers; ``docs`` and ``words`` say how long rows are, in shares of them (None: as Zipf says)."""

    n_docs: int
    n_words: int
    nnz: int
    n_leaves: int
    docs: tuple[int, ...]
    words: tuple[int, ...] | None

    @property
    def rows(self) -> int:
        """Documents with their padding."""
        return geometric(self.n_docs)

    @property
    def doc_lengths(self) -> np.ndarray:
        """Return how many words each document has, padding included."""
        lengths = np.interp(np.linspace(0, 1, self.n_docs), SHARES, self.docs).astype(int)
        return np.pad(lengths, (0, self.rows - self.n_docs))

    @property
    def word_lengths(self) -> np.ndarray:
        """Return in how many documents each word is."""
        if self.words:
            return np.interp(np.linspace(0, 1, self.n_words), SHARES, self.words).astype(int)
        low, high = 1.0, float(self.nnz)
        zipf = lambda first: np.minimum(first / np.arange(1, self.n_words + 1), 0.5 * self.n_docs)
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if zipf(middle).sum() < self.nnz else (low, middle)
        return zipf(low).astype(int)


SIZES = {
    "tiny": Size(500, 300, 10_000, 8, tuple(q // 5 for q in POSTS), tuple(q // 20 for q in WORDS_OF_POSTS)),
    "20newsgroups": Size(18_846, 3000, 1_050_813, 32, POSTS, WORDS_OF_POSTS),
    "ai_conference": Size(143_426, 3000, 8_538_489, 8, ABSTRACTS, WORDS_OF_ABSTRACTS),
    # Taken for abstracts as long as those of ai_conference, and for words as Zipf has them.
    "PubMed": Size(8_200_000, 141_043, 483_450_157, 64, ABSTRACTS, None),
}
# How often a tree of 20newsgroups (32 leaves) came by here, counted on a CPU; taken for every size.
PRODUCTS, LOOKS = 29, 15


# --- shapes -----------------------------------------------------------------------------------------------------------


def layouts(size: Size, slots: int = 0) -> dict:
    """Return the shapes of both layouts; with slots, ``by_word`` has a row for each pair of slot and word."""
    docs, words = size.doc_lengths, size.word_lengths
    capacity = max(geometric(size.nnz), docs.sum(), words.sum())  # lengths are rough
    by_doc = bucket_shape(size.rows, capacity=capacity, longest=int(docs.max()), lengths=docs)
    if slots:
        n_words = slots * geometric(size.n_words)
        by_word = bucket_shape(n_words, capacity=capacity, longest=size.rows)
    else:
        n_words = size.n_words
        by_word = bucket_shape(n_words, capacity=capacity, longest=size.rows, lengths=words)
    return {"by_doc": (size.rows, by_doc), "by_word": (n_words, by_word)}


def placeholder(n_rows: int, shape: BucketShape, array) -> BucketRows:
    """Return a layout without its numbers."""
    buckets = [(n_rows, *_nest(shape.head))]
    if shape.n_rests:
        buckets.append((shape.n_rests, *_nest(shape.rest)))
    return BucketRows(
        index=tuple(array(bucket, np.int32) for bucket in buckets),
        count=tuple(array(bucket) for bucket in buckets),
        row=tuple(array(bucket[:1], np.int32) for bucket in buckets),
        folds=tuple(array((size, FOLD), np.int32) for size in shape.folds),
        final=array((n_rows,), np.int32) if shape.n_rests else None,
        n_rows=n_rows,
    )


def entry_points(size: Size, array) -> dict:
    """Return, for each compiled entry point: function, arguments, what else stays on the device meanwhile (bytes)."""
    by_doc, by_word = (placeholder(*layout, array) for layout in layouts(size).values())
    cells, rank = robust._OVERGROW * size.n_leaves, rank_for(size.n_leaves, size.n_words)
    docs, key = array((size.rows,)), array((), jax.random.key(0).dtype)
    z, words = array((size.rows, rank)), array((size.n_words,))
    counts = bytes_of((by_doc, by_word))

    def em(leaves):
        k = geometric(leaves)
        start = array((size.rows, k))
        arguments = (by_doc, by_word, docs, docs, start, words, array(()), array((), np.int32), array((k,), bool))
        return _em.trace, arguments, bytes_of(z)

    blocks = bisect.block_shape(size.rows, bisect.SLOTS)
    lay = (array(blocks, np.int32), array(blocks), array(blocks[:1], np.int32))
    k = geometric(size.n_leaves)
    scored = size.n_leaves + spare_leaves(size.n_leaves)
    mixture = Mixture(array((size.n_words, scored)), array((scored,)), words)

    widest, n_words = 1 << max((size.n_leaves - 1).bit_length() - 1, 0), geometric(size.n_words)
    slots = rounds.n_slots_for(widest, widest, size.n_words, 2, 4)
    by_node = placeholder(*layouts(size, 1 if rounds.shares_words(slots, 2) else slots)["by_word"], array)
    method = grow._Method(hm.sidiwo, [("solver", "closed")])
    fit = partial(rounds._fit.trace, decompose=method, rank=2, nodes=(slots, n_words), word_scale=None)
    node = array((size.rows,), np.int32)
    return {
        f"X times {k} columns": (jax.jit(product).trace, (by_doc, array((size.n_words, k))), 0),
        f"X' times {k} columns": (jax.jit(product).trace, (by_word, array((size.rows, k))), 0),
        f"embedding, rank {rank}": (
            partial(_embed.trace, rank=rank),
            (by_doc, by_word, docs, words, words, key),
            0,
        ),
        f"splits, {bisect.SLOTS} cells at once": (
            partial(bisect.two_means.trace, n_slots=bisect.SLOTS),
            (z, *lay),
            counts,
        ),
        f"EM, {cells} cells": em(cells),
        f"EM, {size.n_leaves} leaves": em(size.n_leaves),
        "best leaf": (_best_leaf.trace, (by_doc, docs, mixture), bytes_of(by_word)),
        f"paper's round, {slots} nodes": (
            fit,
            (by_doc, by_node, array((3, size.rows)), node, array((slots,), np.uint32), array((), np.int32), key),
            0,
        ),
        f"paper's choice, {slots} nodes": (
            choose_topic.trace,
            (by_doc, array((slots, n_words, 2)), array((slots, 2)), node),
            bytes_of(by_node),
        ),
    }


def bytes_of(tree) -> int:
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


# --- the compiler's view ----------------------------------------------------------------------------------------------


def target(path: Path):
    """Return a function that makes placeholders on a device that is not there."""
    from jax.experimental import topologies

    topology = topologies.get_topology_desc(platform="cuda", target_config=path.read_text(), topology="1x1x1")
    mesh = jax.sharding.Mesh(np.array(topology.devices), ("device",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return lambda shape, dtype=np.float32: jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


_FREE = set("parameter constant tuple get-tuple-element bitcast while conditional call after-all".split())
_TRANSFERS = set("infeed outfeed send recv send-done recv-done".split())


def look_at(trace, arguments, resident: int = 0) -> dict:
    """Compile and count."""
    start = time.perf_counter()
    compiled = trace(*arguments).lower(lowering_platforms=("cuda",)).compile()
    seconds = time.perf_counter() - start
    memory = compiled.memory_analysis()
    found = count_kernels(compiled.as_text())
    sizes = {name: getattr(memory, f"{name}_size_in_bytes") for name in ("argument", "output", "temp", "alias")}
    total = sizes["argument"] + sizes["output"] + sizes["temp"] - sizes["alias"] + resident
    return found | sizes | {"resident": resident, "total": total, "compile_seconds": seconds}


def count_kernels(text: str) -> dict:
    """Count what an optimised module launches: kernels, scatters, copies, transfers, loops."""
    opcodes, targets, inside_loops = Counter(), Counter(), 0
    bodies = set(re.findall(r"body=%?([\w.\-]+)", text))
    fused = set(re.findall(r"fusion\(.*calls=%?([\w.\-]+)", text)) | set(re.findall(r"to_apply=%?([\w.\-]+)", text))
    fused |= set(re.findall(r"condition=%?([\w.\-]+)", text))  # no launch where the number of turns is known
    scatters, host, computation = 0, 0, ""
    for line in text.splitlines():
        head = re.match(r"(?:ENTRY )?%?([\w.\-]+) .*\{$", line)
        if head:
            computation = head[1]
        found = re.match(r"\s+(?:ROOT )?%?[\w.\-]+ = (?:\([^=]*?\)|\S+) ([a-z][\w\-]*)\(", line)
        if not found:
            continue
        opcode = found[1]
        scatters += opcode == "scatter"
        if computation in fused or opcode in _FREE:
            continue
        host += opcode in _TRANSFERS or "S(5)" in line or "callback" in line
        opcodes[opcode] += 1
        inside_loops += computation in bodies
        if opcode == "custom-call":
            targets[re.search(r'custom_call_target="([^"]*)"', line)[1]] += 1
    whiles = len(re.findall(r" while\(", text))
    known = len(re.findall(r" while\(.*known_trip_count", text))
    return {
        "kernels": sum(opcodes.values()),
        "in_loops": inside_loops,
        "fusions": opcodes["fusion"],
        "library_calls": dict(targets),
        "copies": opcodes["copy"] + opcodes["copy-start"],
        "scatters": scatters,
        "transfers": host,
        "loops": whiles,
        "open_loops": whiles - known,  # whose end is known only on the device
    }


# --- what the bandwidth allows ----------------------------------------------------------------------------------------


def pass_bytes(n_rows: int, shape: BucketShape, nnz: int, columns: int) -> int:
    """Return the bytes that one product moves when nothing but the sums of rests is found in the cache.

    Index and count of every entry laid out, the table row of every nonzero, the indices of folds and rows, and the
    result; sums of rests and folds, written and read, only where they do not fit the cache.
    """
    entries = n_rows * shape.head + shape.n_rests * shape.rest
    indices = FOLD * sum(shape.folds) + (n_rows if shape.n_rests else 0)
    between = 4 * columns * (shape.n_rests + sum(shape.folds))
    return (
        8 * entries + 4 * columns * nnz + 4 * indices + 4 * columns * n_rows + (2 * between if between > CACHE else 0)
    )


def forecast(size: Size) -> dict:
    """Return the seconds that bandwidth allows for each part of the robust tree, and for all of it."""
    layout = layouts(size)
    both = lambda columns: sum(pass_bytes(*side, size.nnz, columns) for side in layout.values()) / BANDWIDTH
    rank, cells = rank_for(size.n_leaves, size.n_words), robust._OVERGROW * size.n_leaves
    width = krylov_shape(rank).width
    z = 4 * rank * size.rows
    parts = {
        "m2": both(width),
        "split": (8 + 2 * bisect.TWO_MEANS_STEPS) * z / BANDWIDTH,  # rows, and rows times weights, once a step each
        "em_cells": both(geometric(cells)),
        "em_leaves": both(geometric(size.n_leaves)),
    }
    steps = robust._STEPS_LEAVES + robust._STEPS_COLD
    parts["tree"] = (
        PRODUCTS * parts["m2"]
        + pass_bytes(*layout["by_doc"], size.nnz, rank) / BANDWIDTH
        + LOOKS * parts["split"]
        + robust._STEPS_CELLS * parts["em_cells"]
        + steps * parts["em_leaves"]
    )
    return parts


# --- tables -----------------------------------------------------------------------------------------------------------


def compile_all(names, array) -> tuple[str, dict]:
    """Compile every entry point at every size."""
    head = ["size", "entry point", "kernels", "in loops", "library calls", "copies", "scatters", "transfers",
            "loops (open)", "arguments", "outputs", "temporaries", "with all that stays", "of 80 GB",
            "compiled in"]  # fmt: skip
    rows, data = [], {}
    for name in names:
        data[name] = {}
        for entry, (trace, arguments, resident) in entry_points(SIZES[name], array).items():
            found = data[name][entry] = look_at(trace, arguments, resident)
            print(f"{name}: {entry}: {found}", file=sys.stderr, flush=True)
            rows.append([
                name, entry, found["kernels"], found["in_loops"], sum(found["library_calls"].values()), found["copies"],
                found["scatters"], found["transfers"], f"{found['loops']} ({found['open_loops']})",
                *(_size(found[part]) for part in ("argument", "output", "temp", "total")),
                f"{found['total'] / MEMORY:.0%}", f"{found['compile_seconds']:.1f} s",
            ])  # fmt: skip
    return markdown(head, rows), data


def look_at_products(names, array) -> tuple[str, list]:
    """Compile both products with as many columns as there are leaves, and others."""
    head = ["size", "product", "columns", "entries of a head, of a rest", "rests", "folds", "kernels", "temporaries",
            "of the input", "layout, bytes per nonzero", "moved", "launches", "bandwidth"]  # fmt: skip
    rows, data = [], []
    for name in names:
        size = SIZES[name]
        for side, (n_rows, shape) in layouts(size).items():
            layout = placeholder(n_rows, shape, array)
            for columns in sorted({1, 8, 32, 64, geometric(size.n_leaves), geometric(2 * size.n_leaves)}):
                table = array((size.n_words if side == "by_doc" else size.rows, columns))
                found = look_at(jax.jit(product).trace, (layout, table))
                moved = pass_bytes(n_rows, shape, size.nnz, columns)
                fact = {
                    "size": name, "product": "X" if side == "by_doc" else "X'", "columns": columns,
                    "shape": shape._asdict(), "levels": len(layout.index) + len(shape.folds),
                    "kernels": found["kernels"], "temp": found["temp"],
                    "share": found["temp"] / bytes_of((layout, table)), "per_nonzero": bytes_of(layout) / size.nnz,
                    "launch_seconds": found["kernels"] * LAUNCH, "bytes": moved, "seconds": moved / BANDWIDTH,
                }  # fmt: skip
                data.append(fact)
                rows.append([
                    name, fact["product"], columns, f"{shape.head}, {shape.rest}", shape.n_rests, len(shape.folds),
                    fact["kernels"], _size(fact["temp"]), f"{fact['share']:.1%}", f"{fact['per_nonzero']:.1f}",
                    _size(fact["bytes"]), _time(fact["launch_seconds"]), _time(fact["seconds"]),
                ])  # fmt: skip
    return markdown(head, rows), data


def predict(names) -> tuple[str, dict]:
    """Write out the forecast."""
    data = {name: forecast(SIZES[name]) for name in names}
    head = ["size", "M2 times a block", "a look at all splits", "EM step, cells", "EM step, leaves", "whole tree"]
    rows = [[name, *map(_time, parts.values())] for name, parts in data.items()]
    return markdown(head, rows), data


def verdicts(entries: dict, products: list) -> str:
    """Say which targets hold."""
    every = [found for size in entries.values() for found in size.values()]
    spare = max(fact["kernels"] - fact["levels"] for fact in products if fact["columns"] > 1)
    single = max(fact["kernels"] - fact["levels"] for fact in products if fact["columns"] == 1)
    worst = max(products, key=lambda fact: fact["share"])
    share = {f"{fact['product']}, {fact['size']}, {fact['columns']}": fact["share"] for fact in products
             if fact["columns"] == geometric(SIZES[fact["size"]].n_leaves)}  # fmt: skip
    lean = ", ".join(f"{value:.1%} ({name})" for name, value in share.items())
    lean += f"; with other numbers of columns at most {worst['share']:.1%}"
    fused = f"and at most {spare} for masks of a byte a row; with a single column up to {single} more"
    largest = max(every, key=lambda found: found["total"])["total"]
    moved, open_loops = sum(found["transfers"] for found in every), max(found["open_loops"] for found in every)
    flags = f"but one flag per turn of an open loop; at most {open_loops} of them"
    rows = [
        ["a product is one kernel per bucket and fold", _holds(spare <= 2), fused],
        ["temporaries of a product below 10% of its input", _holds(max(share.values()) < 0.1), lean],
        ["no scatter", _holds(not any(found["scatters"] for found in every)), f"{len(every)} compiled programs"],
        ["no transfer to or from the host within a call", _holds(not moved), flags],
        ["everything fits in 80 GB", _holds(largest < MEMORY), f"at most {_size(largest)}"],
    ]
    return markdown(["target", "holds", "evidence"], rows)


def _holds(value: bool) -> str:
    return "yes" if value else "no"


def _size(n_bytes: int) -> str:
    unit, scale = ("GB", 1e9) if n_bytes >= 1e9 else ("MB", 1e6)
    return f"{n_bytes / scale:.3g} {unit}"


def _time(seconds: float) -> str:
    milliseconds = 1e3 * seconds
    return f"{seconds:.1f} s" if seconds >= 1 else f"{milliseconds:.{0 if milliseconds >= 10 else 3}f} ms"


def measure(name: str = "20newsgroups") -> tuple[str, dict]:
    """Time the entry points on random counts, where there is a GPU."""
    size = SIZES[name]
    rng = np.random.default_rng(0)
    word = 1 / (10 + np.arange(size.n_words))
    pick = lambda n: (rng.integers(0, size.n_docs, n), rng.choice(size.n_words, n, p=word / word.sum()))
    counts = sp.coo_array((np.ones(2 * size.nnz, np.float32), pick(2 * size.nnz)), shape=(size.n_docs, size.n_words))
    corpus = hm.Corpus.from_counts(counts)
    arrays, k = corpus.arrays, geometric(size.n_leaves)
    table = lambda n: jax.device_put(rng.normal(size=(n, k)).astype(np.float32))
    words, docs = table(size.n_words), table(corpus.by_doc.n_rows)
    run = jax.jit(product)
    grown = lambda: hm.grow_tree(corpus, n_leaves=size.n_leaves).labels()
    jobs = {
        f"X times {k} columns": (lambda: run(arrays.by_doc, words), layout_bytes(arrays.by_doc, corpus.nnz, k)),
        f"X' times {k} columns": (lambda: run(arrays.by_word, docs), layout_bytes(arrays.by_word, corpus.nnz, k)),
        "robust tree": (grown, None),
    }
    rows, data = [], {"nnz": corpus.nnz}
    for job, (function, moved) in jobs.items():
        _, first = timed(function)
        best = min(timed(function)[1] for _ in range(5))
        data[job] = {"seconds": best, "first_call": first, "bytes": moved}
        speed = "" if moved is None else f"{moved / best / 1e12:.2f}"
        rows.append([job, f"{best:.5f}", f"{first:.2f}", speed])
    return markdown(["job", "seconds", "first call, s", "TB/s"], rows), data


def layout_bytes(rows: BucketRows, nnz: int, columns: int) -> int:
    """Return :func:`pass_bytes` of a layout that exists."""
    head, *rests = rows.index
    n_rests, rest = (len(rests[0]), rests[0][0].size) if rests else (0, 0)
    return pass_bytes(rows.n_rows, BucketShape(head[0].size, rest, n_rests, tuple(map(len, rows.folds))), nnz, columns)


def default_target() -> Path:
    """Return the text of the device: HMOM_GPU_TARGET, or ``shared/h100.txtpb`` beside the repository."""
    return Path(os.environ.get("HMOM_GPU_TARGET", ROOT.parent / "shared" / "h100.txtpb"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", type=Path, default=default_target(), help="properties of the device, as text")
    parser.add_argument("--sizes", default="20newsgroups,ai_conference,PubMed")
    parser.add_argument("--json", action="store_true", help="print JSON and write nothing")
    options = parser.parse_args()
    if jax.devices()[0].platform == "gpu":
        table, data = measure()
        write("gpu_measured", f"# Measured on a GPU\n\n{machine()}\n\n{table}", data)
        return
    names, array = options.sizes.split(","), target(options.target)
    entries, entry_data = compile_all(names, array)
    products, product_data = look_at_products(names, array)
    forecasts, forecast_data = predict(names)
    data = {
        "jax": jax.__version__,
        "entry_points": entry_data,
        "products": product_data,
        "forecast_seconds": forecast_data,
    }
    if options.json:
        print(json.dumps(data))
        return
    text = f"""# The GPU without a GPU

Compiled for an H100 (80 GB, 3.35 TB/s) without a device, jax {jax.__version__}. Nothing ran: kernels and bytes are the
compiler's, seconds are what the bandwidth allows.

{verdicts(entry_data, product_data)}

## Entry points

Kernels (fusions, library calls, copies) are counted once, those inside loops (over Krylov blocks, EM steps)
also apart. An open loop ends when the device says so: the host reads one flag per turn. "With all that stays" adds what
the tree keeps on the device meanwhile.

{entries}

## Products

Heads are the first entries of every row, rests what longer rows have beside them (hmom_jax/buckets.py). Launches at
{LAUNCH * 1e6:.0f} microseconds each, an assumption. Bytes as in `pass_bytes`: all gathers from memory, none from the
cache.

{products}

## Forecast

What the bandwidth allows: {PRODUCTS} products with M2 and {LOOKS} looks at splits (as counted on 20newsgroups),
{robust._STEPS_CELLS} EM steps over cells, {robust._STEPS_LEAVES + robust._STEPS_COLD} over leaves.
Not in it: launches, the eigenproblem and the QR of every Krylov step (library calls, bound by their latency), repairs,
the host (layout, merges) and the way to it.

{forecasts}"""
    write("gpu", text, data)


if __name__ == "__main__":
    main()
