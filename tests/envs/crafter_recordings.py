"""Crafter episodes as JSON lines: header, reset, steps, end. Recorded from our game here, from the original elsewhere.

`python tests/envs/crafter_recordings.py` records the fixtures anew: do that only when a change of the game is meant.
"""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from crafter import constants, objects
from recordings import Row

from agentrl.envs.crafter import Crafter
from agentrl.envs.crafter_text import SceneOptions, scene, status
from agentrl.envs.crafter_world import AREA, CHUNK, OrderedWorld, Simulation

FIXTURES = Path(__file__).parent / "fixtures" / "crafter"
ORIGINAL = Path(__file__).parents[3] / "shared" / "golden" / "crafter"

SCENE = ("unique_items", "precise_location", "skip_items", "edge_only_items")
MATERIALS = dict(zip("w.s_aTLcidtf", constants.materials, strict=True))
CHARACTERS = {material: character for character, material in MATERIALS.items()}
CREATURES = {"C": "Cow", "Z": "Zombie", "K": "Skeleton", ">": "Arrow", "P": "Plant"}
EXTRA = {"Zombie": "cooldown", "Skeleton": "reload", "Arrow": "facing", "Plant": "grown"}


def rows_of(game: Crafter, seed: int, replies: Iterable[str]) -> Iterator[Row]:
    """The reset's row, then one for each reply, until the episode ends."""
    observation, _ = game.reset(seed=seed)
    known = game.simulation.world._mat_map.copy()
    yield {"kind": "reset", "text": _text(observation), "state": _state(game.simulation, known)}
    for reply in replies:
        observation, reward, terminated, truncated, _ = game.step(reply)
        yield {
            "kind": "step",
            "action": reply if reply in game.actions else game.default_action,
            "reward": round(reward, 6),
            "terminated": terminated,
            "truncated": truncated,
            "progression": round(len(game.simulation.unlocked) / 22, 6),
            "text": _text(observation),
            "state": _state(game.simulation, known),
        }
        if terminated or truncated:
            return


def difference(recording: list[Row]) -> str | None:
    """Replay a recording from its seed; None, or the first field that came out otherwise."""
    header, *wanted = (row for row in recording if row["kind"] != "end")
    game = Crafter("default", **_options(header["config"]))
    if list(game.actions) != header["action_space"]:
        return "other actions"
    initial = start_of(header["seed"])
    if initial != {field: header["initial"][field] for field in initial}:
        return "another world"
    got = list(rows_of(game, header["seed"], (row.get("candidate", row["action"]) for row in wanted[1:])))
    achievements: Row = {}
    for number, (ours, theirs) in enumerate(zip(got, wanted, strict=False)):
        wanted_state = theirs["state"]
        if wanted_state.get("ach") == "same":
            wanted_state = wanted_state | {"ach": achievements}
        achievements = wanted_state.get("ach", achievements)
        for have, want in ((ours, theirs | {"state": ours["state"]}), (ours["state"], wanted_state)):
            for field in have.keys() & want.keys():
                if have[field] != want[field]:
                    return f"row {number}, {field}: {have[field]!r}, recorded {want[field]!r}"
    return None if len(got) == len(wanted) else f"{len(got)} rows, recorded {len(wanted)}"


def start_of(seed: int) -> Row:
    """The world of a seed before the first step."""
    simulation = Simulation()
    simulation.begin(seed)
    world = simulation.world
    name, words, *rest = world.random.get_state()
    return {
        "player_pos": simulation.player.pos.tolist(),
        "map": ["".join(CHARACTERS[world[x, y][0]] for x in range(AREA[0])) for y in range(AREA[1])],
        "objects": [_creature(thing) for thing in world.objects[1:]],
        "rng_state": [name, words.tolist(), *rest],
    }


def retold(recording: list[Row]) -> Iterator[tuple[Row, Row]]:
    """For each row, the texts made of its recorded state alone, and the recorded texts."""
    header, *rows = (row for row in recording if row["kind"] != "end")
    ground = {(x, y): cell for y, line in enumerate(header["initial"]["map"]) for x, cell in enumerate(line)}
    for row in rows:
        state = row["state"]
        ground |= {(x, y): cell for x, y, cell in state["map"]}
        inventory = dict.fromkeys(constants.items, 0) | state["inv"]
        things = [(name, (x, y)) for name, x, y, *_ in state["obj"]]
        world, player = built(ground, things, state["pos"], state["facing"], inventory, state["sleeping"])
        options = scene_options(header["config"])
        yield {"long_term_context": scene(world, player, options), "short_term_context": status(inventory)}, row["text"]


