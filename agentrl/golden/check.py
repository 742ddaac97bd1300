"""Recordings in files checked against our games, one line a file: `agentrl check-golden`."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from agentrl.envs.errors import unknown
from agentrl.errors import UserError, in_short, one_line
from agentrl.golden.babaisai import BabaIsAIReplay
from agentrl.golden.babyai import BabyAIReplay
from agentrl.golden.crafter_states import crafter_comparison
from agentrl.golden.recording import Recording, read
from agentrl.golden.replay import Comparison, Difference

GAMES: dict[str, Callable[[Recording], Comparison]] = {
    "babaisai": lambda recording: BabaIsAIReplay(recording.header),
    "babyai": lambda recording: BabyAIReplay(recording.header),
    "crafter": crafter_comparison,
}


@dataclass(frozen=True)
class Verdict:
    """What became of one recording.

    Attributes:
        compared: how much of it was found the same, in words.
        difference: the first one in one short line, "" for none.
        stopped: compared up to where YOU was lost: the original goes on there in a new level, ours ends.
    """

    compared: str
    difference: str = ""
    stopped: bool = False

    def __str__(self) -> str:
        if self.difference:
            return f"{self.compared} the same, then DIFFERENT: {self.difference}"
        return f"{self.compared}, no difference" + ("; stopped: YOU lost" if self.stopped else "")


def check(path: Path) -> Verdict:
    """Replay the recording in a file.

    Raises:
        UserError: there is none, or it is of a game, or has options, that ours has not.
    """
    recording = read(path)
    try:
        return compare(recording)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def compare(recording: Recording) -> Verdict:
    """Replay a recording. Raises: UserError: as `check`."""
    name = recording.header.env
    if name not in GAMES:
        raise unknown("header.env", name, "there are no recordings of such a game", list(GAMES))
    comparison = GAMES[name](recording)
    difference, stopped = "", False
    try:
        stopped = comparison.compare(recording)
    except Difference as first:
        difference = str(first)
    except UserError:
        raise
    except Exception as error:  # a recording of nonsense may fail anywhere in a game
        difference = f"cannot be played on: {in_short(error)}"
    return Verdict(f"{comparison.compared} {comparison.unit}", difference, stopped)


def check_all(paths: Iterable[Path]) -> int:
    """Print a line for each file, mistakes on stderr; the exit status: 2 for a mistake, 1 for a difference, else 0."""
    status = 0
    for path in paths:
        try:
            verdict = check(path)
        except UserError as error:
            print(f"agentrl: {error}", file=sys.stderr)
            status = 2
        else:
            print(one_line(f"{path}: {verdict}"), flush=True)
            status = max(status, int(bool(verdict.difference)))
    return status
