"""report.html: one self-contained page that shows what a run did, from whatever its directory holds so far.

It needs no network and runs no script. Text of models and games is hostile: the template escapes all of it, control
characters are made visible, and a Content-Security-Policy forbids scripts and requests should an escape be missing.
"""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined

import agentrl
from agentrl.callbacks import Callback, TrainerView
from agentrl.chat import well_formed
from agentrl.errors import UserError
from agentrl.plainyaml import load_yaml
from agentrl.report_charts import FRAME, is_interval, is_number
from agentrl.report_curves import charts, metric_rows
from agentrl.report_episodes import episode_paths, read_episodes, visible
from agentrl.report_evaluations import tasks
from agentrl.results import write_text
from agentrl.tracking import read_metrics

T = TypeVar("T")


class ReportWriter(Callback):
    """Writes the report when the run ends."""

    def on_end(self, trainer: TrainerView) -> None:
        if trainer.is_main:
            write_report(trainer.run_dir)


def write_report(run_dir: Path) -> Path:
    """Write run_dir/report.html and return its path. A file that is absent or broken never raises."""
    path = run_dir / "report.html"
    write_text(path, well_formed(render(run_dir)))
    return path


def render(run_dir: Path) -> str:
    """The report as HTML text."""
    notes: list[str] = []
    config_text = _read(run_dir / "config.yaml", lambda path: path.read_text(encoding="utf-8"), "", notes)
    config: Any = _read(run_dir / "config.yaml", lambda path: load_yaml(path.read_bytes()), None, notes)
    results = _mapping(_read(run_dir / "results.json", lambda path: json.loads(path.read_bytes()), None, notes))
    rows = metric_rows(_read(run_dir / "metrics.jsonl", read_metrics, [], notes))
    episode_files = [
        found
        for path in episode_paths(run_dir / "turns")
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
        tasks=tasks(results),
        facts=_facts(config, results, rows),
        chart_groups=charts(rows),
        frame=FRAME,
        episode_files=episode_files,
        config_text=config_text,
        versions=_mapping(results.get("versions")),
        notes=notes,
        version=agentrl.__version__,
    )


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
    return f"[{figure(float(bounds[0]))}, {figure(float(bounds[1]))}]" if is_interval(bounds) else ""


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


def _dig(tree: Any, *keys: str) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _plain(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
