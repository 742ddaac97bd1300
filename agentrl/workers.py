"""Worker processes: games that play at the same time, whose crashes, hangs and hunger end nothing but a turn.

A process holds several games and is asked by one at a time, in the order of the requests: when it dies, hangs or grows
too large, the game that it was just playing is the guilty one (of memory: the one that took most). It breaks; the
others are made anew in another process, from their seeds and actions. Whether SIGKILL came from outside or from its
game cannot be told, so the game whose turn it was breaks then too. If none was being played, none does; of a start, a
reset or a replay, at which no turn is lost, a few in a row are taken to come from outside.
"""

import os
import selectors
import signal
import time
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any

from agentrl.config import WorkersConfig
from agentrl.errors import UserError, one_line
from agentrl.faults import GameFault, log
from agentrl.worker_game import Job, WorkerGame
from agentrl.worker_handle import NO_ANSWER, Broken, WorkerHandle, how_it_ended

EXCUSED = 10
"""Times in a row, with no turn played between, that SIGKILL may meet a process which is starting or replaying."""

SECONDS_TO_CLOSE = 5.0
"""What all processes together have to close their games in, before they are killed."""

BEGINNINGS = ("start", "make", "reset")

LOOK_SECONDS = 0.1
"""Most time between two looks at a process that is waited for: whether it lives, how much memory it takes."""


class Seat:
    """A place for a process: what it was asked, oldest first, and the games that live in it.

    Attributes:
        waited: seconds that the oldest request was waited for. Time in which nobody waited does not count.
        resident: bytes of memory when it answered last.
        excused: times that it was killed since it answered anything new.
    """

    def __init__(self) -> None:
        self.handle: WorkerHandle | None = None
        self.jobs: deque[Job] = deque()
        self.games: dict[int, WorkerGame] = {}
        self.waited = 0.0
        self.resident = 0
        self.excused = 0


