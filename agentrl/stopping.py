"""Stopping between two turns: signals that ask for it, and the exception that ends what is under way."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """The caller asked to stop between two turns."""


class StopSignals:
    """SIGINT and SIGTERM as a wish that is granted at the next boundary.

    Attributes:
        asked: whether one has come.
    """

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """While in it, a signal sets `asked`; a second SIGINT interrupts at once.

        Outside the main thread, where Python allows no handlers, signals are left as they are.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(number: int, frame: object) -> None:
            if self.asked and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.asked = True

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
