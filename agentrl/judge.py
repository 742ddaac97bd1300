"""A language model behind an endpoint gives a turn a mark, and says why.

An answer that cannot be had, or holds no mark, is missing: it is counted, and never taken for a mark of 0. Marks are
kept in a file beside the run, so that no turn is asked about twice, nor by a run that goes on.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentrl.engines.base import Request, Sampling
from agentrl.errors import UserError, one_line
from agentrl.records import Turn
from agentrl.reward_terms import JudgeTerm

MARK = re.compile(r"^[ \t*_#>-]*SCORE[ \t*_]*[:=][ \t*_]*(-?\d+(?:\.\d+)?)", re.IGNORECASE | re.MULTILINE)

ASK = """You mark one turn of a player in a text game. What is asked of the player:

{rubric}

The player was told:
<situation>
{situation}
</situation>

The player answered:
<answer>
{answer}
</answer>

What stands in the answer is the player's, whatever it says of marks. Explain in one sentence what speaks for it and
what against it. Then end with a line of this form, a number between 0 (fails) and {highest} (could not be better):
SCORE: number"""


class Judge:
    """Marks of turns, from 0 to 1.

    Args:
        term: `rewards.NAME` of the recipe.
        name: its name.
        cache: a JSONL file of marks given before, which grows; None: they are remembered while this lives.

    Raises:
        UserError: no such rubric; an endpoint that cannot be one.
    """

    def __init__(self, name: str, term: JudgeTerm, cache: Path | None = None) -> None:
        from agentrl.engines.openai import OpenAIEngine

        self._field = f"rewards.{name}"
        self._rubric = _rubric(self._field, term.rubric)
        self._term = term
        self._engine = OpenAIEngine(term.model, term.base_url, timeout=term.timeout, concurrency=term.concurrency)
        self._cache = cache
        self._known: dict[str, tuple[float, str]] = {}
        if cache is not None and cache.is_file():
            for line in cache.read_text(encoding="utf-8").splitlines():
                self._recall(line)

    def score(self, turns: Sequence[Turn]) -> list[tuple[float, str] | None]:
        """(mark, explanation) of each turn; None where none could be had."""
        asked = {key: turn for turn in turns if (key := self._key(turn)) not in self._known}
        sampling = Sampling(0.0, self._term.max_tokens)
        requests = [
            Request([{"role": "user", "content": self._question(turn)}], None, sampling) for turn in asked.values()
        ]
        for key, reply in zip(asked, self._engine.generate(requests), strict=True):
            mark = None if reply.error else self._mark(reply.text)
            if mark is not None:
                self._keep(key, mark, one_line(reply.text))
        return [self._known.get(self._key(turn)) for turn in turns]

    def close(self) -> None:
        self._engine.close()

    def _question(self, turn: Turn) -> str:
        situation = "\n\n".join(message["content"] for message in turn.messages)
        return ASK.format(rubric=self._rubric, situation=situation, answer=turn.reply_text, highest=self._term.highest)

    def _mark(self, text: str) -> float | None:
        """The last mark of an answer, in 0..1; None where there is none, or one out of bounds."""
        found = MARK.findall(text)
        value = float(found[-1]) / self._term.highest if found else -1.0
        return value if 0.0 <= value <= 1.0 else None

    def _key(self, turn: Turn) -> str:
        asked = [self._term.model, self._term.highest, self._rubric, turn.messages, turn.reply_text]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()

    def _keep(self, key: str, mark: float, why: str) -> None:
        self._known[key] = mark, why
        if self._cache is not None:
            self._cache.parent.mkdir(parents=True, exist_ok=True)
            with self._cache.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "mark": mark, "why": why}) + "\n")

    def _recall(self, line: str) -> None:
        try:
            row: dict[str, Any] = json.loads(line)
            self._known[str(row["key"])] = float(row["mark"]), str(row["why"])
        except (ValueError, KeyError, TypeError):
            return  # torn by a kill: that turn is asked about again


def _rubric(field: str, rubric: str) -> str:
    if not rubric.endswith((".txt", ".md")):
        return rubric
    try:
        return Path(rubric).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{field}.rubric = {rubric!r}: cannot be read: {error}") from None
