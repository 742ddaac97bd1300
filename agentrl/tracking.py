"""Where metrics go: metrics.jsonl always, TensorBoard, trackio and wandb by config, and the turns of some updates.

A resumed run goes on in the same places. Whatever was logged after the checkpoint is about to be computed again:
metrics.jsonl is cut back to the checkpoint, TensorBoard purges those steps, the others show the repeated updates twice.
"""

import importlib
import json
import math
import os
import uuid
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from agentrl.callbacks import Callback, TrainerView
from agentrl.config import Config
from agentrl.errors import UserError
from agentrl.records import Turn
from agentrl.results import write_text
from agentrl.turn_files import write_turns

RUN_IDS = "tracking.json"
"""File of the run directory: {backend: the name under which it knows the run}."""


def make_trackers(config: Config, run_dir: Path, resume_from_update: int | None = None) -> list[Callback]:
    """The callbacks that `config.tracking` asks for. Raises UserError if a backend's package is not installed."""
    trackers: list[Callback] = [MetricsFile(run_dir / "metrics.jsonl", resume_from_update)]
    for backend in config.tracking.backends:
        if backend == "tensorboard":
            trackers.append(TensorBoardTracker(run_dir / "tensorboard", resume_from_update))
        elif backend == "trackio":
            trackers.append(TrackioTracker(config, run_dir))
        else:
            trackers.append(WandbTracker(config, run_dir))
    if config.tracking.turns_every:
        trackers.append(TurnRecorder(config.tracking.turns_every))
    return trackers


class Tracker(Callback):
    """Turns updates and evaluations into `log(update, metrics)`, on the main process only."""

    def on_start(self, trainer: TrainerView) -> None:
        if trainer.is_main:
            self.start()

    def on_update(self, trainer: TrainerView, metrics: dict[str, float]) -> None:
        if trainer.is_main:
            self.log(trainer.update, metrics)

    def on_evaluation(self, trainer: TrainerView, name: str, results: dict[str, Any]) -> None:
        if trainer.is_main:
            self.log(trainer.update, evaluation_metrics(name, results))

    def on_end(self, trainer: TrainerView) -> None:
        if trainer.is_main:
            self.finish()

    @abstractmethod
    def start(self) -> None:
        """Open the run."""

    @abstractmethod
    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Log once; it may be called several times for one update."""

    @abstractmethod
    def finish(self) -> None:
        """Write everything out."""


def evaluation_metrics(name: str, results: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """{task: figures} as `evaluation/NAME/TASK/FIGURE`; what is not a number (null, intervals) is left out."""
    return {
        f"evaluation/{name}/{task}/{figure}": float(value)
        for task, figures in results.items()
        for figure, value in figures.items()
        if isinstance(value, int | float)
    }


class MetricsFile(Tracker):
    """One JSON object a line, `{"update": int, **metrics}`, flushed at once; a number that is not finite is null."""

    def __init__(self, path: Path, resume_from_update: int | None = None) -> None:
        self.path = path
        self.resume_from_update = resume_from_update
        self.file: TextIO | None = None
        self._kept: set[bytes] = set()

    def start(self) -> None:
        if self.resume_from_update is not None and self.path.exists():
            cut_back(self.path, self.resume_from_update)
            # An evaluation at the checkpoint's update may be played again; its row is there already.
            self._kept = {line for line, row in _metric_lines(self.path) if row["update"] == self.resume_from_update}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.file = self.path.open("a", encoding="utf-8")

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        assert self.file is not None, "on_start opens the file"
        row = {"update": update, **{name: _finite(value) for name, value in metrics.items()}}
        line = json.dumps(row, allow_nan=False)
        if line.encode() not in self._kept:
            self.file.write(line + "\n")
            self.file.flush()

    def finish(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a metrics.jsonl. A last line torn by a kill is no row; a broken one before it raises UserError."""
    return [row for _, row in _metric_lines(path)]


