"""What the page shows of a run's or a benchmark's folder beside its episodes: name, curves, tables."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from agentrl.errors import UserError
from agentrl.plainyaml import load_yaml
from agentrl.report_evaluations import PLAYERS
from agentrl.results import evaluations
from agentrl.tracking import read_metrics
from agentrl.view_turns import number

T = TypeVar("T")

FIGURES = ("episodes", "success", "progression", "return", "achievements", "length", "invalid_fraction", "errors")
INTERVALS = ("success_ci95", "progression_ci95", "return_ci95", "achievements_ci95")
"""What the table of tasks shows of an evaluation."""

MOST_POINTS = 4000
"""Of a curve; of a longer one every second row is left out, or more."""


@dataclass(slots=True)
class Source:
    """A folder that is viewed, or a file of figures.

    Attributes:
        kind: `run`, of `agentrl train`, `bench`, or `figures`, the JSON file of `agentrl eval`.
        notes: what could not be read, in one line each.
    """

    path: Path
    kind: str
    name: str
    config: dict[str, Any]
    results: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    @property
    def turn_files(self) -> list[Path]:
        """Evaluations in the order of play, then the updates of training."""
        if self.kind == "figures":
            return []
        if self.kind == "bench":
            return [path for path in [self.path / "turns.parquet"] if path.exists()]
        order = list(PLAYERS)
        found = sorted((self.path / "turns").glob("*.parquet"))
        evaluations = [path for path in found if path.stem.startswith("evaluation-")]
        known = {path: path.stem.removeprefix("evaluation-") for path in evaluations}
        evaluations.sort(key=lambda path: order.index(known[path]) if known[path] in order else -1)
        return [*reversed(evaluations), *(path for path in found if path not in known)]

    @property
    def model(self) -> str | None:
        """The model's folder or name, where it is told."""
        told = _dig(self.config, "model", "path") or self.results.get("model") or _setting(self, "model.path")
        return told if isinstance(told, str) else None

    @property
    def discount(self) -> float:
        """Of returns between turns; 1 where nothing says otherwise."""
        told = _dig(self.config, "algorithm", "gamma_step")
        return float(told) if isinstance(told, int | float) else 0.99 if self.kind == "run" else 1.0

    def game_options(self, task: str) -> dict[str, Any]:
        """The options with which a task was played."""
        if isinstance(told := _dig(self.config, "game", "options"), dict):
            return told
        told = _dig(self.results, "tasks", task, "options")
        return told if isinstance(told, dict) else {}


def open_source(path: Path) -> Source:
    """Read a folder's small files, or a file of figures. What is broken in a folder becomes a note.

    Raises:
        UserError: no run, no benchmark, no such file.
    """
    if path.is_file():
        return _figures_file(path)
    if not path.is_dir():
        raise UserError(
            f"{path}: no such folder or file; give a run (runs/NAME), a benchmark's results, or what eval --out wrote"
        )
    if not any((path / name).exists() for name in ("config.yaml", "metrics.jsonl", "results.json", "turns.parquet")):
        raise UserError(f"{path}: neither a run nor a benchmark's results: it has no config.yaml and no results.json")
    notes: list[str] = []
    config = _read(path / "config.yaml", lambda file: load_yaml(file.read_bytes()), notes)
    results = _read(path / "results.json", lambda file: json.loads(file.read_bytes()), notes)
    config, results = (found if isinstance(found, dict) else {} for found in (config, results))
    bench = results.get("kind") == "bench" or (path / "turns.parquet").exists()
    name = config.get("name") or path.resolve().name
    return Source(path, "bench" if bench else "run", str(name), config, results, notes)


def _figures_file(path: Path) -> Source:
    try:
        results = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not the JSON that eval --out writes: {error}") from error
    if not isinstance(results, dict) or not any(map(_is_figures, results.values())):
        raise UserError(f"{path}: not what eval --out writes: no task with its episodes and return")
    return Source(path, "figures", path.stem, {}, results)


def _is_figures(value: Any) -> bool:
    return isinstance(value, dict) and {"episodes", "return"} <= value.keys()


