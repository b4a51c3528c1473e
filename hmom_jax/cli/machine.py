"""What the command line says about the machine: device, memory, compilation."""

import os
import sys
from pathlib import Path

import jax

from hmom_jax.corpus import Corpus
from hmom_jax.rows import geometric
from hmom_jax.tree.embedding import rank_for

_COMPILER = 200 * 2**20  # what compiling takes, whatever the corpus


def use_compilation_cache() -> None:
    """Keep compiled code on disk, so that the next run of like size starts at once.

    In the folder that JAX_COMPILATION_CACHE_DIR names, else in the user's cache folder. Only the command line does
    this; a library must not write where nobody asked it to.
    """
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR") or _cache_folder()
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError:  # no home, or a read-only one: compile every time
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _cache_folder() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hmom_jax"


def device_line() -> str:
    """Say which device is used."""
    devices = jax.devices()
    platform, kind = devices[0].platform, devices[0].device_kind
    name = platform if kind == platform else f"{platform} ({kind})"
    return name + (f", first of {len(devices)}" if devices[1:] else "")


def memory_needed(corpus: Corpus, n_leaves: int) -> int:
    """Estimate the bytes that growing a robust tree takes: both layouts, products, documents in their space, topics."""
    size = corpus.dtype.itemsize
    n_docs, nnz, rank = geometric(corpus.n_docs), geometric(corpus.nnz), rank_for(n_leaves, corpus.n_words)
    layouts = 2 * (nnz * (4 + size) + (n_docs + corpus.n_words) * 8 * (4 + size)) + 2 * corpus.nnz * (4 + size)
    products = 2 * (nnz // 8 + max(n_docs, corpus.n_words)) * rank * size
    documents = 5 * n_docs * rank * size
    words = corpus.n_words * 6 * rank * size
    return layouts + products + documents + words + _COMPILER


def memory_there() -> int | None:
    """Return the bytes of the device's memory (or of the machine's), where that can be known."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"]
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory ran out, on the host or on the device."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def watch_compilation():
    """Return a function that tells how many seconds JAX has spent tracing and compiling since now."""
    seconds = []

    def listen(event: str, duration: float, **_) -> None:
        if event.startswith("/jax/core/compile/"):
            seconds.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return lambda: sum(seconds)
