"""The 40 levels of Baba Is AI that BALROG plays, laid out at random as the original lays them out.

Layouts draw from numpy's legacy generator, draw by draw in the original's order: a seed gives the original's level.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from agentrl.envs.babaisai_rules import NOTHING, World, block, thing

Cell = tuple[int, int]
"""x to the right, y down; the border counts."""


class Region(NamedTuple):
    """Cells from left to right and from top to bottom, the last ones included."""

    left: int
    right: int
    top: int
    bottom: int


@dataclass(frozen=True)
class Level:
    """A laid out map, and what its author means the player to do, as the original words it in `target_plan`."""

    world: World
    plan: str


class Distractor(NamedTuple):
    """What is not needed. `thing`: a second thing; `block`: the noun, second or third, that a loose block says."""

    thing: bool = False
    block: int | None = None
    second_rule: bool = False


DISTRACTORS = {
    "": Distractor(),
    "-distr_obj": Distractor(thing=True),
    "-distr_rule": Distractor(block=1),
    "-distr_obj_rule": Distractor(thing=True, block=1),
    "-distr_obj-irrelevant_rule": Distractor(thing=True, block=2),
    "-distr_win_rule": Distractor(thing=True, block=1, second_rule=True),
}
SINGLE_ROOM = ("goto_win", "make_win")
TWO_ROOMS = ("goto_win", "break_stop-goto_win", "maybe_break_stop-goto_win", "make_win", "break_stop-make_win")
SPECIAL = ("make_you", "make_you-make_win", "make_wall_win")

COLUMN = 6
"""x of the wall between the rooms."""
INSIDE = Region(1, 7, 2, 7)
RULE_BREAKING = Region(2, 5, 2, 5)
ALONG_THE_EDGE = ((4, 6), (5, 6), (6, 6), (4, 1), (5, 1), (6, 1), (6, 1), *((6, y) for y in range(2, 7)))
LEFT_PUSHABLE = Region(2, 5, 3, 5)
RIGHT_PUSHABLE = Region(7, 10, 3, 5)
RIGHT_EDGE = (*((11, y) for y in range(2, 8)), (10, 7), (9, 7), (8, 7))
LEFT_ROOM = Region(1, 4, 1, 7)
RIGHT_ROOM = Region(7, 10, 2, 8)
BOTH_ROOMS = Region(1, 11, 2, 8)
LEFT_PUSHABLE_OF_SPECIAL = Region(2, 4, 3, 5)
RIGHT_PUSHABLE_OF_SPECIAL = Region(8, 10, 3, 5)


class _Draft:
    """A level that is being laid out. `nouns`: the one that wins, the second, the third."""

    def __init__(self, random: np.random.RandomState, width: int, height: int) -> None:
        self.random = random
        self.world = World(width, height)
        self.nouns = [str(noun) for noun in random.choice(["ball", "key", "door"], 3, replace=False)]
        self._colours = [("red", "blue", "green")[number] for number in random.choice(3, 3)]

    def wall(self) -> None:
        for y in range(1, self.world.height - 1):
            self._put((COLUMN, y), thing("wall"))

    def rule(self, x: int, y: int, subject: str, word: str) -> None:
        """Write it from a cell to the right."""
        for offset, text in enumerate((subject, "is", word)):
            self._put((x + offset, y), block(text))

    def free(self, region: Region) -> Cell:
        """A random empty cell."""
        while True:
            x = int(self.random.randint(region.left, region.right + 1))
            y = int(self.random.randint(region.top, region.bottom + 1))
            if self.world.tops[y * self.world.width + x] == NOTHING:
                return x, y

    def one_of(self, cells: tuple[Cell, ...]) -> Cell:
        return cells[self.random.randint(len(cells))]

    def lay_block(self, noun: str, cell: Cell) -> None:
        self._put(cell, block(noun))

    def lay_baba(self, region: Region) -> None:
        self._put(self.free(region), thing("baba"))

    def lay_thing(self, number: int, region: Region) -> Cell:
        """Lay the first (0) or the second (1) noun's thing; where it came to lie."""
        cell = self.free(region)
        self._put(cell, thing(self.nouns[number], self._colours[number]))
        return cell

    def move(self, source: Cell, to: Cell) -> None:
        (x, y), width = source, self.world.width
        self._put(to, self.world.lift(y * width + x))

    def finish(self, *plan: str) -> Level:
        self.world.read_rules()
        return Level(self.world, ", ".join(plan))

    def _put(self, cell: Cell, item: str) -> None:
        x, y = cell
        self.world.put(y * self.world.width + x, item)


