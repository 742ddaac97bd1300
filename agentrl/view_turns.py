"""Turn files as the page's episodes: a line of the list each, and a chunk that the player loads when it is opened.

Prompts repeat most of what the prompt before them said: a chunk holds each text once, and messages are numbers of
texts. A file is read in pieces and an episode is let go as soon as its last row was seen, so that memory does not grow
with the file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from agentrl.turn_files import read_tables

PIECE = 4096
"""Rows that are read at once."""

SHORT = 80
"""Characters that an instruction has at least; a scene that stands for all past ones has fewer."""

KEY = ("game", "slot", "episode")
PLAIN = (
    *("turn", "action", "valid", "finish_reason", "error", "dropped_turns", "policy_version"),
    *("terminated", "truncated", "reply_text"),
)
"""Columns that a chunk holds as they are."""


@dataclass(slots=True)
class FoundEpisode:
    """An episode of a turn file.

    Attributes:
        line: what the list shows of it, by column.
        chunk: what the player shows, as JSON's types; its dicts have no keys but our own.
        actions, rewards: what a replay needs; of turns that did not break, the game's own reward.
        first_turn: above 0 where the file holds the rest of an episode that began earlier.
    """

    line: dict[str, Any]
    chunk: dict[str, Any]
    actions: list[str]
    rewards: list[float]
    first_turn: int


def read_episodes(path: Path) -> Iterator[FoundEpisode]:
    """The episodes of a .parquet file of turns, each as soon as it is whole.

    Raises:
        TurnFileError: it holds something else.
    """
    tables = read_tables(path, PIECE)
    first = next(tables, None)  # what is no file of turns is told of here
    keys = pq.read_table(path, columns=list(KEY))
    left = Counter(zip(*(keys[name].to_pylist() for name in KEY), strict=True))
    waiting: dict[tuple[Any, ...], list[pa.Table]] = {}
    for table in chain([] if first is None else [first], tables):
        for key, start, length in _runs(table):
            waiting.setdefault(key, []).append(table.slice(start, length))
            left[key] -= length
            if not left[key]:
                yield _episode(pa.concat_tables(waiting.pop(key)))


def _runs(table: pa.Table) -> Iterator[tuple[tuple[Any, ...], int, int]]:
    """Stretches of rows of one episode: its key, the first row, how many."""
    keys = list(zip(*(table[name].to_pylist() for name in KEY), strict=True))
    start = 0
    for row in range(1, len(keys) + 1):
        if row == len(keys) or keys[row] != keys[start]:
            yield keys[start], start, row - start
            start = row


def _episode(table: pa.Table) -> FoundEpisode:
    table = table.drop_columns(["prompt_ids", "next_prompt_ids"]).combine_chunks()
    order = pc.sort_indices(table["turn"])
    if order.to_pylist() != list(range(len(table))):
        table = table.take(order).combine_chunks()
    texts, messages, instruction = _messages(table["messages"])
    rows = {name: table[name].to_pylist() for name in table.column_names if name not in ("messages", "reply_legal")}
    parts = [dict(pairs) for pairs in rows["reward_parts"]]
    errors = rows["error"]
    line = {
        "task": rows["game"][0],
        "seed": rows["seed"][0],
        "slot": rows["slot"][0],
        "episode": rows["episode"][0],
        "length": len(table),
        "return": number(sum(rows["reward"])),
        "invalid": sum(not valid for valid in rows["valid"]),
        "error": errors[-1] or "",
        "ending": _ending(rows),
        "success": None,
        "progression": None,
    }
    chunk = {
        "texts": texts,
        "messages": messages,
        "instruction": instruction,
        **{name: rows[name] for name in PLAIN},
        **{name: [number(value) for value in rows[name]] for name in ("reward", "value", "advantage")},
        "parts": [_pairs(part) if set(part) != {"game"} else [] for part in parts],
        "notes": [_pairs(dict(pairs)) for pairs in rows["notes"]],
        "ids": rows["reply_ids"],
        "logprobs": [[number(value, 4) for value in row] for row in rows["reply_logprobs"]],
        "legal": _legal(table["reply_legal"]),
    }
    sound = [row for row, error in enumerate(errors) if error is None]
    rewards = [parts[row].get("game", rows["reward"][row]) for row in sound]
    return FoundEpisode(line, chunk, [rows["action"][row] for row in sound], rewards, rows["turn"][0])


def _messages(column: pa.ChunkedArray) -> tuple[list[str], list[list[int]], int]:
    """Each text once; of each turn, role and text in turn: [role, text, role, text, ...], roles as texts, too.

    Then how many characters of the first message are instruction, where no system message says so: what the first
    messages of all turns have in common, up to a blank line.
    """
    lists = pa.concat_arrays(column.chunks)
    flat = lists.flatten()
    texts: dict[str, int] = {}

    def numbered(field: str) -> list[int]:
        encoded = pc.struct_field(flat, field).dictionary_encode()
        numbers = [texts.setdefault(text or "", len(texts)) for text in encoded.dictionary.to_pylist()]
        return [numbers[index] for index in encoded.indices.to_pylist()]

    roles, contents = numbered("role"), numbered("content")
    messages, start = [], 0
    for count in pc.list_value_length(lists).to_pylist():
        end = start + (count or 0)
        messages.append([value for pair in zip(roles[start:end], contents[start:end], strict=True) for value in pair])
        start = end
    known = list(texts)
    return known, messages, _instruction([row for row in messages if row], known)


def _instruction(messages: list[list[int]], texts: list[str]) -> int:
    firsts = {row[1] for row in messages}
    if not firsts or any(texts[row[0]] == "system" for row in messages):
        return 0
    if len(firsts) == 1:
        alone, length = any(len(row) == 2 for row in messages), len(texts[firsts.pop()])
        return 0 if alone or length < SHORT else length
    # What the first and the last in alphabetical order share, all share.
    one, other = (select(texts[index] for index in firsts) for select in (min, max))
    same = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    return one.rfind("\n\n", 0, same) + 2 if "\n\n" in one[:same] else 0


def _legal(column: pa.ChunkedArray) -> list[list[int]]:
    """At each place of each reply, how many tokens were legal, 0 for all; nothing where all were everywhere."""
    lists = pa.concat_arrays(column.chunks)
    sizes = pc.list_value_length(lists.flatten()).to_pylist()
    legal, start = [], 0
    for count in pc.list_value_length(lists).to_pylist():
        legal.append(sizes[start : start + count])
        start += count
    return [row if any(row) else [] for row in legal]


def _ending(rows: dict[str, list[Any]]) -> str:
    if rows["error"][-1] is not None:
        return "error"
    if rows["terminated"][-1]:
        return "ended"
    return "time limit" if rows["truncated"][-1] else "cut"


def _pairs(mapping: dict[str, Any]) -> list[list[Any]]:
    return [[name, number(value) if isinstance(value, float) else value] for name, value in mapping.items()]


def number(value: float | None, digits: int = 6) -> float | None:
    """Rounded to significant digits, so that a page of many stays small; None where it is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")
