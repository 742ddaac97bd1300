"""A player that plans: weighted A* (Pohl 1970) from push to push, over the game's own rules.

Walking changes nothing but YOU's own place. So an edge of the search is a walk and the push that ends it, and two maps
are the same one if all but YOU is, and YOU can walk from one of its places to the other.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from heapq import heappop, heappush
from itertools import count

from agentrl.envs.babaisai_rules import IS, NOTHING, NOUNS, THINGS, WORDS, Rule, World, block

DIRECTIONS = ("up", "right", "down", "left")
BACK = {"up": "down", "right": "left", "down": "up", "left": "right"}
MOST_MAPS = 4000
WEIGHT = 2.0
OUT_OF_REACH = 8.0
"""What a thing that YOU cannot walk to counts for, in moves: about what it takes to break or make a rule before."""
BURIED = 3.0
"""What each item on top of a block counts for, which has to be pushed off first."""
HOPELESS = 40.0
"""What a rule counts for whose blocks cannot be pushed into place one by one."""

Ways = dict[int, list[str]]
"""The shortest way to each cell that YOU can walk to; its own place comes first."""
Blocks = dict[str, list[tuple[int, float]]]
"""Where the blocks of a word are, each with the moves it takes to get at it."""


class Solver:
    """Plays a plan; plans anew whenever the world is not what the plan meant it to be. `idle` where it has none."""

    def __init__(self, world: Callable[[], World]) -> None:
        self._world = world
        self._plan: deque[str] = deque()
        self._expected: object = None

    def __call__(self) -> str:
        world = self._world().copy()
        if world.state() != self._expected:
            self._plan = deque(solve(world) or ())
        if not self._plan:
            self._expected = world.state()
            return "idle"
        action = self._plan.popleft()
        world.step(action)
        self._expected = world.state()
        return action


def solve(world: World, most_maps: int = MOST_MAPS) -> list[str] | None:
    """Directions that win; None if none are found within `most_maps` maps."""
    order = count()
    frontier: list[tuple[float, int, World, Ways | None, list[str], bool]] = []
    heappush(frontier, (0.0, next(order), world.copy(), _walks(world), [], False))
    reached: set[object] = set()
    closed: set[object] = set()
    while frontier and len(closed) < most_maps:
        _, _, here, ways, plan, won = heappop(frontier)
        if won:
            return plan
        key = _key(here, ways)
        if key in closed:
            continue
        closed.add(key)
        for after, way, wins in _moves(here, ways):
            if wins:
                heappush(frontier, (len(plan) + len(way), next(order), after, None, plan + way, True))
            elif (state := after.state()) not in reached:
                reached.add(state)
                there = _walks(after)
                guess = len(plan) + len(way) + WEIGHT * _to_go(after, there)
                heappush(frontier, (guess, next(order), after, there, plan + way, False))
    return None


def _walks(world: World) -> Ways | None:
    """The shortest way to each cell that YOU can walk to; None where a walk changes more than YOU's place."""
    powers = world.powers
    you = [cell for cell, top in enumerate(world.tops) if top in powers.you]
    under = world.below.get(you[0], (NOTHING,))[-1] if you else NOTHING
    if len(you) != 1 or under in WORDS or under in powers.you or any(rule.word in NOUNS for rule in world.rules):
        return None
    ways: Ways = {you[0]: []}
    waiting = deque(you)
    while waiting:
        cell = waiting.popleft()
        for direction in DIRECTIONS:
            ahead = cell + world.offsets[direction]
            top = world.tops[ahead]
            if ahead in ways or top in powers.pushable or top not in powers.walkable or top in powers.lose:
                continue
            ways[ahead] = [*ways[cell], direction]
            if top not in powers.win:  # there the game is over
                waiting.append(ahead)
    return ways


def _moves(world: World, ways: Ways | None) -> Iterator[tuple[World, list[str], bool]]:
    """What can be done next: the world after it, the directions, whether they win. What loses is left out."""
    if ways is None:
        for direction in DIRECTIONS:
            yield from _step(world, [direction])
        return
    powers, you = world.powers, next(iter(ways))
    aside = next((way for way in ways.values() if way), None)
    if aside and world.below.get(you, (NOTHING,))[-1] in powers.win:  # it has to be left, and entered again
        off = world.copy()
        off.step(aside[0])
        yield from _step(off, [*aside, BACK[aside[0]]])
    for cell, way in ways.items():
        if way and world.tops[cell] in powers.win:
            yield world, way, True
            continue
        for direction in DIRECTIONS:
            if world.tops[cell + world.offsets[direction]] in powers.pushable:
                there = world.copy()
                there.put(cell, there.lift(you))
                yield from _step(there, [*way, direction])


