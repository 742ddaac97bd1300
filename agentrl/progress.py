"""How far a run is: a rich bar on a terminal, a plain line now and then in a log.

`track` serves every loop that has a length; training's own display is `RichProgress`, built on it.
"""

import atexit
import math
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Column

from agentrl.callbacks import Callback, TrainerView

PLAIN_SECONDS = 20.0
"""Time between two lines in a log."""

_RATE_WINDOW = 50
"""Advances that rate and ETA look back on: long enough to be calm, short enough to follow a change of pace."""

_live: Progress | None = None
# A terminal holds one live display: an evaluation inside training adds its bar to training's.


def say(line: str) -> None:
    """Print a line at once. That nobody reads it any more, as after `| head`, must not end a run."""
    with suppress(OSError):
        print(_printable(line), flush=True)


class Tracked:
    """One running loop. Set `text` to show a few words beside the numbers; `total` may change on the way."""

    def __init__(self, total: int, description: str, unit: str, completed: int) -> None:
        self.total = total
        self.description = _printable(description)
        self.unit = unit
        self.completed = completed
        self.text = ""
        self._history = deque([(time.monotonic(), completed)], maxlen=_RATE_WINDOW + 1)

    def advance(self, n: int = 1) -> None:
        self.completed += n
        self._history.append((time.monotonic(), self.completed))
        self._show()

    def step(self, loss: float) -> None:
        """An optimizer step is done."""
        self.text = f"loss {loss:.3f}"
        self.advance()

    @property
    def rate(self) -> float | None:
        """Units a second, None before the first advance."""
        (start, before), (now, after) = self._history[0], self._history[-1]
        return (after - before) / (now - start) if after > before and now > start else None

    def details(self) -> str:
        """Rate, time left and `text` in one line."""
        parts = []
        if self.unit and self.rate:
            parts.append(f"{self.rate:.3g} {self.unit}/s")
        if self.rate and self.completed < self.total:
            parts.append(f"ETA {duration((self.total - self.completed) / self.rate)}")
        return "  ".join([*parts, _printable(self.text)]).strip()

    def _show(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class _PlainLines(Tracked):
    """For a log file: at most one line in PLAIN_SECONDS, and the end."""

    def __init__(self, total: int, description: str, unit: str, completed: int) -> None:
        super().__init__(total, description, unit, completed)
        self._last_shown = time.monotonic()
        self._shown_at: int | None = None

    def _show(self) -> None:
        if time.monotonic() - self._last_shown >= PLAIN_SECONDS:
            self._print()

    def _print(self) -> None:
        self._last_shown, self._shown_at = time.monotonic(), self.completed
        say(f"{self.description}  {self.completed}/{self.total}  {self.details()}".rstrip())

    def close(self) -> None:
        if self._shown_at != self.completed:
            self._print()


class _Silent(Tracked):
    """For the processes of a run that are not its first: one display is enough."""

    def _show(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Bar(Tracked):
    """For a terminal: one row of a live display."""

    def __init__(self, progress: Progress, total: int, description: str, unit: str, completed: int) -> None:
        super().__init__(total, description, unit, completed)
        self._progress = progress
        self._task: TaskID = progress.add_task(self.description, total=total, completed=completed, details="")

    def _show(self) -> None:
        self._progress.update(
            self._task,
            description=self.description,
            total=self.total,
            completed=self.completed,
            details=self.details(),
        )

    def close(self) -> None:
        self._show()


@contextmanager
def track(total: int, description: str, unit: str = "", completed: int = 0) -> Iterator[Tracked]:
    """Show progress through `total` units: `with track(64, "evaluating", "episodes") as progress: progress.advance()`.

    `unit` shows a rate; `completed` is where a resumed loop starts.
    """
    global _live
    if os.environ.get("RANK", "0") != "0":
        yield _Silent(total, description, unit, completed)
        return
    if sys.stdout is None or not sys.stdout.isatty():
        plain = _PlainLines(total, description, unit, completed)
        try:
            yield plain
        finally:
            plain.close()
        return
    if _live is not None:
        bar = _Bar(_live, total, description, unit, completed)
        try:
            yield bar
        finally:
            _live.remove_task(bar._task)
        return
    _live = Progress(
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[details]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    # An error that ends the process must not leave the terminal without its cursor.
    atexit.register(_live.stop)
    _live.start()
    bar = _Bar(_live, total, description, unit, completed)
    try:
        yield bar
    finally:
        bar.close()
        _live.stop()
        atexit.unregister(_live.stop)
        _live = None


class RichProgress(Callback):
    """Training's bar: update, turns/s, time left, success, return, achievements, explained variance; a line for each
    evaluation."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._tracked: Tracked | None = None
        self._turns: tuple[float, float] | None = None

    def on_start(self, trainer: TrainerView) -> None:
        if trainer.is_main:
            self._tracked = self._stack.enter_context(
                track(trainer.total_updates, "training", completed=trainer.update)
            )

    def on_update(self, trainer: TrainerView, metrics: dict[str, float]) -> None:
        if self._tracked is None:
            return
        self._tracked.total = trainer.total_updates
        self._tracked.description = "critic warm-up" if metrics.get("phase/critic_warmup") else "training"
        figures = {
            "success": "episode/success",
            "return": "episode/return",
            "achievements": "episode/achievements",
            "ev": "explained_variance",
        }
        words = [f"{word} {text}" for word, name in figures.items() if (text := _figure(metrics.get(name)))]
        self._tracked.text = "  ".join([*self._turns_per_second(metrics.get("turns", math.nan)), *words])
        self._tracked.advance(trainer.update - self._tracked.completed)

    def on_evaluation(self, trainer: TrainerView, name: str, results: dict[str, Any]) -> None:
        if trainer.is_main:
            for task, figures in results.items():
                say(evaluation_line(name, task, figures))

    def on_end(self, trainer: TrainerView) -> None:
        self._stack.close()
        self._tracked = None

    def _turns_per_second(self, turns: float) -> list[str]:
        """Since the update before; evaluations and checkpoints between them count as time. Empty at the first."""
        now, before = time.monotonic(), self._turns
        self._turns = (now, turns)
        return [f"{(turns - before[1]) / (now - before[0]):.0f} turns/s"] if before and now > before[0] else []


def evaluation_line(name: str, task: str, figures: dict[str, Any]) -> str:
    """`after  babyai/goto  64 episodes  success 0.95 [0.87, 0.98]  return 0.81 [0.75, 0.86]`; of a game with
    achievements also `achievements 5.12 [4.60, 5.61]  score 9.87 %`."""
    parts = [name, task, f"{figures.get('episodes', '?')} episodes"]
    for figure in ("success", "return", "progression", "achievements"):
        if text := _figure(figures.get(figure)):
            interval = figures.get(f"{figure}_ci95")
            parts.append(f"{figure} {text}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""))
    if score := _figure(figures.get("score")):
        parts.append(f"score {score} %")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """75 -> "1:15", 3700 -> "1:01:40"."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _figure(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.2f}"


def _printable(text: str) -> str:
    """Text of a game or a model may hold terminal escapes."""
    return "".join(c if c.isprintable() else "?" for c in text)