def _single_room(random: np.random.RandomState, kind: str, distractor: Distractor) -> Level:
    draft = _Draft(random, 8, 8)
    winner = draft.nouns[0]
    draft.rule(1, 6, "baba", "you")
    draft.rule(1, 1, winner, "win")
    plan = [f"goto[{winner}]"]
    if kind == "make_win":
        draft.move((1, 1), draft.free(RULE_BREAKING))
        plan.insert(0, f"make[{winner} is win]")
    if distractor.block is not None:
        draft.lay_block(draft.nouns[distractor.block], draft.one_of(ALONG_THE_EDGE))
    draft.lay_baba(INSIDE)
    draft.lay_thing(0, INSIDE)
    if distractor.thing:
        draft.lay_thing(1, INSIDE)
    return draft.finish(*plan)


def _two_rooms(random: np.random.RandomState, kind: str, distractor: Distractor) -> Level:
    draft = _Draft(random, 13, 9)
    draft.wall()
    winner = draft.nouns[0]
    draft.rule(1, 7, "baba", "you")
    draft.rule(1, 2, "wall", "stop")
    draft.rule(9, 1, winner, "win")
    if distractor.block is not None:
        bring_able = distractor.block == 2 or not distractor.thing
        cell = draft.free(RIGHT_PUSHABLE) if bring_able else draft.one_of(RIGHT_EDGE)
        draft.lay_block(draft.nouns[distractor.block], cell)
    if kind in ("goto_win", "make_win"):
        cell = draft.free(LEFT_PUSHABLE)
        draft.move(draft.one_of(((2, 2), (3, 2))), cell)
    if kind.endswith("make_win"):
        draft.move((9, 1), draft.free(RIGHT_PUSHABLE))
    draft.lay_baba(LEFT_PUSHABLE)
    region = LEFT_ROOM
    if "break_stop" in kind:
        region = BOTH_ROOMS if kind.startswith("maybe") else RIGHT_ROOM
    x, _ = draft.lay_thing(0, region)
    if distractor.thing:
        draft.lay_thing(1, region)
    if distractor.second_rule:
        draft.rule(9, 4, draft.nouns[2], "win")
    breaking = ["break[wall is stop]"] if "break_stop" in kind and x > COLUMN else []
    making = [f"make[{winner} is win]"] if kind.endswith("make_win") else []
    return draft.finish(*breaking, *making, f"goto[{winner}]")


def _special(random: np.random.RandomState, kind: str) -> Level:
    draft = _Draft(random, 13, 9)
    draft.wall()
    winner, second, third = draft.nouns
    if kind == "make_wall_win":
        draft.rule(1, 7, "baba", "you")
        draft.rule(2, 2, "wall", "stop")
        draft.rule(9, 1, winner, "win")
        draft.lay_block(third, draft.free(RIGHT_PUSHABLE_OF_SPECIAL))
        draft.move((9, 1), draft.one_of(RIGHT_EDGE))
        plan = ["break[wall is stop]", "make[wall is win]", "goto[wall]"]
    else:
        draft.rule(1, 6, "baba", "you")
        draft.rule(1, 1, "wall", "stop")
        draft.rule(9, 1, winner, "win")
        plan = [f"make[{second} is you]", f"goto[{winner}]"]
        draft.lay_block(second, draft.free(LEFT_PUSHABLE_OF_SPECIAL))
        if kind == "make_you-make_win":
            draft.move((9, 1), draft.free(RIGHT_PUSHABLE_OF_SPECIAL))
            plan.insert(1, f"make[{winner} is win]")
    draft.lay_baba(LEFT_PUSHABLE_OF_SPECIAL)
    draft.lay_thing(0, RIGHT_ROOM)
    draft.lay_thing(1, RIGHT_ROOM)
    return draft.finish(*plan)


def _known_tasks() -> dict[str, tuple[str, str, Distractor | None]]:
    """Task -> family, kind, distractor; the second win rule is in two tasks only."""
    found: dict[str, tuple[str, str, Distractor | None]] = {}
    for kind in SINGLE_ROOM:
        for suffix, distractor in DISTRACTORS.items():
            if not distractor.second_rule:
                found[f"env/{kind}{suffix}"] = ("single_room", kind, distractor)
    for kind in TWO_ROOMS:
        for suffix, distractor in DISTRACTORS.items():
            if not distractor.second_rule or kind in ("goto_win", "make_win"):
                found[f"env/two_room-{kind}{suffix}"] = ("two_rooms", kind, distractor)
    for kind in SPECIAL:
        found[f"env/two_room-{kind}"] = ("special", kind, None)
    return found


_TASKS = _known_tasks()
TASKS = tuple(_TASKS)


def lay_out(task: str, random: np.random.RandomState) -> Level:
    """A level of one of `TASKS`."""
    family, kind, distractor = _TASKS[task]
    if distractor is None:
        return _special(random, kind)
    return _single_room(random, kind, distractor) if family == "single_room" else _two_rooms(random, kind, distractor)
