"""Episodes replayed from their seed, compared field by field: our own, and those of the original game."""

import copy

import pytest
from recordings import FIXTURES, ORIGINAL, difference, read

OURS = sorted(FIXTURES.glob("*.jsonl"))
THEIRS = sorted(ORIGINAL.glob("*.jsonl"))


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_our_own_recordings_replay(path):
    assert difference(read(path)) is None


@pytest.mark.skipif(not THEIRS, reason="the original's recordings are not here")
@pytest.mark.parametrize("path", THEIRS, ids=lambda path: path.stem)
def test_the_originals_recordings_replay_from_their_seed(path):
    assert difference(read(path)) is None


def test_fixtures_hold_success_and_the_limit_and_replies_that_are_no_action():
    last = [read(path)[-1] for path in OURS]
    assert len(last) >= 6
    assert any(row["terminated"] for row in last)
    assert any(row["truncated"] for row in last)


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (0, {"mission": "go to the moon"}),
        (0, {"max_steps": 63}),
        (0, {"seed": 10}),
        (1, {"text": {"long_term_context": "", "short_term_context": ""}}),
        (3, {"reward": 0.1}),
        (4, {"terminated": True}),
        (5, {"action": "toggle"}),
        (-1, {"truncated": False}),
        (-1, {"progression": 1.0}),
    ],
)
def test_any_change_of_a_recording_is_found(row, change):
    recording = copy.deepcopy(read(FIXTURES / "goto_random.jsonl"))
    recording[row].update(change)
    assert difference(recording) is not None


def test_a_missing_row_is_found():
    assert difference(read(FIXTURES / "open_binary.jsonl")[:-1]) is None, "an unfinished recording is a good one"
    recording = read(FIXTURES / "open_binary.jsonl")
    assert "recorded" in (difference([*recording, recording[-1]]) or "")
