"""What do several processes on one machine cost? The robust tree by one process on all cores, and by one per core.

    python -m bench.processes                 # 10 million nonzeros, some two minutes

Claim: processes with a core each have at least 0.8 of the throughput of one process with all of them. Each reads its
own shards into memory; the second tree is timed (nothing left to compile), runs interleaved, the best of several
counts. For Linux, where processes can be given cores of their own.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.common import machine, markdown, write


def worker(folder: str, address: str, count: int, number: int) -> None:
    """Be one of the processes: load, grow twice, print the seconds of the second tree and a digest of its labels."""
    import jax

    if count > 1:
        jax.distributed.initialize(address, count, number, heartbeat_timeout_seconds=10)
    import hmom_jax as hm

    corpus = hm.Corpus.open(folder).part(number, count).load()
    mesh = jax.make_mesh((count,), ("docs",), axis_types=(jax.sharding.AxisType.Auto,)) if count > 1 else None
    hm.grow_tree(corpus, n_leaves=16, mesh=mesh)
    start = time.perf_counter()
    tree = hm.grow_tree(hm.Corpus(corpus.counts, corpus.vocabulary), n_leaves=16, mesh=mesh)
    print(json.dumps({"seconds": time.perf_counter() - start, "sizes": [leaf.n_docs for leaf in tree.leaves]}))


def run(folder: Path, count: int) -> dict:
    """Run so many processes, each on its share of the cores; returns what the slowest says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    cores = sorted(os.sched_getaffinity(0))
    command = [sys.executable, "-m", "bench.processes", "--worker", str(folder), address, str(count)]
    workers = [
        subprocess.Popen(
            [*command, str(number)], stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda own=cores[number::count]: os.sched_setaffinity(0, own),
        )
        for number in range(count)
    ]  # fmt: skip
    found = [json.loads(worker.communicate(timeout=600)[0].splitlines()[-1]) for worker in workers]
    return max(found, key=lambda row: row["seconds"])


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nnz", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        folder, address, count, number = options.worker
        worker(folder, address, int(count), int(number))
        return
    import hmom_jax as hm
    from bench.scaling import zipf_corpus

    n_cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "zipf.shards"
        counts = zipf_corpus(options.nnz // 100, 100, 10_000)
        hm.write_shards(hm.Corpus.from_counts(counts), folder, n_nonzeros=options.nnz // 8)
        found = {1: [], n_cores: []}
        for _ in range(options.repeats):
            for count, rows in found.items():
                rows.append(run(folder, count))
    best = {count: min(row["seconds"] for row in rows) for count, rows in found.items()}
    seconds = {count: [f"{row['seconds']:.2f}" for row in rows] for count, rows in found.items()}
    table = markdown(
        ["processes", "seconds, best", "all runs", "throughput"],
        [
            [count, f"{best[count]:.2f}", ", ".join(runs), f"{best[1] / best[count]:.2f}"]
            for count, runs in seconds.items()
        ],
    )
    about = f"{n_cores} cores; {machine()}; {counts.nnz:,} nonzeros, 16 leaves."
    text = f"# One process on all cores, and one per core\n\n{about}\n\n{table}"
    write("processes", text, {"nnz": int(counts.nnz), "runs": {str(count): rows for count, rows in found.items()}})


if __name__ == "__main__":
    main()
