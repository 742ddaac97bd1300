"""The hooks of a training run. Progress, metrics, trackers and the report hang on them, and so can anyone's code."""

from pathlib import Path
from typing import Any, Protocol

from agentrl.config import Config
from agentrl.records import Turn


class TrainerView(Protocol):
    """What a callback may read of the trainer."""

    @property
    def config(self) -> Config: ...

    @property
    def run_dir(self) -> Path: ...

    @property
    def update(self) -> int:
        """Finished updates, critic warm-up included."""

    @property
    def total_updates(self) -> int:
        """Planned updates; it can shrink when the critic warm-up stops early."""

    @property
    def is_main(self) -> bool:
        """True on the one process that may write files."""


class Callback:
    """Override what you need; every method does nothing by default."""

    def on_start(self, trainer: TrainerView) -> None:
        """Before the first update, after a checkpoint was restored."""

    def on_batch(self, trainer: TrainerView, turns: list[Turn]) -> None:
        """A batch was collected and is about to be trained on; `trainer.update` does not count it yet."""

    def on_update(self, trainer: TrainerView, metrics: dict[str, float]) -> None:
        """An update is finished and counted in `trainer.update`."""

    def on_evaluation(self, trainer: TrainerView, name: str, results: dict[str, Any]) -> None:
        """Held-out episodes were played; `results` is {task: figures}, `name` is before, after, random, ..."""

    def on_end(self, trainer: TrainerView) -> None:
        """After results.json was written: when the run is finished, was interrupted, or gave up."""
