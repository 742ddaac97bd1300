"""Crafter's scripted player: stays alive first, then works through the achievements. It sees the whole world.

What an item needs (tools, materials, stations nearby) is read from the package's own tables; ways come from one search.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from crafter import constants, objects

from agentrl.envs.crafter_routes import (
    BARRED,
    BRIDGING,
    CLEAR,
    DIGGING,
    FREE,
    LAVA,
    NOWHERE,
    SIDE,
    STEPS,
    THERE,
    Cells,
    around,
    cell,
    first_turn,
    flat,
)
from agentrl.envs.crafter_world import Simulation

MOVES = ("Move West", "Move East", "Move North", "Move South")
DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))
ANYWHERE = np.ones(SIDE * SIDE, dtype=bool)

SOURCES = {item: (material, info) for material, info in constants.collect.items() for item in info["receive"]}
"""Item -> the material it is taken from, and the package's rule for taking it."""
HITS = {objects.Cow: 5, objects.Zombie: 6, objects.Skeleton: 5, objects.Arrow: 2}
"""Turns that a creature in the way costs, roughly."""

DAY = 300
"""Turns from one morning to the next."""
CHASE = 2
NEAR = 30
CROWD, SIEGE = 2, 4
HURT, HEALED = 3, 6
MORNING = 5
"""The step in which the first one begins."""
DUSK, NIGHTFALL = 85, 150
"""Turns from morning until it is time to eat and drink for the night, and to hide from its zombies."""
STOCK = {"wood": 9, "stone": 9}
"""What is gathered before the tools that are made of it: all that can be carried."""


