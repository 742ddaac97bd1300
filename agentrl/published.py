"""Figures that others published, with their source: to be shown beside what is measured here, never mixed with it."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from agentrl.errors import UserError, did_you_mean


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table. `games` and `tasks` map to progression and standard error, in percent, None where
    none is given."""

    name: str
    agent: str | None
    source: str
    date: str
    note: str
    games: dict[str, dict[str, float | None]]
    tasks: dict[str, dict[str, float | None]]
    average_of_six: float | None

    @property
    def cited(self) -> str:
        """Where it is from, and what is to be known of it."""
        return "; ".join(filter(None, (f"{self.source}, {self.date}", self.agent and f"agent {self.agent}", self.note)))


@cache
def published_rows() -> dict[str, PublishedRow]:
    """Name -> row."""
    content: dict[str, Any] = json.loads((files("agentrl") / "published_rows.json").read_text(encoding="utf-8"))
    return {row["name"]: PublishedRow(**row) for row in content["rows"]}


def find_rows(names: list[str]) -> list[PublishedRow]:
    """The rows of these names, in any case; `all` is all of them.

    Raises:
        UserError: there is none of a name.
    """
    known = published_rows()
    if "all" in names:
        return list(known.values())
    by_lower = {name.lower(): row for name, row in known.items()}
    for name in names:
        if name.lower() not in by_lower:
            raise UserError(
                f"--published {name}: no such row{did_you_mean(name, known)}; known: all, {', '.join(known)}"
            )
    return [by_lower[name.lower()] for name in names]
