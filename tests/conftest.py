"""Settings for all tests: strict promotion, no deadlines, one table of floating types."""

import os
from pathlib import Path

# Most of the tests' time is compilation, and optimisation changes no more than last digits. Set XLA_FLAGS to anything,
# also to nothing, to test code as users run it.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
# Threads of the linear algebra library beside those of XLA only get into each other's way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import jax
import numpy as np
import pytest

from bench.corpora import default_folder

jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile("house", deadline=None, max_examples=20, derandomize=True)
hypothesis.settings.load_profile("house")


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled():
    """Let go of compiled programs when there are many: each holds memory mappings, and Linux grants some 65,000."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 15_000:
        jax.clear_caches()


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    """Run a test in both precisions; double precision only inside its own context."""
    with jax.enable_x64(request.param is np.float64):
        yield request.param


@pytest.fixture
def x64():
    """Run a test in double precision."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=["cpu", "buckets"])
def platforms(request, monkeypatch):
    """Return the platforms to export for, with the layout of a CPU (which must lower everywhere) and in buckets."""
    from hmom_jax import sparse  # not above: types are checked in what is imported after pytest's start

    buckets = request.param == "buckets"
    monkeypatch.setattr(sparse, "wants_buckets", lambda: buckets)
    return ("cuda", "tpu") if buckets else ("cpu", "cuda", "tpu")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of real corpora, or skip (set HMOM_DATA to use another)."""
    folder = default_folder()
    if not folder.is_dir():
        pytest.skip(f"no corpora in {folder.name}: set HMOM_DATA")
    return folder
