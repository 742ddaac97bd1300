"""Plays a game and judges every answer: what `agentrl check-env` finds out turn by turn.

A finding belongs to one check of `agentrl.check_env.CHECKS`; the first failure of a check is the one that is told.
"""

import json
import math
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple, TextIO

from agentrl import answers
from agentrl.envs import Observation, TextEnv
from agentrl.errors import in_short, one_line

LONGEST_OBSERVATION = 8_000
"""Characters of scene and status together: some 2,000 tokens, twice the default of prompt.max_prompt_tokens."""

LONGEST_REASON = 300


class End(NamedTuple):
    """How an episode ended. `success` is false, too, where the game does not say."""

    turns: int
    max_turns: int
    terminated: bool
    truncated: bool
    success: bool


class GameRaised(Exception):
    """The game raised in a call that no game may refuse."""


class Findings:
    """What was found, written line by line, so that it outlives a game that takes the process with it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.failed: set[str] = set()

    def fail(self, check: str, reason: str) -> None:
        if check not in self.failed:
            self.failed.add(check)
            self.write(check=check, state="failed", reason=reason)

    def conclude(self, check: str, reason: str, state: str = "passed") -> None:
        """Its last word on a check that has not failed."""
        if check not in self.failed:
            self.write(check=check, state=state, reason=reason)

    def write(self, **line: Any) -> None:
        if "reason" in line:
            line["reason"] = one_line(line["reason"])[:LONGEST_REASON]
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


class Referee:
    """One game, its running episode, and what all its episodes were like.

    Args:
        doing: told what is about to be asked of the game, before each call that may not come back.

    Attributes:
        legal: actions of the turn; None for free text.
        record: everything that the last call told, by name.
        step_seconds, reset_seconds: of every call.
        ends: of each episode that came to one.
    """

    def __init__(self, game: TextEnv, findings: Findings, doing: Callable[[str], None]) -> None:
        self.game = game
        self.record: dict[str, Any] = {}
        self.over = True
        self.step_seconds: list[float] = []
        self.reset_seconds: list[float] = []
        self.ends: list[End] = []
        self.longest_observation = 0
        self._findings = findings
        self._doing = doing

    def begin(self, seed: int) -> None:
        """Reset.

        Raises:
            GameRaised: the game did.
        """
        self.seed, self.turn, self.over = seed, 0, False
        self._doing(f"reset(seed={seed})")
        start = perf_counter()
        try:
            self.observation, info = self.game.reset(seed=seed)
        except (Exception, SystemExit) as error:
            raise GameRaised(f"reset(seed={seed}): {in_short(error)}") from error
        self.reset_seconds.append(perf_counter() - start)
        self._look(f"reset(seed={seed})", info, 0.0, False, False)

    def step(self, action: str) -> None:
        """Play one turn.

        Raises:
            GameRaised: the game did.
        """
        self.turn += 1
        where = f"step({one_line(repr(action[:60]))}), turn {self.turn} of seed {self.seed}"
        self._doing(where)
        start = perf_counter()
        try:
            self.observation, reward, terminated, truncated, info = self.game.step(action)
        except (Exception, SystemExit) as error:
            raise GameRaised(f"{where}: {in_short(error)}") from error
        self.step_seconds.append(perf_counter() - start)
        self._look(where, info, reward, terminated, truncated)

    def step_after_end(self) -> None:
        """One more step, which the game must refuse, if it said that the episode is over."""
        if not (self.record["terminated"] or self.record["truncated"]):
            return
        self._doing(f"a step after the end, seed {self.seed}")
        how = "terminated" if self.record["terminated"] else "truncated"
        try:
            self.game.step(self.game.default_action)
        except (Exception, SystemExit):
            return
        self._fail("step-after-end", f"after an episode that was {how}, step() goes on without an error")

    def _look(self, where: str, *answer: Any) -> None:
        try:
            self._judge(*answer)
        except Exception as error:
            raise GameRaised(f"{where} gave what no game may answer: {in_short(error)}") from error

    def _judge(self, info: dict[str, Any], reward: Any, terminated: bool, truncated: bool) -> None:
        terminated, truncated = bool(terminated), bool(truncated)
        self._look_at_observation()
        self.over = terminated or truncated
        self.legal = self._legal_actions(info)
        try:
            number = float(reward)
        except (TypeError, ValueError):
            number = math.nan
        if not abs(number) < answers.LARGEST:
            self._fail("reward", f"reward = {reward!r}: it must be a finite number")
        if self.over:
            self.ends.append(End(self.turn, self.game.max_turns, terminated, truncated, bool(info.get("success"))))
        elif self.turn >= self.game.max_turns:
            self.over = True
            self._fail("truncated", f"turn {self.turn} = max_turns came, and the episode went on")
        self._look_at_info(info, terminated, truncated)
        self.record = {
            "observation": dict(self.observation),
            "mission": self.game.mission,
            "reward": number,
            "terminated": terminated,
            "truncated": truncated,
            "legal_actions": self.legal,
            **{name: info.get(name) for name in ("success", "progression", "achievements")},
        }

    def _look_at_observation(self) -> None:
        if not isinstance(self.observation, Observation):
            kind = type(self.observation).__name__
            self._fail("observation", f"a {kind} came: it must be an Observation")
            self.observation = Observation(str(self.observation))
        length = len(self.observation.scene) + len(self.observation.status)
        self.longest_observation = max(length, self.longest_observation)
        if length > LONGEST_OBSERVATION:
            self._fail("observation", f"{length:,} characters: at most {LONGEST_OBSERVATION:,}")

    def _legal_actions(self, info: dict[str, Any]) -> Sequence[str] | None:
        actions = self.game.actions
        try:
            legal = answers.legal_actions(info, actions)
        except (TypeError, ValueError) as error:
            if not self.over:
                self._fail("actions", str(error))
            return [self.game.default_action]
        if actions is not None and legal is not None:
            if unknown := [name for name in legal if name not in actions]:
                self._fail("actions", f"legal_actions names {unknown[0]!r}, which is none of its actions")
            if (
                not self.over
                and actions
                and self.game.default_action in actions
                and self.game.default_action not in legal
            ):
                self._fail("default-action", f"{self.game.default_action!r} is not among legal_actions {list(legal)}")
        return legal

    def _look_at_info(self, info: dict[str, Any], terminated: bool, truncated: bool) -> None:
        told = {name: value for name, value in info.items() if name != "legal_actions"}
        try:
            answers.check(0.0, terminated, truncated, told, self.game.actions, self.game.achievements)
        except (TypeError, ValueError) as error:
            self._fail("end-info", str(error))
            return
        if not (terminated or truncated):
            return
        for name in ("success", "progression"):
            if name not in info:
                self._fail("end-info", f"info[{name!r}] is missing at the end")
        success, progression = info.get("success"), info.get("progression")
        if success not in (None, True, False):
            self._fail("end-info", f"success = {success!r}: it must be true, false or None")
        if "progression" in info and (progression is None or not 0 <= float(progression) <= 1):
            self._fail("end-info", f"progression = {progression!r}: it must be a number from 0 to 1")

    def _fail(self, check: str, reason: str) -> None:
        place = f"seed {self.seed}, turn {self.turn}" if self.turn else f"reset(seed={self.seed})"
        self._findings.fail(check, f"{reason} ({place})")
