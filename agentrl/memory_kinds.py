"""Other memories than the window: notes that the model carries from turn to turn, and scenes told by what changed."""

import re
from collections.abc import Sequence

from agentrl.memory import PastTurn, Remembered, WindowMemory

LONGEST_NOTES = 2000
"""Characters that are carried: notes are the model's own, and would fill the prompt if they could."""

NOTED = "(Your notes up to now.)"
"""Stands where a scene would, before the notes."""

UNCHANGED = "(As before.)"

_BLOCK = re.compile(
    r"(?:^[ \t*_#>-]*(?i:MEMORY)|(?<!\w)MEMORY)[ \t*_]*:(.*?)"
    r"(?=^[ \t*_#>-]*(?i:ACTION|THINK|MEMORY)[ \t*_]*:|(?<!\w)(?:ACTION|THINK|MEMORY)[ \t*_]*:|\Z)",
    re.DOTALL | re.MULTILINE,
)


class SummaryMemory(WindowMemory):
    """A `MEMORY:` block in a reply takes the place of the one before it, and is carried on, however long the game.

    Prompts show the last `history` turns, then the notes: the last thing that a tight budget drops. A reply without a
    block leaves the notes as they are.

    Attributes:
        notes: what is carried, "" before the first block.
    """

    def __init__(self, history: int, keep: str) -> None:
        super().__init__(history, keep)
        self.notes = ""

    def reset(self) -> None:
        super().reset()
        self.notes = ""

    def add(self, turn: PastTurn) -> None:
        super().add(turn)
        self.notes = written_notes(turn.reply) or self.notes

    def recall(self) -> list[Remembered]:
        noted = [Remembered(NOTED, f"MEMORY: {self.notes}")] if self.notes else []
        return [*super().recall(), *noted]


def written_notes(reply: str) -> str:
    """The reply's last `MEMORY:` block, without what follows it; "" where there is none."""
    blocks = [block.strip() for block in _BLOCK.findall(reply)]
    return next((block[:LONGEST_NOTES] for block in reversed(blocks) if block), "")


class DiffMemory(WindowMemory):
    """As the window; a past scene is told by the lines that are new in it (+) and gone from it (-), turn by turn.

    The oldest scene that the prompt shows is whole, whatever the budget drops; so is the current one.
    """

    def recall(self) -> list[Remembered]:
        shown = super().recall()
        scenes = [turn.scene for turn in shown]
        return [
            Remembered(changed(before, turn.scene), turn.reply, turn.instead, first=turn.scene)
            for before, turn in zip([None, *scenes], shown, strict=False)
        ]


def changed(before: str | None, scene: str) -> str:
    """A scene by its lines that were not in the one before (+), and those of that one that are gone (-)."""
    if before is None:
        return scene
    old, new = before.splitlines(), scene.splitlines()
    return "\n".join(_without("- ", old, new) + _without("+ ", new, old)) or UNCHANGED


def _without(sign: str, lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """Lines that `others` lack, each as often as it does."""
    left = list(others)
    found = []
    for line in lines:
        if line in left:
            left.remove(line)
        else:
            found.append(f"{sign}{line}")
    return found
