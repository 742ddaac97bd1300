"""TextArena's games, with the package itself; the names that are refused, without it."""

import random

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from agentrl import envs
from agentrl.check_env import FAILED, check_env
from agentrl.envs import GameError, make
from agentrl.envs.textarena import REFUSED, TextArena, known_tasks


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_games_that_need_more_than_the_package_are_refused_with_the_reason(name):
    """Before the package is asked for anything: loading such a game begins a download."""
    with pytest.raises(GameError, match=f"game.id = 'textarena/{name}-v0': ") as refused:
        TextArena(f"{name}-v0")
    assert REFUSED[name] in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_typo_is_answered_with_the_name_it_is_near_to():
    with pytest.raises(GameError, match="did you mean 'textarena/Sudoku-v0'"):
        TextArena("Sudokku-v0")


def test_no_refused_game_is_listed():
    assert not REFUSED.keys() & {task.partition("-v")[0] for task in known_tasks()}
    assert set(known_tasks()) == set(envs.games()["textarena"].tasks)


@pytest.fixture
def no_network(monkeypatch):
    """Whatever opens a connection fails the test."""

    def connect(*_, **__):
        raise AssertionError("a connection was opened")

    for name in ("socket.socket.connect", "socket.create_connection", "socket.getaddrinfo"):
        monkeypatch.setattr(name, connect)


needs_textarena = pytest.mark.skipif(envs.games()["textarena"].missing is not None, reason="textarena is not installed")


@needs_textarena
def test_the_number_is_found_by_halving(no_network):
    """Its rules are the mission, its hints the scenes; whoever halves 1 to 20 needs at most five guesses."""
    game = make("textarena/GuessTheNumber-v0")
    for seed in range(10):
        observation, _ = game.reset(seed=seed)
        assert "between 1 and 20" in game.mission
        assert observation.scene == "The game begins."
        low, high, over = 1, 20, False
        while not over:
            guess = (low + high) // 2
            observation, reward, terminated, truncated, info = game.step(str(guess))
            over = terminated or truncated
            low, high = (guess + 1, high) if "higher" in observation.scene else (low, guess - 1)
        assert (reward, terminated, truncated) == (1.0, True, False)
        assert info == {"success": True, "progression": 1.0}
        assert str(guess) not in observation.scene  # one's own words are the memory's
        assert game._turn <= 5


@needs_textarena
def test_three_disks_move_in_seven_moves():
    game = make("textarena/TowerOfHanoi-v0")
    game.reset(seed=0)
    assert game.one_level
    for move in ("A C", "A B", "C B", "A C", "B A", "B C"):
        *_, terminated, _, _ = game.step(move)
        assert not terminated
    _, reward, terminated, _, info = game.step("[A C]")  # brackets of one's own are taken, too
    assert (reward, terminated, info["success"]) == (1.0, True, True)


@needs_textarena
def test_the_second_impossible_move_in_a_row_loses():
    game = make("textarena/GuessTheNumber-v0")
    game.reset(seed=0)
    assert "invalid move" in game.step("no number")[0].scene
    observation, reward, terminated, truncated, info = game.step("no number")
    assert (terminated, truncated, reward) == (True, False, 0.0)
    assert info == {"success": False, "progression": 0.0}
    assert observation.scene.startswith("Invalid Move: ")
    with pytest.raises(ResetNeeded):
        game.step("1")


@needs_textarena
def test_progression_is_what_one_has_of_the_reward():
    """A guess that is 1 off in 1 to 20 is worth 18/19; the game is lost by nonsense after it."""
    game = make("textarena/GuessTheNumber-v0")
    game.reset(seed=0)
    number = game._inner.state.game_state["game_number"]
    game.step(str(number - 1 if number > 1 else 2))
    game.step("x")
    *_, info = game.step("x")
    assert info == {"success": False, "progression": pytest.approx(18 / 19)}


@needs_textarena
def test_a_loss_below_nothing_is_no_progression():
    game = make("textarena/Bandit-v0")
    game.reset(seed=0)
    game.step("x")
    _, reward, *_, info = game.step("x")
    assert (reward, info["progression"]) == (-1.0, 0.0)


@needs_textarena
def test_max_turns_truncates_and_the_games_own_limit_does_not():
    short = make("textarena/TowerOfHanoi-v0", max_turns=2)
    short.reset(seed=0)
    assert short.step("A C")[2:] == (False, False, {})
    assert short.step("C A")[2:] == (False, True, {"success": False, "progression": 0.0})
    own = make("textarena/TowerOfHanoi-v0")
    own.reset(seed=0)
    ends = [own.step("A C" if n % 2 == 0 else "C A")[2:4] for n in range(15)]
    assert own.max_turns == 28
    assert ends == [(False, False)] * 14 + [(True, False)]


@needs_textarena
def test_the_random_numbers_of_others_are_left_alone():
    """Two games in one process, and whoever draws between their turns, do not disturb one another."""

    def episode(game, between):
        scenes = [game.reset(seed=3)[0].scene]
        for move in ("up", "left", "down", "right") * 3:
            between()
            scenes.append(game.step(move)[0].scene)
        return scenes

    random.seed(0), np.random.seed(0)
    drawn = random.getstate(), np.random.get_state()[1].tolist()
    alone = episode(make("textarena/2048-v0"), lambda: None)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == drawn
    other = make("textarena/2048-v0")
    other.reset(seed=4)
    assert episode(make("textarena/2048-v0"), lambda: (random.random(), np.random.rand(), other.reset(seed=5))) == alone


@needs_textarena
@pytest.mark.parametrize("task", [task for task in known_tasks() if task != "Sokoban-v0"])
def test_every_listed_game_begins_and_ends(task, no_network, capfd):
    """Sokoban takes seconds to make its rooms."""
    game = make(f"textarena/{task}")
    first, _ = game.reset(seed=1)
    rules = game.mission
    assert len(rules) > 100
    again, _ = game.reset(seed=1)
    assert (again.scene, game.mission) == (first.scene, rules)
    over = False
    while not over:
        *_, terminated, truncated, info = game.step("nonsense")
        over = terminated or truncated
    assert 0 <= info["progression"] < 1
    assert info["success"] is False
    assert capfd.readouterr().out == ""


@needs_textarena
def test_check_env_finds_nothing():
    assert [result for result in check_env("textarena/2048-v0", trial_seconds=3) if result.state == FAILED] == []


@needs_textarena
def test_a_variant_that_does_not_exist_is_one_line():
    with pytest.raises(GameError, match="no such variant of Sudoku"):
        make("textarena/Sudoku-v0-hrad")
    assert make("textarena/Sudoku-v0-hard").max_turns