class WorkerPool:
    """`config.processes` worker processes, each started when it is first needed. Usable again after `close`.

    Attributes:
        replaced: processes that had to be replaced so far.
    """

    def __init__(self, config: WorkersConfig) -> None:
        self.config = config
        self.replaced = 0
        self._seats = [Seat() for _ in range(config.processes)]
        self._running: set[WorkerHandle] = set()
        self._selector = selectors.PollSelector()  # which holds no descriptor of its own
        self._numbers = 0
        self._most_memory = (config.memory_mb or 0) * 2**20
        # Whoever forgets to close leaves no process behind, at the interpreter's exit neither.
        weakref.finalize(self, _end, self._running, os.getpid())

    def open(self, game_id: str, options: Mapping[str, Any]) -> WorkerGame:
        """A new game. What goes wrong in making it is raised when it is first asked for something."""
        self._numbers += 1
        return WorkerGame(self, self._numbers, game_id, options)

    def close(self) -> None:
        """Close all games and end all processes. A game that is still played is made anew when it is asked."""
        for seat in self._seats:
            if seat.handle:
                self._release(seat)
            for job in seat.jobs:
                job.fault = GameFault("crashed", "the workers were closed")
            seat.jobs.clear()
        _end(self._running, os.getpid())

    def pids(self) -> list[int]:
        """Ids of the processes that are running."""
        return [handle.pid for handle in list(self._running)]

    def seat(self, game: WorkerGame) -> Seat:
        """Give the game a place where the fewest are."""
        seat = min(self._seats, key=lambda seat: len(seat.games))
        seat.games[game.number] = game
        return seat

    def leave(self, game: WorkerGame) -> None:
        """The game is not played any more."""
        if game.seat.games.pop(game.number, None) and game.seat.handle and not game.lost:
            self.send(Job(game, "close"))

    def send(self, job: Job) -> None:
        """Ask, after everything that was asked before. Returns at once; `wait` for the answer."""
        assert job.game is not None
        seat, game = job.game.seat, job.game
        if seat.handle and seat.handle.ended():
            self._take_in(seat, seat.handle)  # to its end: it broke while nobody was waiting
        if seat.handle is None:
            if job.op == "close":
                return
            self._start(seat)
        if game.lost:
            game.lost = False
            for replay in game.replays(job.op):
                self._ask(seat, replay)
        self._ask(seat, job)

    def wait(self, job: Job) -> dict[str, Any]:
        """The answer; those to other requests are taken in meanwhile.

        Raises:
            GameFault: the game broke.
            UserError: it said that its user made a mistake; or no process can be started.
        """
        while not job.done:
            self._go_on()
        if job.fault:
            raise job.fault
        assert job.answer is not None
        return job.answer

    def _start(self, seat: Seat) -> None:
        seat.handle = handle = WorkerHandle(measure=self._most_memory > 0)
        self._running.add(handle)
        seat.waited, seat.resident = 0.0, 0
        seat.jobs.append(Job(None, "start"))
        pipe, output = handle.descriptors
        self._selector.register(pipe, selectors.EVENT_READ, (seat, handle))
        self._selector.register(output, selectors.EVENT_READ, (seat, handle))

    def _ask(self, seat: Seat, job: Job) -> None:
        assert seat.handle is not None
        assert job.game is not None
        seat.jobs.append(job)
        seat.handle.send({"game": job.game.number, "op": job.op, "argument": job.argument})
        self._watch(seat.handle)

    def _watch(self, handle: WorkerHandle) -> None:
        pipe, _ = handle.descriptors
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if handle.writing else 0)
        key = self._selector.get_key(pipe)
        if key.events != events:
            self._selector.modify(pipe, events, key.data)

    def _go_on(self) -> None:
        """Wait until something happens, and see to it."""
        asked = [(seat, seat.jobs[0]) for seat in self._seats if seat.jobs]
        patience = min(LOOK_SECONDS, *(self._limit(seat) - seat.waited for seat, _ in asked))
        began = time.monotonic()
        events = self._selector.select(max(0.0, patience))
        elapsed = time.monotonic() - began
        for key, mask in events:
            seat, handle = key.data
            if seat.handle is not handle:
                continue  # replaced a moment ago
            if key.fd == handle.descriptors[1]:
                if not handle.read_output():
                    self._selector.unregister(key.fd)
                continue
            if mask & selectors.EVENT_WRITE:
                handle.flush()
                self._watch(handle)
            if mask & selectors.EVENT_READ:
                self._hear(seat, handle)
        for seat, oldest in asked:
            if seat.handle and seat.jobs and seat.jobs[0] is oldest:
                seat.waited += elapsed
                self._check(seat, seat.handle)

    def _limit(self, seat: Seat) -> float:
        return self.config.reset_seconds if seat.jobs[0].op in BEGINNINGS else self.config.step_seconds

    def _check(self, seat: Seat, handle: WorkerHandle) -> None:
        """Replace a process that takes too long or too much, or has ended though what it forked holds its pipe."""
        if handle.ended():
            self._take_in(seat, handle)
        elif seat.waited >= self._limit(seat):
            field = "reset_seconds" if seat.jobs[0].op in BEGINNINGS else "step_seconds"
            handle.stack()
            self._replace(seat, "hung", f"no answer within workers.{field} = {self._limit(seat):g}")
        elif self._most_memory and (resident := handle.resident()) > self._most_memory:
            if game := seat.jobs[0].game:
                game.grown += resident - seat.resident
            self._too_large(seat, resident)

    def _hear(self, seat: Seat, handle: WorkerHandle, ended: bool = False) -> None:
        try:
            for answer, resident in handle.receive(ended):
                if not seat.jobs:
                    raise Broken(NO_ANSWER)
                seat.waited = 0.0
                self._take(seat, seat.jobs[0], answer, resident)
                if seat.handle is not handle:
                    return
        except Broken as broken:
            handle.wait(1.0)
            self._replace(seat, "crashed", str(broken))

    def _take(self, seat: Seat, job: Job, answer: dict[str, Any], resident: int) -> None:
        if job.game:
            job.game.grown += resident - seat.resident
            if not job.replay:
                seat.excused = 0
        seat.resident = resident
        if self._most_memory and resident > self._most_memory and job.game:
            self._too_large(seat, resident)
            return
        seat.jobs.popleft()
        if job.game and job.op != "close":
            try:
                job.game.take(job, answer)
            except (KeyError, TypeError, AttributeError):
                seat.jobs.appendleft(job)
                raise Broken(NO_ANSWER) from None

    def _take_in(self, seat: Seat, handle: WorkerHandle) -> None:
        """Hear all that a process said that has ended, which ends in its being replaced."""
        while seat.handle is handle:
            self._hear(seat, handle, ended=True)

    def _too_large(self, seat: Seat, resident: int) -> None:
        guilty = max(seat.games.values(), key=lambda game: game.grown, default=None)
        used = f"{resident / 2**20:.0f} MB in its process, more than workers.memory_mb = {self.config.memory_mb}"
        self._replace(seat, "memory", used, guilty)

    def _replace(self, seat: Seat, kind: str, reason: str, guilty: WorkerGame | None = None) -> None:
        """End a process. The game that is guilty breaks, the requests of the others are asked anew in another one."""
        jobs, seat.jobs = list(seat.jobs), deque()
        handle = self._release(seat)
        self._running.discard(handle)
        status = handle.kill()
        if kind == "crashed" and status is not None:
            reason = how_it_ended(status)
        self.replaced += 1
        beginning = jobs and (jobs[0].replay or jobs[0].op in BEGINNINGS)
        if beginning and status == -signal.SIGKILL and seat.excused < EXCUSED:
            seat.excused += 1
        elif jobs and jobs[0].game is None:
            raise UserError(f"a worker process does not start: {reason}: {one_line(handle.printed[-500:])}")
        elif jobs and guilty is None:
            guilty = jobs[0].game
        fault = GameFault(kind, reason, handle.printed)
        if guilty:
            guilty.fault = fault
        asked = [job for job in jobs if job.game and job.op != "close" and not job.replay]
        if not any(job.game is guilty for job in asked):  # its slot will not tell
            log(fault, "a worker process, between turns")
        for job in asked:
            if job.game is guilty:
                job.fault = fault
            else:
                self.send(job)

    def _release(self, seat: Seat) -> WorkerHandle:
        assert seat.handle is not None
        for descriptor in seat.handle.descriptors:
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        handle, seat.handle = seat.handle, None
        for game in seat.games.values():
            game.lost, game.grown = True, 0
        return handle


def _end(running: set[WorkerHandle], owner: int) -> None:
    """Have processes close their games and leave; kill those that do not."""
    if os.getpid() != owner:  # a copy of this process, made by fork: they are not its own
        return
    for handle in running:
        handle.hang_up()
    deadline = time.monotonic() + SECONDS_TO_CLOSE
    while running:
        handle = running.pop()
        handle.wait(max(0.0, deadline - time.monotonic()))
        handle.kill()
