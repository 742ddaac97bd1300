"""Crafter's recordings: the first world whole; then the player, what is near, the map's changes, random numbers."""

from typing import Any
from zlib import crc32

import numpy as np
from crafter import constants

from agentrl import envs
from agentrl.envs.crafter import ACHIEVEMENTS, Crafter
from agentrl.envs.crafter_world import AREA, PICTURE, VIEW, Simulation, world_seed
from agentrl.errors import UserError
from agentrl.golden.recording import Header, Row
from agentrl.golden.replay import Replay, check_options, compare_fields, seed_of

MATERIALS = dict(zip("w.s_aTLcidtf", constants.materials, strict=True))
CHARACTERS = {material: character for character, material in MATERIALS.items()}
EXTRA = {"Zombie": "cooldown", "Skeleton": "reload", "Arrow": "facing", "Plant": "grown"}
NEAR = 9
"""Creatures are recorded up to so many cells away, in the larger of the two directions."""

SCENE: Row = {"unique_items": True, "precise_location": False, "skip_items": [], "edge_only_items": []}
"""The original's options of its texts, with their defaults."""
FIXED: Row = {"area": list(AREA), "view": list(VIEW), "size": [PICTURE, PICTURE], "reward": True, "length": 10_000}
"""Options of the original that this game has at one value. Size matters: night costs random numbers by the pixel."""
LIMIT = "max_episode_steps"


class CrafterReplay(Replay):
    """The original's world is that of the seed in its config, or, where it drew one, of the world's own seed."""

    game: Crafter

    def __init__(self, header: Header) -> None:
        super().__init__()
        self.splits_flags = self.flags_limit = header.options is not None  # the original's loop counts, not the game
        self.initial: Row = header.model_dump().get("initial") or {}
        options = our_options(header) if header.options is None else header.options
        game = envs.make(f"crafter/{header.task}", **options)
        assert isinstance(game, Crafter)
        self.game = game
        self._known: Any = None
        seed = (header.config or {}).get("seed", header.seed)
        drawn = self.initial.get("world_seed") if seed is None else None
        if drawn is None:
            self.seed = seed_of(seed)
            self.world_seed = world_seed(self.seed)
        else:
            self.seed, self.world_seed = 0, seed_of(drawn)
            begin_world = game.simulation.begin_world
            game.simulation.begin = lambda seed, episode=1: begin_world(self.world_seed)  # type: ignore[method-assign]

    def compare_header(self, header: Header) -> None:
        super().compare_header(header)
        recorded = {name: value for name, value in self.initial.items() if value is not None}
        compare_fields("header, initial", start_of(self.world_seed), recorded)

    def progression(self, info: Row) -> float:
        return len(info["achievements"]) / len(ACHIEVEMENTS)

    def stats(self, last: Row) -> Row:
        counts = {name: last["state"]["ach"].get(name, 0) for name in sorted(ACHIEVEMENTS)}
        return {"score": float(len(last["state"]["ach"])), "achievements": counts}

    def state(self) -> Row:
        simulation = self.game.simulation
        world, player = simulation.world, simulation.player
        _, words, place, *_ = world.random.get_state()
        return {
            "t": simulation._step,
            "pos": player.pos.tolist(),
            "facing": list(player.facing),
            "sleeping": player.sleeping,
            "inv": {name: count for name, count in player.inventory.items() if count},
            "ach": {name: count for name, count in player.achievements.items() if count},
            "cnt": [player._hunger, player._thirst, player._fatigue, player._recover, player._last_health],
            "day": round(float(world.daylight), 4),
            "obj": [creature(thing) for thing in world.objects[1:] if max(abs(thing.pos - player.pos)) <= NEAR],
            "map": self._changes(),
            "rng": crc32(words.tobytes() + int(place).to_bytes(4, "little")),
        }

    def _changes(self) -> list[list[Any]]:
        """Cells of another material than in the row before: [x, y, character]."""
        world = self.game.simulation.world
        now = world._mat_map.copy()
        before, self._known = now if self._known is None else self._known, now
        return [[int(x), int(y), CHARACTERS[world[x, y][0]]] for x, y in np.argwhere(now != before)]


def our_options(header: Header) -> Row:
    """The game's options that play as the original does with those of its wrapper.

    Raises:
        UserError: an option that our game does not know, or has at another value.
    """
    config = header.config or {}
    check_options(config, [*SCENE, *FIXED, LIMIT, "seed"])
    for name, value in FIXED.items():
        if config.get(name, value) != value:
            raise UserError(f"header.config.{name} = {config[name]!r}: cannot be played again, only {value!r} can")
    limit = header.max_steps or config.get(LIMIT)
    scene = {name: config.get(name, value) for name, value in SCENE.items()}
    return {**scene, **({"max_turns": limit} if limit else {}), "compat": "balrog"}


def start_of(own_seed: int) -> Row:
    """The world of this seed of its own, before the first step."""
    simulation = Simulation()
    simulation.begin_world(own_seed)
    world = simulation.world
    name, words, *rest = world.random.get_state()
    return {
        "world_seed": own_seed,
        "player_pos": simulation.player.pos.tolist(),
        "daylight": float(world.daylight),
        "map": ["".join(CHARACTERS[world[x, y][0]] for x in range(AREA[0])) for y in range(AREA[1])],
        "objects": [creature(thing) for thing in world.objects[1:]],
        "rng_state": [name, words.tolist(), *rest],
    }


def creature(thing: Any) -> list[Any]:
    """Class, place, health, and what else decides its next step."""
    name = type(thing).__name__
    extra = [getattr(thing, EXTRA[name])] if name in EXTRA else []
    return [name, *thing.pos.tolist(), thing.health, *(list(map(int, e)) if name == "Arrow" else e for e in extra)]
