"""Text games registered with gymnasium: played as they are, and refused in one line where they are none."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from agentrl import envs
from agentrl.check_env import NOT_REACHED, PASSED, check_env
from agentrl.envs import GameError, Observation, TextEnv

MODULE = '''
"""A text game for gymnasium, which knows nothing of agentrl."""
import gymnasium
from gymnasium import spaces


class Guess(gymnasium.Env):
    observation_space = spaces.Dict(hint=spaces.Text(40), mission=spaces.Text(40))
    action_space = spaces.Discrete(3, start=5)

    def __init__(self, names=("low", "middle", "high")):
        self.action_names = list(names)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.secret = int(self.np_random.integers(5, 8))
        return {"hint": f"think {self.secret % 2}", "mission": "guess"}, {}

    def step(self, action):
        found = action == self.secret
        info = {"is_success": bool(found), "progression": float(found)}
        return {"hint": "right" if found else "wrong", "mission": "guess"}, float(found), bool(found), False, info


class Parrot(gymnasium.Env):
    observation_space = spaces.Text(200)
    action_space = spaces.Text(min_length=1, max_length=5, charset="abc")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return str(self.np_random.integers(100)), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return action, 0.0, len(action) == 3, False, {}


gymnasium.register("Guess-v0", Guess, max_episode_steps=4)
gymnasium.register("Parrot-v0", Parrot)
'''


class Base(gymnasium.Env):
    observation_space = spaces.Text(10)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return "", {}


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "text_games_of_others.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "gymnasium/text_games_of_others"


def test_numbered_actions_are_played_by_their_names(module):
    game = envs.make(f"{module}:Guess-v0")
    assert list(game.actions) == ["low", "middle", "high"]
    assert (game.default_action, game.max_turns) == ("low", 4)
    observation, _ = game.reset(seed=3)
    assert observation == Observation(f"hint: think {game._env.unwrapped.secret % 2}")
    assert game.mission == "guess"
    right = list(game.actions)[game._env.unwrapped.secret - 5]
    observation, reward, terminated, truncated, info = game.step(right)
    assert (observation.scene, reward, terminated, truncated) == ("hint: right", 1.0, True, False)
    assert (info["success"], info["progression"]) == (True, 1.0)
    with pytest.raises(ResetNeeded):
        game.step(right)


def test_the_environments_own_time_limit_truncates(module):
    game = envs.make(f"{module}:Guess-v0")
    game.reset(seed=0)
    wrong = next(name for n, name in enumerate(game.actions, 5) if n != game._env.unwrapped.secret)
    assert [game.step(wrong)[2:4] for _ in range(4)] == [(False, False)] * 3 + [(False, True)]


def test_check_env_passes_such_a_game(module):
    found = {result.check: result.reason for result in check_env(f"{module}:Guess-v0") if result.state != PASSED}
    assert found == {}


def test_free_text_is_made_to_fit_its_space(module):
    game = envs.make(f"{module}:Parrot-v0", max_turns=3)
    assert (game.actions, game.default_action) == (None, "a")
    game.reset(seed=0)
    assert game.step("xaybz")[0].scene == "ab"
    assert game.step("\x00")[0].scene == "a"
    assert game.step("c" * 100)[0].scene == "ccccc"
    game.reset(seed=0)
    assert [game.step("ab")[2:4] for _ in range(3)] == [(False, False)] * 2 + [(False, True)]
    results = {result.check: result for result in check_env(f"{module}:Parrot-v0", {"max_turns": 3})}
    assert {name for name, result in results.items() if result.state not in (PASSED, NOT_REACHED)} == {"end-info"}
    assert "'success'" in results["end-info"].reason  # it does not say, and nobody guesses


def test_options_are_the_environments_own(module):
    game = envs.make(f"{module}:Guess-v0", names=["x", "y", "z"], default_action="y", max_turns=2)
    assert (list(game.actions), game.default_action, game.max_turns) == (["x", "y", "z"], "y", 2)


def register(monkeypatch, **attributes):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("Case-v0", type("Case", (Base,), attributes), max_episode_steps=5)


NAMES = ["a", "b"]


@pytest.mark.parametrize("where", ["get_action_meanings", "action_names", "actions"])
def test_names_of_actions_are_found(monkeypatch, where):
    found = {
        "get_action_meanings": lambda self: NAMES,
        "action_names": tuple(NAMES),
        "actions": {"a": "the first", "b": "the second"},
    }[where]
    register(monkeypatch, **{where: found})
    game = envs.make("gymnasium/Case-v0")
    assert list(game.actions) == NAMES
    assert game.actions["b"] == ("the second" if where == "actions" else "")


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, ["action_space", "action_names"]),
        ({"action_names": ["a"]}, ["action_space", "as many names"]),
        ({"action_names": ["a", "a"]}, ["as many names"]),
        ({"action_names": "ab"}, ["as many names"]),
        ({"action_names": [1, 2]}, ["as many names"]),
        ({"action_space": spaces.Box(0, 1)}, ["action_space is Box", "Text, or Discrete"]),
        (
            {"observation_space": spaces.Discrete(9), "action_names": NAMES},
            ["observation_space is Discrete(9)", "Text"],
        ),
        (
            {"observation_space": spaces.Dict(a=spaces.Text(1), b=spaces.Box(0, 1, dtype=np.float32))},
            ["observation_space is Dict", "Dict of Text"],
        ),
    ],
)
def test_what_is_no_text_game_is_one_line(monkeypatch, attributes, words):
    register(monkeypatch, **attributes)
    with pytest.raises(GameError) as caught:
        envs.make("gymnasium/Case-v0")
    assert all(word in str(caught.value) for word in ["gymnasium/Case-v0", *words]), str(caught.value)


@pytest.mark.parametrize(
    ("game_id", "options", "words"),
    [
        ("gymnasium/FrozenLak-v1", {}, ["gymnasium/FrozenLak-v1", "Did you mean: `FrozenLake`"]),
        ("gymnasium/no_such_module_x:A-v0", {}, ["no_such_module_x", "cannot be made"]),
        ("gymnasium/FrozenLake-v1", {"sizze": 3}, ["sizze"]),
        ("gymnasium/CartPole-v1", {}, ["observation_space is Box"]),
        ("gymnasium", {}, ["add a task", "gymnasium/ID"]),
        ("gymnasium/", {}, ["no such task"]),
    ],
)
def test_mistakes_are_one_line(game_id, options, words):
    with pytest.raises(GameError) as caught:
        envs.make(game_id, **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_game_without_limit_needs_one(module):
    with pytest.raises(GameError, match=r"give game\.options\.max_turns"):
        envs.make(f"{module}:Parrot-v0")


def test_a_text_env_that_gymnasium_knows_is_taken_as_it_is(monkeypatch):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    from agentrl.envs.signpost import Signpost

    gymnasium.register("Signpost-v0", Signpost)
    game = envs.make("gymnasium/Signpost-v0", length=7)
    assert isinstance(game, TextEnv)
    assert type(game) is Signpost
    assert game.max_turns == 7