def retold_case(case: Row) -> tuple[OrderedWorld, Any]:
    """The world and player of a line of text_cases.jsonl."""
    cells = {(case["x0"] + i, case["y0"] + j): c for j, row in enumerate(case["map"]) for i, c in enumerate(row)}
    ground = {spot: cell for spot, cell in cells.items() if cell in MATERIALS}
    things = [(CREATURES[cell], spot) for spot, cell in cells.items() if cell in CREATURES]
    health = 0 if case["dead"] else 9  # the recorded one is random, whatever `dead` says
    return built(ground, things, case["pos"], case["facing"], case["inv"] | {"health": health}, case["sleeping"])


def built(
    ground: dict[tuple[int, int], str],
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


def scene_options(config: Row) -> SceneOptions:
    """As the original tells a scene."""
    skip, edge_only = (frozenset(config[name]) for name in ("skip_items", "edge_only_items"))
    return SceneOptions(config["precise_location"], config["unique_items"], skip, edge_only, blind_borders=True)


def _options(config: Row) -> Row:
    """Our recordings hold our options, the original's hold its own."""
    return {name: config[name] for name in SCENE} | {"compat": "balrog"} if "area" in config else config


def _text(observation: dict[str, str]) -> Row:
    return {"long_term_context": observation["scene"], "short_term_context": observation["status"]}


def _state(simulation: Simulation, known: Any) -> Row:
    """`known` is the map as told last; it is brought up to date."""
    world, player = simulation.world, simulation.player
    changed = list(zip(*(world._mat_map != known).nonzero(), strict=True))
    known[:] = world._mat_map
    _, words, place, *_ = world.random.get_state()
    near = [thing for thing in world.objects[1:] if max(abs(thing.pos - player.pos)) <= 9]
    return {
        "t": simulation._step,
        "pos": player.pos.tolist(),
        "facing": list(player.facing),
        "sleeping": player.sleeping,
        "inv": {name: count for name, count in player.inventory.items() if count},
        "ach": {name: count for name, count in player.achievements.items() if count},
        "cnt": [player._hunger, player._thirst, player._fatigue, player._recover, player._last_health],
        "day": round(float(world.daylight), 4),
        "obj": [_creature(thing) for thing in near],
        "map": [[int(x), int(y), CHARACTERS[world[x, y][0]]] for x, y in changed],
        "rng": crc32(words.tobytes() + int(place).to_bytes(4, "little")),
    }


def _creature(thing: Any) -> list[Any]:
    name = type(thing).__name__
    extra = [getattr(thing, EXTRA[name])] if name in EXTRA else []
    return [name, *thing.pos.tolist(), thing.health, *(list(map(int, e)) if name == "Arrow" else e for e in extra)]


def _replies(seed: int) -> Iterator[str]:
    """At random, with a taste for walking and gathering, and now and then a reply that is no action."""
    chance = random.Random(seed)
    walking = [f"Move {side}" for side in ("West", "East", "North", "South")]
    while True:
        kind = chance.choices((walking, ["Do"], list(Crafter.actions), ["Collect Wood", ""]), (40, 35, 24, 1))[0]
        yield chance.choice(kind)


def _record(name: str, seed: int, texts: int = 1, **config: Any) -> None:
    """Every `texts`-th row has its text; of the state a recording holds what gives any other change away."""
    game = Crafter("default", **config)
    initial = start_of(seed)
    header = {"kind": "header", "seed": seed, "config": config, "action_space": list(game.actions), "initial": initial}
    rows = list(rows_of(game, seed, _replies(seed)))
    for number, row in enumerate(rows):
        row["state"] = {field: row["state"][field] for field in ("t", "pos", "rng")}
        if number % texts and number < len(rows) - 1:
            del row["text"]
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in [header, *rows])
    (FIXTURES / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _record("night_and_death", seed=2, texts=10)
    _record("night_as_balrog", seed=2, texts=10, compat="balrog")
    _record("sleep_skipped", seed=37, texts=3, sleep="skip", max_turns=120)
    precise = {"precise_location": True, "unique_items": False, "edge_only_items": ["water"], "skip_items": ["grass"]}
    _record("precise", seed=6, max_turns=40, **precise)
