"""Reference rows: they are those of this code, complete, and packaged; the docs show them."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from games import make_slot

from agentrl.agents import RandomAgent, ScriptedAgent
from agentrl.envs import games, make
from agentrl.evaluation import evaluate
from agentrl.reference import FILE, reference, reference_rows
from agentrl.statistics import wilson


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return import_module("reference_rows")


STALE = "the game plays otherwise than when its rows were made: python benchmarks/reference_rows.py {}"


@pytest.mark.parametrize(
    ("game_id", "player", "episodes"),
    [
        *((f"babyai/{task}", "scripted", 3) for task in ("goto", "pickup", "open", "putnext", "pick_up_seq_go_to")),
        ("babyai/goto", "random", 3),
        ("babaisai/env/make_win-distr_obj_rule", "scripted", 2),
        ("babaisai/env/two_room-make_you", "scripted", 2),
        ("babaisai/env/two_room-maybe_break_stop-goto_win", "random", 3),
        ("crafter", "random", 1),
        ("signpost", "random", 2),
        ("toytext/blackjack", "random", 3),
        ("toytext/frozenlake", "scripted", 3),
    ],
)
def test_the_first_episodes_are_played_as_when_the_rows_were_made(
    script: ModuleType, game_id: str, player: str, episodes: int
) -> None:
    played = [script.play(make(game_id), game_id, number, player) for number in range(episodes)]
    found = [[episode.length, round(episode.game_return, 6)] for episode in played]
    assert found == reference_rows(game_id)[player]["first_episodes"][:episodes], STALE.format(game_id)


@pytest.mark.slow
def test_crafters_player_plays_as_when_its_rows_were_made(script: ModuleType) -> None:
    episode = script.play(make("crafter"), "crafter", 0, "scripted")
    found = [episode.length, round(episode.game_return, 6)]
    assert found == reference_rows("crafter")["scripted"]["first_episodes"][0], STALE.format("crafter")


@pytest.mark.parametrize(("player", "agent"), [("random", RandomAgent(0)), ("scripted", ScriptedAgent())])
def test_an_episode_is_that_of_an_evaluation(script: ModuleType, player: str, agent: Any) -> None:
    """The loop without prompts plays what `train` and `eval` play."""

    def slots(index: int, seeds: Any, *, evaluation: bool) -> Any:
        return make_slot(index, seeds, evaluation, options={"narrow": True, "achieving": "end"})

    numbers: Sequence[int] = range(5)
    expected = evaluate(agent, slots, numbers)
    game = make("fake/echo", narrow=True, achieving="end")
    assert [script.play(game, "fake/echo", number, player) for number in numbers] == expected


def test_rows_are_complete(script: ModuleType) -> None:
    for game_id in script.tasks():
        if games()[game_id.partition("/")[0]].needs:
            continue
        found = reference_rows(game_id)
        assert found, f"python benchmarks/reference_rows.py {game_id}"
        assert set(reference()["made"][game_id]) >= {"commit"}
        for row in found.values():
            assert row["episodes"] == reference()["episodes"] == 200
            assert row["errors"] == 0
            if row["success"] is not None:
                low, high = wilson(round(row["success"] * 200), 200)
                assert row["success_ci95"] == pytest.approx([low, high], abs=1e-4)


def test_crafters_player_reaches_far_more_than_chance() -> None:
    rows = reference_rows("crafter")
    assert rows["random"]["achievements"] < 4
    assert rows["scripted"]["achievements_ci95"][0] > 18
    assert rows["scripted"]["score"] > 60


def test_names_and_games_without_rows() -> None:
    assert reference_rows("crafter/default") == reference_rows("crafter") != {}
    assert reference_rows("no/such") == {}


def test_the_docs_show_the_rows(script: ModuleType) -> None:
    assert script.table() in script.DOCS.read_text(encoding="utf-8"), "python benchmarks/reference_rows.py --table"


def test_only_the_rows_asked_for_are_played_anew(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    docs = tmp_path / "docs" / "games.md"
    docs.parent.mkdir()
    docs.write_text(f"before\n{script.BEGIN}old\n{script.END}\nafter\n")
    monkeypatch.setattr(script, "DOCS", docs)
    script.write_table()
    assert docs.read_text() == f"before\n{script.BEGIN}\n{script.table()}\n{script.END}\nafter\n"
    before = FILE.read_bytes()
    with pytest.raises(SystemExit):
        script.main(["babyai/gotoo"])
    assert FILE.read_bytes() == before
