"""Rules of Baba Is AI (arXiv 2407.13729): blocks of text on the map say what may be done with the things on it.

A cell holds a stack of items, written as recordings write them: `T:win` is a block of text, `ball/red` a thing. All
rules look at the top of a stack alone.
"""

from functools import cache
from typing import NamedTuple

NOUNS = ("baba", "ball", "key", "door", "wall")
PROPERTIES = ("you", "stop", "push", "win", "lose")
COLOURS = ("red", "blue", "green", "white", "grey")
NEW_COLOUR = {"baba": "white", "ball": "green", "key": "blue", "door": "red", "wall": "grey"}
"""Of things that a rule such as BALL IS KEY makes."""

NOTHING = ""
BORDER = "#"
"""The ring around the map: nothing gets in, no rule is about it."""


def block(word: str) -> str:
    """The item that is a word of a rule."""
    return f"T:{word}"


def thing(noun: str, colour: str | None = None) -> str:
    """The item that rules are about; colours are for the eye alone."""
    return f"{noun}/{colour or NEW_COLOUR[noun]}"


WORDS = {block(word): word for word in (*NOUNS, *PROPERTIES, "is")}
THINGS = {thing(noun, colour): noun for noun in NOUNS for colour in COLOURS}
OF_NOUN = {noun: frozenset(item for item, name in THINGS.items() if name == noun) for noun in NOUNS}
IS = block("is")


class Rule(NamedTuple):
    """`subject` IS `word`: a property, or another noun that all of the subject turn into."""

    subject: str
    word: str


class Landing(NamedTuple):
    """Where the step of one of YOU ended, be it where it began, and what was met there."""

    cell: int
    win: bool
    lose: bool


class Powers(NamedTuple):
    """Items by what the rules let them do. `walkable` holds NOTHING, too."""

    you: frozenset[str]
    win: frozenset[str]
    lose: frozenset[str]
    pushable: frozenset[str]
    walkable: frozenset[str]


@cache
def _powers(rules: tuple[Rule, ...]) -> Powers:
    have = {
        word: {item for rule in rules if rule.word == word for item in OF_NOUN[rule.subject]} for word in PROPERTIES
    }
    return Powers(
        you=frozenset(have["you"]),
        win=frozenset(have["win"]),
        lose=frozenset(have["lose"]),
        pushable=frozenset({*WORDS, *have["push"]}),
        walkable=frozenset({NOTHING, *THINGS} - have["stop"]),
    )


class World:
    """A map, and the rules that are written on it. A cell is a number, `y * width + x`, the border included.

    After items were put or lifted from outside, `read_rules` is due.

    Attributes:
        tops: each cell's top item, NOTHING where it is empty.
        below: what lies under the top, from the bottom up, of cells that hold more than one item.
        rules: in reading order, one for each time that it is written.
    """

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        edge = [BORDER] * width
        self.tops = [*edge, *((height - 2) * [BORDER, *[NOTHING] * (width - 2), BORDER]), *edge]
        self.below: dict[int, tuple[str, ...]] = {}
        self.rules: tuple[Rule, ...] = ()
        self.powers = _powers(())
        self.offsets = {"up": -width, "right": 1, "down": width, "left": -1}
        self._waiting: set[tuple[int, int]] = set()
        self._reworded = False

    def copy(self) -> "World":
        """Another world in the same state."""
        twin = World.__new__(World)
        twin.__dict__.update(self.__dict__)
        twin.tops = self.tops.copy()
        twin.below = self.below.copy()
        twin._waiting = set()
        return twin

    def state(self) -> tuple[object, ...]:
        """Equal where two worlds of one size are."""
        return tuple(self.tops), tuple(sorted(self.below.items()))

    def stack(self, cell: int) -> tuple[str, ...]:
        """The items in a cell, from the bottom up."""
        top = self.tops[cell]
        return (*self.below.get(cell, ()), top) if top else ()

    def put(self, cell: int, item: str) -> None:
        """Lay an item on a cell's stack."""
        if top := self.tops[cell]:
            self.below[cell] = (*self.below.get(cell, ()), top)
        self.tops[cell] = item

    def lift(self, cell: int) -> str:
        """Take the top item off a cell's stack."""
        item = self.tops[cell]
        *rest, self.tops[cell] = self.below.pop(cell, (NOTHING,))
        if rest:
            self.below[cell] = tuple(rest)
        return item

    def read_rules(self) -> None:
        """Find the rules: three blocks in a row from left to right, or from top to bottom, the middle one IS."""
        tops, found = self.tops, []
        for cell, top in enumerate(tops):
            if top == IS:
                for offset in (1, self.width):
                    subject, word = WORDS.get(tops[cell - offset]), WORDS.get(tops[cell + offset])
                    if subject in NOUNS and word is not None and word != "is":
                        found.append(Rule(subject, word))
        self.rules = tuple(found)
        self.powers = _powers(self.rules)

    def you(self, of_last_rule: bool = False) -> int | None:
        """The first cell with one of YOU: those of the last rule that has any in sight, or of the last rule alone."""
        for rule in reversed(self.rules):
            if rule.word == "you":
                items = OF_NOUN[rule.subject]
                for cell, top in enumerate(self.tops):
                    if top in items:
                        return cell
                if of_last_rule:
                    return None
        return None

    def step(self, direction: str) -> list[Landing]:
        """Let everything that IS YOU take a step, in reading order, then read the rules anew.

        What counts in a step are the rules from before it: a rule that the step completes wins nothing yet.
        """
        powers, tops = self.powers, self.tops
        offset = self.offsets[direction]
        movers = [cell for cell, top in enumerate(tops) if top in powers.you]
        self._waiting = {(cell, len(self.below.get(cell, ()))) for cell in movers}
        self._reworded = False
        landings = []
        # One of YOU may push another, bury it, or uncover one that waits: several are looked for cell by cell.
        for cell in movers if len(movers) == 1 else range(len(tops)):
            place = (cell, len(self.below.get(cell, ())))
            if place in self._waiting and tops[cell] in powers.you:
                self._waiting.remove(place)
                to, met = self._shift(cell, offset)
                landings.append(Landing(to, met in powers.win, met in powers.lose))
        if self._reworded:
            self.read_rules()
        self._replace()
        return landings

    def _shift(self, cell: int, offset: int) -> tuple[int, str]:
        """Move a cell's top item by one cell, pushing what can be pushed; where it comes to stand, and what was there.

        What cannot move meets itself: bumping into a wall wins while what moves IS WIN, as in the original.
        """
        tops, powers = self.tops, self.powers
        ahead = cell + offset
        if tops[ahead] in powers.pushable:
            self._shift(ahead, offset)
        if tops[ahead] not in powers.walkable:
            return cell, tops[cell]
        met = tops[ahead]
        self._carry(cell, ahead)
        return ahead, met

    def _carry(self, cell: int, to: int) -> None:
        place = (cell, len(self.below.get(cell, ())))
        item = self.lift(cell)
        self.put(to, item)
        if item in WORDS or self.tops[cell] in WORDS:
            self._reworded = True
        if place in self._waiting:
            self._waiting.remove(place)
            self._waiting.add((to, len(self.below.get(to, ()))))

    def _replace(self) -> None:
        """Where BALL IS KEY, every ball in sight gets a key on top of it, at each step anew."""
        for rule in self.rules:
            if rule.word in NOUNS:
                new, items = thing(rule.word), OF_NOUN[rule.subject]
                for cell, top in enumerate(self.tops):
                    if top in items:
                        self.put(cell, new)
