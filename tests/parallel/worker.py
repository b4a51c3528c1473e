"""What the tests run in processes of their own: trees over several devices, and one of several processes.

``python -m tests.parallel.worker devices OUT 1,2,8 NAMES``, ``... process OUT PORT COUNT NUMBER NAMES`` or
``... fault ROUND SIGNAL ARGUMENTS``.
"""

import os
import re
import signal
import sys

import jax
import numpy as np

LEAVES = {"20newsgroups": 32, "planetmath": 64}  # of the others 8


def grow(name: str, corpus, **options):
    """Grow the tree that the tests compare."""
    import hmom_jax as hm

    return hm.grow_tree(corpus, n_leaves=LEAVES.get(name, 8), **options)


def corpus_of(name: str):
    """Return one of the corpora that the tests compare on."""
    import hmom_jax as hm
    from bench.corpora import load_counts

    if name == "synthetic":
        counts, words = hm.datasets.hierarchical_topics(4).counts, None
    elif name == "groups":  # more words than the dense eigenproblem takes
        counts = hm.datasets.hierarchical_topics(1, n_docs=300, n_words=500, doc_length=60, n_groups=3).counts
        words = None
    elif name == "docstrings":
        data = hm.datasets.docstrings()
        counts, words = data.counts, data.vocabulary
    else:
        counts, words, _ = load_counts(name, n_words=2000)
    return hm.Corpus.from_counts(counts, words)


def mesh_of(n: int):
    """Return a mesh of the first devices."""
    kind = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((n,), ("docs",), axis_types=kind, devices=jax.devices()[:n])


def some_unwanted(n_docs: int) -> np.ndarray:
    """Return weights, zero for some documents at the beginning: of several processes only the first has any."""
    return (np.arange(n_docs) >= n_docs // 10).astype(float)


def over_devices(out: str, numbers: str, names: str) -> None:
    """Grow trees on meshes of several sizes; note what the programs exchange."""
    numbers = [int(number) for number in numbers.split(",")]
    jax.config.update("jax_num_cpu_devices", max(numbers))
    import hmom_jax as hm
    from hmom_jax.tree import embedding, polish, space

    found, exchanged = {}, set()

    def watch(module, name):
        original = getattr(module, name)

        def call(*arguments, **static):
            text = original.lower(*arguments, **static).compile().as_text()
            exchanged.update(f"{name}: {kind}" for kind in re.findall(r" (all-[a-z]+)(?:-start)?\(", text))
            return original(*arguments, **static)

        setattr(module, name, call)

    for name in names.split(","):
        corpus = corpus_of(name)
        weight = np.random.default_rng(0).integers(0, 3, corpus.n_docs)  # some documents are only assigned
        for number in numbers:
            tree = grow(name, corpus, mesh=mesh_of(number))
            found[f"{name}-{number}"] = tree.labels()
        if name == "synthetic":
            found[f"{name}-weighted"] = hm.grow_tree(
                corpus, n_leaves="auto", sample_weight=weight, mesh=mesh_of(2)
            ).labels()
            for module, entry in ((space, "two_means"), (embedding, "_embed"), (polish, "_em"), (polish, "_best_leaf")):
                watch(module, entry)
            grow(name, corpus, mesh=mesh_of(2))
    np.savez(out, exchanged=np.array(sorted(exchanged), dtype=str), **found)


def as_process(out: str, port: str, count: str, number: str, names: str) -> None:
    """Be one of several processes, with an uneven share of the documents."""
    jax.distributed.initialize(f"127.0.0.1:{port}", int(count), int(number), heartbeat_timeout_seconds=10)
    found = {}
    for name in names.split(","):
        corpus = corpus_of(name)
        cuts = (np.arange(int(count) + 1) / int(count)) ** 1.5 * corpus.n_docs
        docs = np.arange(*cuts.astype(int)[int(number) : int(number) + 2])
        here = corpus.take(docs)
        tree = grow(name, here, mesh=mesh_of(jax.device_count()))
        found[name] = tree.labels()
        weight = some_unwanted(corpus.n_docs)[docs]
        weighted = grow(name, here, mesh=mesh_of(jax.device_count()), sample_weight=weight)
        found[f"{name}-weighted"] = weighted.labels()
        found[f"{name}-topics"] = np.stack([node.topic for node in tree.nodes])
    np.savez(out, **found)


def with_fault(stage: str, name: str, *arguments: str) -> None:
    """Run the command line, and send this process a signal when a round is about to be kept."""
    from hmom_jax.cli import main
    from hmom_jax.parallel.checkpoint import Checkpoint

    write = Checkpoint._write

    def stop(self, record, arrays):
        if record.stem == stage:
            os.kill(os.getpid(), getattr(signal, name))
        write(self, record, arrays)

    Checkpoint._write = stop
    sys.exit(main(list(arguments)))


if __name__ == "__main__":
    {"devices": over_devices, "process": as_process, "fault": with_fault}[sys.argv[1]](*sys.argv[2:])
