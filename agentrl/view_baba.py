"""Pictures of BabaIsAI: drawn tiles of our own, a block of text as its word, a thing as a simple shape."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from agentrl.envs.babaisai_rules import BORDER, NOTHING, PROPERTIES, World

UNIT = 40
"""Pixels of a tile's side."""

GROUND, EDGE = (24, 26, 34), (58, 62, 76)
COLOURS = {
    "red": (229, 84, 75),
    "blue": (84, 142, 240),
    "green": (88, 190, 110),
    "white": (240, 240, 240),
    "grey": (140, 146, 158),
}
WORD_COLOURS = {"is": (240, 240, 240), "noun": (255, 196, 84), "property": (232, 121, 180)}


def picture(world: World) -> NDArray[np.uint8]:
    """The map from above, (height * UNIT, width * UNIT, 3) bytes; of a stack its top, and that something is below."""
    rows = []
    for y in range(world.height):
        cells = range(y * world.width, (y + 1) * world.width)
        rows.append(np.concatenate([_tile(world.tops[cell], cell in world.below) for cell in cells], axis=1))
    return np.concatenate(rows, axis=0)


@cache
def _tile(item: str, stacked: bool) -> NDArray[np.uint8]:
    image = Image.new("RGB", (UNIT, UNIT), EDGE if item == BORDER else GROUND)
    draw = ImageDraw.Draw(image)
    if item not in (BORDER, NOTHING):
        draw.rectangle((0, 0, UNIT - 1, UNIT - 1), outline=(34, 37, 47))
        if item.startswith("T:"):
            _draw_word(draw, item.removeprefix("T:"))
        else:
            noun, _, colour = item.partition("/")
            SHAPES[noun](draw, COLOURS.get(colour, COLOURS["white"]))
        if stacked:
            draw.polygon(((UNIT - 10, UNIT - 1), (UNIT - 1, UNIT - 1), (UNIT - 1, UNIT - 10)), fill=(255, 255, 255))
    return np.asarray(image)


def _draw_word(draw: ImageDraw.ImageDraw, word: str) -> None:
    kind = "is" if word == "is" else "property" if word in PROPERTIES else "noun"
    colour = WORD_COLOURS[kind]
    if kind == "property":
        draw.rounded_rectangle((3, 3, UNIT - 4, UNIT - 4), 5, fill=colour)
    else:
        draw.rounded_rectangle((3, 3, UNIT - 4, UNIT - 4), 5, outline=colour, width=2)
    font: Any = ImageFont.load_default(size=13 if len(word) < 4 else 10)
    draw.text((UNIT / 2, UNIT / 2), word.upper(), fill=GROUND if kind == "property" else colour, font=font, anchor="mm")


def _baba(draw: ImageDraw.ImageDraw, colour: tuple[int, int, int]) -> None:
    draw.polygon(((11, 15), (14, 4), (19, 14)), fill=colour)
    draw.polygon(((22, 14), (27, 4), (30, 15)), fill=colour)
    draw.rounded_rectangle((6, 12, 34, 29), 8, fill=colour)
    for x in (10, 16, 23, 29):
        draw.rectangle((x, 28, x + 2, 35), fill=colour)
    for x in (22, 29):
        draw.ellipse((x, 17, x + 3, 21), fill=GROUND)


def _ball(draw: ImageDraw.ImageDraw, colour: tuple[int, int, int]) -> None:
    draw.ellipse((7, 7, 33, 33), fill=colour)
    draw.ellipse((13, 12, 19, 18), fill=_lighter(colour))


def _key(draw: ImageDraw.ImageDraw, colour: tuple[int, int, int]) -> None:
    draw.ellipse((5, 13, 20, 28), outline=colour, width=4)
    draw.rectangle((18, 19, 35, 22), fill=colour)
    draw.rectangle((26, 22, 29, 28), fill=colour)
    draw.rectangle((32, 22, 35, 29), fill=colour)


def _door(draw: ImageDraw.ImageDraw, colour: tuple[int, int, int]) -> None:
    draw.rounded_rectangle((9, 4, 31, 36), 3, fill=colour)
    draw.rectangle((12, 8, 28, 18), outline=GROUND, width=2)
    draw.rectangle((12, 21, 28, 33), outline=GROUND, width=2)
    draw.ellipse((24, 18, 28, 22), fill=GROUND)


def _wall(draw: ImageDraw.ImageDraw, colour: tuple[int, int, int]) -> None:
    draw.rectangle((2, 2, 37, 37), fill=colour)
    for y in (2, 14, 26, 37):
        draw.line((2, y, 37, y), fill=GROUND, width=1)
    for x, top in ((20, 2), (10, 14), (29, 14), (20, 26)):
        draw.line((x, top, x, top + 12), fill=GROUND, width=1)


def _lighter(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    red, green, blue = ((part + 255) // 2 for part in colour)
    return red, green, blue


SHAPES = {"baba": _baba, "ball": _ball, "key": _key, "door": _door, "wall": _wall}
