"""A BabaIsAI player that plans: weighted A* (Pohl 1970) from push to push over the game's own rules.

Walking without pushing changes nothing but YOU's own place, so a search node is the map after a push, and its edges are
the pushes within reach. As long as one thing is YOU and it reaches a WIN, that is the plan.
"""

from collections import deque
from heapq import heappop, heappush
from itertools import count

from agentrl.envs.babaisai_rules import IS, OBJECTS, PROPERTIES, World

NAMES = ("right", "down", "left", "up")
MOST_NODES = 20_000
WEIGHT = 2.0
UNREACHED = 3.0
"""What a goal behind walls counts for, in pushes: about what it takes to break or make another rule."""

Plan = list[int]


class Solver:
    """Plays a plan from the world as it stands now; `idle` where none was found or it has run out."""

    def __init__(self, world: World) -> None:
        self._plan = deque(solve(world) or [])

    def __call__(self) -> str:
        return NAMES[self._plan.popleft()] if self._plan else "idle"


def solve(world: World, most_nodes: int = MOST_NODES) -> Plan | None:
    """Directions that win; None if none are found within `most_nodes` maps."""
    order = count()
    start = world.copy()
    frontier: list[tuple[float, int, int, World, Plan]] = [(0.0, next(order), 0, start, [])]
    seen: dict[tuple[object, ...], int] = {}
    for _ in range(most_nodes):
        if not frontier:
            return None
        _, _, pushes, here, plan = heappop(frontier)
        you = here.you()
        if len(you) != 1:
            continue
        ways = _walks(here, you[0])
        if (way := _way_to_win(here, ways)) is not None:
            return plan + way
        for pushed, way in _pushes(here, you[0], ways):
            key = _key(pushed)
            if key is not None and pushes + 1 < seen.get(key, most_nodes):
                seen[key] = pushes + 1
                guess = pushes + 1 + WEIGHT * _to_go(pushed)
                heappush(frontier, (guess, next(order), pushes + 1, pushed, plan + way))
    return None


def _walks(world: World, you: int) -> dict[int, Plan]:
    """The shortest way to each cell that YOU reaches without a push."""
    stop, push, win = world.having("stop"), world.having("push"), world.having("win")
    ways: dict[int, Plan] = {you: []}
    waiting = deque([you])
    while waiting:
        cell = waiting.popleft()
        top = world.top(cell)
        if cell != you and top is not None and not top.text and top.name in win:
            continue  # the game is over there
        for direction, offset in enumerate(world.offsets):
            ahead = world.top(cell + offset)
            free = ahead is None or not (
                ahead.text or ahead.name == "border" or ahead.name in stop or ahead.name in push
            )
            if free and cell + offset not in ways:
                ways[cell + offset] = [*ways[cell], direction]
                waiting.append(cell + offset)
    return ways


def _way_to_win(world: World, ways: dict[int, Plan]) -> Plan | None:
    win = world.having("win")
    found = [
        way
        for cell, way in ways.items()
        if way and (top := world.top(cell)) is not None and not top.text and top.name in win
    ]
    return min(found, key=len, default=None)


def _pushes(world: World, you: int, ways: dict[int, Plan]) -> list[tuple[World, Plan]]:
    """The maps that one push leads to, each with the moves to it."""
    push = world.having("push")
    found = []
    for cell, way in ways.items():
        for direction, offset in enumerate(world.offsets):
            ahead = world.top(cell + offset)
            if ahead is None or not (ahead.text or ahead.name in push):
                continue
            after = world.copy()
            after.place(cell, after.stacks[you].pop())
            after.step(direction)
            if after.stacks[cell + offset] != world.stacks[cell + offset]:
                found.append((after, [*way, direction]))
    return found


def _key(world: World) -> tuple[object, ...] | None:
    """Equal where two maps are, but for where YOU stands within its reach; None where not one thing is YOU."""
    you = world.you()
    if len(you) != 1:
        return None
    reach = min(_reach(world, you[0]))
    mover = world.stacks[you[0]][-1]
    stacks = (
        (cell, *((item.name, item.text) for item in stack if item is not mover))
        for cell in world.inner
        if (stack := world.stacks[cell]) and (len(stack) > 1 or stack[0] is not mover)
    )
    return (reach, *stacks)


def _reach(world: World, you: int) -> set[int]:
    return set(_walks(world, you))


def _to_go(world: World) -> float:
    """A guess at the pushes still needed: those of the cheapest pair "A is you", "B is win", and what is between.

    A rule costs the steps by which its blocks are apart from a line; an active one nothing. Where A cannot walk to B,
    something must be broken first.
    """
    width = world.width
    tops: dict[tuple[str, bool], list[int]] = {}
    for cell in world.inner:
        top = world.top(cell)
        if top is not None:
            tops.setdefault((top.name, top.text), []).append(cell)
    costs: dict[tuple[str, str], float] = {}
    for subject in OBJECTS:
        if (subject, False) in tops:
            for quality in ("you", "win"):
                if (subject, quality) in world.rules:
                    costs[subject, quality] = 0.0
                else:
                    costs[subject, quality] = _rule_cost(tops, subject, quality, width)
    best = float("inf")
    for subject in OBJECTS:
        for goal in OBJECTS:
            cost = costs.get((subject, "you"), float("inf")) + costs.get((goal, "win"), float("inf"))
            if subject == goal or cost >= best:
                continue
            reach = _walks(world, tops[subject, False][0])
            if not any(cell in reach for cell in tops[goal, False]):
                cost += UNREACHED
            best = min(best, cost)
    return min(best, 100.0)


def _rule_cost(tops: dict[tuple[str, bool], list[int]], subject: str, quality: str, width: int) -> float:
    """The least number of steps, over all blocks of the rule and both readings, that bring two of them to the third."""
    assert quality in PROPERTIES
    best = float("inf")
    for middle in tops.get((IS, True), ()):
        for offset in (1, width):
            before = min((_apart(cell, middle - offset, width) for cell in tops.get((subject, True), ())), default=best)
            after = min((_apart(cell, middle + offset, width) for cell in tops.get((quality, True), ())), default=best)
            best = min(best, before + after)
    return best


def _apart(cell: int, other: int, width: int) -> float:
    return abs(cell % width - other % width) + abs(cell // width - other // width)
