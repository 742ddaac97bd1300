"""Held-out evaluations in a report: the table of who played, before training and after it, and what its plots show."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentrl.report_bars import Histogram, UnlockRates, length_histogram, unlock_rates
from agentrl.report_charts import is_interval, is_number, number
from agentrl.results import evaluations

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


def tasks(results: Mapping[str, Any]) -> list[Task]:
    """The games out of results.json, which is {player: {task: figures}} and more; what is no evaluation is left out."""
    games: dict[str, dict[str, dict[str, Any]]] = {}
    played = evaluations(results)
    for player in [*PLAYERS, *(name for name in played if name not in PLAYERS and not name.startswith(ON_THE_WAY))]:
        for task, figures in played.get(player, {}).items():
            if "episodes" in figures:
                games.setdefault(task, {})[player] = figures
    return [_task(name, groups) for name, groups in games.items()]


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
    return (bounds[0], value, bounds[1]) if is_interval(bounds) else (value, value, value)
