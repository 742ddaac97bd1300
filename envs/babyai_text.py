"""What a BabyAI agent sees, in words: the 7x7 view ahead of it, one line for each thing.

Lines, in this order: what is carried; the nearest wall ahead, left and right, where nothing stands before it; every
visible thing, by view column from left to right and from far to near. The agent's own cell is not described.
"""

from collections.abc import Sequence
from functools import lru_cache

from minigrid.core.grid import Grid
from minigrid.core.world_object import Door, Wall, WorldObj

SIZE = 7
CENTRE = SIZE // 2
OUTSIDE = Wall()

Cell = WorldObj | None
Row = Sequence[Cell]


def describe(grid: Grid, position: tuple[int, int], direction: int, carrying: WorldObj | None) -> str:
    """The scene of an agent at `position` that looks right, down, left or up (`direction` 0 to 3)."""
    rows = _view(grid, *position, direction)
    lines = [f"You carry a {carrying.color} {carrying.type}"] if carrying else []
    own = rows[0]
    for cells, where in (
        ([row[CENTRE] for row in rows[1:]], "forward"),
        (own[CENTRE - 1 :: -1], "left"),
        (own[CENTRE + 1 :], "right"),
    ):
        steps = _free_wall(cells)
        if steps:
            lines.append(f"a wall {_steps(steps, where)}")
    lines += [_thing(cell, column, ahead) for column, ahead, cell in _visible(rows)]
    return "\n".join(lines)


def _view(grid: Grid, x: int, y: int, direction: int) -> Sequence[Row]:
    """The view's rows from the agent's own (row 0) to the farthest, each from left to right; walls outside the grid."""
    left, top = ((x, y - CENTRE), (x - CENTRE, y), (x - SIZE + 1, y - CENTRE), (x - CENTRE, y - SIZE + 1))[direction]
    width = grid.width
    first, last = max(left, 0), min(left + SIZE, width)
    west, east, blank = [OUTSIDE] * (first - left), [OUTSIDE] * (left + SIZE - last), [OUTSIDE] * SIZE
    window: list[list[Cell]] = [
        [*west, *grid.grid[j * width + first : j * width + last], *east] if 0 <= j < grid.height else [*blank]
        for j in range(top, top + SIZE)
    ]
    if direction == 0:
        return list(zip(*window, strict=True))
    if direction == 1:
        return [row[::-1] for row in window]
    if direction == 2:
        return list(zip(*window[::-1], strict=True))[::-1]
    return window[::-1]


def _visible(rows: Sequence[Row]) -> list[tuple[int, int, WorldObj]]:
    """(column, steps ahead, thing) of everything in sight but walls, in the order of the description."""
    seen = 1 << CENTRE
    found = []
    for ahead, row in enumerate(rows):
        opaque = 0
        bit = 1
        for cell in row:
            if cell is not None and not cell.see_behind():
                opaque |= bit
            bit <<= 1
        seen, above = _spread(seen, opaque)
        for column, cell in enumerate(row):
            if cell is not None and seen >> column & 1 and cell.type != "wall":
                found.append((column, ahead, cell))
        seen = above
        if not seen:
            break
    return sorted(
        (thing for thing in found if thing[:2] != (CENTRE, 0)),
        key=lambda thing: (thing[0], -thing[1]),
    )


@lru_cache(maxsize=1 << 2 * SIZE)
def _spread(seen: int, opaque: int) -> tuple[int, int]:
    """Sight along a row, then into the row behind it: minigrid's rule, on bit masks (bit i = column i).

    Returns the row's visible cells and those that the next row starts from. What is transparent shows its neighbours on
    both sides and, behind these and itself, the next row's; the sweep goes right first, then left.
    """
    above = 0
    for i in range(SIZE - 1):
        if seen >> i & 1 and not opaque >> i & 1:
            seen |= 2 << i
            above |= 3 << i
    for i in range(SIZE - 1, 0, -1):
        if seen >> i & 1 and not opaque >> i & 1:
            seen |= 1 << i - 1
            above |= 3 << i - 1
    return seen, above


def _free_wall(cells: Row) -> int:
    """Steps to the first thing if it is a wall, else 0."""
    for steps, cell in enumerate(cells, start=1):
        if cell is not None:
            return steps if cell.type == "wall" else 0
    return 0


def _thing(cell: WorldObj, column: int, ahead: int) -> str:
    state = ("open " if cell.is_open else "locked " if cell.is_locked else "closed ") if isinstance(cell, Door) else ""
    return f"a {state}{cell.color} {cell.type} {_where(column, ahead)}"


@lru_cache(maxsize=SIZE * SIZE)
def _where(column: int, ahead: int) -> str:
    aside = column - CENTRE
    parts = [_steps(abs(aside), "left" if aside < 0 else "right")] if aside else []
    if ahead:
        parts.append(_steps(ahead, "forward"))
    return " and ".join(parts)


def _steps(count: int, where: str) -> str:
    return f"{count} step{'' if count == 1 else 's'} {where}"
