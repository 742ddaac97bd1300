"""Crafter's scripted player: stays alive first, then works through the achievements. It sees the whole world.

What an item needs (tools, materials, stations) is read from the package's own tables; all ways come from one search.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from crafter import constants, objects

from agentrl.envs.crafter_routes import (
    ANYWHERE,
    BARRED,
    CLEAR,
    FREE,
    LAVA,
    NOWHERE,
    SIDE,
    STEPS,
    THERE,
    Cells,
    around,
    borders,
    cell,
    cells_of,
    far,
    first_turn,
    flat,
)
from agentrl.envs.crafter_world import Simulation

MOVES = ("Move West", "Move East", "Move North", "Move South")
DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))

SOURCES = {item: (material, info) for material, info in constants.collect.items() for item in info["receive"]}
"""Item -> the material it is taken from, and the package's rule for taking it."""

DIGGING = 2
"""Turns to enter a cell of a material that can be taken away: one to take it, one to step."""
BRIDGING = 3
"""Turns to enter water: a stone put there, taken away, and the step."""
HITS = {objects.Cow: 5, objects.Zombie: 6, objects.Skeleton: 5, objects.Arrow: 2}
"""Turns that a creature in the way costs, roughly."""

DAY = 300
"""Turns from one morning to the next."""
MORNING = 5
"""The step in which the first one begins."""
DUSK, NIGHTFALL = 85, 150
"""Turns from morning until it is time to eat and drink for the night, and to hide from its zombies."""

FULL = 9
"""Of every vital sign and every item."""
LOW = 4
"""Food and drink are raised from here by day; for the night, so that they last until morning, from `FOR_THE_NIGHT`."""
FOR_THE_NIGHT = {"food": 6, "drink": 7}
TIRED = 3
HURT, HEALED = 4, 5
"""Health at which to hide, and to come out again."""

SIEGE = 4
"""Two zombies as near as this keep the player in its hiding place by day, too."""
NEAR, GROWING = 20, 12
"""A plant farther than NEAR is given up for a new one; while one grows the player waits within GROWING of it: farther
than 17 from the player nothing grows."""
SEARCHED = 20
"""How far away a hiding place may be."""


