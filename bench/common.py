"""What benches share: the table of methods, the machine, and how results are written."""

import json
import os
import platform
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import jax
import numpy as np

import hmom_jax as hm

RESULTS = Path(__file__).parent / "results"
_TURN = 0.25  # seconds

# Flat methods: name -> method(moments, rank, key=...), for benches and tests alike. Each as well tuned as the other;
# see their docstrings.
METHODS = {
    "SIDIWO": hm.sidiwo,
    "Jacobi": partial(hm.sidiwo, solver="jacobi"),
    "TPM": hm.tensor_power,
    "SVD": hm.svd_method,
    "ALS": hm.whitened_als,
    "Rand. Proj.": hm.random_projection,
    "Rand. Proj. (oblique)": partial(hm.random_projection, orthogonal=False),
}
COLOURS = {
    "SIDIWO (tree)": "#b2182b",
    "SIDIWO": "#d6604d",
    "Jacobi": "#f4a582",
    "TPM": "#2166ac",
    "SVD": "#878787",
    "ALS": "#1b7837",
    "Rand. Proj.": "#762a83",
    "Rand. Proj. (oblique)": "#af8dc3",
    "Bayes": "#000000",
}


def machine() -> str:
    """Describe what the figures were measured on."""
    device = jax.devices()[0]
    return f"{platform.machine()}, {device.platform}, jax {jax.__version__}, numpy {np.__version__}"


def timed(function):
    """Run and return (result, seconds)."""
    start = time.perf_counter()
    result = jax.block_until_ready(function())
    return result, time.perf_counter() - start


def turn(run, least: int = 1) -> list[float]:
    """Run for a quarter of a second, and no fewer than ``least`` times; return the seconds of each call.

    The first calls of a contender find in the caches what others left there, and its threads on cores that had gone to
    sleep, or that the threads of others still keep busy.
    """
    begun, seconds = time.perf_counter(), []
    while len(seconds) < least or time.perf_counter() - begun < _TURN:
        seconds.append(timed(run)[1])
    return seconds


def in_child(command: list, limit: float, **environment: str) -> dict:
    """Run a bench in a process of its own and return the JSON of its last line; a failure is a row, not a gap."""
    try:
        done = subprocess.run(
            [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=limit, check=False,
            env={**os.environ, **environment},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"did not finish in {limit:.0f} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["killed"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def markdown(head: list[str], rows: list[list]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def write(name: str, text: str, data: dict) -> None:
    """Write the Markdown and the JSON of a bench."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    (RESULTS / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(text)
