"""Turns on disk: Parquet or JSONL, one schema for both.

Numbers keep their bits: rewards, values and advantages are float64, logprobs float32 as the sampler computed them (a
logprob of higher precision is rounded to float32). Text must be UTF-8: a lone surrogate becomes "?".
"""

import json
import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agentrl.errors import UserError
from agentrl.records import Turn

SCHEMA_VERSION = 2
"""2 added `reward_parts` and `notes`, which files of version 1 are read without."""

_IDS = pa.list_(pa.int32())
_MESSAGE = pa.struct([pa.field("role", pa.string()), pa.field("content", pa.string())])

SCHEMA = pa.schema(
    [
        pa.field("game", pa.string(), nullable=False),
        pa.field("slot", pa.int64(), nullable=False),
        pa.field("episode", pa.int64(), nullable=False),
        pa.field("turn", pa.int64(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("prompt_ids", _IDS, nullable=False),
        pa.field("reply_ids", _IDS, nullable=False),
        pa.field("reply_logprobs", pa.list_(pa.float32()), nullable=False),
        pa.field("reply_legal", pa.list_(_IDS), nullable=False),
        pa.field("policy_version", pa.int64(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("valid", pa.bool_(), nullable=False),
        pa.field("finish_reason", pa.string(), nullable=False),
        pa.field("reward", pa.float64(), nullable=False),
        pa.field("terminated", pa.bool_(), nullable=False),
        pa.field("truncated", pa.bool_(), nullable=False),
        pa.field("error", pa.string()),
        pa.field("next_prompt_ids", _IDS, nullable=False),
        pa.field("messages", pa.list_(_MESSAGE), nullable=False),
        pa.field("reply_text", pa.string(), nullable=False),
        pa.field("dropped_turns", pa.int64(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("advantage", pa.float64()),
        pa.field("reward_parts", pa.map_(pa.string(), pa.float64()), nullable=False),
        pa.field("notes", pa.map_(pa.string(), pa.string()), nullable=False),
    ],
    metadata={"schema_version": str(SCHEMA_VERSION)},
)
"""One row a turn, the fields of `Turn` in order; `messages` in OpenAI form. Empty in `reply_legal`: all allowed."""

_NEW_IN_2 = tuple(field.name for field in SCHEMA if pa.types.is_map(field.type))

_TEXT_FIELDS = [field.name for field in SCHEMA if field.type == pa.string()]


class TurnFileError(UserError):
    """A file that does not hold turns of this schema; one line."""


def write_turns(path: Path, turns: list[Turn]) -> None:
    """Write turns to a .parquet or .jsonl file, whole or not at all. Raises TurnFileError."""
    suffix = _suffix(path)
    table = _table(path, [_row(turn) for turn in turns])
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    if suffix == ".parquet":
        pq.write_table(table, temporary, compression="zstd")
    else:
        with temporary.open("w", encoding="utf-8") as file:
            for row in map(_with_dicts, table.to_pylist()):
                file.write(json.dumps({"schema_version": SCHEMA_VERSION, **row}, ensure_ascii=False) + "\n")
    os.replace(temporary, path)


def read_turns(path: Path) -> list[Turn]:
    """Read what `write_turns` wrote. Raises TurnFileError for another schema, FileNotFoundError for no file."""
    turns = []
    for table in read_tables(path):
        for row in map(_with_dicts, table.to_pylist()):
            row["reply_legal"] = [tuple(ids) for ids in row["reply_legal"]]
            turns.append(Turn(**row))
    return turns


def read_tables(path: Path, rows: int = 10_000) -> Iterator[pa.Table]:
    """The turns of a file as tables of SCHEMA, at most `rows` turns each: no more is in memory at a time.

    (Of a .jsonl file, all is.) Raises as `read_turns`.
    """
    if _suffix(path) == ".parquet":
        yield from _parquet_tables(path, rows)
    else:
        yield _read_jsonl(path)


def episodes(turns: list[Turn]) -> list[list[Turn]]:
    """Group turns by (game, slot, episode), in order of first appearance, each in order of play."""
    groups: dict[tuple[str, int, int], list[Turn]] = {}
    for turn in turns:
        groups.setdefault((turn.game, turn.slot, turn.episode), []).append(turn)
    return [sorted(group, key=lambda turn: turn.turn) for group in groups.values()]


def _suffix(path: Path) -> str:
    if path.suffix not in (".parquet", ".jsonl"):
        raise TurnFileError(
            f"{path}: turns are kept in .parquet or .jsonl files, not {path.suffix or 'files without suffix'}"
        )
    return path.suffix


def _row(turn: Turn) -> dict[str, Any]:
    row = {name: getattr(turn, name) for name in SCHEMA.names}
    for name in _TEXT_FIELDS:
        row[name] = _utf8(row[name])
    row["messages"] = [_message(message) for message in turn.messages]
    row["notes"] = {_utf8(name): _utf8(text) for name, text in turn.notes.items()}
    return row


def _with_dicts(row: dict[str, Any]) -> dict[str, Any]:
    """A row as Arrow gives it, its maps as dicts."""
    return row | {name: dict(row[name]) for name in _NEW_IN_2}


def _message(message: dict[str, str]) -> dict[str, str]:
    if message.keys() != {"role", "content"}:
        raise TurnFileError(f"a message has the keys {sorted(message)}: the schema keeps exactly role and content")
    return {key: _utf8(text) for key, text in message.items()}


def _utf8(text: str) -> str:
    return text if not text or text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _parquet_tables(path: Path, rows: int) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            # Other tools drop the metadata when they rewrite a file; the columns then decide alone.
            version = (schema.metadata or {}).get(b"schema_version", str(SCHEMA_VERSION).encode()).decode()
            _check_version(path, version)
            _check_columns(path, set(schema.names), version)
            for batch in file.iter_batches(batch_size=rows):
                table = pa.Table.from_batches([batch])
                if version == "1":
                    for name in _NEW_IN_2:
                        table = table.append_column(
                            SCHEMA.field(name), pa.array([{}] * len(table), SCHEMA.field(name).type)
                        )
                yield table.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, ValueError) as error:
        if isinstance(error, TurnFileError):
            raise
        raise TurnFileError(f"{path}: {_first_line(error)}") from None


def _read_jsonl(path: Path) -> pa.Table:
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            place = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise TurnFileError(f"{place}: not JSON: {error}") from None
            if not isinstance(row, dict):
                raise TurnFileError(f"{place}: a turn is a JSON object, this is a {type(row).__name__}")
            version = str(row.pop("schema_version", SCHEMA_VERSION))
            _check_version(place, version)
            _check_columns(place, set(row), version)
            rows.append({name: {} for name in _NEW_IN_2} | row)
    return _table(path, rows)


def _table(path: Path, rows: list[dict[str, Any]]) -> pa.Table:
    try:
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
    except (pa.ArrowException, AttributeError, TypeError, OverflowError) as error:
        raise TurnFileError(f"{path}: a turn does not fit the schema: {_first_line(error)}") from None
    # Arrow keeps `nullable` as a note and checks nothing.
    for field, column in zip(SCHEMA, table.columns, strict=True):
        if column.null_count and not field.nullable:
            raise TurnFileError(f"{path}: {field.name} is null in {column.null_count} turns; it must be set")
    return table


def _check_version(place: Path | str, version: str) -> None:
    if version not in ("1", str(SCHEMA_VERSION)):
        raise TurnFileError(f"{place}: schema_version {version}: this agentrl reads versions 1 and {SCHEMA_VERSION}")


def _check_columns(place: Path | str, columns: set[str], version: str) -> None:
    names = set(SCHEMA.names) - (set(_NEW_IN_2) if version == "1" else set())
    missing = sorted(names - columns)
    unknown = sorted(columns - names)
    if missing or unknown:
        parts = [
            f"{word} {', '.join(columns)}" for word, columns in (("missing", missing), ("unknown", unknown)) if columns
        ]
        raise TurnFileError(f"{place}: not turns of schema version {SCHEMA_VERSION}: {'; '.join(parts)}")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


if [field.name for field in fields(Turn)] != SCHEMA.names:  # pragma: no cover
    raise AssertionError("agentrl.turn_files.SCHEMA and agentrl.records.Turn name different fields")
