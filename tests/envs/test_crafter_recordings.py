"""Crafter episodes replayed from their seed, compared field by field: our own, and those of the original game."""

import copy

import pytest
from crafter_recordings import FIXTURES, ORIGINAL, built, difference, retold, retold_case, scene_options, start_of
from recordings import read

from agentrl.envs.crafter_text import scene, status

OURS = sorted(FIXTURES.glob("*.jsonl"))
ORDERED = sorted(ORIGINAL.glob("*_ordered.jsonl"))
THEIRS = sorted({*ORDERED, *ORIGINAL.glob("*_stock.jsonl")})
CASES = ORIGINAL / "text_cases.jsonl"

needs_the_original = pytest.mark.skipif(not THEIRS, reason="the original's recordings are not here")


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_our_own_recordings_replay(path):
    assert difference(read(path)) is None


@needs_the_original
@pytest.mark.parametrize("path", ORDERED, ids=lambda path: path.stem)
def test_the_originals_recordings_replay_from_their_seed(path):
    """World, random numbers, creatures and map too, not the texts alone."""
    assert difference(read(path)) is None


@needs_the_original
@pytest.mark.parametrize("path", THEIRS, ids=lambda path: path.stem)
def test_the_originals_texts_follow_from_the_state(path):
    for ours, theirs in retold(read(path)):
        assert ours == theirs


@needs_the_original
def test_the_originals_text_cases():
    header, *cases = read(CASES)
    assert len(cases) == 80
    for case in cases:
        assert status(case["inv"]) == case["short"]
        for name, text in case["long"].items():
            assert scene(*retold_case(case), scene_options(header["options"][name])) == text


def test_fixtures_hold_death_and_the_limit_and_a_night():
    assert len(OURS) >= 4
    last = [read(path)[-1] for path in OURS]
    assert any(row["terminated"] for row in last)
    assert any(row["truncated"] for row in last)
    assert any(row["state"]["t"] > 200 for row in last)


def test_the_two_ways_of_the_night_part_when_it_falls():
    isolated, balrog = (read(FIXTURES / f"{name}.jsonl")[1:] for name in ("night_and_death", "night_as_balrog"))
    apart = [number for number, (a, b) in enumerate(zip(isolated, balrog, strict=False)) if a["state"] != b["state"]]
    assert isolated[apart[0]]["state"]["t"] == 148, "the first step with daylight below 0.5"


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (0, {"seed": 7}),
        (0, {"config": {"max_turns": 39}}),
        (1, {"text": {"long_term_context": "", "short_term_context": ""}}),
        (3, {"reward": 0.1}),
        (4, {"terminated": True}),
        (5, {"action": "Sleep"}),
        (6, {"state": {"rng": 0}}),
        (-1, {"truncated": False}),
        (-1, {"progression": 1.0}),
    ],
)
def test_any_change_of_a_recording_is_found(row, change):
    recording = copy.deepcopy(read(FIXTURES / "precise.jsonl"))
    recording[row].update(change)
    assert difference(recording) is not None


def test_a_built_world_is_what_it_was_built_of():
    world, player = built({(3, 4): "T", (5, 5): "."}, [("Cow", (5, 5))], [9, 9], [0, 1], {"health": 9})
    assert (world[3, 4], world[9, 9][1]) == (("tree", None), player)
    assert type(world[5, 5][1]).__name__ == "Cow"


def test_a_seed_always_starts_in_the_middle_of_grass():
    start = start_of(123)
    assert start["player_pos"] == [32, 32]
    assert start["map"][32][32] == "."