class SurvivalPlayer:
    """Called once a turn: the first of its wishes that can be pursued decides."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._world, self._player = simulation.world, simulation.player
        self._raising: set[str] = set()
        self._pocket: tuple[int, int] | None = None

    def __call__(self) -> str:
        self._look()
        return next((action for wish in self._wishes() if (action := wish()) is not None), "Noop")

    def _wishes(self) -> Iterator[Callable[[], str | None]]:
        yield from (self._fight, self._rest, self._drink, self._eat)
        done = self._simulation.unlocked
        yield from (task for achievement, task in self._tasks() if achievement not in done)
        yield self._hide

    def _tasks(self) -> tuple[tuple[str, Callable[[], str | None]], ...]:
        """Achievements in the order in which they are sought, each with what brings it nearer."""
        return (
            ("collect_sapling", lambda: self._get("sapling")),
            ("place_plant", lambda: self._place("plant")),
            ("place_table", lambda: self._stock("wood") or self._place("table")),
            ("make_wood_pickaxe", lambda: self._make("wood_pickaxe")),
            ("make_wood_sword", lambda: self._make("wood_sword")),
            ("eat_cow", lambda: self._go("Do", self._at(objects.Cow))),
            ("collect_drink", lambda: self._go("Do", self._of("water"))),
            ("place_stone", lambda: self._place("stone")),
            ("make_stone_pickaxe", lambda: self._make("stone_pickaxe")),
            ("make_stone_sword", lambda: self._make("stone_sword")),
            ("eat_plant", self._farm),
            ("place_furnace", lambda: self._stock("stone") or self._place("furnace", around(self._of("table")))),
            ("collect_coal", lambda: self._get("coal")),
            ("collect_iron", lambda: self._get("iron")),
            ("make_iron_pickaxe", lambda: self._make("iron_pickaxe")),
            ("make_iron_sword", lambda: self._make("iron_sword")),
            ("collect_diamond", lambda: self._get("diamond")),
            ("wake_up", self._hide),
            ("defeat_zombie", lambda: self._go("Do", self._at(objects.Zombie))),
            ("defeat_skeleton", lambda: self._go("Do", self._at(objects.Skeleton))),
            ("eat_plant", self._wait_for_plant),
        )

    # What is where

    def _look(self) -> None:
        """Read the world: what lies where, and what it costs to go there."""
        self._has: dict[str, int] = self._player.inventory
        self._clock = (self._simulation._step - MORNING) % DAY
        self._ground = flat(self._world._mat_map)
        self._here = cell(self._player.pos)
        self._facing = DIRECTIONS.index(tuple(int(way) for way in self._player.facing))
        self._costs = self._prices()[self._ground]
        self._creatures: dict[type, list[int]] = {}
        self._ripe: list[int] = []
        self._fences: list[int] = []
        for thing in self._world.objects:
            if thing is not self._player:
                self._creatures.setdefault(type(thing), []).append(at := cell(thing.pos))
                self._costs[at] = HITS.get(type(thing), BARRED)
                if isinstance(thing, objects.Plant) and thing.ripe:
                    self._ripe.append(at)
                elif isinstance(thing, objects.Plant):
                    self._fences += [at + step for step in STEPS if not self._is_open(at + step)]
        self._costs[self._fences] = BARRED

    def _prices(self) -> Cells:
        """Material number -> turns to enter it, with the tools at hand."""
        ids = self._world._mat_ids
        prices = np.full(len(ids), BARRED)
        for material, info in constants.collect.items():
            if all(self._has[tool] >= count for tool, count in info["require"].items()):
                prices[ids[material]] = DIGGING
        prices[ids["water"]] = BRIDGING if self._has["stone"] and self._has["wood_pickaxe"] else BARRED
        prices[[ids[material] for material in constants.walkable]] = FREE
        prices[ids["lava"]] = LAVA
        return prices

    def _of(self, *materials: str) -> Cells:
        """Cells of some materials without anything on them."""
        cells = np.isin(self._ground, [self._world._mat_ids[material] for material in materials])
        for places in self._creatures.values():
            cells[places] = False
        return cells

    def _at(self, kind: type) -> Cells:
        return cells_of(self._creatures.get(kind, ()))

    def _count(self, kind: type, within: int) -> int:
        """Creatures of a kind at most so many steps away."""
        return sum(far(place, self._here) <= within for place in self._creatures.get(kind, ()))

    def _material(self, at: int) -> str | None:
        return self._world._mat_names[self._ground[at]]

    def _is_open(self, at: int) -> bool:
        """Whether creatures can walk there."""
        return self._material(at) in constants.walkable

    def _go(self, action: str, ahead: Cells, stand: Cells = ANYWHERE) -> str | None:
        """The next turn towards `action`, done standing on one of `stand` and facing one of `ahead`; None: no way."""
        if not (ahead.any() and stand.any()):
            return None
        turn = first_turn(self._costs, self._here, self._facing, stand, ahead)
        if turn in (THERE, NOWHERE):
            return action if turn == THERE else None
        if turn == CLEAR:
            return "Place Stone" if self._material(self._here + STEPS[self._facing]) == "water" else "Do"
        return MOVES[turn]

    # Staying alive

    def _fight(self) -> str | None:
        """A zombie at arm's length strikes until it is dead; a skeleton shoots from afar, and flees."""
        if self._count(objects.Zombie, 1):
            return self._go("Do", self._at(objects.Zombie), cells_of([self._here]))
        if self._count(objects.Skeleton, 2) and not self._is_shut_in():
            return self._go("Do", self._at(objects.Skeleton))
        return None

    def _wants(self, vital: str, low: int, enough: int = FULL) -> bool:
        """Whether a vital sign is to be raised: once low, until there is enough of it."""
        if self._has[vital] <= low:
            self._raising.add(vital)
        elif self._has[vital] >= enough:
            self._raising.discard(vital)
        return vital in self._raising

    def _rest(self) -> str | None:
        """Hide when tired or hurt, and at night; hunger and thirst go first, but not out of a hiding place at night."""
        if self._player.sleeping:
            return "Sleep"
        weak = self._wants("energy", TIRED) | self._wants("health", HURT, HEALED)
        night, safe = self._clock >= NIGHTFALL, self._is_shut_in()
        besieged = safe and self._count(objects.Zombie, SIEGE) > 1
        fed = self._has["food"] and self._has["drink"]
        if (fed and (night or weak or besieged)) or (night and safe):
            return self._hide()
        self._pocket = None
        return None

    def _is_low(self, vital: str) -> bool:
        return self._wants(vital, FOR_THE_NIGHT[vital] if self._clock >= DUSK else LOW)

    def _drink(self) -> str | None:
        return self._go("Do", self._of("water")) if self._is_low("drink") else None

    def _eat(self) -> str | None:
        return self._go("Do", self._at(objects.Cow) | cells_of(self._ripe)) if self._is_low("food") else None

    # A hiding place is a pocket: two cells in a row that nothing can reach. From either of them the player can face
    # the end beyond the other one; in a single cell it could not face the side that it came from.

    def _hide(self) -> str | None:
        """Shut oneself in and sleep; None if there are not stones enough."""
        if self._is_shut_in():
            return "Sleep" if self._has["energy"] < FULL else "Noop"
        if self._pocket is None or self._missing(self._pocket) > self._has["stone"]:
            self._pocket = self._find_pocket()
        if self._pocket is None:
            return None
        inside = cells_of(self._pocket)
        sides, ends = borders(*self._pocket)
        return (
            self._shut(sides)
            or (None if self._here in self._pocket else self._go("Noop", ANYWHERE, inside))
            or self._shut(ends, inside)
        )

    def _shut(self, places: Iterable[int], stand: Cells = ANYWHERE) -> str | None:
        """Put stones on those of some cells that are open, and drive away who is there; None if all are shut."""
        gaps = [place for place in places if self._is_open(place)]
        self._costs[[place for place in places if place not in gaps]] = BARRED  # no way leads through what is shut
        taken = [place for place in gaps if any(place in there for there in self._creatures.values())]
        return self._go("Do", cells_of(taken), stand) if taken else self._go("Place Stone", cells_of(gaps), stand)

    def _is_shut_in(self) -> bool:
        """Whether few cells can be reached from here, and nothing else is in them."""
        seen, edge = {self._here}, [self._here]
        while edge and len(seen) <= 3:
            place = edge.pop()
            found = [place + step for step in STEPS if place + step not in seen and self._is_open(place + step)]
            seen.update(found)
            edge += found
        return len(seen) <= 3 and not any(place in seen for places in self._creatures.values() for place in places)

    def _missing(self, pocket: tuple[int, int]) -> int:
        sides, ends = borders(*pocket)
        return sum(self._is_open(place) for place in (*sides, *ends))

    def _find_pocket(self) -> tuple[int, int] | None:
        """The pocket that takes the fewest turns to reach and to close, roughly, with the stones at hand."""
        is_open = np.isin(self._ground, [self._world._mat_ids[name] for name in constants.walkable])
        away = far(np.arange(SIDE * SIDE), self._here)
        for plant in self._creatures.get(objects.Plant, ()):
            if far(plant, self._here) <= NEAR:
                away = away + np.maximum(far(np.arange(SIDE * SIDE), plant) - GROWING, 0)
        can_stand = (self._costs == FREE) | (self._costs == DIGGING)
        can_stand[self._here] = True
        found: list[tuple[int, int, int]] = []
        for step in (SIDE, 1):
            a = np.flatnonzero(can_stand & np.roll(can_stand, -step) & (away <= SEARCHED))
            sides, ends = (np.sum([is_open[place] for place in places], axis=0) for places in borders(a, a + step))
            dug = 2 - np.sum([is_open[a], is_open[a + step]], axis=0)
            turns = away[a] + 4 * sides + 2 * ends + 2 * dug
            a, turns = (values[sides + ends <= self._has["stone"]].tolist() for values in (a, turns))
            found += zip(turns, a, (place + step for place in a), strict=True)
        return min(found)[1:] if found else None

    # Getting things

    def _stock(self, item: str) -> str | None:
        """Gather as much as can be carried."""
        return self._get(item) if self._has[item] < FULL else None

    def _get(self, item: str) -> str | None:
        """Take an item from the world, with the tools it asks for."""
        material, info = SOURCES[item]
        for tool, count in info["require"].items():
            if self._has[tool] < count:
                return self._make(tool)
        sources = self._of(material)
        sources[self._fences] = False
        return self._go("Do", sources)

    def _make(self, tool: str) -> str | None:
        """Make a tool where its stations are; the first that stands nowhere, or not beside the others, is placed."""
        info = constants.make[tool]
        stand = ANYWHERE
        for station in info["nearby"]:
            beside = stand & around(self._of(station))
            if not beside.any():
                return self._place(station, stand)
            stand = beside
        return self._with(info, lambda: self._go(f"Make {tool.replace('_', ' ').title()}", ANYWHERE, stand))

    def _place(self, thing: str, stand: Cells = ANYWHERE) -> str | None:
        info = constants.place[thing]
        where = [material for material in info["where"] if material in constants.walkable]
        return self._with(info, lambda: self._go(f"Place {thing.title()}", self._of(*where), stand))

    def _with(self, info: dict[str, Any], then: Callable[[], str | None]) -> str | None:
        """`then`, once everything that `info` uses is at hand."""
        missing = [item for item, count in info["uses"].items() if self._has[item] < count]
        return self._get(missing[0]) if missing else then()

    def _farm(self) -> str | None:
        """Plant a sapling, fence it in with stones, eat what has grown; None while there is nothing to do about it."""
        if self._ripe:
            return self._go("Do", cells_of(self._ripe))
        plants = self._creatures.get(objects.Plant, [])
        if any(not any(self._is_open(place + step) for step in STEPS) for place in plants):
            return None
        nearest = min(plants, key=lambda place: far(place, self._here), default=None)
        if nearest is None or far(nearest, self._here) > NEAR:
            return self._stock("stone") or self._place("plant")
        sides = [nearest + step for step in STEPS]
        missing = sum(self._is_open(place) for place in sides) - self._has["stone"]
        return self._get("stone") if missing > 0 else self._shut(sides)

    def _wait_for_plant(self) -> str | None:
        plants = self._creatures.get(objects.Plant, [])
        if not plants or far(plants[0], self._here) <= GROWING:
            return None
        return self._go("Noop", ANYWHERE, around(cells_of(plants)))
