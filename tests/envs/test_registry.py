"""Games by name: built in, registered, from entry points, and broken ones."""

import logging
import sys
import types
from importlib.metadata import EntryPoint

import pytest

from agentrl import envs
from agentrl.envs import GameError, GameSpec, Observation, TextEnv, registry
from agentrl.errors import UserError


class Echo(TextEnv):
    """The smallest game: says back what it is told."""

    actions = None
    default_action = "hello"
    max_turns = 3

    def __init__(self, task="default", greeting="hi"):
        self.task, self.greeting = task, greeting

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return Observation(f"{self.greeting} {self.np_random.integers(1000)}"), {}

    def step(self, action):
        return Observation(action), 0.0, True, False, {"success": True, "progression": 1.0}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No game of an earlier test, and no remembered entry points or warnings."""
    monkeypatch.setattr(registry, "_registered", {})
    registry._entries.cache_clear()
    registry._warn.cache_clear()
    yield
    registry._entries.cache_clear()


def install(monkeypatch, *entries, **names):
    """Entry points of an imagined package whose module `imagined` holds `names`."""
    module = types.ModuleType("imagined")
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, "imagined", module)
    found = [EntryPoint(name, value, registry.GROUP) for name, value in entries]
    monkeypatch.setattr(registry, "entry_points", lambda group: found if group == "agentrl.envs" else [])


def test_built_in_games_are_listed():
    assert "babyai" in envs.games()
    assert {"goto", "pickup", "open", "putnext", "pick_up_seq_go_to"} <= set(envs.games()["babyai"].tasks)
    assert envs.make("babyai/goto", reward="binary").max_turns == 64


def test_a_registered_game_is_made_by_name_and_options_reach_it():
    envs.register(GameSpec("echo", "Says it back.", Echo))
    game = envs.make("echo", greeting="hallo")
    assert (game.task, game.reset(seed=1)[0].scene.split()[0]) == ("default", "hallo")
    assert game.reset(seed=1) == envs.make("echo/default", greeting="hallo").reset(seed=1)


def test_a_tasks_name_may_hold_slashes():
    envs.register(GameSpec("echo", "Says it back.", Echo, tasks=("a", "b/c")))
    assert envs.make("echo/b/c").task == "b/c"


def test_an_installed_game_is_found_by_its_entry_point(monkeypatch):
    install(monkeypatch, ("echo", "imagined:SPEC"), SPEC=GameSpec("echo", "Says it back.", Echo))
    assert envs.games()["echo"].description == "Says it back."
    assert isinstance(envs.make("echo"), Echo)


BROKEN = {
    "gone": ("no_such_module_anywhere:SPEC", "ModuleNotFoundError"),
    "lost": ("imagined:NOTHING", "AttributeError"),
    "number": ("imagined:NUMBER", "must be a GameSpec"),
    "alias": ("imagined:SPEC", "of the same name"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_entry_point_costs_one_warning_and_no_other_game(monkeypatch, caplog, name):
    value, reason = BROKEN[name]
    install(monkeypatch, (name, value), ("echo", "imagined:SPEC"), SPEC=GameSpec("echo", "", Echo), NUMBER=3)
    with caplog.at_level(logging.WARNING):
        assert set(envs.games()) == {"echo", *(entry.name for entry in registry.BUILT_IN)}
        envs.games()
    assert len(caplog.messages) == 1
    assert "\n" not in caplog.messages[0]
    assert f"'{name}'" in caplog.messages[0]
    assert value in caplog.messages[0]
    assert reason in caplog.messages[0]
    assert isinstance(envs.make("echo"), Echo)
    with pytest.raises(GameError, match=name):
        envs.make(name)


def test_an_entry_point_cannot_take_a_built_in_games_name(monkeypatch, caplog):
    install(monkeypatch, ("babyai", "imagined:SPEC"), SPEC=GameSpec("babyai", "", Echo))
    with caplog.at_level(logging.WARNING):
        assert not isinstance(envs.make("babyai/goto"), Echo)
    assert "'babyai'" in caplog.text
    assert "ignored" in caplog.text


def test_a_name_is_registered_once():
    envs.register(GameSpec("echo", "", Echo))
    for name in ("echo", "babyai"):
        with pytest.raises(GameError, match=name):
            envs.register(GameSpec(name, "", Echo))


def test_a_game_whose_package_is_missing_is_listed_and_names_what_installs_it(monkeypatch):
    made = []
    envs.register(GameSpec("far", "Far away.", lambda task: made.append(task), needs="no_such_package"))
    envs.register(GameSpec("near", "At hand.", Echo, needs="gymnasium"))
    assert envs.games()["far"].missing == 'pip install "agentrl[no_such_package]"'
    assert envs.games()["near"].missing is None
    for ask in (envs.make, envs.check):
        with pytest.raises(GameError) as caught:
            ask("far")
        assert str(caught.value) == (
            "game.id = 'far': it needs the package no_such_package: pip install \"agentrl[no_such_package]\""
        )
    assert made == []
    assert isinstance(envs.make("near"), Echo)


@pytest.mark.parametrize(
    ("game_id", "words"),
    [
        ("babyia/goto", ["game.id", "'babyia'", "did you mean 'babyai'"]),
        ("babyai/gotoo", ["game.id", "'babyai/gotoo'", "did you mean 'babyai/goto'"]),
        ("babyai/BabyAI-GoTolocal-v0", ["did you mean 'babyai/BabyAI-GoToLocal-v0'"]),
        ("babyai", ["game.id", "'babyai'", "add a task", "babyai/goto"]),
        ("babyai/", ["game.id", "no such task"]),
        ("", ["game.id", "''", "Known: babaisai, babyai"]),
    ],
)
def test_an_unknown_game_is_one_line_with_a_remedy(game_id, words):
    for ask in (envs.make, envs.check):
        with pytest.raises(GameError) as caught:
            ask(game_id)
        assert "\n" not in str(caught.value)
        assert all(word in str(caught.value) for word in words)
        assert len(str(caught.value)) < 500


def test_options_are_checked_against_the_makers_parameters():
    envs.register(GameSpec("echo", "", Echo))
    with pytest.raises(GameError, match=r"game.options = 'greting': .* did you mean 'greeting'\? Known: greeting"):
        envs.check("echo", greting="hallo")
    envs.register(GameSpec("any", "", lambda task, **options: Echo(task)))
    envs.make("any", whatever=1)


def test_a_maker_that_makes_no_game_is_told():
    envs.register(GameSpec("none", "", lambda task: None))
    with pytest.raises(GameError, match=r"none.*NoneType"):
        envs.make("none")


@pytest.mark.parametrize(("name", "tasks"), [("a/b", ("x",)), ("", ("x",)), ("a", ()), ("a", "task")])
def test_a_spec_that_cannot_be_named_is_refused(name, tasks):
    with pytest.raises(GameError, match=r"GameSpec\.(name|tasks)"):
        GameSpec(name, "", Echo, tasks)


def test_a_game_error_is_a_users_mistake():
    assert issubclass(GameError, UserError)
    assert issubclass(GameError, ValueError)


@pytest.mark.parametrize(
    ("attribute", "value", "remedy"),
    [
        ("actions", ["left", "right"], "names with their help"),
        ("actions", {1: "left"}, "names with their help"),
        ("default_action", None, "one of its actions"),
        ("default_action", "rigth", "one of its actions"),
        ("max_turns", None, "a whole number from 1"),
        ("max_turns", 0, "a whole number from 1"),
        ("synonyms", None, "other spellings"),
        ("synonyms", {"hi": 3}, "other spellings"),
        ("achievements", "sapling", "a tuple of names"),
        ("achievements", ("sapling", 1), "a tuple of names"),
        ("achievements", ("sapling", "stone", "sapling"), "a tuple of names, each once"),
    ],
)
def test_a_game_without_what_every_game_has_is_told(attribute, value, remedy):
    kept = {} if attribute == "actions" else {"actions": {"hello": "a greeting"}}
    envs.register(GameSpec("lacking", "Lacks something.", lambda task: type("Lacking", (Echo,), kept)()))
    assert envs.make("lacking").max_turns == 3
    kept[attribute] = value
    with pytest.raises(GameError, match=rf"game.id = 'lacking': Lacking\.{attribute} = .*: must be .*{remedy}"):
        envs.make("lacking")


@pytest.mark.parametrize("text", [5, None, b"a wall"])
def test_an_observation_is_text(text):
    for arguments in ((text,), ("a wall", text)):
        with pytest.raises(TypeError, match="must be text"):
            Observation(*arguments)
