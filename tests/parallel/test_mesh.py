"""The same tree on one device, on several, and over several processes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.errors import InputError
from hmom_jax.parallel.mesh import on_mesh
from hmom_jax.sparse import product
from tests.helpers import near_ties
from tests.parallel.worker import corpus_of, grow, mesh_of, some_unwanted

SMALL = ("synthetic", "groups")
REAL = ("docstrings", "bbc_news", "m10_titles", "20newsgroups", "planetmath")
TIMEOUT = 240


def start(*arguments: str, cache: Path | None = None) -> subprocess.Popen:
    """Run the worker with one device per process, unless it asks for more; ``cache`` keeps compiled programs."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    if cache is not None:
        environment |= {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        environment |= {"JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    environment.pop("JAX_NUM_CPU_DEVICES", None)
    command = [sys.executable, "-m", "tests.parallel.worker", *arguments]
    root = Path(__file__).resolve().parents[2]
    return subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(workers: list[subprocess.Popen]) -> None:
    """Wait for the workers; none may outlive the test."""
    try:
        for worker in workers:
            output, _ = worker.communicate(timeout=TIMEOUT)
            assert worker.returncode == 0, output.decode(errors="replace")[-3000:]
    finally:
        end(workers)


def end(workers: list[subprocess.Popen]) -> None:
    """End what is still running, also what has stopped."""
    for worker in workers:
        worker.kill()
        worker.communicate()


def free_port() -> str:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def check_agree(found: np.ndarray, tree: hm.Tree, corpus: hm.Corpus) -> None:
    """Compare labels but for documents whose two best leaves are as good as equal."""
    moved = (found != tree.labels()) & ~near_ties(tree, corpus)
    assert not moved.any(), f"{moved.sum()} of {len(found)} documents moved"


@pytest.fixture(scope="module")
def over_devices(tmp_path_factory):
    out = tmp_path_factory.mktemp("devices") / "found.npz"
    finish([start("devices", str(out), "1,2,8", ",".join(SMALL))])
    return np.load(out)


@pytest.mark.parametrize("name", SMALL)
def test_one_two_and_eight_devices_give_the_tree_of_plain_memory(over_devices, name):
    corpus = corpus_of(name)
    tree = grow(name, corpus)
    for number in (1, 2, 8):
        check_agree(over_devices[f"{name}-{number}"], tree, corpus)


def test_weights_and_an_open_number_of_leaves(over_devices):
    corpus = corpus_of("synthetic")
    weight = np.random.default_rng(0).integers(0, 3, corpus.n_docs)
    tree = hm.grow_tree(corpus, n_leaves="auto", sample_weight=weight)
    check_agree(over_devices["synthetic-weighted"], tree, corpus)


def test_devices_exchange_sums_only(over_devices):
    """Whatever lies with the documents stays there: no gather, no transposition between devices."""
    exchanged = over_devices["exchanged"].tolist()
    assert "_em: all-reduce" in exchanged
    assert "_embed: all-reduce" in exchanged
    assert all(line.endswith(": all-reduce") for line in exchanged), exchanged


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_corpora_over_devices(name, tmp_path, request):
    if name != "docstrings":
        request.getfixturevalue("data_folder")
    finish([start("devices", str(tmp_path / "found.npz"), "1,2,8", name)])
    found, corpus = np.load(tmp_path / "found.npz"), corpus_of(name)
    tree = grow(name, corpus)
    for number in (1, 2, 8):
        check_agree(found[f"{name}-{number}"], tree, corpus)


def over_processes(folder: Path, names: tuple[str, ...]):
    """Grow trees over two processes; returns what each has found."""
    pytest.importorskip("jax.experimental.multihost_utils")
    if sys.platform != "linux":
        pytest.skip("collectives of several CPU processes (gloo) are built for Linux")
    port, outs = free_port(), [folder / f"{number}.npz" for number in range(2)]
    finish([start("process", str(out), port, "2", str(number), ",".join(names)) for number, out in enumerate(outs)])
    return [np.load(out) for out in outs]


def check_processes(found, name: str) -> None:
    """Compare the trees of both processes with that of one."""
    first, second = found
    corpus = corpus_of(name)
    check_agree(first[name], grow(name, corpus), corpus)
    np.testing.assert_array_equal(second[name], first[name])
    np.testing.assert_array_equal(second[f"{name}-topics"], first[f"{name}-topics"])
    check_agree(first[f"{name}-weighted"], grow(name, corpus, sample_weight=some_unwanted(corpus.n_docs)), corpus)


def test_two_processes_give_the_tree_of_one(tmp_path):
    found = over_processes(tmp_path, SMALL)
    for name in SMALL:
        check_processes(found, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_corpora_over_two_processes(name, tmp_path, request):
    if name != "docstrings":
        request.getfixturevalue("data_folder")
    check_processes(over_processes(tmp_path, (name,)), name)


def test_products_on_a_mesh_are_those_of_the_counts(dtype):
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.3, (30, 7)).astype(dtype)
    corpus = on_mesh(hm.Corpus.from_counts(counts), mesh_of(1))
    table, back = rng.random((7, 3)).astype(dtype), rng.random((30, 3)).astype(dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(corpus.fetch(product(corpus.by_doc, table)), counts @ table, rtol=tolerance)
    found = product(corpus.arrays.by_word, corpus.over_docs(back))
    np.testing.assert_allclose(found, counts.T @ back, rtol=tolerance)


def test_what_cannot_be_on_a_mesh_is_refused():
    corpus = hm.Corpus.from_counts(np.eye(4) * 5)
    with pytest.raises(InputError, match=r"jax\.make_mesh"):
        hm.grow_tree(corpus, n_leaves=2, mesh=jax.devices())
    with pytest.raises(InputError, match="Auto"):
        hm.grow_tree(corpus, n_leaves=2, mesh=jax.make_mesh((1,), ("docs",)))
    with pytest.raises(InputError, match="paper's tree"):
        hm.grow_tree(corpus, depth=1, mesh=mesh_of(1))
