"""A Baba Is AI map in words: the active rules, then where everything lies, as seen from YOU. The text is BALROG's."""

from functools import cache

from agentrl.envs.babaisai_rules import PROPERTIES, THINGS, WORDS, World

LOST = "Nothing on the map is YOU any more: the game is lost."

LABELS = {
    **{item: noun for item, noun in THINGS.items() if noun != "baba"},
    **{item: f"rule `{word}`" for item, word in WORDS.items()},
}
"""What is told of each item; BABA itself is never told, even where it is not YOU."""


def describe(world: World, you: int | None) -> str:
    """All that a player sees; `you` is the cell that places are told from, None where YOU is lost.

    An item in that very cell is an empty line, as in the original. Rules that turn things into others are not told.
    """
    rules = "\n".join([f"{subject} is {word}" for subject, word in world.rules if word in PROPERTIES])
    if you is None:
        return f"Active rules:\n{rules}\n\n{LOST}"
    places, labels = _places(world.width, world.height, you), LABELS
    entries = [
        labels[top] + places[cell] if cell != you else "" for cell, top in enumerate(world.tops) if top in labels
    ]
    return f"Active rules:\n{rules}\n\nObjects on the map:\n" + "\n".join(entries)


@cache
def _places(width: int, height: int, you: int) -> list[str]:
    """For each cell, how to get there from the cell `you`, with a blank before it."""
    return [" " + _way(x - you % width, y - you // width) for y in range(height) for x in range(width)]


@cache
def _way(dx: int, dy: int) -> str:
    """The original's plural, which to the left and up is none, is kept: the same map is the same text."""
    across = f"{dx} step{'s' * (dx > 1)} to the right" if dx > 0 else f"{-dx} step to the left" if dx else ""
    along = f"{dy} step{'s' * (dy > 1)} down" if dy > 0 else f"{-dy} step up" if dy else ""
    return " and ".join(part for part in (across, along) if part)
