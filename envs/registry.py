"""Games by id: built in, given to `register`, entry points of other packages (group `agentrl.envs`), or in a file.

A game is imported when it is asked for; an entry point loads to a `GameSpec`, whoever wrote it. FILE.py:OBJECT is a
`GameSpec` or a `TextEnv` class in a file: made from its id and options alone, like any other, in whichever process.
"""

import inspect
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.abc import Traversable
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentrl.envs import game_files
from agentrl.envs.base import TextEnv
from agentrl.envs.errors import GameError, unknown
from agentrl.game_id import FileGame, in_file

GROUP = "agentrl.envs"
BUILT_IN = (
    EntryPoint("babaisai", "agentrl.envs.babaisai:SPEC", GROUP),
    EntryPoint("babyai", "agentrl.envs.babyai:SPEC", GROUP),
    EntryPoint("crafter", "agentrl.envs.crafter:SPEC", GROUP),
    EntryPoint("gymnasium", "agentrl.envs.gymnasium_text:SPEC", GROUP),
    EntryPoint("minihack", "agentrl.envs.nethack:MINIHACK", GROUP),
    EntryPoint("nle", "agentrl.envs.nethack:NLE", GROUP),
    EntryPoint("recall", "agentrl.envs.recall:SPEC", GROUP),
    EntryPoint("signpost", "agentrl.envs.signpost:SPEC", GROUP),
    EntryPoint("textarena", "agentrl.envs.textarena:SPEC", GROUP),
    EntryPoint("textworld", "agentrl.envs.textworld:SPEC", GROUP),
    EntryPoint("toytext", "agentrl.envs.toytext:SPEC", GROUP),
)

logger = logging.getLogger("agentrl.envs")


@dataclass(frozen=True)
class GameSpec:
    """A family of games under one name.

    Attributes:
        name: the part before the slash in NAME/TASK.
        description: one line for `agentrl games`.
        make: called as `make(task, **options)`; its keyword parameters are the game's options.
        tasks: the parts after the slash; with a single one, NAME alone means it.
        any_task: `make` judges every task itself, and raises a GameError for one that does not exist; `tasks` may be
            empty then.
        texts: YAML file of the game's own words (prompts/README.md, "games/NAME.yaml"), for a game that brings them
            along; without it, a built-in game's are in agentrl.prompts, and those of a game in a file FILE.py are in
            FILE.yaml, if there is one.
        needs: an optional package that `make` imports; agentrl's extra of the same name installs it.
    """

    name: str
    description: str
    make: Callable[..., TextEnv]
    tasks: Sequence[str] = ("default",)
    any_task: bool = False
    texts: Path | None = None
    needs: str | None = None

    @property
    def missing(self) -> str | None:
        """The command that installs what the game needs, if that is not here."""
        absent = self.needs is not None and find_spec(self.needs) is None
        return f'pip install "agentrl[{self.needs}]"' if absent else None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", self.name):
            raise GameError(f"GameSpec.name = {self.name!r}: use letters, digits, '_', '-' and '.' only")
        if isinstance(self.tasks, str) or not (self.tasks or self.any_task):
            raise GameError(f"GameSpec.tasks = {self.tasks!r}: give at least one task, as a tuple of names")


_registered: dict[str, GameSpec] = {}


def register(spec: GameSpec) -> None:
    """Make a game known in this process."""
    if spec.name in names():
        raise GameError(f"GameSpec.name = {spec.name!r}: a game of this name exists already; choose another name")
    _registered[spec.name] = spec


def names() -> list[str]:
    """Names of all games, whether they can be loaded or not."""
    return sorted({*_registered, *_entries()})


def known_here_alone(game_id: str) -> bool:
    """Whether the game was given to `register`: other processes cannot make it."""
    return game_id.partition("/")[0] in _registered


def games() -> dict[str, GameSpec]:
    """All games that can be loaded, by name. One that is broken costs a warning, not the others."""
    found = dict(_registered)
    for name, entry in _entries().items():
        try:
            found[name] = _load(entry)
        except GameError as error:
            _warn(str(error))
    return dict(sorted(found.items()))


def make(game_id: str, **options: Any) -> TextEnv:
    """A new game.

    Args:
        game_id: NAME/TASK, or NAME of a game with a single task; FILE.py:OBJECT likewise.
        options: the game's own, e.g. `reward="binary"`.

    Raises:
        GameError: unknown name, file, task or option, or a value that the option does not take; the game lacks what
            every game has.
    """
    game = make_unchecked(game_id, **options)
    for problem in attribute_problems(game).values():
        raise GameError(f"game.id = {game_id!r}: {problem}")
    return game


def make_unchecked(game_id: str, **options: Any) -> TextEnv:
    """As `make`, but the game's attributes are not looked at: for those who look themselves."""
    spec, task = _resolve(game_id, options)
    game = spec.make(task, **options)
    if not isinstance(game, TextEnv):
        raise GameError(f"game.id = {game_id!r}: its maker returned a {type(game).__name__}, not a TextEnv")
    return game


