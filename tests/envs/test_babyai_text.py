"""The words of a view: grids built by hand, and minigrid's own view as an oracle."""

import random

import pytest
from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Box, Door, Key, Wall

from agentrl.envs.babyai import BabyAI
from agentrl.envs.babyai_text import describe

RIGHT, DOWN, LEFT, UP = range(4)
OPEN_FIELD = 21
MIDDLE = (10, 10)


def field(**things):
    """An empty field without walls in sight of MIDDLE; things by "xDX_yDY" offsets from there."""
    grid = Grid(OPEN_FIELD, OPEN_FIELD)
    for place, thing in things.items():
        x, y = (int(part[1:].replace("m", "-")) for part in place.split("_"))
        grid.set(MIDDLE[0] + x, MIDDLE[1] + y, thing)
    return grid


def see(grid, direction=UP, position=MIDDLE, carrying=None):
    return describe(grid, position, direction, carrying).splitlines()


def test_nothing_in_sight_is_an_empty_text():
    assert describe(field(), MIDDLE, UP, None) == ""


def test_steps_are_plural_except_one():
    assert see(field(x0_ym1=Ball("red"))) == ["a red ball 1 step forward"]
    assert see(field(x0_ym2=Ball("red"))) == ["a red ball 2 steps forward"]
    assert see(field(xm1_ym1=Key("blue"))) == ["a blue key 1 step left and 1 step forward"]
    assert see(field(x3_ym6=Box("grey"))) == ["a grey box 3 steps right and 6 steps forward"]
    assert see(field(xm2_y0=Box("grey"))) == ["a grey box 2 steps left"]


@pytest.mark.parametrize(
    ("direction", "line"),
    [
        (UP, "a red ball 2 steps right and 1 step forward"),
        (LEFT, None),
        (DOWN, None),
        (RIGHT, "a red ball 1 step left and 2 steps forward"),
    ],
)
def test_places_turn_with_the_agent(direction, line):
    assert see(field(x2_ym1=Ball("red")), direction) == ([line] if line else [])


@pytest.mark.parametrize("direction", range(4))
def test_the_view_ends_six_ahead_and_three_aside(direction):
    ahead = ((1, 0), (0, 1), (-1, 0), (0, -1))[direction]
    aside = (-ahead[1], ahead[0])  # to the right of the agent

    def at(forward, right):
        grid = Grid(OPEN_FIELD, OPEN_FIELD)
        spot = (MIDDLE[i] + forward * ahead[i] + right * aside[i] for i in range(2))
        grid.set(*spot, Ball("red"))
        return see(grid, direction)

    assert at(6, 3) == ["a red ball 3 steps right and 6 steps forward"]
    assert at(6, -3) == ["a red ball 3 steps left and 6 steps forward"]
    assert at(0, 3) == ["a red ball 3 steps right"]
    assert at(7, 0) == at(0, 4) == at(0, -4) == at(-1, 0) == []


def test_order_is_columns_from_the_left_and_far_before_near():
    grid = field(x1_ym1=Ball("red"), x1_ym4=Key("red"), xm3_y0=Box("red"), x0_ym3=Ball("blue"), x0_ym2=Ball("green"))
    assert see(grid) == [
        "a red box 3 steps left",
        "a blue ball 3 steps forward",
        "a green ball 2 steps forward",
        "a red key 1 step right and 4 steps forward",
        "a red ball 1 step right and 1 step forward",
    ]


def test_what_is_carried_comes_first_then_walls_ahead_left_right():
    grid = field(x0_ym2=Wall(), xm1_y0=Wall(), x3_y0=Wall(), x1_ym1=Key("blue"))
    assert see(grid, carrying=Ball("grey")) == [
        "You carry a grey ball",
        "a wall 2 steps forward",
        "a wall 1 step left",
        "a wall 3 steps right",
        "a blue key 1 step right and 1 step forward",
    ]


def test_walls_behind_a_thing_or_off_the_axes_are_not_told():
    assert see(field(x0_ym3=Wall(), x0_ym1=Ball("red"))) == ["a red ball 1 step forward"]
    assert see(field(x3_y0=Wall(), x1_y0=Door("red", is_open=True))) == ["a open red door 1 step right"]
    assert see(field(x2_ym2=Wall(), xm1_ym5=Wall())) == []


