"""Crafter's scripted player: the search for ways against a slow one, what it does in need, and how far it gets."""

from collections import deque

import numpy as np
import pytest
from crafter import objects
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.envs import make
from agentrl.envs.crafter_player import FULL, SurvivalPlayer
from agentrl.envs.crafter_routes import (
    BARRED,
    CLEAR,
    FREE,
    LAVA,
    NOWHERE,
    SIDE,
    STEPS,
    THERE,
    around,
    borders,
    cell,
    cells_of,
    far,
    first_turn,
    flat,
)
from agentrl.seeding import held_out_seed


def started(seed=0):
    game = make("crafter", max_turns=10_000)
    game.reset(seed=seed)
    return game, game.simulation


def clear(simulation, material="grass"):
    """An empty world of one material with the player in its middle."""
    for thing in simulation.world.objects:
        if thing is not simulation.player:
            simulation.world.remove(thing)
    simulation.world._mat_map[:] = simulation.world._mat_ids[material]


def ahead_of(simulation):
    return tuple(simulation.player.pos + simulation.player.facing)


def played(game, player, turns):
    """Actions, and whether the game is over."""
    actions = []
    for _ in range(turns):
        actions.append(player())
        _, _, terminated, truncated, info = game.step(actions[-1])
        if terminated or truncated:
            return actions, info
    return actions, info


# Ways


def turns_needed(costs, start, facing, stand, ahead):
    """Turns of the cheapest way, by unit steps through (cell, direction, turns still owed): None if there is none."""
    waiting, seen = deque([(start, facing, 0, 0)]), set()
    while waiting:
        here, looks, owed, spent = waiting.popleft()
        if (here, looks, owed) in seen:
            continue
        seen.add((here, looks, owed))
        if owed:
            waiting.append((here, looks, owed - 1, spent + 1))
            continue
        if stand[here] and ahead[here + STEPS[looks]]:
            return spent
        for way, step in enumerate(STEPS):
            cost = costs[here + step]
            if cost == FREE or (cost > FREE and way == looks):
                waiting.append((here + step, way, int(cost) - 1, spent + 1))
            elif cost != LAVA and way != looks:
                waiting.append((here, way, 0, spent + 1))
    return None


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_first_turn_begins_a_cheapest_way(data):
    """Each advised turn leaves one turn less to go, in a random yard of 5x5 cells."""
    yard = data.draw(st.lists(st.sampled_from([LAVA, BARRED, FREE, FREE, FREE, 2, 5]), min_size=25, max_size=25))
    costs = np.zeros((SIDE, SIDE), dtype=np.int64)
    costs[1:6, 1:6] = np.array(yard).reshape(5, 5)
    costs[3, 3] = FREE
    costs = costs.reshape(-1)
    place = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(cell)
    stand = cells_of(data.draw(st.lists(place, min_size=1, max_size=25)))
    ahead = cells_of(data.draw(st.lists(place, min_size=1, max_size=4)))
    here, facing = cell((2, 2)), data.draw(st.integers(0, 3))
    expected = turns_needed(costs, here, facing, stand, ahead)
    turn = first_turn(costs, here, facing, stand, ahead)
    if expected is None or expected == 0:
        assert turn == (NOWHERE if expected is None else THERE)
        return
    if turn == CLEAR:
        spent = int(costs[here + STEPS[facing]])
        assert spent > FREE
        here += STEPS[facing]
    else:
        assert costs[here + STEPS[turn]] != LAVA
        spent = 1
        here, facing = here + STEPS[turn] * (costs[here + STEPS[turn]] == FREE), turn
    assert turns_needed(costs, here, facing, stand, ahead) == expected - spent


def test_indices_borders_and_distances():
    assert flat(np.ones((64, 64), dtype=int)).sum() == 64 * 64
    assert [cell((5, 7)) + step for step in STEPS] == [cell((4, 7)), cell((6, 7)), cell((5, 6)), cell((5, 8))]
    assert far(cell((5, 7)), cell((2, 11))) == 7
    sides, ends = borders(cell((5, 7)), cell((6, 7)))
    assert set(sides) == {cell((5, 6)), cell((5, 8)), cell((6, 6)), cell((6, 8))}
    assert ends == (cell((4, 7)), cell((7, 7)))
    sides, ends = borders(cell((5, 7)), cell((5, 8)))
    assert set(sides) == {cell((4, 7)), cell((6, 7)), cell((4, 8)), cell((6, 8))}
    assert ends == (cell((5, 6)), cell((5, 9)))


