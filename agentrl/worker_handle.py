"""A worker process seen from the trainer: started, written to and read from without ever blocking, killed.

Its group is its own: Ctrl-C does not reach it, and what its games started ends with it.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentrl.worker_process import HEADER, MOST_BYTES, frame, payload

BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from agentrl.worker_process import main; main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == '1')"
)
"""Not multiprocessing: its children import the main script again, and torch with it."""

OUTPUT = 2**14
"""Bytes of what a worker printed last that are kept, to be shown when it breaks."""

CHUNK = 2**18

SECONDS_TO_TELL = 1.0
"""What a hung worker has to print its stack."""


NO_ANSWER = "something else than an answer came through its pipe"


class Broken(Exception):
    """The pipe ended, or something else than an answer came through it."""


class WorkerHandle:
    """One running process.

    Args:
        measure: the answers tell the process's resident memory.
    """

    def __init__(self, measure: bool) -> None:
        self._pipe, theirs = socket.socketpair()
        arguments = [json.dumps(sys.path), str(theirs.fileno()), str(os.getpid()), str(int(measure))]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self._stdout = self._process.stdout
        self._pipe.setblocking(False)
        os.set_blocking(self._stdout.fileno(), False)
        self._incoming, self._outgoing, self._printed = bytearray(), bytearray(), b""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def descriptors(self) -> tuple[int, int]:
        """Those of its answers and of what it prints."""
        return self._pipe.fileno(), self._stdout.fileno()

    @property
    def writing(self) -> bool:
        """Whether requests are still on their way to it."""
        return bool(self._outgoing)

    def ended(self) -> bool:
        """Whether the process has ended; its id stays taken until `kill`."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # somebody waits for all children
            return True

    def resident(self) -> int:
        """Bytes of memory; 0 where it cannot be told."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def send(self, request: dict[str, Any]) -> None:
        self._outgoing += frame(payload(request))
        self.flush()

    def flush(self) -> None:
        """Write what the pipe takes. That nobody reads it any more shows when it is read from."""
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._outgoing:
                del self._outgoing[: self._pipe.send(self._outgoing[:CHUNK])]

    def receive(self, ended: bool = False) -> Iterator[tuple[dict[str, Any], int]]:
        """The answers that have come whole, each with the bytes of memory in use.

        Args:
            ended: the process had ended before: what has not come will not. (What it forked may hold the pipe open.)

        Raises:
            Broken: no more will come, or what follows is none.
        """
        try:
            data = self._pipe.recv(CHUNK)
        except BlockingIOError:
            if ended:
                raise Broken("it closed its pipe") from None
            return
        except ConnectionResetError:
            data = b""
        if not data:
            raise Broken("it closed its pipe")
        self._incoming += data
        while len(self._incoming) >= HEADER.size:
            length, resident = HEADER.unpack_from(self._incoming)
            if length > MOST_BYTES:
                raise Broken(NO_ANSWER)
            if len(self._incoming) < HEADER.size + length:
                return
            text = bytes(self._incoming[HEADER.size : HEADER.size + length])
            del self._incoming[: HEADER.size + length]
            try:
                answer = json.loads(text)
            except (ValueError, RecursionError):
                answer = None
            if not isinstance(answer, dict):
                raise Broken(NO_ANSWER)
            yield answer, resident

    def read_output(self) -> bool:
        """Take in some of what it printed; False at the end of it."""
        try:
            data = os.read(self._stdout.fileno(), CHUNK)
        except BlockingIOError:
            return True
        self._printed = (self._printed + data)[-OUTPUT:]
        return bool(data)

    def stack(self) -> None:
        """Have it print where it is; what it says of that comes with the output."""
        before, deadline = self._printed, time.monotonic() + SECONDS_TO_TELL
        os.kill(self.pid, signal.SIGUSR1)
        while self._printed == before and time.monotonic() < deadline and self.read_output():
            time.sleep(0.05)

    def hang_up(self) -> None:
        """Let it close its games and leave."""
        with suppress(OSError):
            self._pipe.shutdown(socket.SHUT_WR)

    def wait(self, seconds: float) -> bool:
        """Whether it ends in time; what it prints meanwhile is taken in, so that it does not wait for that."""
        deadline = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() > deadline:
                return False
            self.read_output()
            time.sleep(0.005)
        return True

    def kill(self) -> int | None:
        """End the process and whatever it started; the status it had ended with before, below 0 by a signal."""
        before = self.ended()
        # Before it is waited for: until then nobody else can have its id.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        status = self._process.wait()
        self.read_output()
        self._pipe.close()
        self._stdout.close()
        return status if before else None

    @property
    def printed(self) -> str:
        """What it printed last."""
        return self._printed.decode(errors="replace")


def how_it_ended(status: int) -> str:
    if status >= 0:
        return f"its process left with status {status}"
    try:
        return f"its process was killed by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal has no name
        return f"its process was killed by signal {-status}"
