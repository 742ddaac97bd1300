"""Recordings replayed: ours in golden/, the original games' where they are at hand, and broken ones."""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from agentrl.cli import app
from agentrl.errors import UserError
from agentrl.golden.check import GAMES, Verdict, check
from agentrl.golden.crafter import start_of

FOLDER = Path(__file__).parent / "golden"
OURS = sorted(FOLDER.glob("*.jsonl"))
ORIGINALS = [
    path
    for path in sorted((Path(__file__).parents[2] / "shared" / "golden").glob("*/*.jsonl"))
    if path.parent.name in GAMES
]
PLAYED_ANEW = [
    *("babyai_sequence", "babyai_open_binary", "babyai_minigrid_level", "babyai_putnext_crowded"),
    *("babaisai_make_win", "babaisai_lost", "crafter_precise", "crafter_sleep_skipped"),
]
"""Recordings in which every field is compared; few enough rows for many replays."""

Row = dict[str, Any]


def rows_of(name: str) -> list[Row]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


def verdict(folder: Path, rows: Iterable[Row]) -> Verdict:
    file = folder / "recording.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return check(file)


def found(folder: Path, rows: list[Row]) -> str:
    """What is told of a recording that is not right: its first difference, or why it is none."""
    try:
        return verdict(folder, rows).difference
    except UserError as error:
        return str(error)


def run(*files: Path | str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["check-golden", *map(str, files)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_our_own_recordings_replay(path):
    assert check(path).difference == ""


@pytest.mark.skipif(not ORIGINALS, reason="the originals' recordings are not here")
@pytest.mark.parametrize("path", ORIGINALS, ids=lambda path: path.stem)
def test_c24_transcripts_of_the_original_games_match(path):
    """Every row: text, reward, progression and end; and what the game is like inside."""
    assert check(path).difference == ""


def test_our_recordings_hold_every_kind_of_end():
    last = [rows_of(path.stem)[-2] for path in OURS if path.stem != "crafter_cases"]
    assert any(row["terminated"] and row["progression"] == 1 for row in last)
    assert any(row["terminated"] and row["progression"] < 1 for row in last), "death"
    assert any(row["truncated"] for row in last)
    assert any("candidate" in row for path in OURS for row in rows_of(path.stem))


def test_the_two_ways_of_the_night_part_when_it_falls():
    isolated, balrog = (rows_of(f"crafter_night_{way}")[1:-1] for way in ("and_death", "as_balrog"))
    apart = [n for n, (a, b) in enumerate(zip(isolated, balrog, strict=False)) if a["state"] != b["state"]]
    assert apart[0] == 147, "the first step with daylight below 0.5"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("golden")


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return {"x": 1} if value == {} else ["x"] if value == [] else 0


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_change_of_any_field_is_found(folder, data):
    rows = rows_of(data.draw(st.sampled_from(PLAYED_ANEW)))
    part: Any = data.draw(st.sampled_from(rows))
    path = []
    while True:
        key = data.draw(st.sampled_from(sorted(part) if isinstance(part, dict) else range(len(part))))
        path.append(key)
        if not isinstance(part[key], dict | list) or not part[key]:
            break
        part = part[key]
    part[key] = changed(part[key])
    assert found(folder, rows), path


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_another_action_is_found_even_where_it_would_have_done_the_same(folder, data):
    rows = rows_of(data.draw(st.sampled_from(PLAYED_ANEW)))
    row = data.draw(st.sampled_from([row for row in rows if row["kind"] == "step" and "candidate" not in row]))
    row["action"] = data.draw(st.sampled_from([name for name in rows[0]["action_space"] if name != row["action"]]))
    assert found(folder, rows)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_row_left_out_or_told_twice_is_found(folder, data):
    rows = rows_of(data.draw(st.sampled_from(PLAYED_ANEW[:4])))
    place = data.draw(st.integers(0, len(rows) - 1))
    assert found(folder, [*rows[:place], *rows[place + 1 :]])
    assert found(folder, [*rows[:place], rows[place], *rows[place:]])


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (3, {"reward": 0.1}),
        (4, {"terminated": True}),
        (5, {"progression": 0.5}),
        (6, {"text": {"long_term_context": "", "short_term_context": ""}}),
        (7, {"step": 9}),
        (-1, {"failed_candidates": ["x"]}),
        (-1, {"stats": {"score": 99.0}}),
        (-1, {"stats": {"achievements": {}}}),
    ],
)
@pytest.mark.parametrize("name", ["crafter_ordered", "crafter_stock"])
def test_a_change_of_a_recording_in_the_originals_form_is_found(tmp_path, name, row, change):
    rows = rows_of(name)
    rows[row].update(change)
    assert next(iter(change)) in found(tmp_path, rows).replace("over", "terminated")


