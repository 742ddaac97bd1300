"""What a benchmark plays: suites of tasks, built in or in a YAML file, and the names that BALROG has for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field

from agentrl import envs
from agentrl.errors import UserError, did_you_mean
from agentrl.game_id import in_file
from agentrl.section import Positive, Section
from agentrl.styles import load_words

TEXTWORLD = {"cooking": "the_cooking_game"}
"""Tasks whose name differs from BALROG's."""


class TaskEntry(Section):
    """A line of a suite: a task, or a pattern of tasks of one game."""

    id: str = Field(description="as `agentrl games` lists it; * stands for any text within one game")
    episodes: Positive = 10
    options: dict[str, Any] = {}


class SuiteFile(Section):
    """A suite's YAML file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    tasks: list[TaskEntry] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Task:
    """A game to be played `episodes` times."""

    id: str
    episodes: int
    options: dict[str, Any]

    @property
    def game(self) -> str:
        """What results are grouped by."""
        return original_names(self.id)[0]

    @property
    def original(self) -> str:
        """Its name in BALROG's results."""
        return original_names(self.id)[1]


@dataclass(frozen=True, slots=True)
class Suite:
    """Tasks, and those that cannot be played here: id -> what is missing."""

    name: str
    tasks: tuple[Task, ...]
    skipped: dict[str, str]


def load_suite(name: str, patterns: Sequence[str] = (), episodes: int | None = None) -> Suite:
    """A suite by its name or file.

    Args:
        patterns: of its tasks only those that match one of these, * standing for any text.
        episodes: of every task, in place of the suite's numbers.

    Raises:
        UserError: no such suite, a mistake in it, an unknown game, or nothing is left to be played.
    """
    file = _file(name)
    suite = load_words(SuiteFile, file)
    tasks: list[Task] = []
    skipped: dict[str, str] = {}
    for entry in suite.tasks:
        for game_id in _expanded(entry, str(file)):
            if patterns and not any(fnmatchcase(game_id, pattern) for pattern in patterns):
                continue
            missing = None if in_file(game_id) else envs.games()[game_id.partition("/")[0]].missing
            if missing:
                skipped[game_id] = missing
                continue
            envs.check(game_id, **entry.options)
            tasks.append(Task(game_id, episodes or entry.episodes, entry.options))
    doubled = sorted({task.id for task in tasks if [t.id for t in tasks].count(task.id) > 1})
    if doubled:
        raise UserError(f"{file}: tasks: {doubled[0]} comes twice")
    if not tasks:
        if skipped:
            raise UserError(f"suite {suite.name}: nothing is left to be played; {min(skipped.values())}")
        known = [game_id for entry in suite.tasks for game_id in _expanded(entry, str(file))]
        raise UserError(
            f"--tasks {' '.join(patterns)}: no task of suite {suite.name}{did_you_mean(patterns[0], known)}"
        )
    return Suite(suite.name, tuple(tasks), skipped)


def original_names(game_id: str) -> tuple[str, str]:
    """(environment, task) of a game in BALROG's results; of games that it lacks, ours."""
    if in_file(game_id):
        at = in_file(game_id)
        return "file", f"{at.file.stem}-{at.name}" if at else game_id
    name, _, task = game_id.partition("/")
    match name:
        case "babyai":
            return name, task if task.startswith("BabyAI-") else f"BabyAI-MixedTrainLocal-v0/{task}"
        case "minihack":
            return name, f"MiniHack-{task}-v0"
        case "nle":
            return name, "NetHackChallenge-v0"
        case "textworld":
            return name, TEXTWORLD.get(task, task)
        case _:
            return name, task or "default"


def _file(name: str) -> Any:
    if name.endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise UserError(f"--suite {name}: no such file")
        return Path(name)
    known = {file.name.removesuffix(".yaml"): file for file in (files("agentrl") / "suites").iterdir()}
    if name not in known:
        names = sorted(known)
        raise UserError(
            f"--suite {name}: no such suite{did_you_mean(name, names)}; known: {', '.join(names)}, or a YAML file"
        )
    return known[name]


def _expanded(entry: TaskEntry, file: str) -> list[str]:
    if "*" not in entry.id:
        return [entry.id]
    name, _, pattern = entry.id.partition("/")
    games = envs.games()
    if name not in games:
        raise UserError(f"{file}: id = {entry.id}: no game {name}{did_you_mean(name, games)}")
    found = [f"{name}/{task}" for task in games[name].tasks if fnmatchcase(task, pattern)]
    if not found:
        raise UserError(f"{file}: id = {entry.id}: no task of {name} matches")
    return found
