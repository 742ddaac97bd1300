"""The words of a Crafter scene: worlds built by hand, every line of them known."""

import random

import pytest
from crafter import constants
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.envs.crafter_text import ITEMS, SceneOptions, scene, status
from agentrl.golden.crafter import CHARACTERS
from agentrl.golden.crafter_states import built

EMPTY = dict.fromkeys(constants.items, 0) | {"health": 9, "food": 9, "drink": 9, "energy": 9}
GRASS = {(x, y): "." for x in range(64) for y in range(64)}
NO_GRASS = {"skip_items": frozenset({"grass"})}


def see(ground=None, things=(), at=(32, 32), facing=(0, 1), sleeping=False, health=9, **options):
    """The scene on grass without end; places are relative to the player."""
    here = {(at[0] + x, at[1] + y): cell for (x, y), cell in (ground or {}).items()}
    there = [(name, (at[0] + x, at[1] + y)) for name, (x, y) in things]
    inventory = EMPTY | {"health": health}
    world, player = built(GRASS | here, there, list(at), list(facing), inventory, sleeping)
    return scene(world, player, SceneOptions(**options))


def lines(*args, **options):
    return see(*args, **options).split("\n\nYou face")[0].splitlines()[1:]


def test_a_whole_scene():
    assert see({(-3, 0): "T", (1, 1): "w"}, [("Cow", (0, 1))]) == (
        "You see:\n"
        "- grass 1 step to your west\n"
        "- tree 3 steps to your west\n"
        "- cow 1 step to your south\n"
        "- water 2 steps to your south-east\n"
        "\n"
        "You face cow at your front."
    )


def test_the_window_is_nine_wide_and_seven_high():
    for x, y in ((-4, 0), (4, 0), (0, -3), (0, 3), (4, 3), (-4, -3)):
        assert len(lines({(x, y): "T"}, **NO_GRASS)) == 1
    for x, y in ((-5, 0), (5, 0), (0, -4), (0, 4)):
        assert see({(x, y): "T"}, **NO_GRASS).startswith("You see nothing away from you.\n\n")


@pytest.mark.parametrize(
    ("place", "rough", "precise"),
    [
        ((0, -1), "1 step to your north", "1 step north"),
        ((-4, 0), "4 steps to your west", "4 steps west"),
        ((1, 1), "2 steps to your south-east", "1 step south and 1 step east"),
        ((-4, -3), "7 steps to your north-west", "3 steps north and 4 steps west"),
    ],
)
def test_places(place, rough, precise):
    assert lines({place: "d"}, **NO_GRASS) == [f"- diamond {rough}"]
    assert lines({place: "d"}, precise_location=True, **NO_GRASS) == [f"- diamond {precise}"]


def test_of_a_kind_the_nearest_is_told_and_of_two_as_near_the_first_met():
    assert lines({(-4, 0): "T", (0, 2): "T"}, **NO_GRASS) == ["- tree 2 steps to your south"]
    assert lines({(2, 0): "T", (0, -2): "T", (-1, 1): "T"}, **NO_GRASS) == ["- tree 2 steps to your south-west"]


def test_kinds_stand_in_the_order_in_which_they_are_first_met():
    told = lines({(-4, 0): "T", (0, 2): "T", (-3, -3): "s", (1, 0): "i", (1, -1): "c"}, **NO_GRASS)
    assert [line.split()[1] for line in told] == ["tree", "stone", "coal", "iron"]


def test_without_unique_items_every_cell_has_its_line():
    told = lines({(-1, 2): "T", (-1, -2): "T", (1, 0): "s"}, unique_items=False, **NO_GRASS)
    assert told == [
        "- tree 3 steps to your north-west",
        "- tree 3 steps to your south-west",
        "- stone 1 step to your east",
    ]
    assert len(lines({}, unique_items=False)) == 62


def test_a_creature_hides_its_ground():
    assert lines({(1, 0): "a"}, [("Zombie", (1, 0))], **NO_GRASS) == ["- zombie 1 step to your east"]


def test_skipped_kinds_are_not_faced_either():
    assert see({}, **NO_GRASS).endswith("You face nothing at your front.")
    assert see({}).endswith("You face grass at your front.")
    assert see({}, [("Plant", (-1, 0))], facing=(-1, 0)).endswith("You face plant at your front.")


