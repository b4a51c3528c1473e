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
from unittest import mock

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
from hmom_jax import sections as sectioned  # noqa: E402
from hmom_jax.assign import choose_topic  # noqa: E402
from hmom_jax.rows import geometric  # noqa: E402
from hmom_jax.sections import SectionedRows, SectionShape, section_shape  # noqa: E402
from hmom_jax.sparse import product  # noqa: E402
from hmom_jax.tree import bisect, grow, robust, rounds  # noqa: E402
from hmom_jax.tree.embedding import _embed, rank_for  # noqa: E402
from hmom_jax.tree.polish import Mixture, _best_leaf, _em, spare_leaves  # noqa: E402
from hmom_jax.whitening import krylov_shape  # noqa: E402

MEMORY, BANDWIDTH, CACHE = 80e9, 3.35e12, 50e6  # of an H100: bytes, bytes per second, bytes of second-level cache
LAUNCH = 3e-6  # seconds that a kernel costs however little it does: an assumption
BLOCKS = tuple(1 << power for power in (18, 20, 22, 24))


class Size(NamedTuple):
    """A corpus by its numbers; ``longest`` is the most distinct words in a document."""

    n_docs: int
    n_words: int
    nnz: int
    longest: int
    n_leaves: int

    @property
    def rows(self) -> int:
        """Documents with their padding."""
        return geometric(self.n_docs)


SIZES = {
    "tiny": Size(500, 300, 10_000, 60, 8),
    "20newsgroups": Size(18_846, 3000, 1_050_813, 939, 32),
    "ai_conference": Size(143_426, 3000, 8_538_489, 391, 8),
    "PubMed": Size(8_200_000, 141_043, 483_450_157, 512, 64),  # the longest document is a guess
}
# How often a tree of 20newsgroups (32 leaves) came by here, counted on a CPU; taken for every size.
PRODUCTS, LOOKS = 29, 15


# --- shapes -----------------------------------------------------------------------------------------------------------


def layouts(size: Size, slots: int = 0) -> dict:
    """Return the shapes of both layouts; with slots, ``by_word`` has a row for each pair of slot and word."""
    n_words = slots * geometric(size.n_words) if slots else size.n_words
    capacity = geometric(size.nnz)
    return {
        "by_doc": (size.rows, section_shape(size.rows, capacity=capacity, longest=size.longest)),
        "by_word": (n_words, section_shape(n_words, capacity=capacity, longest=size.rows)),
    }


