"""The README: its Python runs, and its two commands are the ones that the gate reads."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python_of_the_readme_runs(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "TopicModel" in blocks("python")[number]:
        pytest.importorskip("sklearn")
    exec(compile(blocks("python")[number], f"README.md, block {number + 1}", "exec"), {})


def test_exactly_two_commands_stand_near_the_top():
    commands = blocks("sh")
    assert len(commands) == 2
    assert "hmom demo" in commands[0]
    assert "pytest" in commands[1]
    assert all(len(command.strip().splitlines()) == 1 for command in commands)
    assert README[: README.index(commands[1])].count("\n") < 25


def test_readme_names_everything_public():
    import hmom_jax as hm

    for name in ("single_topic_moments", "population_moments", "whiten", "sidiwo", "grow_tree"):
        assert f"hm.{name}" in README
        assert hasattr(hm, name)
