"""Results beside each other: what each reached on the tasks they share, with intervals, and what they differ in.

An entry is a benchmark's folder, a run's folder, or a file that `agentrl eval --out` wrote; FOLDER:PLAYER names another
evaluation of a run than the last one, say before or after_greedy.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from agentrl.errors import UserError, did_you_mean
from agentrl.results import evaluations
from agentrl.statistics import bootstrap_mean, bootstrap_seeds, paired_difference, wilson

Metric = Literal["success", "progression", "return"]
METRICS: tuple[Metric, ...] = ("success", "progression", "return")

LAST = ("after", "before", "random")
"""Of a run's evaluations, the one that is meant where none is named."""

PLAYED_WITH = (
    "agent",
    "history",
    "parsing",
    "feedback",
    "prompts",
    "temperature",
    "max_tokens",
    "balrog_seeding",
    "constrain",
    "prompt.style",
    "prompt.history",
    "prompt.sha256",
    "engine.temperature",
    "engine.max_reply_tokens",
    "engine.constrain",
)
"""Settings that move a score; where entries differ in one, that is said."""


@dataclass(slots=True)
class Figure:
    """One number: an entry's on a task. `values` are those of its episodes by seed, where they are known."""

    mean: float
    low: float
    high: float
    episodes: int
    values: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class Entry:
    """One column. `figures` maps metric and task to a number."""

    name: str
    figures: dict[tuple[Metric, str], Figure]
    settings: dict[str, Any]
    overall: tuple[float, float] | None = None
    """Progression in percent and its standard error, of a benchmark."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the figures must know, a line each."""


