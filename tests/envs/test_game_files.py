"""Games in files: FILE.py:OBJECT is loaded by whoever names it, the same in every process."""

import os
import sys
from pathlib import Path

import broken_games
import pytest
from fresh_python import told

from agentrl import envs
from agentrl.configfile import dump_config, load_config, make_config
from agentrl.envs import GameError
from agentrl.game_id import FileGame, absolute, in_file
from agentrl.plainyaml import load_yaml
from agentrl.styles import load_texts

GAME = '''
"""A game file."""
from dataclasses import dataclass

from agentrl.envs import GameSpec, Observation, TextEnv
from beside_it import GREETING


@dataclass
class Card:
    word: str


class Tiny(TextEnv):
    """Says a word."""

    actions = {"on": ""}
    default_action = "on"
    max_turns = 1

    def __init__(self, word="hi"):
        self.card = Card(word)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return Observation(f"{GREETING} {self.card.word}"), {}

    def step(self, action):
        return Observation(""), 0.0, True, False, {"success": True, "progression": 1.0}


SPEC = GameSpec("family", "", lambda task, **options: Tiny(f"{task} {options}"), ("small", "large/er"))
LONE = GameSpec("lone", "", lambda task: Tiny(task))
NUMBER = 3
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tiny.py").write_text(GAME)
    (tmp_path / "beside_it.py").write_text("GREETING = 'oh'\n")
    return tmp_path


def first_scene(game_id, **options):
    return envs.make(game_id, **options).reset(seed=0)[0].scene


@pytest.mark.parametrize(
    ("game_id", "parts"),
    [
        ("a/b.py:Game", (Path("a/b.py"), "Game", None)),
        ("/a b/c.py:SPEC/task/more", (Path("/a b/c.py"), "SPEC", "task/more")),
        ("b.py:", (Path("b.py"), "", None)),
        ("b.py", (Path("b.py"), "", None)),
        ("~/b.py:G", (Path("~/b.py").expanduser(), "G", None)),
        ("babyai/goto", None),
        ("gymnasium/my.pyramid:Env-v0", None),
        ("", None),
    ],
)
def test_what_an_id_names(game_id, parts):
    assert in_file(game_id) == (parts and FileGame(*parts))


def test_a_path_is_made_absolute_once(tmp_path):
    where = absolute("../games/b.py:G/t", tmp_path / "recipes")
    assert where == f"{tmp_path}/games/b.py:G/t"
    assert absolute(where, Path("/elsewhere")) == where
    assert absolute("b.py", tmp_path) == f"{tmp_path}/b.py"
    assert absolute("babyai/goto", tmp_path) == "babyai/goto"


def test_a_class_takes_the_options_and_a_spec_its_task(folder):
    file = folder / "tiny.py"
    assert first_scene(f"{file}:Tiny") == "oh hi"
    assert first_scene(f"{file}:Tiny", word="ho") == "oh ho"
    assert first_scene(f"{file}:SPEC/small", a=1) == "oh small {'a': 1}"
    assert first_scene(f"{file}:SPEC/large/er") == "oh large/er {}"
    assert first_scene(f"{file}:LONE") == "oh default"


def test_it_is_made_in_a_process_that_knows_its_id_alone(folder):
    script = "import sys; from agentrl import envs; print(envs.make(sys.argv[1], word='ho').reset(seed=0)[0].scene)"
    assert told(script, f"{folder}/tiny.py:Tiny") == "oh ho\n"


def test_a_file_is_run_once_and_files_of_one_name_are_told_apart(folder):
    other = folder / "other" / "tiny.py"
    other.parent.mkdir()
    other.write_text(GAME.replace('word="hi"', 'word="other"') + "\nopen(__file__ + '.log', 'a').write('run ')\n")
    assert (first_scene(f"{other}:Tiny"), first_scene(f"{folder}/tiny.py:Tiny")) == ("oh other", "oh hi")
    first_scene(f"{other}:Tiny")
    kinds = [type(envs.make(f"{file}:Tiny")) for file in (other, folder / "tiny.py")]
    assert [sys.modules[kind.__module__].Tiny for kind in kinds] == kinds
    assert Path(f"{other}.log").read_text() == "run "


MISTAKES = [
    ("tiny.py:Tny", {}, ["has no 'Tny'", "did you mean Tiny"]),
    ("tny.py:Tiny", {}, ["no such file", "did you mean", "tiny.py"]),
    ("nowhere/tiny.py:Tiny", {}, ["nowhere/tiny.py", "no such file"]),
    ("tiny.py", {}, ["tiny.py:CLASS"]),
    ("tiny.py:", {}, ["tiny.py:CLASS"]),
    ("tiny.py:NUMBER", {}, ["a TextEnv class or a GameSpec", "int"]),
    ("tiny.py:Card", {}, ["a TextEnv class or a GameSpec", "gymnasium/MODULE:ID"]),
    ("tiny.py:Tiny/small", {}, ["no such task"]),
    ("tiny.py:SPEC", {}, ["add a task", "tiny.py:SPEC/small"]),
    ("tiny.py:SPEC/smal", {}, ["no such task", "SPEC/small"]),
    ("tiny.py:Tiny", {"wrod": 1}, ["'wrod'", "did you mean 'word'"]),
    ("broken.py:Game", {}, ["cannot be loaded", "ZeroDivisionError", "broken.py:2"]),
    ("leaves.py:Game", {}, ["cannot be loaded", "SystemExit"]),
    ("unread.py:Game", {}, ["cannot be loaded", "SyntaxError"]),
]


@pytest.mark.parametrize(("game_id", "options", "words"), MISTAKES, ids=[case[0] for case in MISTAKES])
def test_a_mistake_is_one_line(folder, monkeypatch, game_id, options, words):
    monkeypatch.chdir(folder)
    for name, text in {"broken": "\n1 / 0", "leaves": "exit(3)", "unread": "class :"}.items():
        (folder / f"{name}.py").write_text(text)
    for ask in (envs.check, envs.make):
        with pytest.raises(GameError) as caught:
            ask(game_id, **options)
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_file_that_failed_is_read_again(folder):
    file = folder / "late.py"
    file.write_text("1 / 0")
    with pytest.raises(GameError):
        envs.check(f"{file}:Tiny")
    assert not [name for name in sys.modules if "_late_" in name]
    file.write_text(GAME)
    assert first_scene(f"{file}:Tiny") == "oh hi"


def test_nothing_is_run_by_reading_a_recipe(tmp_path):
    (tmp_path / "loud.py").write_text("open(__file__ + '.ran', 'w')\n")
    make_config({"name": "x", "game": {"id": f"{tmp_path}/loud.py:Game"}})
    assert not (tmp_path / "loud.py.ran").exists()


def test_a_stored_config_means_the_same_file_from_anywhere(folder, monkeypatch):
    (folder / "recipe.yaml").write_text("name: x\ngame: {id: tiny.py:Tiny}\n")
    monkeypatch.chdir(folder)
    config = load_config(os.path.join(".", "recipe.yaml"))
    monkeypatch.chdir("/")
    assert make_config(load_yaml(dump_config(config))) == config
    assert first_scene(config.game.id) == "oh hi"


def test_its_words_lie_beside_it(folder):
    file = folder / "tiny.py"
    assert load_texts(f"{file}:Tiny").rules == ""
    (folder / "tiny.yaml").write_text("rules: say it\nactions: {on: go on}\n")
    assert load_texts(f"{file}:Tiny").rules == "say it"
    assert load_texts(f"{file}:SPEC/small").actions == {"on": "go on"}


def test_words_that_a_spec_brings_along_come_first(folder):
    (folder / "own.yaml").write_text("rules: my own\n")
    (folder / "tiny.yaml").write_text("rules: beside\n")
    (folder / "tiny.py").write_text(
        GAME + "\nfrom pathlib import Path\n"
        "OWN = GameSpec('own', '', lambda task: Tiny(), texts=Path(__file__).with_name('own.yaml'))\n"
        "LOST = GameSpec('lost', '', lambda task: Tiny(), texts=Path(__file__).with_name('lost.yaml'))\n"
    )
    assert load_texts(f"{folder}/tiny.py:OWN").rules == "my own"
    with pytest.raises(ValueError, match=r"lost\.yaml: cannot be read"):
        load_texts(f"{folder}/tiny.py:LOST")


def test_words_of_built_in_games_and_of_games_unknown():
    assert "square cells" in load_texts("babyai/goto").rules
    assert load_texts("no-such-game/at-all").rules == ""


def test_the_games_of_these_tests_are_games():
    assert envs.make(f"{broken_games.__file__}:Sound").max_turns == 8
