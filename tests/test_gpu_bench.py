"""What the compiler makes of the entry points for a GPU: no scatter, no transfer, lean products (no GPU needed)."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_kernels_scatters_and_transfers_are_counted():
    from bench.gpu import count_kernels

    text = """
%fused_add (p: f32[4]) -> f32[4] {
  ROOT %scatter.1 = f32[4]{0} scatter(%p, %p, %p), to_apply=%sum
}

%body (p: (s32[], f32[4])) -> (s32[], f32[4]) {
  %copy.1 = f32[4]{0} copy(%p)
  %call.1 = (f32[4]{0}, s8[64]{0}) custom-call(%copy.1), custom_call_target="library"
}

ENTRY %main (a: f32[4]) -> f32[4] {
  %fusion.1 = f32[4]{0} fusion(%a), kind=kLoop, calls=%fused_add
  %while.1 = (s32[], f32[4]{0}) while(%t), condition=%stop, body=%body
  %out = token[] outfeed(%fusion.1, %token)
}
"""
    found = count_kernels(text)
    expected = {"kernels": 4, "in_loops": 2, "fusions": 1, "copies": 1, "scatters": 1, "transfers": 1, "loops": 1}
    assert {name: found[name] for name in expected} == expected
    assert found["library_calls"] == {"library": 1}
    assert found["open_loops"] == 1


@pytest.mark.slow
def test_entry_points_compile_for_a_gpu_without_one(tmp_path):
    if importlib.util.find_spec("jax_cuda13_plugin") is None:
        pytest.skip("the compiler for GPUs is not installed: pip install 'hmom-jax[cuda13]'")
    target = Path(os.environ.get("HMOM_GPU_TARGET", ROOT.parent / "shared" / "h100.txtpb"))
    if not target.is_file():
        pytest.skip("no properties of a device: set HMOM_GPU_TARGET (see bench/gpu.py)")
    plain = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_PLATFORMS")}
    command = [sys.executable, "bench/gpu.py", "--sizes", "tiny", "--json", "--target", str(target)]
    run = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    data = json.loads(run.stdout)
    entries = data["entry_points"]["tiny"]
    assert len(entries) == 9
    for name, found in entries.items():
        assert found["scatters"] == found["transfers"] == 0, name
    for fact in data["products"]:
        assert fact["kernels"] <= fact["levels"] + 2
        assert fact["share"] < 0.1 or fact["columns"] > 64
