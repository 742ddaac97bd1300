"""MiniHack and NLE, with the packages themselves; the lists of names, without them."""

import re

import pytest
from gymnasium.error import ResetNeeded

from agentrl import envs
from agentrl.envs import make
from agentrl.envs.nethack import MINIHACK_TASKS, STANDSTILL, WITHHELD, _cropped, _offset

needs_minihack = pytest.mark.skipif(envs.games()["minihack"].missing is not None, reason="minihack is not installed")
needs_nle = pytest.mark.skipif(envs.games()["nle"].missing is not None, reason="nle is not installed")

SIDES = {(-1, 0): "north", (1, 0): "south", (0, 1): "east", (0, -1): "west"}
SIDES |= {(-1, 1): "northeast", (1, 1): "southeast", (-1, -1): "northwest", (1, -1): "southwest"}


def way(scene, thing):
    """(south, east) of a thing that the scene tells of."""
    found = re.search(rf"- {thing}: (?:(\d+) (north|south))?(?: and )?(?:(\d+) (east|west))?", scene)
    south = int(found[1] or 0) * (-1 if found[2] == "north" else 1)
    return south, int(found[3] or 0) * (-1 if found[4] == "west" else 1)


def sign(number):
    return (number > 0) - (number < 0)


def test_where_a_thing_is_and_the_map_without_its_margins():
    assert [_offset(-1, 0), _offset(2, 0), _offset(0, 3), _offset(0, -4)] == ["1 north", "2 south", "3 east", "4 west"]
    assert _offset(-2, 5) == "2 north and 5 east"
    assert _cropped(["", "   ..", "  .@", ""]) == "Map, you are @:\n ..\n.@"
    assert _cropped(["", " "]) == ""


@needs_minihack
def test_what_is_told_leads_to_the_goal():
    """The staircase's offsets are true: steps towards it arrive, on any level."""
    game = make("minihack/Room-Random-5x5")
    for seed in range(8):
        observation, _ = game.reset(seed=seed)
        over, turns = False, 0
        while not over:
            south, east = way(observation.scene, "staircase down")
            observation, reward, terminated, truncated, info = game.step(SIDES[sign(south), sign(east)])
            over, turns = terminated or truncated, turns + 1
        assert (reward, terminated, truncated) == (1.0, True, False)
        assert info == {"success": True, "progression": 1.0}
        assert turns <= 4
        with pytest.raises(ResetNeeded):
            game.step("north")
    game.close()


@needs_minihack
def test_the_room_is_told_to_the_letter():
    game = make("minihack/Room-5x5")
    observation, info = game.reset(seed=5)
    assert info == {}
    told, seen, shown = observation.scene.split("\n\n")
    assert told.startswith("Hello Agent, welcome to NetHack!")
    assert seen == "You see:\n- staircase down: 4 south and 4 east"
    assert shown == "Map, you are @:\n@....\n.....\n.....\n.....\n....>"
    assert "HP:12(12)" in observation.status
    assert "a: a +0 short sword (weapon in hand)" in observation.status
    observation = game.step("southeast")[0]
    assert "- staircase down: 3 south and 3 east" in observation.scene
    game.close()


@needs_minihack
def test_the_limit_truncates_and_nothing_is_won():
    game = make("minihack/Corridor-R3", max_turns=3)
    game.reset(seed=0)
    ends = [game.step("search")[2:] for _ in range(3)]
    assert ends == [(False, False, {})] * 2 + [(False, True, {"success": False, "progression": 0.0})]
    game.close()


@needs_minihack
@pytest.mark.parametrize("task", MINIHACK_TASKS)
def test_a_seed_is_a_level(task):
    game, again = make(f"minihack/{task}"), make(f"minihack/{task}")
    first = game.reset(seed=11)[0]
    game.step(game.default_action)
    assert again.reset(seed=11)[0] == game.reset(seed=11)[0] == first
    assert game.reset(seed=12)[0] != first
    game.close(), again.close()


@needs_nle
def test_the_whole_game_withholds_what_ends_or_hides_it():
    game = make("nle")
    assert not {name.lower() for name in WITHHELD} & game.actions.keys()
    assert game.default_action in game.actions
    assert {"north", "far west", "eat", "pray", "down"} <= game.actions.keys()
    assert set(game.synonyms.values()) <= game.actions.keys()
    game.close()


@needs_nle
def test_the_whole_game_is_given_up_where_its_clock_stands_still():
    """`esc` takes no time."""
    game = make("nle")
    game.reset(seed=1)
    turns, over = 0, False
    while not over:
        *_, terminated, truncated, info = game.step("esc")
        turns, over = turns + 1, terminated or truncated
    assert (turns, terminated, truncated) == (STANDSTILL, False, True)
    assert info == {"success": False, "progression": 0.0}
    game.close()


@needs_nle
def test_the_whole_game_goes_on_in_another_one_as_by_itself():
    """Two games in one process do not disturb one another."""

    def scenes(game, between):
        told = [game.reset(seed=7)[0]]
        for action in ("search", "north", "east", "far south", "search", "west"):
            between()
            told.append(game.step(action)[0])
        return told

    alone, other = make("nle"), make("nle")
    expected = scenes(alone, lambda: None)
    other.reset(seed=8)
    assert scenes(make("nle"), lambda: other.step("search")) == expected
    alone.close(), other.close()


def test_tasks_are_balrogs_but_for_the_download():
    assert set(envs.games()["minihack"].tasks) == set(MINIHACK_TASKS)
    assert not any("Boxoban" in task for task in MINIHACK_TASKS)
