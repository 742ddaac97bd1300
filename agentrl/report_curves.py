"""The curves of a report: which metrics are drawn together, and where held-out evaluations mark them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.report_charts import Chart, ChartSpec, Mark, Rows, draw, is_number, number
from agentrl.statistics import wilson

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


def metric_rows(raw: Sequence[Mapping[str, Any]]) -> list[dict[str, float | None]]:
    """One row an update, in order: rows of the same update are merged, what is no finite number is None."""
    merged: dict[int, dict[str, float | None]] = {}
    for row in raw:
        clean = {name: float(v) if is_number(v) and abs(v) < 1e30 else None for name, v in row.items()}
        merged.setdefault(row["update"], {}).update(clean)
    return [merged[update] for update in sorted(merged)]


def charts(rows: Rows) -> dict[str, list[Chart]]:
    """Heading -> charts; metrics that no chart of CHARTS shows come last, one chart each."""
    groups = {
        heading: [chart for spec in specs if (chart := draw(spec, rows, _marks(rows, spec.evaluation)))]
        for heading, specs in CHARTS.items()
    }
    shown = {name for specs in CHARTS.values() for spec in specs for name in spec.series} | NOT_CHARTED
    names = sorted({name for row in rows for name in row if not name.startswith("evaluation/")} - shown)
    groups["Other metrics"] = [chart for name in names if (chart := draw(ChartSpec(name, {name: ""}), rows))]
    return {heading: drawn for heading, drawn in groups.items() if drawn}


def _marks(rows: Rows, figure_name: str | None) -> list[Mark]:
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
