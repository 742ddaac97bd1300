"""A game in a worker process, as its slot sees it; and the requests it is played by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrl.envs import Observation, ScriptedPlayer
from agentrl.errors import UserError
from agentrl.faults import GameFault
from agentrl.remote import RemoteGame
from agentrl.worker_process import ATTRIBUTES

if TYPE_CHECKING:
    from agentrl.workers import Seat, WorkerPool

NOT_THE_SAME = "its worker process ended, and it did not replay as it was played: it is not deterministic"


@dataclass(slots=True, eq=False)
class Job:
    """A request, and in the end its answer or the fault instead.

    Attributes:
        game: None for the start of the process itself.
        replay: it was answered before, by a process that is gone.
        expected: the answer that this replay has to give; None where another replay follows.
    """

    game: WorkerGame | None
    op: str
    argument: Any = None
    replay: bool = False
    expected: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None
    fault: GameFault | UserError | None = None

    @property
    def done(self) -> bool:
        return self.answer is not None or self.fault is not None


class WorkerGame(RemoteGame):
    """Game number `number` of a pool. It is made at once, and nobody waits for that until something is asked of it.

    An episode is its seed plus its actions: when the process ends that the game lives in, `replays` make it anew in
    another, without a word to the slot. Only the game that was being played just then is lost.
    """

    def __init__(self, pool: WorkerPool, number: int, game_id: str, options: Mapping[str, Any]) -> None:
        self.number = number
        self.lost = False
        self.fault: GameFault | None = None
        self.grown = 0
        self._pool = pool
        self._past: list[tuple[str, Any]] = []
        self._told: dict[str, Any] = {}
        self._facts: dict[str, str] = {}
        self.seat: Seat = pool.seat(self)
        self._making = self._begin("make", {"id": game_id, "options": dict(options)})
        self._ahead: Job | None = None

    def __getattr__(self, name: str) -> Any:
        """What every game has, this one has once it is made."""
        if name not in ATTRIBUTES or "_making" not in self.__dict__ or self._making.answer is not None:
            raise AttributeError(name)
        self._pool.wait(self._making)
        return getattr(self, name)

    def begin_reset(self, seed: int | None) -> None:
        self._ahead = self._begin("reset", seed)

    def begin_step(self, action: str) -> None:
        self._ahead = self._begin("step", action)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        answer = self._answer("reset", seed)
        return Observation(**answer["observation"]), answer["info"]

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        answer = self._answer("step", action)
        ends = answer["terminated"], answer["truncated"]
        return Observation(**answer["observation"]), answer["reward"], *ends, answer["info"]

    def prompt_facts(self) -> dict[str, str]:
        return self._facts

    def scripted_player(self) -> ScriptedPlayer | None:
        if not self._answer("player")["player"]:
            return None
        return lambda: str(self._answer("consult")["action"])

    def close(self) -> None:
        """Without waiting: that it hangs or fails in this is no turn's fault."""
        self._pool.leave(self)

    def replays(self, following: str) -> list[Job]:
        """What makes the game anew, up to the request `following`; a reset needs nothing of the episode before."""
        past = self._past[:1] if following == "reset" else self._past
        jobs = [Job(self, *each, replay=True) for each in past]
        if len(past) > 1:
            jobs[-1].expected = self._told
        return jobs

    def take(self, job: Job, answer: dict[str, Any]) -> None:
        """An answer has come."""
        if "user" in answer:
            job.fault = UserError(answer["user"])
        elif "error" in answer:
            job.fault = GameFault("raised", answer["error"], answer["trace"])
        if job.replay:
            # What changed since the answer before, which may have been another game's, is not compared.
            told = {name: value for name, value in answer.items() if name != "attributes"}
            if job.fault or job.expected not in (None, told):
                self.fault = GameFault("crashed", NOT_THE_SAME)
            return
        job.fault = job.fault or self.fault
        if job.fault:
            return
        attributes = answer.pop("attributes", {})
        for name in attributes.keys() & set(ATTRIBUTES):
            setattr(self, name, tuple(attributes[name]) if name == "achievements" else attributes[name])
        self._facts = answer.get("facts", self._facts)
        if job.op == "reset":
            del self._past[1:]
        self._past.append((job.op, job.argument))
        self._told = answer
        job.answer = answer

    def _begin(self, op: str, argument: Any = None) -> Job:
        job = Job(self, op, argument)
        if op == "reset":
            self.fault = None
        job.fault = self.fault
        if job.fault is None:
            self._pool.send(job)
        return job

    def _answer(self, op: str, argument: Any = None) -> dict[str, Any]:
        """The answer to what was begun; or to a request that is begun now."""
        self._pool.wait(self._making)
        ahead, self._ahead = self._ahead, None
        asked = ahead is not None and (ahead.op, ahead.argument) == (op, argument)
        return self._pool.wait(ahead if ahead and asked else self._begin(op, argument))