def test_the_edge_of_the_world_is_a_wall():
    assert see(field(), UP, position=(0, 2)) == ["a wall 3 steps forward", "a wall 1 step left"]


def test_doors_tell_their_state():
    states = {"open": Door("red", is_open=True), "closed": Door("red"), "locked": Door("red", is_locked=True)}
    for word, door in states.items():
        assert see(field(x0_ym2=door)) == [f"a {word} red door 2 steps forward"]


def test_walls_and_closed_doors_hide_and_open_doors_do_not():
    row = {f"x{i}_ym1".replace("-", "m"): Wall() for i in range(-3, 4) if i != 0}
    ball = {"x0_ym3": Ball("red")}
    assert see(field(**row, **ball, x0_ym1=Door("blue"))) == ["a closed blue door 1 step forward"]
    assert see(field(**row, **ball, x0_ym1=Door("blue", is_open=True))) == [
        "a red ball 3 steps forward",
        "a open blue door 1 step forward",
    ]


def test_the_door_that_the_agent_stands_in_is_not_told():
    assert see(field(x0_y0=Door("blue", is_open=True))) == []


def oracle(level):
    """The same text from minigrid's own view: slices, rotations and a visibility mask."""
    grid, mask = level.gen_obs_grid()
    where = {}
    for i in range(7):
        for j in range(7):
            aside, ahead = i - 3, 6 - j
            parts = [(abs(aside), "left" if aside < 0 else "right")] if aside else []
            parts += [(ahead, "forward")] if ahead else []
            where[i, j] = " and ".join(f"{n} step{'s' * (n != 1)} {side}" for n, side in parts)
    lines = [f"You carry a {level.carrying.color} {level.carrying.type}"] if level.carrying else []
    for path in ([(3, j) for j in range(5, -1, -1)], [(i, 6) for i in (2, 1, 0)], [(i, 6) for i in (4, 5, 6)]):
        first = next((spot for spot in path if grid.get(*spot)), None)
        if first and grid.get(*first).type == "wall":
            lines.append(f"a wall {where[first]}")
    for i in range(7):
        for j in range(7):
            cell = grid.get(i, j)
            if cell and mask[i, j] and cell.type != "wall" and (i, j) != (3, 6):
                door = cell.type == "door"
                word = ("open " if cell.is_open else "locked " if cell.is_locked else "closed ") if door else ""
                lines.append(f"a {word}{cell.color} {cell.type} {where[i, j]}")
    return "\n".join(lines)


@pytest.mark.parametrize("task", ["putnext", "open", "BabyAI-BossLevel-v0", "BabyAI-UnblockPickup-v0"])
def test_every_view_of_random_play_equals_minigrids(task):
    game = BabyAI(task, **({"num_dists": 8} if task in ("putnext", "open") else {}))
    chance = random.Random(1)
    for seed in range(3):
        observation, _ = game.reset(seed=seed)
        player = game.scripted_player()
        for _ in range(60):
            assert observation.scene == oracle(game.level)
            assert observation.status == ""
            action = chance.choice(list(game.actions)) if chance.random() < 0.5 else player()
            observation, _, terminated, truncated, _ = game.step(action)
            if terminated or truncated:
                break


def test_sight_through_any_clutter_equals_minigrids():
    level = BabyAI("BabyAI-BossLevel-v0").level
    chance = random.Random(0)
    for _ in range(400):
        density = chance.uniform(0.05, 0.5)
        for i in range(len(level.grid.grid)):
            thing = chance.choice([Wall(), Wall(), Ball("red"), Door("blue"), Door("grey", is_open=True)])
            level.grid.grid[i] = thing if chance.random() < density else None
        level.agent_pos = (chance.randrange(level.width), chance.randrange(level.height))
        level.agent_dir = chance.randrange(4)
        level.grid.set(*level.agent_pos, None)
        assert describe(level.grid, level.agent_pos, level.agent_dir, level.carrying) == oracle(level)
