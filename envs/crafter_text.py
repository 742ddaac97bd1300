"""What a Crafter player is told: the things around, what is faced, vital signs and inventory, in the words of BALROG.

The window is 9 cells wide and 7 high, with the player in its middle; a creature hides the ground it stands on. It is
read column by column from west to east, each from north to south.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crafter import constants

CREATURES = ("zombie", "cow", "skeleton", "arrow", "plant")
ITEMS = (*constants.materials, *CREATURES)
"""Everything that a window can show."""
VITALS = ("health", "food", "drink", "energy")
WEST_EAST, NORTH_SOUTH = 4, 3
"""How far the window reaches from the player."""
PLAYER = "player"

Place = tuple[int, int]
"""Steps to the east and to the south of the player."""


@dataclass(frozen=True)
class SceneOptions:
    """How the window is told.

    Attributes:
        precise_location: both distances, rather than their sum and a direction.
        unique_items: of each kind of thing the nearest alone, rather than every cell.
        skip_items: kinds that are never told, faced ones neither.
        edge_only_items: kinds that are told only where another kind borders on them.
        blind_borders: less than a window away from the west or north border nothing is seen, as in the original;
            otherwise the window ends at the border, as it does in the east and south.
    """

    precise_location: bool = False
    unique_items: bool = True
    skip_items: frozenset[str] = frozenset()
    edge_only_items: frozenset[str] = frozenset()
    blind_borders: bool = False


def scene(world: Any, player: Any, options: SceneOptions) -> str:
    """The long text: condition, surroundings, and what is faced."""
    x, y = player.pos.tolist()
    cells = _cells(world, x, y, options)
    phrases = PRECISE if options.precise_location else ROUGH
    told = _nearest(_listed(cells, options)) if options.unique_items else _listed(cells, options)
    lines = [f"- {name} {phrases[place]}" for name, place in told]
    seen = "\n".join(["You see:", *lines]) if lines else "You see nothing away from you."
    faced = cells.get(tuple(player.facing), "nothing")
    if faced in options.skip_items:
        faced = "nothing"
    return f"{_condition(player)}{seen}\n\nYou face {faced} at your front."


def status(inventory: Mapping[str, int]) -> str:
    """The short text: vital signs and what is carried."""
    vitals = [f"- {name}: {inventory[name]}/9" for name in VITALS]
    carried = [f"- {name}: {count}" for name, count in inventory.items() if count and name not in VITALS]
    belongings = ["Your inventory:", *carried] if carried else ["You have nothing in your inventory."]
    return "\n".join(["Your status:", *vitals, "", *belongings])


def _condition(player: Any) -> str:
    if player.sleeping:
        return "You are sleeping, and will not be able take actions until energy is full.\n\n\n\n"
    return "You died.\n\n\n\n" if player.health <= 0 else ""


def _cells(world: Any, x: int, y: int, options: SceneOptions) -> dict[Place, str]:
    """What is in the window, in reading order, the player included."""
    if options.blind_borders and (x < WEST_EAST or y < NORTH_SOUTH):
        return {}
    west, north = max(x - WEST_EAST, 0), max(y - NORTH_SOUTH, 0)
    window = slice(west, x + WEST_EAST + 1), slice(north, y + NORTH_SOUTH + 1)
    materials, things = world._mat_map[window].tolist(), world._obj_map[window].tolist()
    return {
        (i + west - x, j + north - y): _name(world._objects[thing]) if thing else world._mat_names[material]
        for i, column in enumerate(zip(materials, things, strict=True))
        for j, (material, thing) in enumerate(zip(*column, strict=True))
    }


def _name(thing: Any) -> str:
    return type(thing).__name__.lower()


def _listed(cells: dict[Place, str], options: SceneOptions) -> Iterator[tuple[str, Place]]:
    for place, name in cells.items():
        if name == PLAYER or name in options.skip_items:
            continue
        if name in options.edge_only_items and not _at_edge(cells, place, name):
            continue
        yield name, place


def _at_edge(cells: dict[Place, str], place: Place, name: str) -> bool:
    x, y = place
    neighbours = (cells.get(spot, name) for spot in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)))
    return any(neighbour != name for neighbour in neighbours)


def _nearest(told: Iterator[tuple[str, Place]]) -> Iterator[tuple[str, Place]]:
    """One of each kind, in the order in which the kinds were first met; of equally near ones the first."""
    nearest: dict[str, Place] = {}
    for name, place in told:
        if name not in nearest or DISTANCE[place] < DISTANCE[nearest[name]]:
            nearest[name] = place
    yield from nearest.items()


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _directions(place: Place) -> list[tuple[int, str]]:
    x, y = place
    north_south, west_east = (abs(y), "south" if y > 0 else "north"), (abs(x), "east" if x > 0 else "west")
    return [(count, word) for count, word in (north_south, west_east) if count]


def _rough(place: Place) -> str:
    return f"{_steps(DISTANCE[place])} to your {'-'.join(word for _, word in _directions(place))}"


def _precise(place: Place) -> str:
    return " and ".join(f"{_steps(count)} {word}" for count, word in _directions(place))


_WINDOW = [(x, y) for x in range(-WEST_EAST, WEST_EAST + 1) for y in range(-NORTH_SOUTH, NORTH_SOUTH + 1)]
DISTANCE = {(x, y): abs(x) + abs(y) for x, y in _WINDOW}
ROUGH = {place: _rough(place) for place in _WINDOW}
PRECISE = {place: _precise(place) for place in _WINDOW}
