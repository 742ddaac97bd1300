"""Turns go to disk and come back with every bit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrl.records import FREE, Turn
from agentrl.turn_files import SCHEMA, TurnFileError, episodes, read_turns, write_turns

TEXT = st.text(max_size=20)
IDS = st.lists(st.integers(0, 2**31 - 1), max_size=5)
FLOAT32 = st.floats(width=32)
FLOAT64 = st.floats()
SUFFIXES = [".parquet", ".jsonl"]

TURNS = st.builds(
    Turn,
    game=TEXT,
    slot=st.integers(0, 2**40),
    episode=st.integers(0, 2**40),
    turn=st.integers(0, 2**40),
    seed=st.integers(0, 2**63 - 1),
    prompt_ids=IDS,
    reply_ids=IDS,
    reply_logprobs=st.lists(FLOAT32, max_size=5),
    reply_legal=st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple), max_size=4),
    policy_version=st.integers(0, 2**40),
    action=TEXT,
    valid=st.booleans(),
    finish_reason=st.sampled_from(["stop", "length", "error"]),
    reward=FLOAT64,
    terminated=st.booleans(),
    truncated=st.booleans(),
    error=st.none() | TEXT,
    next_prompt_ids=IDS,
    messages=st.lists(st.builds(lambda role, content: {"role": role, "content": content}, TEXT, TEXT), max_size=3),
    reply_text=TEXT,
    dropped_turns=st.integers(0, 2**40),
    value=st.none() | FLOAT64,
    advantage=st.none() | FLOAT64,
    reward_parts=st.dictionaries(TEXT, FLOAT64, max_size=3),
    notes=st.dictionaries(TEXT, TEXT, max_size=2),
)


def a_turn(**changes: object) -> Turn:
    turn = Turn("babyai/goto", 0, 0, 0, 7, [1, 2], [3, 4], [-0.5, -0.25], [FREE, (4,)])
    return replace(turn, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(TURNS, max_size=4))
def test_round_trip(turns: list[Turn], suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"turns{suffix}"
    write_turns(path, turns)
    # repr tells -0.0 from 0.0, tuples from lists, and lets nan equal nan.
    assert repr(read_turns(path)) == repr(turns)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_logprobs_are_float32_whatever_the_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    write_turns(path, [a_turn(reply_logprobs=[-0.1], reward=0.1)])
    (turn,) = read_turns(path)
    assert turn.reply_logprobs == [float(np.float32(-0.1))] != [-0.1]
    assert turn.reward == 0.1


def test_the_schema_is_stable() -> None:
    """Old files must stay readable: a change here needs a new schema_version."""
    assert SCHEMA.metadata == {b"schema_version": b"2"}
    assert {field.name: str(field.type) for field in SCHEMA} == {
        "game": "string",
        "slot": "int64",
        "episode": "int64",
        "turn": "int64",
        "seed": "int64",
        "prompt_ids": "list<item: int32>",
        "reply_ids": "list<item: int32>",
        "reply_logprobs": "list<item: float>",
        "reply_legal": "list<item: list<item: int32>>",
        "policy_version": "int64",
        "action": "string",
        "valid": "bool",
        "finish_reason": "string",
        "reward": "double",
        "terminated": "bool",
        "truncated": "bool",
        "error": "string",
        "next_prompt_ids": "list<item: int32>",
        "messages": "list<item: struct<role: string, content: string>>",
        "reply_text": "string",
        "dropped_turns": "int64",
        "value": "double",
        "advantage": "double",
        "reward_parts": "map<string, double>",
        "notes": "map<string, string>",
    }


def test_jsonl_is_json_in_openai_form(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    messages = [{"role": "system", "content": "Rules\u2028é"}, {"role": "user", "content": "a wall"}]
    write_turns(path, [a_turn(messages=messages), a_turn(turn=1)])
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert [row["schema_version"] for row in rows] == [2, 2]
    assert rows[0]["messages"] == messages


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_lone_surrogate_of_a_game_does_not_stop_training(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    write_turns(path, [a_turn(reply_text="a\ud800b", messages=[{"role": "user", "content": "\udfff"}])])
    (turn,) = read_turns(path)
    assert (turn.reply_text, turn.messages[0]["content"]) == ("a?b", "?")


def _parquet_without_reward(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["reward"]), path)


def _parquet_with_more(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.append_column("colour", pa.array(["red"])), path)


def _parquet_of_text_rewards(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.schema.get_field_index("reward"), "reward", pa.array(["much"])), path)


def _parquet_of_the_future(path: Path) -> None:
    pq.write_table(pq.read_table(path).replace_schema_metadata({"schema_version": "3"}), path)


def _garbage(path: Path) -> None:
    path.write_bytes(b"PAR1 and nothing")


def _json(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        row = json.loads(path.read_text())
        change(row)
        path.write_text(json.dumps(row) + "\n")

    return edit


def _torn(path: Path) -> None:
    path.write_text(path.read_text() + '{"game": "ba')


@pytest.mark.parametrize(
    ("suffix", "damage", "told"),
    [
        (".parquet", _parquet_without_reward, "missing reward"),
        (".parquet", _parquet_with_more, "unknown colour"),
        (".parquet", _parquet_of_text_rewards, "much"),
        (".parquet", _parquet_of_the_future, "schema_version 3"),
        (".parquet", _garbage, "t.parquet"),
        (".jsonl", _json(lambda row: row.pop("reward")), "line 1: .*missing reward"),
        (".jsonl", _json(lambda row: row.update(colour="red")), "line 1: .*unknown colour"),
        (".jsonl", _json(lambda row: row.update(schema_version=3)), "schema_version 3"),
        (".jsonl", _json(lambda row: row.update(reward="much")), "much"),
        (".jsonl", _json(lambda row: row.update(reward=None)), "reward is null"),
        (".jsonl", _torn, "line 2: not JSON"),
    ],
)
def test_another_schema_is_one_clear_line(
    suffix: str, damage: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    path = tmp_path / f"t{suffix}"
    write_turns(path, [a_turn()])
    damage(path)
    with pytest.raises(TurnFileError, match=told) as caught:
        read_turns(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_columns_may_come_in_any_order_and_without_metadata(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    write_turns(path, [a_turn()])
    if suffix == ".parquet":
        table = pq.read_table(path)
        pq.write_table(table.select(table.schema.names[::-1]).replace_schema_metadata(None), path)
    else:
        row = json.loads(path.read_text())
        del row["schema_version"]
        path.write_text(json.dumps(dict(reversed(row.items()))))
    assert read_turns(path) == [a_turn()]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_of_version_1_has_no_parts_and_no_notes(suffix: str, tmp_path: Path) -> None:
    path, new = tmp_path / f"t{suffix}", ["reward_parts", "notes"]
    write_turns(path, [a_turn(reward_parts={"game": 1.0}, notes={"judge": "well done"}), a_turn(turn=1)])
    if suffix == ".parquet":
        pq.write_table(pq.read_table(path).drop_columns(new).replace_schema_metadata({"schema_version": "1"}), path)
    else:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        old = [{name: cell for name, cell in row.items() if name not in new} | {"schema_version": 1} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in old))
    assert read_turns(path) == [a_turn(), a_turn(turn=1)]


def test_what_cannot_be_kept_is_refused_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_turns(path, [a_turn()])
    for bad in (
        a_turn(messages=[{"role": "user", "content": "x", "name": "n"}]),
        a_turn(reply_ids=[2**31]),
        a_turn(reward=None),
    ):
        with pytest.raises(TurnFileError):
            write_turns(path, [bad])
    with pytest.raises(TurnFileError, match=r"t\.txt"):
        write_turns(tmp_path / "t.txt", [])
    assert read_turns(path) == [a_turn()]
    assert list(tmp_path.iterdir()) == [path]


def test_episodes_group_in_order() -> None:
    keys = [("a", 0, 0, 0), ("b", 0, 0, 0), ("a", 1, 0, 1), ("a", 1, 0, 0), ("a", 0, 1, 0), ("a", 0, 0, 1)]
    turns = [a_turn(game=game, slot=slot, episode=episode, turn=turn) for game, slot, episode, turn in keys]
    grouped = [[(t.game, t.slot, t.episode, t.turn) for t in group] for group in episodes(turns)]
    assert grouped == [
        [("a", 0, 0, 0), ("a", 0, 0, 1)],
        [("b", 0, 0, 0)],
        [("a", 1, 0, 0), ("a", 1, 0, 1)],
        [("a", 0, 1, 0)],
    ]
