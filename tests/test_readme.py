"""The README's Python runs as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=[f"block {i}" for i in range(len(BLOCKS))])
def test_code_block_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "sklearn" in code or "TopicModel" in code:
        pytest.importorskip("sklearn")
    exec(compile(code, README.name, "exec"), {"__name__": "__main__"})


def test_there_are_blocks():
    assert len(BLOCKS) >= 4
