"""Recorded episodes as JSON lines: a header, then reset, steps and end; or a header and cases of text. Read, checked.

The fields are those of the recordings of the original games, so that one file format serves both: a `config` in the
header is that of the original's wrapper, `options` are those of our game.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentrl.errors import UserError

Row = dict[str, Any]
Pair = Annotated[list[int], Field(min_length=2, max_length=2)]


class Strict(BaseModel):
    """What a recording must have; what else it has is kept, and compared where the game knows it."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class Text(Strict):
    long_term_context: str
    short_term_context: str


class Header(Strict):
    """Attributes: env: the game's name; seed: None where the original drew one itself."""

    env: str
    task: str = "default"
    seed: int | None = None
    max_steps: int | None = None
    config: Row | None = None
    options: Row | None = None


class Reset(Strict):
    step: int = 0
    text: Text | None = None
    state: Row


class Step(Strict):
    """Attributes: candidate: the reply that was no action, for which the default action was played."""

    step: int
    action: str
    candidate: str | None = None
    reward: float
    terminated: bool
    truncated: bool
    text: Text | None = None
    progression: float
    state: Row
    env_reset_quirk: bool = False


class End(Strict):
    stats: Row
    failed_candidates: list[str]


class Case(Strict):
    """What surrounds a Crafter player, and what the texts say of it under several options."""

    pos: Pair
    facing: Pair
    inv: dict[str, int]
    sleeping: bool
    dead: bool
    x0: int
    y0: int
    map: list[str]
    short: str
    long: dict[str, str]


KINDS: dict[str, type[Strict]] = {"header": Header, "reset": Reset, "step": Step, "end": End, "case": Case}

Shape = TypeVar("Shape", bound=BaseModel)


@dataclass(frozen=True)
class Recording:
    """One file.

    Attributes:
        rows: the reset's and the steps', as they are in the file; none where there are cases.
        end: what the original said at the end; None where there are cases.
    """

    header: Header
    rows: list[Row]
    end: End | None
    cases: list[Case]


def read(path: Path) -> Recording:
    """The recording in a file.

    Raises:
        UserError: there is no such file, or it is no whole recording; it names the line.
    """
    rows = list(_rows(path))
    kinds = [kind for kind, _, _ in rows]
    if kinds[:1] != ["header"]:
        raise UserError(f"{path}: not a recording: its first line must be a header")
    header = rows[0][2]
    assert isinstance(header, Header)
    if kinds[1:2] == ["case"]:
        _require_order(path, kinds, ["header", *["case"] * (len(rows) - 1)])
        return Recording(header, [], None, [case for _, _, case in rows[1:] if isinstance(case, Case)])
    _require_order(path, kinds, ["header", "reset", *["step"] * (len(rows) - 3), "end"])
    end = rows[-1][2]
    assert isinstance(end, End)
    return Recording(header, [row for _, row, _ in rows[1:-1]], end, [])


def shaped(kind: type[Shape], content: Any, where: str) -> Shape:
    """The content as `kind`; UserError names the field that does not fit, and `where` it is."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        mistake = error.errors()[0]
        field = ".".join(map(str, mistake["loc"])) or "the whole"
        raise UserError(f"{where}: {field}: {mistake['msg']}") from None


def _rows(path: Path) -> Iterator[tuple[str, Row, Strict]]:
    """Each line's kind, its content, and the same in its shape."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a recording: it is no UTF-8 text") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}; give recordings, *.jsonl") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise UserError(f"{where}: not JSON; was the file cut short? Copy it anew") from None
        kind = row.get("kind") if isinstance(row, dict) else None
        if not isinstance(kind, str) or kind not in KINDS:
            raise UserError(f"{where}: not a row of a recording: its kind must be one of {', '.join(KINDS)}")
        yield kind, row, shaped(KINDS[kind], row, where)


def _require_order(path: Path, kinds: list[str], wanted: list[str]) -> None:
    if kinds != wanted:
        raise UserError(f"{path}: no whole recording: header, reset, steps, end; or header, cases. Copy it anew")
