"""Is this a game that one can train on? `agentrl check-env` tries it out and says why not, check by check.

The game runs in processes of their own (`agentrl.env_probe`): one that hangs or takes its process with it is a finding.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentrl.env_trace import Told, first_difference
from agentrl.errors import UserError, one_line

CHECKS = {
    "made": "its constructor works, and max_turns is a whole number",
    "actions": "there are some, and a turn's legal ones are among them",
    "default-action": "it is legal, at every turn",
    "synonyms": "each means one action, and is understood",
    "observation": "text of a length that fits a prompt",
    "prompt": "the game's own words and every observation make a prompt",
    "reward": "a finite number at every step",
    "end-info": "success and progression are told at the end, and in range",
    "terminated": "an episode can end by itself",
    "truncated": "a time limit ends it as such",
    "step-after-end": "refused",
    "same-episode": "a seed and its actions give the same episode in two processes",
    "seeds-differ": "different seeds give different episodes",
    "reset-seed": "reset(seed=) begins that seed's episode, whatever was played before",
    "no-exception": "nothing raises in ordinary play",
    "no-hang": "no call takes too long",
    "no-crash": "the game leaves its process alive",
    "replies": "a thousand hostile replies are survived",
    "close": "files, threads and processes are freed",
    "time": "a step takes at most 100 ms on average",
}
"""Name -> what it asks for. Names are for scripts, too: they stay."""

ALIVE = ("no-hang", "no-crash")
STOPPING = ("made", "actions", "synonyms", "no-exception", "prompt", *ALIVE)
"""Checks whose failure keeps others from being run."""

FAILED, PASSED, NOT_REACHED, NOT_RUN = "failed", "passed", "not reached", "not run"

POLL_SECONDS = 0.02
CALL_SECONDS = 30.0
"""A call that takes longer hangs; so does the import of the game's module."""

TRIAL_SECONDS = 20.0

TRACEBACK = 20_000
"""Bytes at the end of what the process wrote that are read for it."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one check. `state`: passed, failed, not reached (nothing was seen that proves it), not run."""

    check: str
    state: str
    reason: str


def check_env(
    game_id: str,
    options: Mapping[str, Any] | None = None,
    call_seconds: float = CALL_SECONDS,
    trial_seconds: float = TRIAL_SECONDS,
) -> list[Result]:
    """The results of all `CHECKS`, in their order.

    Args:
        game_id: as `agentrl games` lists it, FILE.py:CLASS, or gymnasium/ENV_ID.
        call_seconds: a reset or step that takes longer hangs.
        trial_seconds: bound of each long trial: the same episodes again, episodes to their end, hostile replies.

    Raises:
        UserError: there is no such game or option.
    """
    request = {"game": game_id, "options": dict(options or {}), "seconds": trial_seconds}
    first = _watch({**request, "trace_only": False}, hash_seed=1, call_seconds=call_seconds)
    found, whole = first.results, not first.stopped
    if first.traces is not None and whole:
        second = _watch({**request, "trace_only": True}, hash_seed=2, call_seconds=call_seconds)
        found["same-episode"] = _compared(first.traces, second)
        found |= {name: second.results[name] for name in ALIVE if name in second.results}
        whole = not second.stopped
    if whole and found.get("made", ("",))[0] == PASSED:
        found |= dict.fromkeys(ALIVE, (PASSED, "in two processes"))
    stops = [name for name in STOPPING if found.get(name, ("",))[0] == FAILED]
    unrun = NOT_RUN, f"because of {stops[0]}" if stops else ""
    return [Result(name, *found.get(name, unrun)) for name in CHECKS]


def print_results(game_id: str, results: Sequence[Result], console: Console) -> None:
    """A table; whatever a game said in it is shown as text."""
    table = Table("check", "result", "what was found", box=box.SIMPLE)
    styles = {FAILED: "bold red", PASSED: "green", NOT_REACHED: "yellow", NOT_RUN: "dim"}
    for result in results:
        shown = "FAILED" if result.state == FAILED else result.state
        asked = f"must be: {CHECKS[result.check]}. " if result.state == FAILED else ""
        table.add_row(result.check, Text(shown, styles[result.state]), Text(one_line(asked + result.reason)))
    console.print(table)
    counts = {state: sum(result.state == state for result in results) for state in styles}
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    console.print(Text(one_line(f"{game_id}: {told}")))


@dataclass(slots=True)
class _Watched:
    """What a process found: check -> (state, reason). `stopped`: it did not come to its end."""

    results: dict[str, tuple[str, str]]
    traces: list[list[Told]] | None
    stopped: bool


def _watch(request: dict[str, Any], hash_seed: int, call_seconds: float) -> _Watched:
    """Run a probe to its end, or until a call hangs; whatever the game has left running is killed."""
    with TemporaryDirectory(prefix="agentrl-check-") as name:
        folder = Path(name)
        (folder / "request.json").write_text(json.dumps(request))
        with (folder / "errors").open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "agentrl.env_probe", name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
                start_new_session=True,
            )
        try:
            hung = _hangs(process, folder / "doing", call_seconds)
        finally:
            _kill(process)
        watched = _read(folder / "findings.jsonl")
        if watched.stopped:
            doing, place = _doing(folder / "doing"), _place(folder / "errors")
            if hung:
                watched.results["no-hang"] = FAILED, f"{doing} took more than {call_seconds:g} s{place}"
            else:
                status = process.returncode
                how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
                watched.results["no-crash"] = FAILED, f"{doing}: the process ended by {how}{place}"
        return watched


def _hangs(process: subprocess.Popen[bytes], doing: Path, call_seconds: float) -> bool:
    """Wait for the process; True if it did the same for too long. It is then made to say where."""
    told, since = None, monotonic()
    while process.poll() is None:
        now = doing.read_bytes() if doing.exists() else b""
        if now != told:
            told, since = now, monotonic()
        elif monotonic() - since > call_seconds:
            process.send_signal(signal.SIGABRT)
            try:
                process.wait(1)
            except subprocess.TimeoutExpired:
                process.kill()
            return True
        sleep(POLL_SECONDS)
    return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(file: Path) -> _Watched:
    watched = _Watched({}, None, stopped=True)
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            found = json.loads(line)
        except ValueError:  # the last one of a process that was killed
            break
        if "mistake" in found:
            raise UserError(found["mistake"])
        if "check" in found:
            watched.results[found["check"]] = found["state"], found["reason"]
        watched.traces = found.get("traces", watched.traces)
        watched.stopped &= "done" not in found
    return watched


def _compared(traces: list[list[Told]], second: _Watched) -> tuple[str, str]:
    if second.traces is None:
        return NOT_RUN, "the second process did not come so far"
    for seed, (one, other) in enumerate(zip(traces, second.traces, strict=False)):
        if difference := first_difference(one, other):
            return FAILED, f"seed {seed}, {difference}"
    turns = sum(len(trace) - 1 for trace in traces)
    return PASSED, f"{len(traces)} episodes of {turns} turns, with different hash seeds"


def _doing(file: Path) -> str:
    """What was asked of the game last."""
    told = file.read_text(errors="replace").strip() if file.exists() else ""
    return told.partition(" ")[2] or "the import of the game's module"


def _place(file: Path) -> str:
    """Where the process was when a signal ended it: the innermost line of the traceback that it left, in brackets."""
    with file.open("rb") as errors:
        errors.seek(max(0, file.stat().st_size - TRACEBACK))
        text = errors.read().decode(errors="replace")
    lines = [line.strip() for line in text.partition("Current thread")[2].splitlines() if "File" in line]
    return f" ({lines[0].replace('File ', '')})" if lines else ""
