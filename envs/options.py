"""Values of a game's options, checked: what the games' constructors share."""

from collections.abc import Collection
from typing import Any, TypeVar

from agentrl.envs.errors import GameError, unknown

Name = TypeVar("Name", bound=str | int | None)


def choice(option: str, value: Name, known: Collection[Name]) -> Name:
    """`value`, if it is one of `known`; else a GameError."""
    if value not in known:
        names = [str(name) for name in known if name is not None]
        raise unknown(f"game.options.{option}", str(value), "there is no such choice", names)
    return value


def whole_number(option: str, value: int, least: int, most: int) -> int:
    """`value`, if it is a whole number in these bounds; else a GameError."""
    if type(value) is not int or not least <= value <= most:
        raise GameError(f"game.options.{option} = {value!r}: give a whole number from {least} to {most}")
    return value


def switch(option: str, value: bool) -> bool:
    """`value`, if it is true or false; else a GameError."""
    if type(value) is not bool:
        raise GameError(f"game.options.{option} = {value!r}: give true or false")
    return value


def own_options(game_id: str, known: Collection[str], **given: Any) -> dict[str, Any]:
    """Those that are given (not None), if all are among the task's own; else a GameError."""
    for name, value in given.items():
        if value is not None and name not in known:
            raise GameError(f"game.options.{name} = {value!r}: {game_id} has no such option; leave it out")
    return {name: value for name, value in given.items() if value is not None}
