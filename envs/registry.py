"""Games by name: the built-in ones, those given to `register`, and other packages' entry points (group `agentrl.envs`).

A game is imported when it is asked for; an entry point loads to a `GameSpec`, whoever wrote it.
"""

import inspect
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from agentrl.envs.base import TextEnv
from agentrl.envs.errors import GameError, unknown

GROUP = "agentrl.envs"
BUILT_IN = (
    EntryPoint("babyai", "agentrl.envs.babyai:SPEC", GROUP),
    EntryPoint("crafter", "agentrl.envs.crafter:SPEC", GROUP),
    EntryPoint("signpost", "agentrl.envs.signpost:SPEC", GROUP),
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
    """

    name: str
    description: str
    make: Callable[..., TextEnv]
    tasks: Sequence[str] = ("default",)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", self.name):
            raise GameError(f"GameSpec.name = {self.name!r}: use letters, digits, '_', '-' and '.' only")
        if isinstance(self.tasks, str) or not self.tasks:
            raise GameError(f"GameSpec.tasks = {self.tasks!r}: give at least one task, as a tuple of names")


_registered: dict[str, GameSpec] = {}


def register(spec: GameSpec) -> None:
    """Make a game known in this process."""
    if spec.name in _registered or spec.name in _entries():
        raise GameError(f"GameSpec.name = {spec.name!r}: a game of this name exists already; choose another name")
    _registered[spec.name] = spec


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
        game_id: NAME/TASK, or NAME of a game with a single task.
        options: the game's own, e.g. `reward="binary"`.

    Raises:
        GameError: unknown name, task or option, or a value that the option does not take; the game lacks what every
            game has.
    """
    spec, task = _resolve(game_id, options)
    game = spec.make(task, **options)
    if not isinstance(game, TextEnv):
        raise GameError(f"game.id = {game_id!r}: its maker returned a {type(game).__name__}, not a TextEnv")
    _check_attributes(game_id, game)
    return game


def check(game_id: str, **options: Any) -> None:
    """Raise the GameError that `make` would raise for an unknown name, task or option, without making the game."""
    _resolve(game_id, options)


def _resolve(game_id: str, options: dict[str, Any]) -> tuple[GameSpec, str]:
    name, slash, task = game_id.partition("/")
    spec = _find(name)
    if not slash:
        if len(spec.tasks) > 1:
            choices = ", ".join(f"{name}/{task}" for task in spec.tasks[:5])
            raise GameError(f"game.id = {game_id!r}: add a task, for example {choices}")
        task = spec.tasks[0]
    if task not in spec.tasks:
        raise unknown("game.id", game_id, f"{name} has no such task", [f"{name}/{task}" for task in spec.tasks])
    _check_options(spec, options)
    return spec, task


def _check_attributes(game_id: str, game: TextEnv) -> None:
    """What the rest relies on turn by turn is looked at once, here."""
    actions, default, limit = (getattr(game, name, None) for name in ("actions", "default_action", "max_turns"))
    achievements = game.achievements
    if actions is not None and not (isinstance(actions, dict) and all(isinstance(name, str) for name in actions)):
        problem = f"actions = {actions!r}: must be names with their help, or None for free text"
    elif not isinstance(default, str) or (actions and default not in actions):
        problem = f"default_action = {default!r}: must be one of its actions"
    elif not isinstance(limit, int) or limit < 1:
        problem = f"max_turns = {limit!r}: must be a whole number from 1"
    elif not isinstance(achievements, tuple) or not all(isinstance(name, str) for name in achievements):
        problem = f"achievements = {achievements!r}: must be a tuple of names"
    elif len(set(achievements)) < len(achievements):  # one unlocked would count twice
        problem = f"achievements = {achievements!r}: must be a tuple of names, each once"
    else:
        return
    raise GameError(f"game.id = {game_id!r}: {type(game).__name__}.{problem}")


def _find(name: str) -> GameSpec:
    if name in _registered:
        return _registered[name]
    entries = _entries()
    if name not in entries:
        raise unknown("game.id", name, "there is no such game", sorted({*_registered, *entries}))
    return _load(entries[name])


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
