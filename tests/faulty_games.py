"""Games that break in every way a process can: for worker processes, which load this file. Nothing here needs torch."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentrl.envs import Observation, ScriptedPlayer, TextEnv

WORDS = ("red", "green", "blue")

FOREVER = 3600.0


def _spin() -> None:
    while True:
        pass


def _grow() -> None:
    hoard = []
    while True:
        hoard.append(bytearray(2**20))
        time.sleep(0.001)


def _orphan() -> None:
    """Leave a process behind that holds all that this one had open."""
    if os.fork():
        os._exit(3)
    time.sleep(FOREVER)


def _drip() -> None:
    """An answer that begins, and comes byte by byte for ever."""
    (pipe,) = (fd for fd in range(3, 1000) if _is_socket(fd))
    os.write(pipe, (2**20).to_bytes(4, "big") + bytes(8))
    while True:
        os.write(pipe, b" ")
        time.sleep(0.02)


def _raise(error: BaseException) -> None:
    raise error


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


FAULTS: dict[str, Callable[[], Any]] = {
    "raise": lambda: _raise(RuntimeError("the table \x1b[31mfell\x1b[0m over")),
    "raise unspeakable": lambda: _raise(Unspeakable()),
    "sys.exit": lambda: sys.exit(3),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "os._exit": lambda: os._exit(3),
    "orphan": _orphan,
    "sigkill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "sleep": lambda: time.sleep(FOREVER),
    "spin": _spin,
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "memory": _grow,
    "close the pipe": lambda: os.closerange(3, 1000),
    "garbage in the pipe": lambda: [os.write(fd, b"\xff" * 64) for fd in range(3, 1000) if _is_socket(fd)],
    "drip": _drip,
}


def _is_socket(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except OSError:
        return False


class Faulty(TextEnv):
    """Shows a word each turn, drawn from the seed; the reward is 1 for repeating it.

    Args:
        turns: an episode's length.
        fault: what goes wrong, of FAULTS, at turn `at` (0 is the reset) of the seeds that `every` divides.
        answers: what is wrong with the answer of that turn instead.
        chatter: characters that each step prints.
        trail: a file that each game appends a line to when it is closed.
        pause: seconds that a step takes.
        drift: what it shows depends on the process it is in.
        leak: megabytes that each step leaves behind.
        tells_modules: which of those that games do without are loaded in its process.
    """

    hoard: list[bytes] = []

    def __init__(
        self,
        turns: int = 6,
        fault: str = "",
        at: int = 2,
        every: int = 1,
        answers: str = "",
        chatter: int = 0,
        trail: str = "",
        pause: float = 0.0,
        drift: bool = False,
        leak: int = 0,
        tells_modules: bool = False,
    ) -> None:
        if fault == "make":
            raise OSError("no display")
        self.actions = {word: f"say {word}" for word in WORDS}
        self.default_action = WORDS[0]
        self.synonyms = {"crimson": "red"}
        self.max_turns = turns
        self.achievements = WORDS
        self._fault, self._at, self._every, self._answers = fault, at, every, answers
        self._chatter, self._trail, self._pause = chatter, trail, pause
        self._tells_modules = tells_modules
        self._drift = f" Process {os.getpid()}." if drift else ""
        self._leak = leak

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Any]:
        super().reset(seed=seed)
        self.mission = f"repeat what the card of seed {seed} says"
        self._breaks = (seed or 0) % self._every == 0
        self._turn = self._right = 0
        self._unlocked: set[str] = set()
        self._draw()
        self._go_wrong()
        return self._observation(), {}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self._pause)
        self.hoard.append(b"x" * (self._leak * 2**20))
        self._turn += 1
        if self._chatter:
            print("x" * self._chatter)
            os.write(2, b"\x1b]0;title\x07")
        self._go_wrong()
        right = action == self._word
        self._right += right
        if right:
            self._unlocked.add(action)
        self._draw()
        over = self._turn == self.max_turns
        info: dict[str, Any] = {"achievements": self._unlocked}
        if over:
            info |= {"success": self._right == self._turn, "progression": self._right / self._turn}
        wrong = self._answers if self._breaks and self._turn == self._at else ""
        if wrong == "100 MB":
            return Observation("x" * 100_000_000), 0.0, False, False, info
        if wrong == "nothing":
            return None  # type: ignore[return-value]
        if wrong == "no observation":
            return 7, 0.0, False, False, info
        if wrong == "no reward":
            return self._observation(), "much", False, False, info  # type: ignore[return-value]
        return self._observation(), float(right), over, False, info

    def prompt_facts(self) -> dict[str, str]:
        return {"right": str(self._right)}

    def scripted_player(self) -> ScriptedPlayer | None:
        asked = 0

        def player() -> str:
            nonlocal asked
            asked += 1
            assert asked == self._turn + 1, "a player who missed a turn"
            return self._word

        return player

    def close(self) -> None:
        if self._trail:
            with Path(self._trail).open("a") as trail:
                trail.write("closed\n")
        if self._fault == "close":
            time.sleep(FOREVER)

    def _draw(self) -> None:
        self._word = WORDS[int(self.np_random.integers(3))]

    def _observation(self) -> Observation:
        loaded = {"torch", "transformers", "agentrl.config"} & sys.modules.keys() if self._tells_modules else ""
        return Observation(
            f"Turn {self._turn}. The card says {self._word}.{self._drift}", f"loaded: {loaded or 'nothing'}"
        )

    def _go_wrong(self) -> None:
        if self._breaks and self._turn == self._at and self._fault in FAULTS:
            FAULTS[self._fault]()
