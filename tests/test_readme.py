"""What README.md shows, tried: its game is a sound one, and its commands and options exist."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from agentrl import envs
from agentrl.cli import app
from agentrl.configfile import load_config

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def guess(tmp_path: Path) -> str:
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "(TextEnv)" in block)
    file = tmp_path / "guess.py"
    file.write_text(code, encoding="utf-8")
    return f"{file}:Guess"


def test_the_game_of_the_readme_plays_to_both_ends(guess: str) -> None:
    game = envs.make(guess)
    ends = set()
    for seed in range(20):
        game.reset(seed=seed)
        terminated = truncated = False
        while not (terminated or truncated):
            _, reward, terminated, truncated, info = game.step("5" if seed % 2 else str(seed % 9 + 1))
        assert info["success"] == terminated == bool(reward)
        ends.add("won" if terminated else "late")
    assert ends == {"won", "late"}


@pytest.mark.parametrize(
    "line", [line for line in README.splitlines() if line.startswith("agentrl train experiments/")]
)
def test_every_training_command_of_the_readme_is_a_config(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])
    _, _, recipe, *options = line.split("#")[0].split()
    overrides = [option for option in options if option not in ("--dry-run", "--resume")]
    assert load_config(recipe, overrides).batch.updates > 0


def test_every_command_of_the_readme_exists() -> None:
    named = set(re.findall(r"^agentrl ([a-z-]+)", README, re.MULTILINE))
    assert named <= set(get_command(app).commands)  # type: ignore[attr-defined]
