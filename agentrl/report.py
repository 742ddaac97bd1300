"""report.html: one self-contained page that shows what a run did, from whatever its directory holds so far.

It needs no network and runs no script. Text of models and games is hostile: the template escapes all of it, control
characters are made visible, and a Content-Security-Policy forbids scripts and requests should an escape be missing.
"""

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined

import agentrl
from agentrl.callbacks import Callback, TrainerView
from agentrl.errors import UserError
from agentrl.plainyaml import load_yaml
from agentrl.report_bars import Histogram, UnlockRates, length_histogram, unlock_rates
from agentrl.report_charts import FRAME, Chart, ChartSpec, Mark, draw, is_number, number
from agentrl.report_episodes import read_episodes, visible
from agentrl.statistics import wilson
from agentrl.tracking import read_metrics

T = TypeVar("T")

PLAYERS = {
    "random": "uniformly random",
    "untrained": "untrained, before imitation",
    "before": "before training",
    "after": "after training",
    "after_greedy": "after training, greedy",
}
"""Groups of results.json in the order of the table; other groups of evaluations follow under their own names."""

ON_THE_WAY = "update-"
"""Evaluations during training are points in the curves, not lines of the table."""

MEASURES = ("success", "achievements", "return")

CHARTS = {
    "Learning": (
        ChartSpec("Success", {"episode/success": "training"}, limits=(0, 1), whole=True, evaluation="success"),
        ChartSpec("Return", {"episode/return": "training"}, evaluation="return"),
        ChartSpec("Achievements an episode", {"episode/achievements": "training"}, evaluation="achievements"),
        ChartSpec("Episode length", {"episode/length": "training"}, evaluation="length"),
    ),
    "Optimisation": (
        ChartSpec("Policy loss", {"losses/policy": "policy"}),
        ChartSpec("Value loss", {"losses/value": "value"}),
        ChartSpec("Explained variance", {"explained_variance": "critic"}, limits=(-1, 1)),
        ChartSpec("Entropy", {"entropy": "entropy"}),
        ChartSpec("Approximate KL", {"approx_kl": "KL"}),
        ChartSpec("Clipped fraction", {"clip_fraction": "clipped"}),
    ),
    "Sampling": (
        ChartSpec("Replies", {"turns/invalid_fraction": "invalid", "turns/length_stop_fraction": "cut by length"}),
        ChartSpec("Logprob difference", {"logprob_diff/mean": "mean", "logprob_diff/max": "max"}),
    ),
    "Speed": (
        ChartSpec("Turns a second", {"time/turns_per_second": "turns"}),
        ChartSpec("Seconds", {"time/generate": "generate", "time/env": "games", "time/train": "train"}),
    ),
}
NOT_CHARTED = {"update", "turns", "phase/critic_warmup"}


class ReportWriter(Callback):
    """Writes the report when the run ends."""

    def on_end(self, trainer: TrainerView) -> None:
        if trainer.is_main:
            write_report(trainer.run_dir)


def write_report(run_dir: Path) -> Path:
    """Write run_dir/report.html and return its path. A file that is absent or broken never raises."""
    html = render(run_dir)
    path = run_dir / "report.html"
    temporary = run_dir / ".report.html.tmp"
    temporary.write_text(html, encoding="utf-8", errors="replace")
    os.replace(temporary, path)
    return path


