"""Crafter's land and its first creatures: cell for cell those of `crafter.worldgen`, several times faster.

The package asks for noise one cell at a time. Here a compiled loop makes each layer of noise for the whole map, and
only cells that leave something to chance are visited one by one, in the package's order: it decides which random number
each of them gets.
"""

from typing import Any

import numpy as np
from crafter import constants, objects
from numba import njit
from opensimplex import OpenSimplex
from opensimplex.internals import _noise3

Map = np.ndarray[Any, np.dtype[Any]]
"""(width, height), unless it says otherwise."""


def generate(world: Any, player: Any) -> None:
    """Fill an empty world around the player."""
    xs, ys = (np.arange(length) for length in world.area)
    distance = np.sqrt((xs[:, None] - player.pos[0]) ** 2 + (ys - player.pos[1]) ** 2)
    tunnels = _lay_ground(world, _Noise(OpenSimplex(world.random.randint(0, 2**31 - 1)), xs, ys), distance)
    _add_creatures(world, player, tunnels, distance)


class _Noise:
    """Layers of noise. Numbers are combined as the package combines them: to the last bit."""

    def __init__(self, simplex: OpenSimplex, xs: Map, ys: Map) -> None:
        self.tables = simplex._perm, simplex._perm_grad_index3
        self.xs, self.ys = xs, ys

    def layer(self, z: int, size: int) -> Map:
        return _layer(self.xs / size, self.ys / size, float(z), *self.tables)

    def tunnels_west_east(self) -> Map:
        return _layer(2 * self.xs / 3, self.ys / 5 / 3, 7.0, *self.tables)

    def tunnels_north_south(self) -> Map:
        return _layer(self.xs / 5 / 3, 2 * self.ys / 3, 7.0, *self.tables)


@njit(cache=True)
def _layer(xs: Map, ys: Map, z: float, perm: Map, gradients: Map) -> Map:
    """Noise at every pair of `xs` (width) and `ys` (height)."""
    values = np.empty((xs.size, ys.size))
    for i in range(xs.size):
        for j in range(ys.size):
            values[i, j] = _noise3(xs[i], ys[j], z, perm, gradients)
    return values


def _lay_ground(world: Any, noise: _Noise, distance: Map) -> Map:
    """Returns where the tunnels are."""
    start = 4 - distance
    start += 2 * noise.layer(8, 3)
    start = 1 / (1 + np.exp(-start))
    water = noise.layer(3, 15) + 0.15 * noise.layer(3, 5) + 0.1
    water -= 2 * start
    mountain = (noise.layer(0, 15) + 0.3 * noise.layer(0, 5)) / 1.3
    mountain -= 4 * start + 0.3 * water

    meadow = start > 0.5
    rock = ~meadow & (mountain > 0.15)
    cave = (noise.layer(6, 7) > 0.15) & (mountain > 0.3)
    tunnels = rock & ~cave & ((noise.tunnels_west_east() > 0.4) | (noise.tunnels_north_south() > 0.4))
    sand = (water > 0.25) & (water <= 0.35) & (noise.layer(4, 9) > -0.2)
    forest = noise.layer(5, 7) > 0
    kinds = np.select(
        [meadow, rock & (cave | tunnels), rock, sand, water > 0.3, forest],
        [world._mat_ids[name] for name in ("grass", "path", "stone", "sand", "water", "tree")],
        default=world._mat_ids["grass"],
    )
    world._mat_map[:] = kinds
    _leave_to_chance(world, noise, mountain)
    return tunnels


def _leave_to_chance(world: Any, noise: _Noise, mountain: Map) -> None:
    """Ores in the stone, and clearings in the forest."""
    draw = world.random.random_sample
    coal, iron, lava = noise.layer(1, 8) > 0, noise.layer(2, 6) > 0.4, noise.layer(6, 5) > 0.35
    stone, tree = (world._mat_map == world._mat_ids[name] for name in ("stone", "tree"))
    cells = np.nonzero(stone | tree)
    facts = (tree, coal, iron, mountain > 0.18, (mountain > 0.3) & lava)
    for x, y, *at in zip(*(values.tolist() for values in (*cells, *(fact[cells] for fact in facts))), strict=True):
        is_tree, may_be_coal, may_be_iron, may_be_diamond, is_lava = at
        if is_tree:
            if not draw() > 0.8:
                world[x, y] = "grass"
        elif may_be_coal and draw() > 0.85:
            world[x, y] = "coal"
        elif may_be_iron and draw() > 0.75:
            world[x, y] = "iron"
        elif may_be_diamond and draw() > 0.994:
            world[x, y] = "diamond"
        elif is_lava:
            world[x, y] = "lava"


def _add_creatures(world: Any, player: Any, tunnels: Map, distance: Map) -> None:
    draw = world.random.random_sample
    grass = world._mat_map == world._mat_ids["grass"]
    cells = np.nonzero(np.isin(world._mat_map, [world._mat_ids[name] for name in constants.walkable]))
    facts = (grass & (distance > 3), distance > 10, tunnels)
    for x, y, *at in zip(*(values.tolist() for values in (*cells, *(fact[cells] for fact in facts))), strict=True):
        pasture, far, tunnel = at
        if pasture and draw() > 0.985:
            world.add(objects.Cow(world, (x, y)))
        elif far and draw() > 0.993:
            world.add(objects.Zombie(world, (x, y), player))
        elif tunnel and draw() > 0.95:
            world.add(objects.Skeleton(world, (x, y), player))