@pytest.mark.parametrize("name", ["crafter_ordered", "crafter_stock"])
@pytest.mark.parametrize("field", ["map", "objects", "player_pos", "daylight", "world_seed"])
def test_another_first_world_is_found(tmp_path, name, field):
    rows = rows_of(name)
    rows[0]["initial"][field] = start_of(5)[field] if field in ("map", "objects") else 12
    if field == "world_seed":
        rows[0]["config"]["seed"] = 11
    assert f"initial, {field}" in found(tmp_path, rows)


def test_the_random_state_of_the_first_world_is_compared(tmp_path):
    rows = rows_of("crafter_ordered")
    rows[0]["initial"]["rng_state"][1][77] += 1
    assert "header, initial, rng_state[1][77]" in found(tmp_path, rows)


def test_a_changed_case_is_found(tmp_path):
    rows = rows_of("crafter_cases")
    rows[3]["long"]["precise"] = rows[3]["long"]["precise"].replace("1 step", "2 steps", 1)
    told = verdict(tmp_path, rows)
    assert str(told).startswith("2 cases the same, then DIFFERENT: case 2, long.precise, line ")


def test_a_world_that_the_original_drew_itself_is_found_by_its_own_seed(tmp_path):
    rows = rows_of("crafter_ordered")
    assert rows[0]["config"]["seed"] == rows[0]["seed"] == 11
    rows[0]["config"]["seed"], rows[0]["seed"] = None, 0
    assert verdict(tmp_path, rows).difference == ""
    del rows[0]["initial"]["world_seed"]
    assert "header.seed = None" in found(tmp_path, rows)


def test_crafters_limit_is_the_loops_in_the_original_and_the_games_own_here(tmp_path):
    rows = rows_of("crafter_ordered")
    rows[0]["max_steps"] = rows[-2]["step"]
    assert not rows[-2]["truncated"]
    assert verdict(tmp_path, rows).difference == ""
    rows[0]["max_steps"] -= 1
    assert "over here" in found(tmp_path, rows)
    rows = rows_of("crafter_precise")
    rows[-2]["truncated"] = False
    assert "truncated: True, recorded False" in found(tmp_path, rows)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"env": "babay"}, "header.env = 'babay'.* did you mean 'babyai'"),
        ({"task": "gotoo"}, "babyai has no such task; did you mean 'babyai/goto'"),
        ({"options": {"num_dist": 3}}, "num_dist.* did you mean 'num_dists'"),
        ({"options": None, "config": {"num_dist": 3}}, "header.config.num_dist: .* did you mean num_dists"),
        ({"seed": None}, "header.seed = None"),
        ({"seed": -1}, "header.seed = -1"),
        ({"seed": "9"}, "line 1: seed: "),
        ({"env": None}, "line 1: env: "),
    ],
)
def test_a_header_that_no_game_fits_is_a_mistake(tmp_path, change, told):
    header, *rows = rows_of("babyai_sequence")
    with pytest.raises(UserError, match=told):
        verdict(tmp_path, [{**header, **change}, *rows])


def test_a_crafter_of_another_size_is_a_mistake(tmp_path):
    header, *rows = rows_of("crafter_ordered")
    with pytest.raises(UserError, match=r"config.area = \[32, 32\]: cannot be played again, only \[64, 64\]"):
        verdict(tmp_path, [{**header, "config": {"area": [32, 32]}}, *rows])


def test_cases_of_another_game_are_a_mistake(tmp_path):
    header, *cases = rows_of("crafter_cases")
    with pytest.raises(UserError, match="babyai"):
        verdict(tmp_path, [{**header, "env": "babyai", "task": "goto", "seed": 1, "options": {}}, *cases])


