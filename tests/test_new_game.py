"""`agentrl new-game`: what it writes is small, sound and installable; what it refuses, it leaves alone."""

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from agentrl import envs
from agentrl.check_env import PASSED, check_env
from agentrl.configfile import load_config
from agentrl.envs import GameSpec, registry
from agentrl.errors import UserError
from agentrl.new_game import create
from agentrl.styles import load_texts


@pytest.fixture
def skeleton(tmp_path):
    return create("warm-cold", tmp_path / "projects")


def test_it_is_small_and_has_every_part(skeleton):
    files = {path.relative_to(skeleton).as_posix() for path in skeleton.rglob("*") if path.is_file()}
    module = {f"warm_cold/{name}" for name in ("__init__.py", "game.py", "texts.yaml")}
    assert files == {"pyproject.toml", "quickstart.yaml", "tests/test_game.py", *module}
    assert sum(len((skeleton / name).read_text().splitlines()) for name in files) < 80
    assert [path.name for path in skeleton.parent.iterdir()] == ["warm-cold"]


def test_its_lines_are_in_order(skeleton):
    for command in (["check"], ["format", "--check"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "--line-length=120", skeleton], check=True)


def test_check_env_passes_it(skeleton):
    results = check_env(f"{skeleton}/warm_cold/game.py:SPEC")
    assert {result.check: result.reason for result in results if result.state != PASSED} == {}


def test_its_entry_point_leads_to_it_and_to_its_words(skeleton, monkeypatch):
    project = tomllib.loads((skeleton / "pyproject.toml").read_text())["project"]
    (name, value), *_ = project["entry-points"]["agentrl.envs"].items()
    monkeypatch.syspath_prepend(str(skeleton))
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint(name, value, group)])
    registry._entries.cache_clear()
    try:
        assert envs.games()["warm-cold"].description
        assert envs.make("warm-cold", far=7).max_turns == 11
        assert "treasure" in load_texts("warm-cold").rules
    finally:
        registry._entries.cache_clear()
        for module in ("warm_cold", "warm_cold.game"):
            sys.modules.pop(module, None)


def test_its_recipe_is_one(skeleton):
    config = load_config(skeleton / "quickstart.yaml")
    assert (config.name, config.game.id) == ("warm-cold", "warm-cold")
    assert config.turns_per_update * config.batch.updates <= 64 * 16 * 22  # no longer than the quickstart


def test_an_existing_folder_is_left_alone(skeleton):
    (skeleton / "mine.txt").write_text("mine")
    before = sorted(skeleton.rglob("*"))
    with pytest.raises(UserError, match="exists already"):
        create("warm-cold", skeleton.parent)
    assert sorted(skeleton.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "small letters"),
        ("My-Game", "small letters"),
        ("9lives", "small letters"),
        ("a/b", "small letters"),
        ("../up", "small letters"),
        ("two--hyphens", "small letters"),
        ("naïve", "small letters"),
        ("babyai", "a game of this name exists already"),
        ("class", "choose another"),
        ("json", "choose another"),
        ("torch", "choose another"),
    ],
)
def test_a_name_that_cannot_be_is_refused_before_anything_is_written(tmp_path, name, words):
    with pytest.raises(UserError, match=words):
        create(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_registered_games_name_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {"mine": GameSpec("mine", "", lambda task: None)})
    with pytest.raises(UserError, match="exists already"):
        create("mine", tmp_path)


def test_nothing_half_written_is_left(tmp_path, monkeypatch):
    written = []

    def full_disk(self, text, **options):
        if written:
            raise OSError(28, "No space left on device", str(self))
        written.append(self)

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(UserError, match="No space left"):
        create("mine", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_the_folder_would_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        create("mine", tmp_path / "file")
