"""Crafter's world (arXiv 2109.06780): the rules of the crafter package, the same in every process, without pictures.

The package keeps the creatures of a chunk in a set ordered by memory address and picks from it by number; here they
are ordered by arrival. It draws a picture a step, and at night a picture consumes random numbers; here none is drawn
unless `render` is called, which leaves the random numbers as they were.
"""

from collections import defaultdict
from typing import Any

import crafter
import numpy as np
from crafter import constants, engine, objects

from agentrl.envs.crafter_terrain import generate

AREA = (64, 64)
CHUNK = (12, 12)
VIEW = (9, 9)
ITEM_ROWS = 2
"""Rows of the view that a picture uses for the inventory; the world is seen through the rest, 9 wide and 7 high."""
REACH = 2 * max(VIEW)
"""Creatures farther than this from the player stand still."""
PICTURE = 256
NIGHT_NOISE = (PICTURE // VIEW[0] * VIEW[0]) * (PICTURE // VIEW[1] * (VIEW[1] - ITEM_ROWS))
"""Random numbers that one picture consumes while daylight is below 0.5: one for each pixel of the world it shows."""


def world_seed(seed: int, episode: int = 1) -> int:
    """What seeds the random numbers of the package's `episode`-th world of a seed."""
    return hash((seed, episode)) % (2**31 - 1)


class InOrder(dict[Any, None]):
    """A set that remembers the order of arrival, as far as a chunk needs one."""

    def add(self, thing: Any) -> None:
        self[thing] = None

    def remove(self, thing: Any) -> None:
        del self[thing]


class OrderedWorld(engine.World):
    def reset(self, seed: int | None = None) -> None:
        super().reset(seed)
        self._chunks: dict[tuple[int, int, int, int], InOrder] = defaultdict(InOrder)


class Simulation(crafter.Env):
    """An episode's world, player and rules; there is no limit.

    Args:
        night_pictures: how many pictures a step are paid for at night, in random numbers and without drawing.
    """

    def __init__(self, night_pictures: int = 0) -> None:
        # crafter.Env's own would load the textures, and draw from numpy's global generator.
        self.world = self._world = OrderedWorld(AREA, constants.materials, CHUNK)
        self._night_numbers = night_pictures * NIGHT_NOISE
        self._view = np.array(VIEW)
        self._size = np.array((PICTURE, PICTURE))
        self._local_view: engine.LocalView | None = None

    @property
    def player(self) -> Any:
        return self._player

    @property
    def unlocked(self) -> set[str]:
        return self._unlocked

    def begin(self, seed: int, episode: int = 1) -> None:
        """The package's `episode`-th world of a seed, before any step."""
        self.begin_world(world_seed(seed, episode))

    def begin_world(self, world_seed: int) -> None:
        """The world that this seed of its own random numbers makes, before any step."""
        self._step = 0
        self._world.reset(seed=world_seed)
        self._update_time()
        self._player = objects.Player(self._world, (AREA[0] // 2, AREA[1] // 2))
        self._last_health: int = self._player.health
        self._unlocked: set[str] = set()
        self._world.add(self._player)
        generate(self._world, self._player)

    def step(self, action: str) -> tuple[float, bool]:
        """One step of an action of the package: its reward, and whether the player is dead."""
        self._step += 1
        self._update_time()
        player = self._player
        player.action = action
        for thing in self._world.objects:
            (x, y), (own_x, own_y) = thing.pos.tolist(), player.pos.tolist()  # lists: many times faster than arrays
            if abs(x - own_x) + abs(y - own_y) < REACH:
                thing.update()
        if self._step % 10 == 0:
            for chunk, creatures in self._world.chunks.items():
                self._balance_chunk(chunk, creatures)
        if self._night_numbers and self._world.daylight < 0.5:
            self._world.random.random_sample(self._night_numbers)
        return self._reward_of_step(), player.health <= 0

    def render(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """A picture of (256, 256, 3) bytes. It changes nothing."""
        if self._local_view is None:
            textures = engine.Textures(constants.root / "assets")
            self._local_view = engine.LocalView(self._world, textures, [VIEW[0], VIEW[1] - ITEM_ROWS])
            self._item_view = engine.ItemView(textures, [VIEW[0], ITEM_ROWS])
        before = self._world.random.get_state()
        picture = super().render()
        self._world.random.set_state(before)
        return picture

    def _reward_of_step(self) -> float:
        health = self._player.health
        reward = (health - self._last_health) / 10
        self._last_health = health
        unlocked = {name for name, count in self._player.achievements.items() if count > 0} - self._unlocked
        self._unlocked |= unlocked
        return reward + 1.0 if unlocked else reward