@pytest.mark.parametrize("at", [(1, 1), (30, 2), (63, 63)])
def test_around_is_where_the_package_finds_a_station(at):
    """At the first row and column the package's window is empty."""
    _, simulation = started()
    clear(simulation)
    simulation.world[at] = "table"
    found = around(flat(simulation.world._mat_map == simulation.world._mat_ids["table"]))
    for x in range(64):
        for y in range(64):
            assert found[cell((x, y))] == ("table" in simulation.world.nearby(np.array((x, y)), 1)[0])


# Needs


@pytest.mark.parametrize(("vital", "action"), [("drink", "Do"), ("food", "Do")])
def test_it_drinks_and_eats_until_full(vital, action):
    game, simulation = started()
    clear(simulation)
    simulation.player.inventory[vital] = 3
    if vital == "drink":
        simulation.world[40, 32] = "water"
    else:
        simulation.world.add(objects.Cow(simulation.world, (40, 32)))
    actions, _ = played(game, SurvivalPlayer(simulation), 30)
    assert actions[0] == "Move East"
    assert action in actions
    assert simulation.player.inventory[vital] >= FULL - 1


def test_a_zombie_at_arms_length_is_fought():
    game, simulation = started()
    clear(simulation)
    simulation.world.add(objects.Zombie(simulation.world, (33, 32), simulation.player))
    actions, _ = played(game, SurvivalPlayer(simulation), 12)
    assert actions[:2] == ["Move East", "Do"]
    assert "defeat_zombie" in simulation.unlocked


@pytest.mark.parametrize("ground", ["grass", "stone", "path"])
def test_at_night_it_shuts_itself_in_where_nothing_can_reach_it(ground):
    game, simulation = started()
    clear(simulation, ground)
    simulation.player.inventory.update(stone=9, wood_pickaxe=1, energy=2, food=9, drink=9)
    simulation._step = 155
    actions, _ = played(game, SurvivalPlayer(simulation), 60)
    assert actions[-1] == "Sleep"
    assert simulation.player.sleeping
    reached, edge = {tuple(simulation.player.pos.tolist())}, [simulation.player.pos]
    while edge:
        place = edge.pop()
        for step in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            beside = place + step
            if simulation.world[beside][0] in ("grass", "sand", "path") and tuple(beside.tolist()) not in reached:
                reached.add(tuple(beside.tolist()))
                edge.append(beside)
    assert len(reached) <= 2


def test_it_never_walks_towards_lava():
    """A strip of lava, one gap: the way leads through the gap."""
    game, simulation = started()
    clear(simulation)
    simulation.world._mat_map[34, :] = simulation.world._mat_ids["lava"]
    simulation.world[34, 40] = "grass"
    simulation.world[40, 32] = "water"
    simulation.player.inventory["drink"] = 2
    played(game, SurvivalPlayer(simulation), 60)
    assert simulation.player.inventory["drink"] >= 8
    assert simulation.player.health > 0


def test_without_anything_in_the_world_it_does_nothing():
    game, simulation = started()
    clear(simulation, "sand")
    assert played(game, SurvivalPlayer(simulation), 3)[0] == ["Noop"] * 3


# Achievements


def test_a_seed_fixes_its_play():
    first, second = (played(game, game.scripted_player(), 300)[0] for game, _ in (started(7), started(7)))
    assert first == second


def test_tools_are_made_from_the_ground_up():
    """Everything within a few steps, and no creatures: all that needs tools is done."""
    game, simulation = started()
    clear(simulation)
    simulation._balance_chunk = lambda *_: None
    for at, material in enumerate(["tree"] * 9 + ["stone"] * 30 + ["coal"] * 2 + ["iron"] * 2 + ["diamond", "water"]):
        simulation.world[24 + at % 9 * 2, 24 + at // 9 * 2] = material
    _, info = played(game, game.scripted_player(), 400)
    made = {name for name in info["achievements"] if name.startswith(("make", "place", "collect"))}
    assert len(made) == 16


def test_it_reaches_far_more_than_eight_achievements_in_unseen_worlds():
    reached = []
    for number in range(3):
        game = make("crafter", max_turns=600)
        game.reset(seed=held_out_seed(number))
        reached.append(len(played(game, game.scripted_player(), 600)[1]["achievements"]))
    assert min(reached) >= 10
