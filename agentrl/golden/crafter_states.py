"""Crafter's texts and rewards worked out from recorded states, where the episode itself cannot be played again.

The unmodified game keeps creatures in an order of memory addresses, which no other process has. Cases of text are
states without an episode.
"""

from collections.abc import Iterable
from typing import Any

from crafter import constants, objects

from agentrl.envs.crafter import ACHIEVEMENTS
from agentrl.envs.crafter_text import SceneOptions, scene, status
from agentrl.envs.crafter_world import AREA, CHUNK, OrderedWorld
from agentrl.golden.crafter import MATERIALS, SCENE, CrafterReplay
from agentrl.golden.recording import Case, Recording, Row
from agentrl.golden.replay import FLAGS, Comparison, compare_fields, unfolded

CREATURES = {"C": "Cow", "Z": "Zombie", "K": "Skeleton", ">": "Arrow", "P": "Plant"}

Ground = dict[tuple[int, int], str]
"""Characters of materials by cell."""


def crafter_comparison(recording: Recording) -> Comparison:
    """How this recording of Crafter can be compared."""
    header = recording.header
    if recording.end is None:
        return Cases()
    initial = header.model_dump().get("initial")
    stock = header.options is None and isinstance(initial, dict) and initial.get("rng_state") is None
    return StateReplay(header) if stock else CrafterReplay(header)


class StateReplay(CrafterReplay):
    """A recording of the unmodified game: its first world is made anew, its rows follow from their states."""

    unit = "rows by their states"

    def compare(self, recording: Recording) -> bool:
        assert recording.end is not None
        self.game.reset(seed=self.seed)
        self.compare_header(recording.header)
        options = scene_options(recording.header.config or {})
        ground: Ground = {(x, y): c for y, line in enumerate(self.initial["map"]) for x, c in enumerate(line)}
        state: Row = {}
        told: list[Row] = []
        for number, row in enumerate(recording.rows):
            before, state = state, unfolded(row["state"], state)
            ground |= {(x, y): c for x, y, c in state["map"]}
            ours = {"step": number, "text": _texts(ground, state, options)}
            if told:
                ours |= _outcome(before, state)
                row = {**row, "over": any(row[name] for name in FLAGS)}
            compare_fields(f"row {number}", ours, row)
            told.append({**row, **ours, "state": state})
            self.compared += 1
        self.compare_end(told, recording.end)
        return False


class Cases:
    """States without an episode, each with its texts under several options."""

    unit = "cases"

    def __init__(self) -> None:
        self.compared = 0

    def compare(self, recording: Recording) -> bool:
        options = {name: scene_options(config) for name, config in (recording.header.options or {}).items()}
        for case in recording.cases:
            ours = {name: scene(*_of_case(case), options[name]) for name in case.long}
            compare_fields(f"case {self.compared}", {"short": status(case.inv), "long": ours}, case.model_dump())
            self.compared += 1
        return False


def scene_options(config: Row) -> SceneOptions:
    """As the original tells a scene with this config of its wrapper."""
    given = {**SCENE, **{name: value for name, value in config.items() if name in SCENE}}
    skip, edge_only = (frozenset(given[name]) for name in ("skip_items", "edge_only_items"))
    return SceneOptions(given["precise_location"], given["unique_items"], skip, edge_only, blind_borders=True)


def built(
    ground: Ground,
    things: Iterable[tuple[str, tuple[int, int]]],
    pos: list[int],
    facing: list[int],
    inventory: dict[str, int],
    sleeping: bool = False,
) -> tuple[OrderedWorld, Any]:
    """A world from characters and class names, and its player."""
    world = OrderedWorld(AREA, constants.materials, CHUNK)
    for spot, cell in ground.items():
        world[spot] = MATERIALS[cell]
    player = objects.Player(world, pos)
    player.facing, player.inventory, player.sleeping = tuple(facing), dict(inventory), sleeping
    world.add(player)
    for name, spot in things:
        more = {"Zombie": (player,), "Skeleton": (player,), "Arrow": ((0, 1),)}.get(name, ())
        world.add(getattr(objects, name)(world, spot, *more))
    return world, player


def _of_case(case: Case) -> tuple[OrderedWorld, Any]:
    cells = {(case.x0 + i, case.y0 + j): c for j, row in enumerate(case.map) for i, c in enumerate(row)}
    ground = {spot: cell for spot, cell in cells.items() if cell in MATERIALS}
    things = [(CREATURES[cell], spot) for spot, cell in cells.items() if cell in CREATURES]
    health = 0 if case.dead else 9  # the recorded one is random, whatever `dead` says
    return built(ground, things, case.pos, case.facing, {**case.inv, "health": health}, case.sleeping)


def _texts(ground: Ground, state: Row, options: SceneOptions) -> Row:
    inventory = {**dict.fromkeys(constants.items, 0), **state["inv"]}
    things = [(name, (x, y)) for name, x, y, *_ in state["obj"]]
    world, player = built(ground, things, state["pos"], state["facing"], inventory, state["sleeping"])
    return {"long_term_context": scene(world, player, options), "short_term_context": status(inventory)}


def _outcome(before: Row, state: Row) -> Row:
    """Reward, progression and end of the step from one state to the next."""
    health, old = (each["inv"].get("health", 0) for each in (state, before))
    new = state["ach"].keys() - before["ach"].keys()
    return {
        "reward": (health - old) / 10 + bool(new),
        "progression": len(state["ach"]) / len(ACHIEVEMENTS),
        "over": health <= 0,
    }
