"""TextWorld's challenges, generated and run by the real package; the settings, without it."""

import tempfile
from pathlib import Path

import pytest
from gymnasium.error import ResetNeeded
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import envs
from agentrl.envs import GameError, make
from agentrl.envs.textworld import LONGEST_COMMAND, TASKS, TextWorld

needs_textworld = pytest.mark.skipif(envs.games()["textworld"].missing is not None, reason="textworld is not installed")


@pytest.fixture(scope="module")
def game():
    made = make("textworld/treasure_hunter", commands="free")
    yield made
    made.close()


def finish(game, seed):
    """[(scene, reward)] of the scripted player's episode, and its end."""
    told, player = [(game.reset(seed=seed)[0].scene, 0.0)], game.scripted_player()
    while True:
        observation, reward, terminated, truncated, info = game.step(player())
        told.append((observation.scene, reward))
        if terminated or truncated:
            return told, terminated, info


@needs_textworld
@pytest.mark.parametrize(("task", "points"), [("coin_collector", 1.0), ("treasure_hunter", 1.0), ("cooking", 5.0)])
def test_the_generators_solution_wins(task, points):
    """Cooking with its defaults: a point each for the ingredient, cooking it, cutting it, the meal, eating it."""
    game = make(f"textworld/{task}")
    told, terminated, info = finish(game, 5)
    assert terminated
    assert info == {"success": True, "progression": 1.0}
    assert sum(reward for _, reward in told) == points
    with pytest.raises(ResetNeeded):
        game.step("look")
    game.close()


@needs_textworld
def test_a_seed_is_a_world_and_reset_without_one_goes_on(game):
    first = [game.reset(seed=3)[0].scene, game.mission]
    other = [game.reset()[0].scene, game.mission]
    assert [game.reset(seed=3)[0].scene, game.mission] == first
    assert [game.reset()[0].scene, game.mission] == other != first


@needs_textworld
def test_the_mission_is_told_once_and_the_room_at_every_turn(game):
    """What changes by episode is the mission, what the room looks like is status where the scene does not say it."""
    observation, _ = game.reset(seed=5)
    assert "Your task for today is to pick-up the mouse" in game.mission
    assert "Your task" not in observation.scene
    assert observation.scene.startswith("-= Kitchen =-")
    assert observation.status == "You are carrying nothing."
    observation, *_ = game.step("inventory")
    assert observation.scene == "You are carrying nothing."
    assert observation.status.startswith("-= Kitchen =-")


@needs_textworld
def test_listed_commands_are_the_legal_ones():
    game = make("textworld/treasure_hunter")
    _, info = game.reset(seed=5)
    assert {"go north", "look", "inventory"} <= set(info["legal_actions"])
    info = game.step("go north")[4]
    assert "go south" in info["legal_actions"]
    game.close()


@needs_textworld
def test_progression_is_the_share_of_the_points():
    """One of cooking's five points, then the limit."""
    game = make("textworld/cooking", max_turns=3)
    game.reset(seed=5)
    game.step("take lettuce from fridge")
    game.step("look")
    *_, terminated, truncated, info = game.step("look")
    assert (terminated, truncated, info) == (False, True, {"success": False, "progression": pytest.approx(0.2)})
    game.close()


@needs_textworld
@pytest.mark.parametrize(
    "line",
    [
        "quit",
        "QUIT",
        "restart",
        "save",
        "undo",
        "tw-print player",
        "\x00",
        "",
        ".",
        "take mouse. go north",
        "g",
        "é" * 9,
    ],
)
def test_no_line_reaches_the_interpreter_or_is_two_turns(game, line):
    """Each costs one turn: in the kitchen one then still is, and the episode goes on."""
    game.reset(seed=5)
    assert game.step(line)[1:4] == (0.0, False, False)
    assert game.step("look")[0].scene.startswith("-= Kitchen =-")


@given(st.text(max_size=400))
def test_a_command_is_one_line_of_plain_text(text):
    command = TextWorld._command(TextWorld.__new__(TextWorld), text)
    assert 0 < len(command) <= LONGEST_COMMAND
    assert command.isascii()
    assert command.isprintable()
    assert not set(".;") & set(command)


@needs_textworld
@settings(max_examples=30, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_survived(game, text):
    if game._over:
        game.reset(seed=1)
    observation, *_ = game.step(text)
    assert isinstance(observation.scene, str)


@needs_textworld
def test_nothing_is_left_behind(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    game = make("textworld/treasure_hunter")
    game.reset(seed=1)
    game.reset(seed=2)
    game.close()
    game.close()
    assert list(Path(tmp_path).iterdir()) == []


@pytest.mark.parametrize(
    ("task", "options", "told"),
    [
        ("cooking", {"recipe": 0}, "recipe"),
        ("cooking", {"recipe": 2, "take": 3}, "take"),
        ("cooking", {"go": 2}, "go"),
        ("cooking", {"cut": "yes"}, "cut"),
        ("cooking", {"level": 3}, "level"),
        ("coin_collector", {"level": 0}, "level"),
        ("treasure_hunter", {"level": 31}, "level"),
        ("treasure_hunter", {"recipe": 1}, "recipe"),
        ("treasure_hunter", {"commands": "any"}, "commands"),
        ("treasure_hunter", {"max_turns": 0}, "max_turns"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(task, options, told):
    from agentrl.envs.textworld import make as made

    with pytest.raises(GameError, match=told) as refused:
        made(task, **options)
    assert "\n" not in str(refused.value)


def test_balrogs_three_are_listed():
    assert set(envs.games()["textworld"].tasks) == set(TASKS) == {"coin_collector", "treasure_hunter", "cooking"}