def test_edge_only_kinds_are_told_where_another_kind_borders_on_them():
    lake = {(x, y): "w" for x in range(1, 5) for y in range(-3, 4)}
    options = {"edge_only_items": frozenset({"water"}), "unique_items": False, **NO_GRASS}
    assert len(lines(lake, **options)) == 7
    assert len(lines(lake | {(3, 0): "T"}, **options)) == 7 + 1 + 4
    assert len(lines(lake, [("Zombie", (3, 0))], **options)) == 7 + 1 + 4


@pytest.mark.parametrize("corner", [(0, 0), (63, 0), (0, 63), (63, 63), (0, 30), (63, 30), (30, 0), (30, 63)])
@pytest.mark.parametrize("facing", [(-1, 0), (1, 0), (0, -1), (0, 1)])
def test_the_window_ends_at_the_border_and_nothing_is_faced_beyond(corner, facing):
    x, y = corner
    told = see({}, at=corner, facing=facing, unique_items=False)
    columns, rows = (9 if 4 <= x < 60 else 5), (7 if 3 <= y < 61 else 4)
    assert told.count("- grass") == columns * rows - 1
    inside = 0 <= x + facing[0] < 64 and 0 <= y + facing[1] < 64
    assert told.endswith(f"You face {'grass' if inside else 'nothing'} at your front.")


def test_near_two_borders_the_original_sees_nothing():
    blind = "You see nothing away from you.\n\nYou face nothing at your front."
    for at in ((3, 30), (30, 2), (0, 0), (3, 63), (63, 0)):
        assert see({}, at=at, blind_borders=True) == blind
    for at in ((4, 3), (63, 63), (60, 30), (30, 61)):
        assert see({}, at=at, blind_borders=True) == see({}, at=at) != blind


def test_sleep_and_death():
    asleep = "You are sleeping, and will not be able take actions until energy is full.\n\n\n\nYou see:\n"
    assert see({}, sleeping=True).startswith(asleep)
    assert see({}, health=0).startswith("You died.\n\n\n\nYou see:\n")
    assert see({}, sleeping=True, health=0).startswith(asleep), "who dies asleep is told so by the original too"


def test_status():
    vitals = "Your status:\n- health: 9/9\n- food: 9/9\n- drink: 9/9\n- energy: 9/9\n\n"
    assert status(EMPTY) == vitals + "You have nothing in your inventory."
    carried = dict.fromkeys(constants.items, 1) | {"health": 0, "iron": 9}
    assert status(carried).splitlines() == [
        "Your status:",
        "- health: 0/9",
        *(f"- {name}: 1/9" for name in ("food", "drink", "energy")),
        "",
        "Your inventory:",
        *(f"- {name}: 1" for name in ("sapling", "wood", "stone", "coal")),
        "- iron: 9",
        "- diamond: 1",
        *(f"- {stuff}_{tool}: 1" for tool in ("pickaxe", "sword") for stuff in ("wood", "stone", "iron")),
    ]


def test_every_kind_of_thing_has_its_name():
    grounds = {(x % 9 - 4, x // 9 - 1): CHARACTERS[material] for x, material in enumerate(constants.materials)}
    creatures = [("Zombie", (-4, 3)), ("Cow", (-3, 3)), ("Skeleton", (-2, 3)), ("Arrow", (-1, 3)), ("Plant", (0, 3))]
    assert {line.split()[1] for line in lines(grounds, creatures)} == set(ITEMS)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), at=st.tuples(st.integers(0, 63), st.integers(0, 63)))
def test_unique_lines_are_the_nearest_of_all_lines(seed, at):
    """Whatever the clutter: every line told of a kind is among all of its lines, and none of those is nearer."""
    chance = random.Random(seed)
    ground = {(x, y): chance.choice(list(CHARACTERS.values())) for x in range(-4, 5) for y in range(-3, 4)}
    ground = {(x, y): cell for (x, y), cell in ground.items() if 0 <= at[0] + x < 64 and 0 <= at[1] + y < 64}
    every, unique = lines(ground, at=at, unique_items=False), lines(ground, at=at)
    assert [line.split()[1] for line in unique] == list(dict.fromkeys(line.split()[1] for line in every))
    for line in unique:
        same = [int(other.split()[2]) for other in every if other.split()[1] == line.split()[1]]
        assert line in every
        assert int(line.split()[2]) == min(same)
