"""benchmarks/game_speed.py: what it plays, counts and prints."""

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from agentrl import envs

ROOT = Path(__file__).parents[1]


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("game_speed")


def test_a_game_is_a_ratio_to_its_package_in_the_same_run(
    speed: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    speed.main(["babyai/goto", "--seconds", "0.3"])
    machine, head, row, last = capsys.readouterr().out.splitlines()
    told = json.loads(last)
    figures = told["babyai/goto"]
    assert told["machine"] == machine
    assert head.split()[-2:] == ["first,", "s"]
    assert figures["ratio_to_package"] == figures["steps_per_second"] / figures["package_steps_per_second"] > 1
    assert figures["ratio_to_wrapper_elsewhere"] == figures["steps_per_second"] / 1700
    assert figures["resets"] > 0
    assert f"{figures['ratio_to_package']:.1f}x" in row


def test_every_row_can_be_played(speed: ModuleType) -> None:
    rows = list(speed.rows())
    assert [row.name for row in rows if row.name.startswith("crafter")] == ["crafter", "crafter, night_rng: balrog"]
    assert [len(row.ids) for row in rows] == [1, 1, 1, 1, 1, 40, 1, 1]
    for row in rows:
        for game_id in row.ids:
            envs.make(game_id, **row.options).close()


def test_resets_are_counted_in_and_games_take_turns(speed: ModuleType) -> None:
    begun: list[int] = []
    player = speed.Player([0], begun.append, lambda action: True)
    player.play(0.01)
    player.play(0.01)
    assert begun == list(range(player.steps + 1))
    assert player.resets == player.steps
    assert 0 < player.reset_seconds < player.seconds
    assert player.rate == player.steps / player.seconds

    mixed = speed.ours(["babyai/goto", "babyai/pickup"], {})
    mixed.play(0.5)
    assert mixed.resets > 1


def test_no_such_game_is_one_line(speed: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        speed.main(["babay"])
    assert ended.value.code == 2
    assert "no such game; there are babyai/goto" in capsys.readouterr().err