def render(run_dir: Path) -> str:
    """The report as HTML text."""
    notes: list[str] = []
    config_text = _read(run_dir / "config.yaml", lambda path: path.read_text(encoding="utf-8"), "", notes)
    config: Any = _read(run_dir / "config.yaml", lambda path: load_yaml(path.read_bytes()), None, notes)
    results = _mapping(_read(run_dir / "results.json", lambda path: json.loads(path.read_bytes()), None, notes))
    rows = metric_rows(_read(run_dir / "metrics.jsonl", read_metrics, [], notes))
    evaluations = _evaluations(results)
    episode_files = [
        found
        for path in _episode_paths(run_dir / "turns")
        if (found := _read(path, read_episodes, None, notes)) and found.episodes
    ]
    environment = Environment(
        loader=PackageLoader("agentrl"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"visible": visible, "figure": figure, "interval": interval}
    return environment.get_template("report.html.j2").render(
        name=_dig(config, "name") or run_dir.name,
        game=_dig(config, "game", "id"),
        model=model_name(config),
        unfinished=_unfinished(config, results, rows),
        tasks=[_task(task, groups) for task, groups in evaluations.items()],
        facts=_facts(config, results, rows),
        chart_groups=charts(rows),
        frame=FRAME,
        episode_files=episode_files,
        config_text=config_text,
        versions=_mapping(results.get("versions")),
        notes=notes,
        version=agentrl.__version__,
    )


def metric_rows(raw: Sequence[Mapping[str, Any]]) -> list[dict[str, float | None]]:
    """One row an update, in order: rows of the same update are merged, what is no finite number is None."""
    merged: dict[int, dict[str, float | None]] = {}
    for row in raw:
        clean = {name: float(v) if is_number(v) and abs(v) < 1e30 else None for name, v in row.items()}
        merged.setdefault(row["update"], {}).update(clean)
    return [merged[update] for update in sorted(merged)]


def charts(rows: Sequence[Mapping[str, float | None]]) -> dict[str, list[Chart]]:
    """Heading -> charts; metrics that no chart of CHARTS shows come last, one chart each."""
    groups = {
        heading: [chart for spec in specs if (chart := draw(spec, rows, _marks(rows, spec.evaluation)))]
        for heading, specs in CHARTS.items()
    }
    shown = {name for specs in CHARTS.values() for spec in specs for name in spec.series} | NOT_CHARTED
    names = sorted({name for row in rows for name in row if not name.startswith("evaluation/")} - shown)
    groups["Other metrics"] = [chart for name in names if (chart := draw(ChartSpec(name, {name: ""}), rows))]
    return {heading: drawn for heading, drawn in groups.items() if drawn}


def _marks(rows: Sequence[Mapping[str, float | None]], figure_name: str | None) -> list[Mark]:
    """Evaluations of the sampled policy: `evaluation/NAME/TASK/FIGURE` in the rows."""
    marks = []
    for row in rows:
        for name, value in row.items():
            match = re.fullmatch(r"evaluation/([^/]+)/(.+)/([^/]+)", name)
            if value is None or not match or match[3] != figure_name:
                continue
            if match[1] in ("random", "untrained") or match[1].endswith("_greedy"):
                continue
            low = high = value
            episodes = row.get(f"evaluation/{match[1]}/{match[2]}/episodes")
            if figure_name == "success" and episodes and 0 <= value <= 1:
                low, high = wilson(round(value * episodes), round(episodes))
            update = float(row["update"] or 0)
            marks.append(Mark(update, value, low, high, f"{match[1]}, {match[2]}: {number(value)}"))
    return marks


@dataclass(frozen=True)
class PlayerRow:
    """One line of the before/after table, and its place in the interval plot in percent of the width (-1: none)."""

    key: str
    label: str
    figures: dict[str, Any]
    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Task:
    """One game's evaluations; `measure` is what the headline compares: what the game has of `MEASURES`, the first."""

    name: str
    measure: str
    rows: list[PlayerRow]
    axis: tuple[str, str]
    before: dict[str, Any]
    after: dict[str, Any]
    achieving: bool
    achievements: list[UnlockRates]
    lengths: Histogram | None


def _evaluations(results: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """{task: {player: figures}} out of {player: {task: figures}}, players in the order of the table."""
    tasks: dict[str, dict[str, dict[str, Any]]] = {}
    for player in [*PLAYERS, *(k for k in results if k not in PLAYERS and not k.startswith(ON_THE_WAY))]:
        for task, figures in _mapping(results.get(player)).items():
            if isinstance(figures, dict) and "episodes" in figures:
                tasks.setdefault(task, {})[player] = figures
    return tasks


def _task(name: str, groups: Mapping[str, dict[str, Any]]) -> Task:
    measure = next((m for m in MEASURES if any(is_number(f.get(m)) for f in groups.values())), MEASURES[-1])
    spans = {player: _span(figures, measure) for player, figures in groups.items()}
    known = [value for span in spans.values() if span for value in span]
    low, high = (0.0, 1.0) if measure == "success" or not known else (min(known), max(known))
    if low == high:
        low, high = low - 1, high + 1

    def percent(value: float) -> float:
        return round(min(max((value - low) / (high - low), 0.0), 1.0) * 100, 2)

    rows = []
    for player, figures in groups.items():
        span = spans[player]
        places = [percent(value) for value in span] if span else [-1.0] * 3
        rows.append(PlayerRow(player, PLAYERS.get(player, player.replace("_", " ")), figures, *places))
    return Task(
        name,
        measure,
        rows,
        axis=(number(low), number(high)),
        before=groups.get("before", {}),
        after=groups.get("after", {}),
        achieving=any("achievements" in figures for figures in groups.values()),
        achievements=unlock_rates(groups),
        lengths=length_histogram(groups),
    )


def _span(figures: Mapping[str, Any], measure: str) -> tuple[float, float, float] | None:
    """(low, value, high) of a figure; None if it has no number."""
    value, bounds = figures.get(measure), figures.get(f"{measure}_ci95")
    if not is_number(value):
        return None
    if isinstance(bounds, list) and len(bounds) == 2 and all(map(is_number, bounds)):
        return bounds[0], value, bounds[1]
    return value, value, value


def model_name(config: Any) -> str:
    """What was trained, in words."""
    if path := _dig(config, "model", "path"):
        return str(path)
    shape = _dig(config, "model", "new")
    if not isinstance(shape, dict):
        return ""
    return f"A new Qwen2 model, {shape.get('layers', '?')} layers of {shape.get('hidden_size', '?')}"


def _unfinished(config: Any, results: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """What the run still lacks, "" if nothing."""
    if "after" in results:
        return ""
    done = sum(1 for row in rows if "turns" in row and not row.get("phase/critic_warmup"))
    planned = _dig(config, "batch", "updates")
    if not is_number(planned) or done < planned:
        return f"{done}{f' of {planned}' if is_number(planned) else ''} policy updates done"
    return "no evaluation after training" if _dig(config, "evaluation", "episodes") != 0 else ""


def _facts(config: Any, results: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The run in a few numbers; what is not known is left out."""
    turns, seconds, cpu_seconds = (results.get(name) for name in ("turns", "seconds", "cpu_seconds"))
    if not is_number(turns):
        turns = next((row["turns"] for row in reversed(rows) if row.get("turns")), None)
    warmup = sum(1 for row in rows if row.get("phase/critic_warmup"))
    facts = {
        "updates": (f"{int(rows[-1]['update'] or 0):,}" + (f", {warmup} of them critic warm-up" if warmup else ""))
        if rows
        else "",
        "turns": f"{round(turns):,}" if is_number(turns) else "",
        "time, evaluations included": span_of_time(seconds) if is_number(seconds) else "",
        "CPU time of training alone": span_of_time(cpu_seconds) if is_number(cpu_seconds) else "",
        "machine": str(results.get("machine") or ""),
        "seed": _plain(results.get("seeds", _dig(config, "seed"))),
    }
    return {name: text for name, text in facts.items() if text}


def span_of_time(seconds: float) -> str:
    """75 -> "1 min 15 s"; two units at most."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minute} min"
    return f"{minute} min {second} s" if minute else f"{second} s"


def figure(value: Any, digits: int = 2) -> str:
    """A number for a table, a dash for what has none; whole numbers stay whole."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "\N{EN DASH}"
    if isinstance(value, float):
        return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")
    return str(value)


def interval(bounds: Any) -> str:
    """[low, high], or nothing."""
    if isinstance(bounds, list) and len(bounds) == 2 and all(map(is_number, bounds)):
        return f"[{figure(float(bounds[0]))}, {figure(float(bounds[1]))}]"
    return ""


def _read(path: Path, reader: Callable[[Path], T], otherwise: T, notes: list[str]) -> T:
    if not path.exists():
        return otherwise
    try:
        return reader(path)
    except (OSError, ValueError) as error:
        told = str(error).replace(f"{path.parent}{os.sep}", "")
        what = told if isinstance(error, UserError) and path.name in told else f"{path.name} could not be read: {told}"
        if what not in notes:
            notes.append(what)
        return otherwise


def _episode_paths(folder: Path) -> list[Path]:
    """evaluation-*.parquet in the order of the table; of those during training the last, and only if none is after."""
    paths = {path.stem.removeprefix("evaluation-"): path for path in sorted(folder.glob("evaluation-*.parquet"))}
    underway = [player for player in paths if player.startswith(ON_THE_WAY)]
    known = [player for player in PLAYERS if player in paths]
    others = [player for player in paths if player not in PLAYERS and player not in underway]
    newest = [] if "after" in paths else sorted(underway, key=lambda player: (len(player), player))[-1:]
    return [paths[player] for player in [*known, *newest, *others]]


def _dig(tree: Any, *keys: str) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _plain(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