def _step(world: World, way: list[str]) -> Iterator[tuple[World, list[str], bool]]:
    after = world.copy()
    landings = after.step(way[-1])
    wins = any(landing.win for landing in landings)
    if wins or (after.you() is not None and not any(landing.lose for landing in landings)):
        yield after, way, wins


def _key(world: World, ways: Ways | None) -> object:
    if ways is None:
        return world.state()
    without = world.copy()
    without.lift(next(iter(ways)))
    return min(ways), without.state()


def _to_go(world: World, ways: Ways | None) -> float:
    """A guess at the moves still needed: those of the cheapest pair of rules "A is you", "B is win"."""
    you = world.you()
    assert you is not None
    things: dict[str, list[int]] = {}
    blocks: Blocks = {}
    for cell, top in enumerate(world.tops):
        if top in THINGS:
            things.setdefault(THINGS[top], []).append(cell)
        if top in WORDS or cell in world.below:
            near = ways is None or any(cell + side in ways for side in _sides(world.width))
            for depth, item in enumerate(reversed(world.stack(cell))):
                if item in WORDS:
                    blocks.setdefault(item, []).append((cell, depth * BURIED + (0.0 if near else OUT_OF_REACH)))
                elif depth == 1 and cell == you:
                    things.setdefault(THINGS[item], []).append(cell)
    making = {goal: _rule_cost(world, blocks, goal, "win", you) for goal in things}
    best = 2 * HOPELESS
    for subject, origins in things.items():
        becoming, _ = _rule_cost(world, blocks, subject, "you", you)
        for goal, cells in things.items():
            cost, end = making[goal]
            if goal != subject and cost + becoming < best:
                starts = origins if becoming else [end]
                cost += becoming + min(_apart(world.width, start, cell) for start in starts for cell in cells)
                if ways is not None and not becoming and not any(cell in ways for cell in cells):
                    cost += OUT_OF_REACH
                best = min(best, cost)
    return best


def _rule_cost(world: World, blocks: Blocks, subject: str, word: str, you: int) -> tuple[float, int]:
    """The moves that bring a subject and a property to either side of an IS, and about where YOU stands then."""
    if Rule(subject, word) in world.rules:
        return 0.0, you
    best = (HOPELESS, you)
    for middle, _ in blocks.get(IS, ()):
        for offset in (1, world.width):
            cost, end = 0.0, you
            for item, target in ((block(subject), middle - offset), (block(word), middle + offset)):
                carrying = [
                    extra + _carry(world.width, world.height, target, cell, end) if extra or cell != target else 0.0
                    for cell, extra in blocks.get(item, ())
                ]
                least = min(carrying, default=HOPELESS)
                if least:
                    cost, end = cost + least, target
                if cost >= best[0]:
                    break
            else:
                best = cost, end
    return best


@lru_cache(1 << 16)
def _carry(width: int, height: int, target: int, cell: int, you: int) -> float:
    """The moves that bring a block from a cell to the target, the walk to the block included."""
    costs = _carrying(width, height, target)[cell]
    return min(cost + _apart(width, you, cell + side) for cost, side in zip(costs, _sides(width), strict=True))


def _sides(width: int) -> tuple[int, int, int, int]:
    return -width, 1, width, -1


@cache
def _carrying(width: int, height: int, target: int) -> list[list[float]]:
    """For each cell and side: the moves that bring a block from the cell to the target, if nothing else lay about.

    YOU begins at that side of the block. Round a corner of the block it is two moves.
    """
    sides = _sides(width)
    inside = {y * width + x for y in range(1, height - 1) for x in range(1, width - 1)}
    found = [[HOPELESS] * 4 for _ in range(width * height)]
    waiting = [(0.0, target, side) for side in range(4) if target in inside]
    while waiting:
        cost, cell, side = heappop(waiting)
        if cost >= found[cell][side]:
            continue
        found[cell][side] = cost
        for turn in (1, 3):
            if cell + sides[(side + turn) % 4] in inside:
                heappush(waiting, (cost + 2, cell, (side + turn) % 4))
        before = cell + sides[side]  # the block was where YOU is now
        if before in inside and before + sides[side] in inside:
            heappush(waiting, (cost + 1, before, side))
    return found


def _apart(width: int, one: int, other: int) -> int:
    return abs(one % width - other % width) + abs(one // width - other // width)