def curves(source: Source) -> dict[str, Any]:
    """metrics.jsonl as columns: `update`, `turns`, and `metrics`, as [name, values], None where there is none."""
    rows = _read(source.path / "metrics.jsonl", read_metrics, source.notes) or []
    step = -(-len(rows) // MOST_POINTS) or 1
    # An evaluation's row stands for itself; of the others, some may be left out.
    kept = [row for index, row in enumerate(rows) if index % step == 0 or any("evaluation" in name for name in row)]
    names = sorted({name for row in kept for name in row} - {"update", "turns"})
    return {
        "update": [row["update"] for row in kept],
        "turns": [_finite(row.get("turns")) for row in kept],
        "metrics": [[name, [_finite(row.get(name)) for row in kept]] for name in names],
    }


def table(source: Source) -> list[dict[str, Any]]:
    """The lines of the table of tasks: task, player, figures with intervals; after a benchmark's tasks its totals."""
    lines = []
    if source.kind == "bench":
        player = _player(source.results)
        for task, figures in _mapping(source.results.get("tasks")).items():
            lines.append({"task": str(task), "player": player, **_figures(figures)})
        for game, figures in _mapping(source.results.get("games")).items():
            lines.append({"task": f"{game}: all tasks", "player": player, **_percent(figures)})
        if overall := _mapping(source.results.get("overall")):
            lines.append({"task": "all games", "player": player, **_percent(overall)})
        for task, figures in _mapping(source.results.get("reference")).items():
            for name, entry in _mapping(figures).items():
                if isinstance(entry, dict):
                    lines.append({"task": str(task), "player": f"reference: {name}", **_figures(entry)})
        return lines
    if source.kind == "figures":
        who = ", ".join(str(source.results[name]) for name in ("model", "player") if name in source.results)
        played = [(task, figures) for task, figures in source.results.items() if _is_figures(figures)]
        return [{"task": task, "player": who, **_figures(figures)} for task, figures in played]
    for player, group in evaluations(source.results).items():
        for task, figures in group.items():
            if "episodes" in figures:
                lines.append({"task": task, "player": PLAYERS.get(player, player), **_figures(figures)})
    return lines


def outcomes(source: Source) -> dict[tuple[str, int], dict[str, Any]]:
    """What results.json tells of single episodes, by task and number, which a turn of theirs has as its slot."""
    found = {}
    for task, figures in _mapping(source.results.get("tasks")).items():
        for episode in _mapping(figures).get("episodes_list") or ():
            if isinstance(episode, dict) and isinstance(episode.get("number"), int):
                found[str(task), episode["number"]] = episode
    return found


def _player(results: Mapping[str, Any]) -> str:
    """Who played a benchmark: the model, and the style of agent that asked it."""
    model, style = results.get("model"), _dig(results, "agent", "style")
    return ", ".join(str(part) for part in (model, style) if part)


def _figures(figures: Any) -> dict[str, Any]:
    figures = _mapping(figures)
    line: dict[str, Any] = {name: _finite(figures.get(name)) for name in FIGURES}
    if failed := _finite(figures.get("failed")):  # a benchmark's, which no score counts
        line["errors"] = (line["errors"] or 0) + failed
    for name in INTERVALS:
        ends = figures.get(name)
        line[name] = [_finite(end) for end in ends] if isinstance(ends, list) and len(ends) == 2 else None
    line["progression_ci95"] = line["progression_ci95"] or _around(line["progression"], figures.get("progression_se"))
    return line


def _percent(figures: Any) -> dict[str, Any]:
    """Totals are in percent; the table's fractions are not."""
    figures = _mapping(figures)
    middle, error = _finite(figures.get("progression")), _finite(figures.get("standard_error"))
    middle, error = (None if value is None else value / 100 for value in (middle, error))
    return {
        "episodes": _finite(figures.get("episodes")),
        "progression": middle,
        "progression_ci95": _around(middle, error),
    }


def _around(middle: float | None, error: Any) -> list[float] | None:
    """95 % of a normal distribution, within what a fraction can be."""
    error = _finite(error)
    if middle is None or error is None:
        return None
    return [max(0.0, middle - 1.96 * error), min(1.0, middle + 1.96 * error)]


def _read(path: Path, read: Callable[[Path], T], notes: list[str]) -> T | None:
    try:
        return read(path) if path.exists() else None
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{path.name} cannot be read: {error}")
        return None


def _setting(source: Source, name: str) -> Any:
    return _mapping(source.results.get("settings")).get(name)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dig(tree: Any, *keys: str) -> Any:
    for key in keys:
        tree = _mapping(tree).get(key)
    return tree


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return number(float(value)) if math.isfinite(value) else None
