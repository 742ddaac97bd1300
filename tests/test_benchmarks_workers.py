"""benchmarks/worker_speed.py and killed_workers.py: what they print, and that workers are killed indeed."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def from_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.chdir(ROOT)


def figures(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The last line that was printed."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_speed_is_told_as_a_ratio_to_home(capsys: pytest.CaptureFixture[str]) -> None:
    import_module("worker_speed").main(["signpost", "--games", "2", "--seconds", "0.2", "--workers", "1"])
    told = figures(capsys)
    assert told["signpost"]["ratio_1"] == pytest.approx(told["signpost"]["workers_1"] / told["signpost"]["at_home"])
    assert told["signpost"]["at_home"] > 0
    assert told["games"] == 2


def test_speed_of_no_game_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        import_module("worker_speed").main(["babyai/gto"])
    assert ended.value.code == 2
    assert "babyai/goto" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_whose_workers_are_killed_comes_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--batch.updates=6", "--batch.num_envs=8", "--batch.turns_per_env=64", "--evaluation.episodes=8"]
    arguments = ["experiments/quickstart.yaml", "--rows", "killed", "--every", "0.7", "--max_error_rate=0.2"]
    import_module("killed_workers").main([*arguments, *small])
    killed = figures(capsys)["killed"]
    assert (killed["updates"], killed["broken"]["hung"]) == (6, 0)
    assert killed["kills"] >= killed["replaced"] > 0
    assert killed["after"]["episodes"] == 8