def load_entry(argument: str) -> Entry:
    """Read an entry.

    Raises:
        UserError: there is no such folder or file, it holds no results, or no evaluation of that name.
    """
    argument = argument.rstrip("/") or argument
    path, player = Path(argument), ""
    if not path.exists() and ":" in argument:
        folder, _, player = argument.rpartition(":")
        path = Path(folder)
    file = path / "results.json" if path.is_dir() else path
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{argument}: {file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{argument}: {file} is not JSON: {error}") from None
    if not isinstance(results, dict):
        raise UserError(f"{argument}: {file} holds no results")
    try:
        return _bench(argument, results) if results.get("kind") == "bench" else _run(argument, results, player)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{argument}: {file} is damaged: {type(error).__name__}: {error}") from None


def pooled(name: str, entries: Sequence[Entry]) -> Entry:
    """Runs of one recipe with different training seeds as one entry: the mean over runs, its interval by drawing runs,
    then episodes.

    Raises:
        UserError: they have no task in common.
    """
    shared = set.intersection(*(set(entry.figures) for entry in entries))
    if not shared:
        raise UserError(f"--group {name}: its entries have no task in common")
    figures = {}
    for place in shared:
        found = [entry.figures[place] for entry in entries]
        known = [list(figure.values.values()) or [figure.mean] for figure in found]
        low, high = bootstrap_seeds(known)
        mean = float(np.mean([figure.mean for figure in found]))
        figures[place] = Figure(mean, low, high, sum(figure.episodes for figure in found))
    notes = [note for entry in entries for note in entry.notes]
    notes += [f"within the group {name}, {line}" for line in differing(entries)]
    return Entry(name, figures, entries[0].settings, notes=notes)


def shared_metric(entries: Sequence[Entry], asked: str | None) -> Metric:
    """The metric asked for, or the one that most tasks of all entries have (Crafter has no success).

    Raises:
        UserError: there is none.
    """

    def covers(metric: Metric) -> int:
        shared = [{task for m, task in entry.figures if m == metric} for entry in entries]
        return len(set.intersection(*shared))

    best = max(METRICS, key=covers) if asked is None else next(m for m in METRICS if m == asked)
    if not all(any(m == best for m, _ in entry.figures) for entry in entries):
        raise UserError(
            f"--metric {asked}: not every entry has it" if asked else "the entries have no metric in common"
        )
    return best


def tasks_of(entries: Sequence[Entry], metric: Metric) -> list[str]:
    """Tasks that at least two entries have, or the only entry, in the order of the first.

    Raises:
        UserError: no task is shared.
    """
    order = dict.fromkeys(task for entry in entries for m, task in entry.figures if m == metric)
    needed = min(2, len(entries))
    found = [task for task in order if sum((metric, task) in entry.figures for entry in entries) >= needed]
    if not found:
        raise UserError("the entries have no task in common: nothing to compare")
    return found


def difference(ours: Figure, theirs: Figure) -> tuple[float, float, float] | None:
    """Mean difference and its interval over the seeds that both played; None where they share none."""
    seeds = sorted(ours.values.keys() & theirs.values.keys())
    if not seeds:
        return None
    return paired_difference([ours.values[seed] for seed in seeds], [theirs.values[seed] for seed in seeds])


def differing(entries: Sequence[Entry]) -> list[str]:
    """A line for each setting in which the entries were not played alike."""
    lines = []
    everywhere = set.intersection(*(set(entry.settings) for entry in entries))
    of_games = sorted(name for name in everywhere if name.startswith(("game.", "options of ", "turns of ")))
    for name in (*PLAYED_WITH, *of_games):
        values = [entry.settings.get(name, "?") for entry in entries]
        if len({json.dumps(value, sort_keys=True) for value in values}) > 1:
            told = ", ".join(f"{entry.name}: {_short(value)}" for entry, value in zip(entries, values, strict=True))
            lines.append(f"played with different {name}: {told}")
    return lines


def _bench(argument: str, results: dict[str, Any]) -> Entry:
    figures: dict[tuple[Metric, str], Figure] = {}
    settings, notes = dict(results["settings"]), []
    for task, row in results["tasks"].items():
        settings |= {f"options of {task}": row.get("options"), f"turns of {task}": row.get("max_turns")}
        failed = sum(one["error"] is not None for one in row["episodes_list"])
        if failed:
            share = f"{failed} of {len(row['episodes_list'])} episodes of {task}"
            notes.append(f"{argument}: {share} failed and are in no figure")
        played = [one for one in row["episodes_list"] if one["error"] is None]
        for metric in METRICS:
            values = {
                int(one["seed"]) if not results.get("same_level") else int(one["number"]): float(one[metric])
                for one in played
                if one[metric] is not None
            }
            if values:
                figures[metric, task] = _figure(metric, values)
    overall = results["overall"]
    told = None if overall["progression"] is None else (overall["progression"], overall["standard_error"])
    return Entry(argument, figures, settings, told, notes)


def _run(argument: str, results: dict[str, Any], player: str) -> Entry:
    found = evaluations(results)
    if not found:  # `eval --out`: figures by game at the top
        own = {name: entry for name, entry in results.items() if isinstance(entry, dict) and "episodes" in entry}
        found = {"": own} if own else {}
    if not found:
        raise UserError(f"{argument}: no evaluation in it")
    name = player or next((known for known in LAST if known in found), next(iter(found)))
    if name not in found:
        raise UserError(f"{argument}: no evaluation {name}{did_you_mean(name, found)}; there are: {', '.join(found)}")
    figures: dict[tuple[Metric, str], Figure] = {}
    for task, row in found[name].items():
        for metric in METRICS:
            if row.get(metric) is None:
                continue
            low, high = row.get(f"{metric}_ci95") or (float("nan"), float("nan"))
            figures[metric, task] = Figure(float(row[metric]), low, high, int(row["episodes"]))
    return Entry(argument, figures, dict(results.get("settings", {})))


def _figure(metric: Metric, values: dict[int, float]) -> Figure:
    numbers = list(values.values())
    if metric == "success":
        low, high = wilson(round(sum(numbers)), len(numbers))
    else:
        low, high = bootstrap_mean(numbers)
    return Figure(float(np.mean(numbers)), low, high, len(numbers), values)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 24 else text[:21] + "..."
