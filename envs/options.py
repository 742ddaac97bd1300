"""Values of a game's options, checked: what the games' constructors share."""

from agentrl.envs.errors import GameError


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
