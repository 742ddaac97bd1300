"""Ways through Crafter's world for the scripted player: what each cell costs to enter, and the cheapest way to a view.

All maps are flat arrays of `SIDE` * `SIDE` cells, the world with a border of one cell around it: no index runs out.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, TypeVar

import numpy as np
from numba import njit

from agentrl.envs.crafter_world import AREA

SIDE = AREA[0] + 2
STEPS = (-SIDE, SIDE, -1, 1)
"""What a step west, east, north and south adds to a cell's index."""
LAVA, BARRED, FREE = -1, 0, 1
"""Costs with a meaning of their own: never to be walked towards; may be faced, not entered; one turn."""
CLEAR, THERE, NOWHERE = 4, 5, 6
"""What `first_turn` advises beside the four steps: act on what is faced, all is done, there is no way."""

Cells = np.ndarray[Any, np.dtype[Any]]
"""(SIDE * SIDE,), of costs or of truth."""

ANYWHERE: Cells = np.ones(SIDE * SIDE, dtype=bool)

Place = TypeVar("Place", int, np.ndarray[Any, np.dtype[Any]])
"""One cell's index, or many."""


def cell(pos: Any) -> int:
    """The index of a position in the world."""
    return (int(pos[0]) + 1) * SIDE + int(pos[1]) + 1


def cells_of(places: Iterable[int]) -> Cells:
    """Where some cells are."""
    cells = np.zeros(SIDE * SIDE, dtype=bool)
    cells[list(places)] = True
    return cells


def far(place: Place, other: int) -> Place:
    """Steps between two cells, if nothing is in the way."""
    (x, y), (other_x, other_y) = divmod(place, SIDE), divmod(other, SIDE)
    return abs(x - other_x) + abs(y - other_y)


def borders(a: Place, b: Place) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """Of two cells in a row, `b` east or south of `a`: the four cells at their sides, and the two at their ends."""
    along = b - a
    across = SIDE + 1 - along
    return (a - across, a + across, b - across, b + across), (a - along, b + along)


def flat(world_map: Cells) -> Cells:
    """A map of the world, (64, 64), with a border of zeros."""
    square = np.zeros((SIDE, SIDE), dtype=world_map.dtype)
    square[1:-1, 1:-1] = world_map
    return square.reshape(-1)


def around(cells: Cells) -> Cells:
    """Where one of `cells` is at most a step away, diagonals too: from there the game lets a player use a station.

    Beside the west and the north border the game finds no station.
    """
    wide = np.zeros((SIDE, SIDE), dtype=bool)
    square = cells.reshape(SIDE, SIDE)
    for x in range(3):
        for y in range(3):
            wide[1:-1, 1:-1] |= square[x : SIDE - 2 + x, y : SIDE - 2 + y]
    wide[1, :] = wide[:, 1] = False
    return wide.reshape(-1)


@njit(cache=True)
def first_turn(costs: Cells, start: int, facing: int, stand: Cells, ahead: Cells) -> int:
    """The cheapest way to stand on one of `stand` facing one of `ahead` (Dijkstra over cells and directions).

    A free cell is faced by coming towards it, any other by walking against it.

    Args:
        costs: turns to enter a cell: LAVA, BARRED, FREE, or more, all but one of them spent on clearing it.
        facing: 0 to 3, as in `STEPS`.

    Returns:
        what to do first: a step (0 to 3), CLEAR, THERE or NOWHERE.
    """
    steps = (-SIDE, SIDE, -1, 1)
    first = 4 * start + facing
    turns = np.full(4 * costs.size, 1 << 30)
    came = np.full(4 * costs.size, -1)
    turns[first] = 0
    heap = [(0, first)]
    while heap:
        spent, state = heappop(heap)
        if spent > turns[state]:
            continue
        here, looks = state // 4, state % 4
        if stand[here] and ahead[here + steps[looks]]:
            if state == first:
                return THERE
            while came[state] != first:
                state = came[state]
            moves = state // 4 != start
            return CLEAR if moves and costs[state // 4] > FREE else state % 4
        for way in range(4):
            there = here + steps[way]
            cost = costs[there]
            if cost == FREE or (cost > FREE and way == looks):
                after, more = 4 * there + way, cost
            elif cost >= BARRED and way != looks:
                after, more = 4 * here + way, 1
            else:
                continue
            if spent + more < turns[after]:
                turns[after] = spent + more
                came[after] = state
                heappush(heap, (spent + more, after))
    return NOWHERE
