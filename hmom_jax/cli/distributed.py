"""One tree by several processes: who takes part, what each one reads, and what happens when one is lost."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import jax
from jax.experimental import multihost_utils

from hmom_jax.corpus import Corpus
from hmom_jax.errors import InputError
from hmom_jax.parallel.stream import StreamedCorpus

# After so many seconds without a sign of life a process counts as lost.
_HEARTBEAT = 10
# What collectives say when they cannot reach the others.
_SIGNS = ("gloo", "nccl", "connection", "socket", "unavailable", "deadline", "aborted", "heartbeat")


class PeerLostError(RuntimeError):
    """Another process has died or does not answer."""


def join(given: str | None, checkpoint: str | None) -> int:
    """Take part in a run of several processes; returns how many there are."""
    if given is None:
        return 1
    address, count, number = (None, None, None) if given == "auto" else _parse(given)
    try:
        jax.distributed.initialize(
            address, count, number, heartbeat_timeout_seconds=_HEARTBEAT, initialization_timeout=120
        )
    except (RuntimeError, ValueError) as error:
        raise InputError(f"--distributed: the processes did not find each other: {error}") from error
    # Beforehand: JAX itself ends a process whose peers stop answering, and only says that this is so.
    print(
        f"hmom: process {jax.process_index()} of {jax.process_count()}; should another one die or stop, this one ends "
        f"too, within 30 s. {_advice(checkpoint)}",
        file=sys.stderr,
        flush=True,
    )
    return jax.process_count()


def _parse(given: str) -> tuple[str, int, int]:
    parts = given.split(",")
    if len(parts) != 3 or not all(part.isdigit() for part in parts[1:]) or int(parts[2]) >= int(parts[1]):
        raise InputError(f"--distributed: HOST:PORT,COUNT,NUMBER was expected, as 10.0.0.1:9999,2,0; got {given!r}.")
    return parts[0], int(parts[1]), int(parts[2])


def own_part(corpus: Corpus, count: int) -> Corpus:
    """Return the documents that this process takes, in memory."""
    if not isinstance(corpus, StreamedCorpus):
        raise InputError("--distributed reads shards: hmom convert INPUT NAME.shards writes them.")
    return corpus.part(jax.process_index(), count).load()


def all_devices() -> jax.sharding.Mesh:
    """Return a mesh of the devices of all processes."""
    return jax.make_mesh((jax.device_count(),), ("docs",), axis_types=(jax.sharding.AxisType.Auto,))


@contextmanager
def watch_peers(count: int, checkpoint: str | None) -> Iterator[None]:
    """Say, where the others cannot be reached any more, what happened and how to go on."""
    try:
        yield
    except InputError:
        raise
    except (RuntimeError, ValueError) as error:  # JAX raises either, by the code of the error
        if count == 1 or not any(sign in str(error).lower() for sign in _SIGNS):
            raise
        raise PeerLostError(
            f"process {jax.process_index()} of {count} lost another process, which died or was cut off "
            f"({str(error).splitlines()[0][:200]}). {_advice(checkpoint)}"
        ) from error


def leave(count: int) -> bool:
    """Wait for the others; tell whether this process has nothing more to do: only process 0 writes results."""
    if count > 1:
        multihost_utils.sync_global_devices("the tree is grown")
    return jax.process_index() > 0


def _advice(checkpoint: str | None) -> str:
    if checkpoint is None:
        return "With --checkpoint FOLDER a run can go on where it stopped; this one has to begin anew."
    return f"To go on: start all processes again with --checkpoint {checkpoint} --resume."
