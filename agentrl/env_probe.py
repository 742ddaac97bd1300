"""Tries a game out, in a process of its own that the game may hang or take with it: `agentrl.check_env` watches.

    python -P -m agentrl.env_probe FOLDER

FOLDER/request.json says which game; findings go to FOLDER/findings.jsonl, what is being done to FOLDER/doing.
"""

import faulthandler
import gc
import json
import os
import random
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from agentrl import envs
from agentrl.env_referee import Findings, GameRaised, Referee
from agentrl.env_trials import Trials, any_action
from agentrl.envs import TextEnv
from agentrl.envs.registry import attribute_problems, make_unchecked
from agentrl.errors import UserError, in_short
from agentrl.parsing import parse_action

CHECK_OF = {
    "actions": "actions",
    "default_action": "default-action",
    "synonyms": "synonyms",
    "achievements": "end-info",
}
"""Attribute of a game -> the check that it belongs to."""

KEPT_GAMES, CLOSED_GAMES = 2, 5
"""Games that are opened and closed to see what stays open: the first ones may open what all of them share."""

RELEASE_SECONDS = 1.0
"""A thread or a process may take that long to end."""

DOING = 200
"""Bytes of the note that says what is asked of the game."""


class Probe:
    """A game under trial.

    Args:
        seconds: how long each trial may take.
    """

    def __init__(
        self, game_id: str, options: dict[str, Any], findings: Findings, doing: Callable[[str], None], seconds: float
    ) -> None:
        self._id, self._options = game_id, options
        self._findings, self._doing, self._seconds = findings, doing, seconds

    def run(self, trace_only: bool) -> None:
        """All trials, or only the one that another process is to repeat.

        Raises:
            UserError: there is no such game or option.
        """
        game = self._make_first()
        if game is None or not self._look_at_attributes(game):
            return
        referee = Referee(game, self._findings, self._doing)
        trials = Trials(referee, self._findings, self._doing, self._id, self._seconds)
        try:
            trials.trace()
            if not trace_only:
                trials.explore()
                trials.answer_hostile_replies()
                self._findings.conclude("no-exception", f"{len(referee.step_seconds):,} steps")
                self._look_at_what_stays_open()
        except GameRaised as error:
            self._findings.fail("no-exception", str(error))
        self._close(game)

    def _make_first(self) -> TextEnv | None:
        self._doing("its constructor")
        try:
            game = make_unchecked(self._id, **self._options)
        except UserError:
            raise
        except (Exception, SystemExit) as error:
            self._findings.fail("made", in_short(error))
            return None
        self._findings.conclude("made", f"{type(game).__module__}.{type(game).__qualname__}")
        return game

    def _look_at_attributes(self, game: TextEnv) -> bool:
        """Whether it can be played at all."""
        problems = attribute_problems(game)
        for attribute, problem in problems.items():
            self._findings.fail(CHECK_OF.get(attribute, "made"), problem)
        if game.actions == {}:
            self._findings.fail("actions", "actions = {}: there is none")
        elif not {"actions", "synonyms"} & {*problems}:
            self._look_at_synonyms(game)
        return not {"actions", "synonyms", "max_turns"} & {*problems} and game.actions != {}

    def _look_at_synonyms(self, game: TextEnv) -> None:
        actions, synonyms = tuple(game.actions or ()), game.synonyms
        for name in actions:
            alike = [other for other in actions if other != name and parse_action(other.upper(), [name], {}) == name]
            if alike:
                self._findings.fail(
                    "synonyms", f"actions {name!r} and {alike[0]!r} differ in case, blanks or dots alone"
                )
        for spelling, name in synonyms.items():
            understood = parse_action(spelling, actions, synonyms)
            if game.actions is None:
                self._findings.fail("synonyms", f"{spelling!r}: a game of free text reads replies itself")
            elif name not in actions:
                self._findings.fail("synonyms", f"{spelling!r} -> {name!r}, which is none of its actions")
            elif spelling in actions or understood != name:
                means = f"is read as {understood!r}" if understood else "is never recognised (write it in lower case)"
                self._findings.fail("synonyms", f"{spelling!r} -> {name!r}, but {spelling!r} {means}")
        self._findings.conclude("synonyms", f"{len(synonyms)} for {len(actions)} actions")

    def _look_at_what_stays_open(self) -> None:
        if not Path("/proc/self/fd").is_dir():
            self._findings.conclude("close", "this system has no /proc to count open files in", "not reached")
            return
        kept = []
        for number in range(KEPT_GAMES + CLOSED_GAMES):
            if number == KEPT_GAMES:
                gc.collect()
                before = _open_things()
            self._doing("the constructor of one more game")
            try:
                game = make_unchecked(self._id, **self._options)
            except (Exception, SystemExit) as error:
                self._findings.fail("made", f"one more beside {number + 1} open ones: {in_short(error)}")
                return
            kept.append(game)  # close() is on trial, not the garbage collector
            referee, draw = Referee(game, self._findings, self._doing), random.Random(number)
            with suppress(GameRaised):
                referee.begin(number)
                for _ in range(3):
                    if not referee.over:
                        referee.step(any_action(referee, draw))
            if not self._close(game):
                return
        until = monotonic() + RELEASE_SECONDS
        while (left := _left(before)) and monotonic() < until:
            sleep(0.05)
        if left:
            self._findings.fail("close", f"{CLOSED_GAMES} games were closed; still open: {left}")
        self._findings.conclude("close", f"{CLOSED_GAMES} games left no file, thread or process behind")

    def _close(self, game: TextEnv) -> bool:
        self._doing("close()")
        try:
            game.close()
        except (Exception, SystemExit) as error:
            self._findings.fail("close", f"close(): {in_short(error)}")
            return False
        return True


def _open_things() -> dict[str, int]:
    """Open files, threads and child processes (dead ones that nobody waited for, too) of this process."""
    tasks = list(Path("/proc/self/task").iterdir())
    children = 0
    for task in tasks:
        with suppress(OSError):
            children += len((task / "children").read_text().split())
    return {"files": len(os.listdir("/proc/self/fd")), "threads": len(tasks), "processes": children}


def _left(before: dict[str, int]) -> str:
    """What each closed game has left behind; fewer than one each are things that games share."""
    more = {name: count - before[name] for name, count in _open_things().items()}
    return ", ".join(f"{count} {name}" for name, count in more.items() if count >= CLOSED_GAMES)


def main() -> None:
    """Try the game of FOLDER/request.json; a mistake in its id or options is written there as such."""
    folder = Path(sys.argv[1])
    request = json.loads((folder / "request.json").read_text())
    faulthandler.enable()  # SIGABRT shows where a step hangs
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    doing = os.open(folder / "doing", os.O_WRONLY | os.O_CREAT)
    count = 0

    def tell(what: str) -> None:
        """Overwrite what was told last; the number changes with each call."""
        nonlocal count
        count += 1
        os.pwrite(doing, f"{count} {what}".encode("utf-8", "replace")[:DOING].ljust(DOING), 0)

    with (folder / "findings.jsonl").open("w") as file:
        findings = Findings(file)
        try:
            envs.check(request["game"], **request["options"])
            probe = Probe(request["game"], request["options"], findings, tell, request["seconds"])
            probe.run(request["trace_only"])
        except UserError as error:
            findings.write(mistake=str(error))
        except Exception as error:  # an attribute or an answer of a kind that nobody thought of
            findings.fail("no-exception", in_short(error))
        findings.write(done=True)


if __name__ == "__main__":
    main()