def cut_back(path: Path, update: int) -> None:
    """Keep the rows up to `update`, byte for byte, and replace the file at once. Raises UserError as `read_metrics`."""
    kept = [line for line, row in _metric_lines(path) if row["update"] <= update]
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.writelines(line + b"\n" for line in kept)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _metric_lines(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    lines = path.read_bytes().split(b"\n")
    while lines and not lines[-1]:
        lines.pop()
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            torn = not (isinstance(row, dict) and type(row.get("update")) is int)
        except (ValueError, RecursionError):
            torn = True
        if not torn:
            rows.append((line, row))
        elif number < len(lines):
            raise UserError(f'{path}, line {number}: not a JSON object with a whole number "update"; remove the line')
    return rows


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


class TensorBoardTracker(Tracker):
    """Event files in `folder`."""

    def __init__(self, folder: Path, resume_from_update: int | None = None) -> None:
        self.folder = folder
        self.purge_step = None if resume_from_update is None else resume_from_update + 1
        self.module = _import("torch.utils.tensorboard", package="tensorboard")
        self.writer: Any = None

    def start(self) -> None:
        self.writer = self.module.SummaryWriter(str(self.folder), purge_step=self.purge_step)

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            if math.isfinite(value):
                self.writer.add_scalar(name, value, update)
        self.writer.flush()

    def finish(self) -> None:
        if self.writer is not None:
            self.writer.close()


class TrackioTracker(Tracker):
    """A trackio run. trackio resumes by name, so the name gets a suffix that no other run has."""

    def __init__(self, config: Config, run_dir: Path) -> None:
        self.config, self.run_dir = config, run_dir
        self.module = _import("trackio", package="trackio", extra="trackio")

    def start(self) -> None:
        name = _stored_run_id(self.run_dir, "trackio", f"{self.config.name}-{uuid.uuid4().hex[:8]}")
        self.module.init(
            project=self.config.tracking.project, name=name, config=self.config.model_dump(mode="json"), resume="allow"
        )

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        self.module.log({name: value for name, value in metrics.items() if math.isfinite(value)}, step=update)

    def finish(self) -> None:
        self.module.finish()


class WandbTracker(Tracker):
    """A wandb run. `update` is its own x axis: wandb refuses steps that go back, and a resumed run's do."""

    def __init__(self, config: Config, run_dir: Path) -> None:
        self.config, self.run_dir = config, run_dir
        self.module = _import("wandb", package="wandb", extra="wandb")
        self.run: Any = None

    def start(self) -> None:
        self.run = self.module.init(
            project=self.config.tracking.project,
            name=self.config.name,
            id=_stored_run_id(self.run_dir, "wandb", uuid.uuid4().hex[:8]),
            dir=str(self.run_dir),
            config=self.config.model_dump(mode="json"),
            resume="allow",
        )
        self.run.define_metric("*", step_metric="update")

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        self.run.log({"update": update, **{name: value for name, value in metrics.items() if math.isfinite(value)}})

    def finish(self) -> None:
        if self.run is not None:
            self.run.finish()


class TurnRecorder(Callback):
    """Writes every k-th update's turns to turns/update-N.parquet."""

    def __init__(self, every: int) -> None:
        self.every = every

    def on_batch(self, trainer: TrainerView, turns: list[Turn]) -> None:
        update = trainer.update + 1
        if trainer.is_main and update % self.every == 0:
            write_turns(trainer.run_dir / "turns" / f"update-{update:06d}.parquet", turns)


def _import(module: str, package: str, extra: str | None = None) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        remedy = f"pip install 'agentrl[{extra}]'" if extra else f"pip install {package}"
        raise UserError(
            f"tracking.backends = {package}: the package is not installed; {remedy}, or remove it from the list"
        ) from None


def _stored_run_id(run_dir: Path, backend: str, fresh: str) -> str:
    """The id that an earlier process of this run stored, else `fresh`, stored now."""
    path = run_dir / RUN_IDS
    ids: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if backend not in ids:
        ids[backend] = fresh
        write_text(path, json.dumps(ids) + "\n")
    return ids[backend]
