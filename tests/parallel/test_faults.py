"""A process that dies or stops ends the others soon, with a word on what happened; all can go on after that."""

import signal
import sys
import time

import numpy as np
import pytest

import hmom_jax as hm
from hmom_jax.cli.distributed import join, own_part
from hmom_jax.errors import InputError
from tests.parallel.test_mesh import end, free_port, start
from tests.parallel.test_streaming import on_disk
from tests.parallel.worker import corpus_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="collectives of several CPU processes (gloo) are Linux's"),
]
SOON = 30


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return a folder of shards, the tree that two processes grow of it, and a folder for compiled programs."""
    folder = tmp_path_factory.mktemp("faults")
    on_disk(folder / "x.shards", corpus_of("synthetic"), 4)
    rounds = folder / "rounds"
    run_both(folder, rounds)
    return folder, hm.load_tree(rounds.with_suffix(".hmom"))


def command(folder, rounds, port, number, *more) -> list[str]:
    """Return the arguments of one of two processes."""
    where = ["--checkpoint", str(rounds), "--distributed", f"127.0.0.1:{port},2,{number}", "--no-cache"]
    return [
        "tree",
        str(folder / "x.shards"),
        "--leaves",
        "4",
        "--save",
        str(rounds.with_suffix(".hmom")),
        *where,
        *more,
    ]


def run_both(folder, rounds, *more) -> None:
    """Run two processes to their end."""
    port = free_port()
    both = [
        start("fault", "never", "SIGKILL", *command(folder, rounds, port, number, *more), cache=folder / "cache")
        for number in (0, 1)
    ]
    try:
        said = [worker.communicate(timeout=120)[0].decode() for worker in both]
        assert [worker.returncode for worker in both] == [0, 0], said
        assert "leaves;" in said[0]
        assert "leaves;" not in said[1]  # only process 0 writes
    finally:
        end(both)


@pytest.mark.parametrize(
    ("stage", "victim", "name"),
    [(stage, victim, "SIGKILL") for stage in ("embedding", "plan", "polish") for victim in (0, 1)]
    + [("cells", 1, "SIGSTOP")],
)
def test_a_lost_process_ends_the_other_and_both_go_on(expected, tmp_path, stage, victim, name):
    folder, whole = expected
    rounds, port = tmp_path / "rounds", free_port()
    both = [
        start(
            "fault",
            stage if number == victim else "never",
            name,
            *command(folder, rounds, port, number),
            cache=folder / "cache",
        )  # fmt: skip
        for number in (0, 1)
    ]
    try:
        if name == "SIGKILL":
            both[victim].wait(timeout=120)
            assert both[victim].returncode == -signal.SIGKILL
        else:  # it stops; the round before has been kept by then
            record = rounds / f"process-{victim}" / "embedding.json"
            deadline = time.monotonic() + 120
            while not record.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
        began = time.monotonic()
        said = both[1 - victim].communicate(timeout=SOON + 30)[0].decode()
        assert time.monotonic() - began < SOON
    finally:
        end(both)
    assert both[1 - victim].returncode not in (0, None)
    assert "lost another process" in said or "another task died" in said
    assert f"--checkpoint {rounds} --resume" in said
    assert not rounds.with_suffix(".hmom").exists()
    run_both(folder, rounds, "--resume")
    found = hm.load_tree(rounds.with_suffix(".hmom"))
    np.testing.assert_array_equal(found.labels(), whole.labels())
    for mine, theirs in zip(found.nodes, whole.nodes, strict=True):
        np.testing.assert_array_equal(mine.topic, theirs.topic)


def test_what_cannot_be_distributed_is_said():
    with pytest.raises(InputError, match="COUNT,NUMBER was expected"):
        join("nonsense", None)
    with pytest.raises(InputError, match="COUNT,NUMBER was expected"):
        join("127.0.0.1:1,2,2", None)
    with pytest.raises(InputError, match="reads shards"):
        own_part(corpus_of("synthetic"), 2)