def placeholder(n_rows: int, shape: SectionShape, array) -> SectionedRows:
    """Return a layout without its numbers."""
    width, fold, sections, rows, (pieces, *folds) = shape
    return SectionedRows(
        index=array((sections, width, pieces), np.int32),
        count=array((sections, width, pieces)),
        row=array((sections, pieces), np.int32),
        folds=tuple(array((sections, fold, size), np.int32) for size in folds),
        final=array((sections, rows), np.int32),
        n_rows=n_rows,
        first=array((sections,), np.int32),
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


def pass_bytes(shape: SectionShape, nnz: int, columns: int) -> int:
    """Return the bytes that one product moves when nothing but the sums of a section is found in the cache.

    Index and count of every entry laid out, the table row of every nonzero, the indices of folds and rows, and the
    rows of every section read and written; sums between the levels only where they do not fit the cache.
    """
    width, fold, sections, rows, (pieces, *folds) = shape
    between = 4 * columns * (pieces + sum(folds))
    return (
        8 * sections * pieces * width
        + 4 * columns * nnz
        + 4 * sections * (fold * sum(folds) + rows)
        + (8 if sections > 1 else 4) * columns * sections * rows
        + (2 * sections * between if between > CACHE else 0)
    )


def launches(found: dict, sections: int) -> int:
    """Return how many kernels one product launches."""
    return found["kernels"] + (sections - 1) * found["in_loops"]


def forecast(size: Size) -> dict:
    """Return the seconds that bandwidth allows for each part of the robust tree, and for all of it."""
    layout = layouts(size)
    (_, by_doc), (_, by_word) = layout["by_doc"], layout["by_word"]
    both = lambda columns: (pass_bytes(by_doc, size.nnz, columns) + pass_bytes(by_word, size.nnz, columns)) / BANDWIDTH
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
        + pass_bytes(by_doc, size.nnz, rank) / BANDWIDTH
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


def try_blocks(names, array) -> tuple[str, dict]:
    """Compile both products with sections of several sizes."""
    head = ["size", "product", "columns", "entries per section", "sections", "kernels per pass", "temporaries",
            "of the input", "layout, bytes per nonzero", "moved per pass", "launches", "bandwidth"]  # fmt: skip
    rows, data = [], []
    for name in names:
        size = SIZES[name]
        columns = geometric(size.n_leaves)
        for block in BLOCKS:
            with mock.patch.object(sectioned, "_BLOCK_ACCELERATOR", block):
                shapes = layouts(size)
            for side, (n_rows, shape) in shapes.items():
                layout = placeholder(n_rows, shape, array)
                table = array((size.n_words if side == "by_doc" else size.rows, columns))
                found = look_at(jax.jit(product).trace, (layout, table))
                count = launches(found, shape.sections)
                fact = {
                    "size": name, "product": "X" if side == "by_doc" else "X'", "columns": columns, "block": block,
                    "sections": shape.sections, "levels": len(shape.levels), "kernels": count, "temp": found["temp"],
                    "share": found["temp"] / bytes_of((layout, table)), "per_nonzero": bytes_of(layout) / size.nnz,
                    "launch_seconds": count * LAUNCH,
                    "bytes": pass_bytes(shape, size.nnz, columns),
                    "seconds": pass_bytes(shape, size.nnz, columns) / BANDWIDTH,
                }  # fmt: skip
                data.append(fact)
                rows.append([
                    name, fact["product"], columns, f"2^{block.bit_length() - 1}", shape.sections, count,
                    _size(fact["temp"]), f"{fact['share']:.1%}", f"{fact['per_nonzero']:.1f}",
                    _size(fact["bytes"]), _time(fact["launch_seconds"]), _time(fact["seconds"]),
                ])  # fmt: skip
    return markdown(head, rows), data


def predict(names) -> tuple[str, dict]:
    """Write out the forecast."""
    data = {name: forecast(SIZES[name]) for name in names}
    head = ["size", "M2 times a block", "a look at all splits", "EM step, cells", "EM step, leaves", "whole tree"]
    rows = [[name, *map(_time, parts.values())] for name, parts in data.items()]
    return markdown(head, rows), data


def verdicts(entries: dict, blocks: list) -> str:
    """Say which targets hold."""
    ours = [fact for fact in blocks if fact["block"] == sectioned._BLOCK_ACCELERATOR]
    every = [found for size in entries.values() for found in size.values()]
    # With sections, three more per section (its counts cut out, its rows added, the counter) and two to begin with.
    spare = lambda fact: 0 if fact["sections"] == 1 else 3 * fact["sections"] + 2
    fused = all(fact["kernels"] <= fact["levels"] * fact["sections"] + spare(fact) for fact in ours)
    share = {f"{fact['product']}, {fact['size']}": fact["share"] for fact in ours}
    lean = ", ".join(f"{value:.1%} ({name})" for name, value in share.items())
    largest = max(every, key=lambda found: found["total"])["total"]
    moved, open_loops = sum(found["transfers"] for found in every), max(found["open_loops"] for found in every)
    flags = f"but one flag per turn of an open loop; at most {open_loops} of them"
    rows = [
        ["a product is one kernel per level (and section)", _holds(fused), "three more per section, if several"],
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
        f"X times {k} columns": (lambda: run(arrays.by_doc, words), section_bytes(arrays.by_doc, corpus.nnz, k)),
        f"X' times {k} columns": (lambda: run(arrays.by_word, docs), section_bytes(arrays.by_word, corpus.nnz, k)),
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


def section_bytes(rows: SectionedRows, nnz: int, columns: int) -> int:
    """Return :func:`pass_bytes` of a layout that exists."""
    sections, width, pieces = rows.index.shape
    folds = [fold.shape[-1] for fold in rows.folds]
    lanes = rows.folds[0].shape[1] if rows.folds else 0
    shape = SectionShape(width, lanes, sections, rows.final.shape[-1], (pieces, *folds))
    return pass_bytes(shape, nnz, columns)


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
    blocks, block_data = try_blocks(names, array)
    forecasts, forecast_data = predict(names)
    data = {"jax": jax.__version__, "entry_points": entry_data, "blocks": block_data, "forecast_seconds": forecast_data}
    if options.json:
        print(json.dumps(data))
        return
    text = f"""# The GPU without a GPU

Compiled for an H100 (80 GB, 3.35 TB/s) without a device, jax {jax.__version__}. Nothing ran: kernels and bytes are the
compiler's, seconds are what the bandwidth allows.

{verdicts(entry_data, block_data)}

## Entry points

Kernels (fusions, library calls, copies) are counted once, those inside loops (over sections, Krylov blocks, EM steps)
also apart. An open loop ends when the device says so: the host reads one flag per turn. "With all that stays" adds what
the tree keeps on the device meanwhile.

{entries}

## Sections

Both products, with sections of several sizes; the library takes 2^{sectioned._BLOCK_ACCELERATOR.bit_length() - 1}.
Launches at {LAUNCH * 1e6:.0f} microseconds each, an assumption.
Bytes as in `pass_bytes`: all gathers from memory, none from the cache.

{blocks}

## Forecast

What the bandwidth allows: {PRODUCTS} products with M2 and {LOOKS} looks at splits (as counted on 20newsgroups),
{robust._STEPS_CELLS} EM steps over cells, {robust._STEPS_LEAVES + robust._STEPS_COLD} over leaves.
Not in it: launches, the eigenproblem and the QR of every Krylov step (library calls, bound by their latency), repairs,
the host (layout, merges) and the way to it.

{forecasts}"""
    write("gpu", text, data)


if __name__ == "__main__":
    main()