class SurvivalPlayer:
    """Called once a turn: the first of its wishes that can be pursued decides."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._world, self._player = simulation.world, simulation.player
        self._raising: set[str] = set()
        self._pocket: tuple[int, int] | None = None

    def __call__(self) -> str:
        self._look()
        for wish in self._wishes():
            action = wish()
            if action is not None:
                return action
        return "Noop"

    def _wishes(self) -> Iterator[Callable[[], str | None]]:
        yield self._fight
        yield self._rest
        yield self._drink
        yield self._eat
        yield from self._tasks()
        yield self._hide

    def _look(self) -> None:
        """Read the world: what lies where, and what it costs to go there."""
        self._has = self._player.inventory
        self._clock = (self._simulation._step - MORNING) % DAY
        ids = self._world._mat_ids
        self._ground = flat(self._world._mat_map)
        self._here = cell(self._player.pos)
        self._facing = DIRECTIONS.index(tuple(int(way) for way in self._player.facing))
        prices = np.zeros(len(ids), dtype=np.int64)
        for material in constants.walkable:
            prices[ids[material]] = FREE
        prices[ids["lava"]] = LAVA
        for material, turns in DIGGING.items():
            if all(self._has[tool] >= count for tool, count in constants.collect[material]["require"].items()):
                prices[ids[material]] = turns
        if self._has["stone"] and self._has["wood_pickaxe"]:
            prices[ids["water"]] = BRIDGING
        self._costs = prices[self._ground]
        self._creatures: dict[type, list[int]] = {}
        for thing in self._world.objects:
            if thing is not self._player:
                at = cell(thing.pos)
                self._creatures.setdefault(type(thing), []).append(at)
                self._costs[at] = HITS.get(type(thing), 0)

    # Ways

    def _go(self, action: str, ahead: Cells, stand: Cells = ANYWHERE) -> str | None:
        """The next turn towards `action`, done standing on one of `stand` and facing one of `ahead`; None: no way."""
        if not (ahead.any() and stand.any()):
            return None
        _, turn = first_turn(self._costs, self._here, self._facing, stand, ahead)
        return None if turn == NOWHERE else self._turn(turn, action)

    def _turn(self, turn: int, action: str) -> str:
        if turn == THERE:
            return action
        if turn == CLEAR:
            return "Place Stone" if self._material(self._ahead()) == "water" else "Do"
        return MOVES[turn]

    def _ahead(self) -> int:
        return self._here + STEPS[self._facing]

    def _material(self, at: int) -> str | None:
        return self._world._mat_names[self._ground[at]]

    def _of(self, *materials: str) -> Cells:
        """Cells of some materials without anything on them."""
        cells = np.isin(self._ground, [self._world._mat_ids[material] for material in materials])
        for places in self._creatures.values():
            cells[places] = False
        return cells

    def _at(self, *kinds: type) -> Cells:
        return cells_of(place for kind in kinds for place in self._creatures.get(kind, ()))

    # Staying alive

    def _fight(self) -> str | None:
        """A zombie at arm's length strikes until it is dead; a skeleton shoots from five cells away."""
        near = [self._here + step for step in STEPS]
        if any(place in near for place in self._creatures.get(objects.Zombie, ())):
            return self._go("Do", self._at(objects.Zombie), cells_of([self._here]))
        if any(self._far(place) <= CHASE for place in self._creatures.get(objects.Skeleton, ())) and not self._is_shut_in():
            return self._go("Do", self._at(objects.Skeleton))
        return None

    def _far(self, place: int) -> int:
        """Steps to a cell, as creatures count them."""
        (x, y), (own_x, own_y) = divmod(place, SIDE), divmod(self._here, SIDE)
        return abs(x - own_x) + abs(y - own_y)

    def _wants(self, vital: str, low: int, enough: int) -> bool:
        """Whether a vital sign is to be raised: once low, until there is enough of it."""
        if self._has[vital] <= low:
            self._raising.add(vital)
        elif self._has[vital] >= enough:
            self._raising.discard(vital)
        return vital in self._raising

    def _rest(self) -> str | None:
        if self._player.sleeping:
            return "Sleep"
        tired = self._wants("energy", 3, 9)
        hurt = self._wants("health", HURT, HEALED)
        night = NIGHTFALL <= self._clock
        besieged = sum(self._far(place) <= SIEGE for place in self._creatures.get(objects.Zombie, ())) >= CROWD
        safe = self._is_shut_in()
        fed = self._has["food"] and self._has["drink"]
        if (safe and night) or (fed and (tired or hurt or night or (safe and besieged))):
            return self._hide()
        self._pocket = None
        return None

    def _drink(self) -> str | None:
        low = 7 if DUSK <= self._clock else 4
        return self._go("Do", self._of("water")) if self._wants("drink", low, 9) else None

    def _eat(self) -> str | None:
        low = 6 if DUSK <= self._clock else 4
        return self._go("Do", self._at(objects.Cow) | self._ripe()) if self._wants("food", low, 9) else None

    def _ripe(self) -> Cells:
        return cells_of(cell(thing.pos) for thing in self._world.objects if isinstance(thing, objects.Plant) and thing.ripe)

    # A hiding place: two cells in a row that nothing can reach. From one of them the player faces the open end beyond
    # the other, which it could not do in a single cell.

    def _hide(self) -> str | None:
        """Shut oneself in and sleep; None if there are not stones enough."""
        if self._is_shut_in():
            return "Sleep" if self._has["energy"] < 9 else "Noop"
        if self._pocket is None or self._missing(self._pocket) > self._has["stone"]:
            self._pocket = self._find_pocket()
        if self._pocket is None:
            return None
        inside = cells_of(self._pocket)
        sides, ends = borders(*self._pocket)
        self._costs[[place for place in sides if not self._is_open(place)]] = BARRED  # no way in leads through them
        return (
            self._shut(sides)
            or (self._go("Noop", ANYWHERE, inside) if self._here not in self._pocket else None)
            or self._shut(ends, inside)
        )

    def _shut(self, places: Iterable[int], stand: Cells = ANYWHERE) -> str | None:
        """Put stones on those of some cells that are open, and drive away who is there; None if all are shut."""
        gaps = [place for place in places if self._is_open(place)]
        taken = [place for place in gaps if any(place in there for there in self._creatures.values())]
        if taken:
            return self._go("Do", cells_of(taken), stand)
        return self._go("Place Stone", cells_of(gaps), stand) if gaps else None

    def _is_open(self, at: int) -> bool:
        return self._material(at) in constants.walkable

    def _is_shut_in(self) -> bool:
        seen, edge = {self._here}, [self._here]
        while edge and len(seen) <= 3:
            place = edge.pop()
            for step in STEPS:
                if place + step not in seen and self._is_open(place + step):
                    seen.add(place + step)
                    edge.append(place + step)
        return len(seen) <= 3 and not any(place in seen for places in self._creatures.values() for place in places)

    def _missing(self, pocket: tuple[int, int]) -> int:
        sides, ends = borders(*pocket)
        return sum(self._is_open(place) for place in (*sides, *ends))

    def _find_pocket(self) -> tuple[int, int] | None:
        """The pair of cells that takes the fewest turns to reach and to close, roughly."""
        is_open = np.isin(self._ground, [self._world._mat_ids[name] for name in constants.walkable])
        xs, ys = np.divmod(np.arange(SIDE * SIDE), SIDE)
        x, y = divmod(self._here, SIDE)
        far = np.abs(xs - x) + np.abs(ys - y)
        home = np.zeros(SIDE * SIDE, dtype=int)
        for place in self._creatures.get(objects.Plant, ()):
            if self._far(place) <= NEAR:
                px, py = divmod(place, SIDE)
                home = np.maximum(np.abs(xs - px) + np.abs(ys - py) - 10, 0)
        usable = (self._costs >= FREE) & (self._costs <= max(DIGGING.values()))
        usable[self._here] = True
        best: tuple[int, int, int] | None = None
        for step in (SIDE, 1):
            a = np.nonzero(usable[SIDE:-SIDE] & usable[SIDE + step : SIDE * SIDE - SIDE + step])[0] + SIDE
            a = a[far[a] < 20]
            sides, ends = borders(a, a + step)
            open_sides, open_ends = (sum(is_open[place].astype(int) for place in places) for places in (sides, ends))
            dug = 2 - is_open[a].astype(int) - is_open[a + step]
            price = far[a] + home[a] + 4 * open_sides + 2 * open_ends + 2 * dug
            price[open_sides + open_ends > self._has["stone"]] = 1000
            if len(a) and (cheapest := int(price.argmin())) is not None and price[cheapest] < 1000:
                found = int(price[cheapest]), int(a[cheapest]), int(a[cheapest] + step)
                best = min(best, found) if best else found
        return best[1:] if best else None

    # Achievements

    def _tasks(self) -> Iterator[Callable[[], str | None]]:
        done = self._simulation.unlocked
        for name, task in (
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
            ("wake_up", lambda: self._hide()),
            ("defeat_zombie", lambda: self._go("Do", self._at(objects.Zombie))),
            ("defeat_skeleton", lambda: self._go("Do", self._at(objects.Skeleton))),
            ("eat_plant", self._wait),
        ):
            if name not in done:
                yield task

    def _stock(self, item: str) -> str | None:
        return self._get(item) if self._has[item] < STOCK[item] else None

    def _get(self, item: str) -> str | None:
        """Take an item from the world, with the tools it asks for."""
        material, info = SOURCES[item]
        for tool, count in info["require"].items():
            if self._has[tool] < count:
                return self._make(tool)
        return self._go("Do", self._of(material))

    def _make(self, tool: str) -> str | None:
        info = constants.make[tool]
        stand = ANYWHERE
        for station in info["nearby"]:
            stand = stand & around(self._of(station))
        if not stand.any():
            return self._place(info["nearby"][-1])
        return self._uses(info) or self._go(f"Make {tool.replace('_', ' ').title()}", ANYWHERE, stand)

    def _place(self, thing: str, stand: Cells = ANYWHERE) -> str | None:
        info = constants.place[thing]
        where = [material for material in info["where"] if material not in ("water", "lava")]
        return self._uses(info) or self._go(f"Place {thing.title()}", self._of(*where), stand)

    def _uses(self, info: dict) -> str | None:
        for item, count in info["uses"].items():
            if self._has[item] < count:
                return self._get(item)
        return None

    def _farm(self) -> str | None:
        """Plant a sapling, fence it in with stones, eat what has grown; None while there is nothing to do about it."""
        if self._ripe().any():
            return self._go("Do", self._ripe())
        plants = self._creatures.get(objects.Plant, [])
        gaps = {place: [place + step for step in STEPS if self._is_open(place + step)] for place in plants}
        if not all(gaps.values()):
            return None
        nearest = min(plants, key=self._far, default=None)
        if nearest is None or self._far(nearest) > NEAR:
            return self._stock("stone") or self._place("plant")
        return self._shut(gaps[nearest]) if self._has["stone"] else self._get("stone")

    def _wait(self) -> str | None:
        """Stay near the plant: far from the player nothing grows."""
        plants = self._creatures.get(objects.Plant, [])
        return self._go("Noop", ANYWHERE, around(cells_of(plants))) if plants and self._far(plants[0]) > 12 else None


def cells_of(places: Iterable[int]) -> Cells:
    cells = np.zeros(SIDE * SIDE, dtype=bool)
    cells[list(places)] = True
    return cells


def borders(a: int, b: int) -> tuple[tuple[int, ...], tuple[int, int]]:
    """The four cells beside two cells in a row, and the two cells at its ends. Works on arrays, too."""
    step = b - a
    across = SIDE + 1 - step if np.isscalar(step) else SIDE + 1 - step[0]
    return (a - across, a + across, b - across, b + across), (a - step, b + step)
