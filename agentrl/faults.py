"""What a broken game did: of which kind, in one line, with a traceback; and how the log tells it.

Text from a game is hostile: what is not printable is escaped before it is shown.
"""

import logging
from traceback import format_exception

from agentrl.errors import in_short, one_line

KINDS = ("raised", "crashed", "hung", "memory")
"""An exception or an impossible answer; the end of its process; no answer in time; more memory than allowed."""

PROMPT_TOO_LONG = "prompt_too_long"
"""The error of a turn whose prompt is over budget without any past turn: no game's fault."""

ENGINE = "engine"
"""The kind of a turn that an endpoint never answered: no game's fault either."""

TRACE = 4000
"""Characters of a traceback that are kept, from its end."""

TOLD = 20
"""Faults of one kind of one game that the log tells; all are counted in the metrics."""

logger = logging.getLogger("agentrl.games")

_told: dict[tuple[str, str], set[str]] = {}


class GameFault(Exception):
    """A game broke.

    Attributes:
        kind: one of KINDS, PROMPT_TOO_LONG or ENGINE.
        reason: one line.
        trace: what is known of where it happened; several lines, or "".
    """

    def __init__(self, kind: str, reason: str, trace: str = "") -> None:
        super().__init__(f"{kind}: {one_line(reason)}")
        self.kind = kind
        self.reason = one_line(reason)
        self.trace = visible(trace)[-TRACE:].strip()


def fault_of(error: BaseException, *own_files: str) -> GameFault:
    """The fault that an exception of a game is. Of one raised in `own_files` the place is not told."""
    if isinstance(error, GameFault):
        return error
    return GameFault("raised", in_short(error, *own_files), "".join(format_exception(error)))


def in_words(error: BaseException) -> str:
    """What went wrong, for a line that says already that a game broke."""
    fault = fault_of(error)
    return fault.reason if fault.kind == "raised" else str(fault)


def kind_of(error: str) -> str:
    """The kind of `Turn.error`."""
    return error.partition(":")[0]


def log(fault: GameFault, where: str) -> None:
    """Warn of a fault with its traceback: once a reason, and of each kind of a game only the first `TOLD`."""
    told = _told.setdefault((where.partition(",")[0], fault.kind), set())
    if fault.reason in told or len(told) >= TOLD:
        return
    told.add(fault.reason)
    trace = "".join(f"\n    {line}" for line in fault.trace.split("\n")) if fault.trace else ""
    logger.warning("%s: %s%s", one_line(where), fault, trace)


def visible(text: str) -> str:
    """The text with everything unprintable escaped, line breaks apart: it moves no cursor and colours no terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
