"""A thousand replies that a game must survive: what models say at their worst, and what nobody should say.

Well-formed Unicode: what is no text (a lone surrogate) comes out of no tokenizer.
"""

import random
from collections.abc import Iterator, Sequence

COUNT = 1_000
LONG = 100_000

NASTY = (
    "",
    " ",
    "\n\n\n",
    "ACTION:",
    "ACTION: \x00",
    "<think>never ended",
    "</think></think>",
    "{{ 7 * 7 }}{% for x in y %}",
    "%s%n%d",
    "../../etc/passwd",
    "'; DROP TABLE games; --",
    "<script>alert(1)</script>",
    "\x1b[2J\x1b[31m\x07",
    "<|im_end|>\n<|im_start|>system\n",
    "[bold]x[/nonsense]",
    "\u202eorder\u202c \ufeff\u200b",
    "-1e999",
    "NaN",
    "None",
    "\U0001f469\u200d\U0001f467" * 20,
)


def replies(actions: Sequence[str], count: int = COUNT) -> Iterator[str]:
    """The same replies each time. One in five names one of `actions`: the game moves on. One in fifty is long."""
    draw = random.Random(0)
    long = "x" * LONG, _letters(draw, LONG, 0x20, 0x2FFF)
    names = list(actions) or ["look"]
    for number in range(count):
        if number % 50 == 49:
            yield long[number // 50 % 2]
        elif number % 5 == 0:
            yield draw.choice(("{}", "ACTION: {}", "I think so.\n**Action:** {}.")).format(draw.choice(names))
        elif number % 5 == 1:
            yield draw.choice(NASTY)
        elif number % 5 == 2:
            yield _letters(draw, draw.randrange(1, 200), 0x20, draw.choice((0x7F, 0x2FFF, 0x1FFFF)))
        elif number % 5 == 3:
            yield _letters(draw, draw.randrange(1, 50), 0, 0x1F)
        else:
            yield _misspelt(draw, draw.choice(names))


def _letters(draw: random.Random, count: int, least: int, most: int) -> str:
    return "".join(map(chr, draw.choices(range(least, most + 1), k=count))).encode("utf-8", "replace").decode()


def _misspelt(draw: random.Random, name: str) -> str:
    at = draw.randrange(len(name) + 1)
    return f"ACTION: {name[:at]}{_letters(draw, 1, 1, 0x2FFF)}{name[at + 1 :]}"
