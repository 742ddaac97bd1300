"""What an episode told, turn by turn, in a form that two processes can compare."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

Told = dict[str, str]
"""What a reset or a step told, by name, as short prints that differ where the values do."""

SHOWN = 60


def printed(record: Mapping[str, Any]) -> Told:
    """A long value is cut, and its hash stands for the rest."""
    return {name: _short(repr(value)) for name, value in record.items()}


def first_difference(one: Sequence[Told], other: Sequence[Told]) -> str | None:
    """Where two episodes part; None if they are equal."""
    for turn, (a, b) in enumerate(zip(one, other, strict=False)):
        for name in a:
            if a[name] != b[name]:
                return f"turn {turn}: {name} is {b[name]}, was {a[name]}"
    return None if len(one) == len(other) else f"it has {len(other) - 1} turns, had {len(one) - 1}"


def _short(text: str) -> str:
    if len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]}... (sha256 {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]})"
