"""benchmarks/harness_speed.py: what it prints, and that every turn it counts was played."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("harness_speed")


def test_turns_a_second_by_concurrent_episodes(harness: Any, capsys: pytest.CaptureFixture[str]) -> None:
    harness.main(["toytext/frozenlake", "--concurrent", "1", "3", "--seconds", "0.2"])
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    speed = told["toytext/frozenlake"]
    assert {f"{way}_{n}{per}" for way in ("threads", "lock_step") for n in (1, 3) for per in ("", "_cpu")} == set(speed)
    assert min(speed.values()) > 0
    assert told["machine"]


@pytest.mark.parametrize("play", ["in_threads", "in_lock_step"])
def test_the_turns_that_are_counted_were_played(harness: Any, monkeypatch: pytest.MonkeyPatch, play: str) -> None:
    asked: list[int] = []
    generate = harness.AtOnce.generate
    monkeypatch.setattr(
        harness.AtOnce, "generate", lambda self, requests: asked.append(len(requests)) or generate(self, requests)
    )
    rate, per_cpu = harness.rate("toytext/frozenlake", "cot", 3, getattr(harness, play), 0.3)
    assert per_cpu > 0.8 * rate
    assert rate == pytest.approx(sum(asked) / 0.3, rel=0.5)
    assert sum(asked) > 100, "many an episode long"


def test_no_such_game_is_one_line(harness: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        harness.main(["babyai/gto"])
    assert ended.value.code == 2
    assert "babyai/goto" in capsys.readouterr().err
