"""Maps of Baba Is AI in a text file, so that levels can be written by hand.

One line is one row, one word a cell; cells are separated by blanks, and the border is added around them:

    BABA  IS   YOU  .    ball
    .     .    .    .    .
    .     BALL baba .    .
    .     .    IS   WIN  .     # what follows a '#' is a comment
    .     .    .    .    .

`.` is an empty cell, a word in capitals a block of text, in small letters a thing; `BALL>baba` is a stack, from the
bottom up. Lines without a cell are skipped.
"""

from pathlib import Path

from agentrl.envs.babaisai_rules import NOUNS, WORDS, World, block, thing
from agentrl.envs.errors import GameError, unknown

MOST = 30
"""Cells in a row or column."""

EMPTY = "."
ITEMS = {**{noun: thing(noun) for noun in NOUNS}, **{word.upper(): block(word) for word in WORDS.values()}}


def read_map(path: str) -> World:
    """The world in a file.

    Raises:
        GameError: there is no such file, or it is no map that can be played; it names the line.
    """
    field = f"game.options.map = {path!r}"
    if not isinstance(path, str) or not path:
        raise GameError(f"{field}: give the path of a map in a text file")
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise GameError(f"{field}: it is no UTF-8 text; give a map, one word a cell") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise GameError(f"{field}: cannot be read: {reason}") from None
    return parse_map(text, field)


def parse_map(text: str, field: str = "map") -> World:
    """The world in a text; `field` is where it comes from, for the errors, which are those of `read_map`."""
    numbered = [(number, line.partition("#")[0].split()) for number, line in enumerate(text.splitlines(), start=1)]
    rows = [(number, cells) for number, cells in numbered if cells]
    if not rows:
        raise GameError(f"{field}: it has no cells; write one row a line, one word a cell")
    width, height = len(rows[0][1]), len(rows)
    if max(width, height) > MOST:
        raise GameError(f"{field}: {width} x {height} cells; at most {MOST} x {MOST} can be played")
    world = World(width + 2, height + 2)
    for y, (number, cells) in enumerate(rows, start=1):
        if len(cells) != width:
            count = f"{len(cells)} cells, the first row has {width}"
            raise GameError(f"{field}, line {number}: {count}; write {EMPTY!r} for an empty one")
        for x, cell in enumerate(cells, start=1):
            for word in cell.split(">") if cell != EMPTY else ():
                if word not in ITEMS:
                    raise unknown(f"{field}, line {number}", word, "there is no such item", (EMPTY, *ITEMS))
                world.put(y * world.width + x, ITEMS[word])
    world.read_rules()
    if world.you() is None:
        raise GameError(f"{field}: nothing in sight is YOU; write a rule such as BABA IS YOU, and a baba")
    return world