def test_the_command_prints_a_line_a_file_and_tells_by_its_status(tmp_path):
    good = FOLDER / "babyai_sequence.jsonl"
    code, out, err = run(good, FOLDER / "crafter_cases.jsonl")
    assert (code, err) == (0, "")
    assert out == f"{good}: 7 rows, no difference\n{FOLDER / 'crafter_cases.jsonl'}: 6 cases, no difference\n"

    rows = rows_of("babyai_sequence")
    rows[3]["text"]["long_term_context"] += "\na \x1b[31mred\x1b[0m dragon"
    bad = tmp_path / "bad.jsonl"
    bad.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = run(bad, good)
    assert (code, err) == (1, "")
    first, second = out.splitlines()
    assert first.startswith(f"{bad}: 2 rows the same, then DIFFERENT: row 2, text.long_term_context, line ")
    assert first.endswith(r"None, recorded 'a \x1b[31mred\x1b[0m dragon'")
    assert second.endswith("no difference")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        (b"", "first line must be a header"),
        (b"Step,Action\n0,left\n", "line 1: not JSON"),
        (b"\xff\xfe\x00", "no UTF-8"),
        (b"[" * 100_000, "line 1: not JSON"),
        (b"[1, 2]\n", "line 1: not a row"),
        (b'{"kind": ["header"]}\n', "line 1: not a row"),
        (b'{"kind": "end", "stats": {}, "failed_candidates": []}\n', "first line must be a header"),
    ],
)
def test_what_is_no_recording_is_a_mistake_in_one_line(tmp_path, content, told):
    file = tmp_path / "some.jsonl"
    if content is not None:
        file.write_bytes(content)
    code, out, err = run(file, FOLDER / "babyai_sequence.jsonl")
    assert code == 2
    assert "7 rows" in out, "the others are checked all the same"
    assert err.startswith(f"agentrl: {file}")
    assert err.count("\n") == 1
    assert told in err


def test_a_folder_is_a_mistake():
    code, _, err = run(FOLDER)
    assert (code, err.count("\n")) == (2, 1)
    assert "*.jsonl" in err


@pytest.mark.parametrize("cut", [-1, -30, -400])
def test_a_file_cut_short_is_a_mistake(tmp_path, cut):
    text = (FOLDER / "babyai_sequence.jsonl").read_text().rstrip("\n")
    file = tmp_path / "cut.jsonl"
    file.write_text(text[:cut])
    code, _, err = run(file)
    assert code == 2
    assert "Copy it anew" in err
    file.write_text(text[: text.rindex("\n")])
    assert run(file)[0] == 2, "whole rows, and no end"


def test_a_recording_of_nonsense_is_no_traceback(tmp_path):
    rows = rows_of("crafter_stock")
    rows[4]["state"]["pos"] = ["a", None]
    assert "cannot be played on" in verdict(tmp_path, rows).difference
    rows = rows_of("crafter_stock")
    del rows[2]["state"]["inv"]
    assert "cannot be played on: KeyError" in verdict(tmp_path, rows).difference


def test_folded_fields_are_read_as_the_row_before(tmp_path):
    rows = copy.deepcopy(rows_of("babyai_sequence"))
    assert any(row["state"]["objects"] == "same" for row in rows[2:-1])
    rows[1]["state"]["objects"] = "same"
    assert "row 0, state, objects" in found(tmp_path, rows)


def test_where_you_is_lost_the_next_level_is_compared_and_the_recording_left(tmp_path):
    rows = rows_of("babaisai_quirk")
    assert str(verdict(tmp_path, rows)) == "4 rows, no difference; stopped: YOU lost"
    *_, quirk, end = rows
    rows[-1:] = [{**quirk, "step": 4, "env_reset_quirk": False, "reward": 99.0}, end]
    assert verdict(tmp_path, rows).stopped, "what follows is the original's own"
    quirk["state"]["grid"][7][0] += 1
    assert "row 3, state.grid[7][0]: " in found(tmp_path, rows).replace("state, grid", "state.grid")


def test_you_lost_where_it_is_not_is_found(tmp_path):
    rows = rows_of("babaisai_quirk")
    rows[2]["env_reset_quirk"] = True
    assert "row 1: YOU is not lost, recorded as lost" in found(tmp_path, rows)


def test_babaisais_limit_is_terminated_in_the_originals_form_and_truncated_in_ours(tmp_path):
    rows = rows_of("babaisai_limit")
    assert (rows[-2]["terminated"], rows[-2]["truncated"]) == (False, True)
    flags = {"terminated": True, "truncated": False}
    rows[-2] |= flags
    assert "terminated: False, recorded True" in found(tmp_path, rows)
    del rows[0]["options"]
    assert verdict(tmp_path, rows).difference == ""
    rows[-2] |= {"terminated": False}
    assert "over: True, recorded False" in found(tmp_path, rows)