def attribute_problems(game: TextEnv) -> dict[str, str]:
    """Attribute -> what is wrong with it, of those that the rest relies on turn by turn."""
    actions, default, limit = (getattr(game, name, None) for name in ("actions", "default_action", "max_turns"))
    achievements = game.achievements
    must = {}
    if actions is not None and not (isinstance(actions, dict) and all(isinstance(name, str) for name in actions)):
        must["actions"] = actions, "names with their help, or None for free text"
    elif not isinstance(default, str) or (actions and default not in actions):
        must["default_action"] = default, "one of its actions"
    if not isinstance(limit, int) or limit < 1:
        must["max_turns"] = limit, "a whole number from 1"
    synonyms = game.synonyms
    if not (isinstance(synonyms, dict) and all(isinstance(text, str) for pair in synonyms.items() for text in pair)):
        must["synonyms"] = synonyms, "other spellings with the actions' names, {} for none"
    if not isinstance(achievements, tuple) or not all(isinstance(name, str) for name in achievements):
        must["achievements"] = achievements, "a tuple of names"
    elif len(set(achievements)) < len(achievements):  # one unlocked would count twice
        must["achievements"] = achievements, "a tuple of names, each once"
    kind = type(game).__name__
    return {name: f"{kind}.{name} = {value!r}: must be {what}" for name, (value, what) in must.items()}


def check(game_id: str, **options: Any) -> None:
    """Raise the GameError that `make` would raise for an unknown name, task or option, without making the game."""
    _resolve(game_id, options)


def texts(game_id: str) -> Traversable | None:
    """The YAML file of the game's own words, if it has one.

    Raises:
        GameError: the id names a file, and no game can be loaded from it.
    """
    if at := in_file(game_id):
        beside = at.file.with_suffix(".yaml")
        return _in_file(at).texts or (beside if beside.is_file() else None)
    name, _, task = game_id.partition("/")
    try:
        own = _find(name).texts
    except GameError:  # it has no words either
        own = None
    built_in = files("agentrl.prompts") / "games"
    found = (built_in / name / f"{task}.yaml", built_in / f"{name}.yaml")  # a task's own words, or the whole game's
    return own or next((file for file in found if file.is_file()), None)


def _resolve(game_id: str, options: dict[str, Any]) -> tuple[GameSpec, str]:
    at = in_file(game_id)
    if at:
        spec, name, task = _in_file(at), f"{at.file}:{at.name}", at.task
    else:
        name, slash, rest = game_id.partition("/")
        spec, task = _find(name), rest if slash else None
    if task is None:
        if len(spec.tasks) != 1:
            choices = ", ".join(f"{name}/{task}" for task in spec.tasks[:5]) or f"{name}/ID"
            raise GameError(f"game.id = {game_id!r}: add a task, for example {choices}")
        task = spec.tasks[0]
    if task not in spec.tasks and not (spec.any_task and task):
        raise unknown("game.id", game_id, f"{name} has no such task", [f"{name}/{task}" for task in spec.tasks])
    _check_options(spec, options)
    if spec.missing:
        raise GameError(f"game.id = {game_id!r}: it needs the package {spec.needs}: {spec.missing}")
    return spec, task


def _in_file(at: FileGame) -> GameSpec:
    """The spec in a file, or one around a class in it: the class is called with the options alone."""
    found = game_files.load(at.file, at.name)
    if isinstance(found, GameSpec):
        return found
    if not (isinstance(found, type) and issubclass(found, TextEnv)):
        raise GameError(
            f"game.id: {at.name!r} in {at.file} must be a TextEnv class or a GameSpec; it is {type(found).__name__} "
            f"(another gymnasium class: register it with gymnasium, and name it as gymnasium/MODULE:ID)"
        )

    def make(task: str, /, **options: Any) -> TextEnv:
        return found(**options)

    task = inspect.Parameter("_", inspect.Parameter.POSITIONAL_ONLY)
    make.__signature__ = inspect.Signature([task, *inspect.signature(found).parameters.values()])  # type: ignore[attr-defined]
    return GameSpec(at.name.strip("_") or "game", inspect.getdoc(found) or "", make)


def _find(name: str) -> GameSpec:
    if name in _registered:
        return _registered[name]
    if name not in _entries():
        raise unknown("game.id", name, "there is no such game", names())
    return _load(_entries()[name])


def _check_options(spec: GameSpec, options: dict[str, Any]) -> None:
    parameters = list(inspect.signature(spec.make).parameters.values())
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters[1:]]
    for option in options:
        if option not in known:
            raise unknown("game.options", option, f"{spec.name} has no such option", known)


@cache
def _entries() -> dict[str, EntryPoint]:
    found = {entry.name: entry for entry in BUILT_IN}
    for entry in entry_points(group=GROUP):
        if found.setdefault(entry.name, entry).value != entry.value:
            _warn(f"{_origin(entry)} is ignored: a game of this name exists already")
    return found


def _load(entry: EntryPoint) -> GameSpec:
    try:
        spec = entry.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise GameError(f"{_origin(entry)} cannot be loaded: {reason}") from error
    if not isinstance(spec, GameSpec) or spec.name != entry.name:
        raise GameError(f"{_origin(entry)} must be a GameSpec of the same name")
    return spec


def _origin(entry: EntryPoint) -> str:
    package = f" of package {entry.dist.name}" if entry.dist else ""
    return f"game {entry.name!r} (entry point {entry.value}{package})"


@cache
def _warn(message: str) -> None:
    """Once a message."""
    logger.warning(message)
