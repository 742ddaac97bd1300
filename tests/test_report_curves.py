"""Which metrics a report draws, and where evaluations mark them."""

from typing import Any

import pytest

from agentrl.report_charts import FRAME, ChartSpec, draw
from agentrl.report_curves import charts, metric_rows
from agentrl.statistics import wilson


def test_rows_of_one_update_are_merged_and_what_is_no_number_is_none() -> None:
    raw: list[dict[str, Any]] = [
        {"update": 2, "a": 1},
        {"update": 1, "a": float("nan"), "b": "x"},
        {"update": 2, "b": 1e300, "c": True},
    ]
    assert metric_rows(raw) == [
        {"update": 1.0, "a": None, "b": None},
        {"update": 2.0, "a": 1.0, "b": None, "c": None},
    ]


def test_evaluations_are_marked_with_their_interval() -> None:
    prefix = "evaluation/after/babyai/goto"
    rows = metric_rows(
        [
            {"update": 0, "evaluation/random/g/success": 0.1, "evaluation/before_greedy/g/success": 0.2},
            {"update": 4, "episode/success": 0.5, f"{prefix}/success": 0.75, f"{prefix}/episodes": 8},
        ]
    )
    (chart,) = charts(rows)["Learning"]
    (mark,) = chart.marks
    low, high = wilson(6, 8)
    height = FRAME.bottom - FRAME.top
    assert (mark.y_low, mark.y_high) == (
        pytest.approx(FRAME.bottom - low * height, abs=0.06),
        pytest.approx(FRAME.bottom - high * height, abs=0.06),
    )
    assert mark.title == "after, babyai/goto: 0.75"


def test_achievements_are_a_curve() -> None:
    prefix = "evaluation/after/cave"
    rows = metric_rows([{"update": 4, "episode/achievements": 4.5, f"{prefix}/achievements": 5.0}])
    (chart,) = charts(rows)["Learning"]
    assert (chart.title, len(chart.lines), len(chart.marks)) == ("Achievements an episode", 1, 1)


def test_what_is_not_there_is_not_drawn() -> None:
    assert charts([]) == {}
    assert draw(ChartSpec("m", {"m": "m"}), [{"update": 1.0, "m": None}, {"update": 2.0}]) is None
    groups = charts([{"update": 1.0, "turns": 5.0, "phase/critic_warmup": 0.0, "entropy": 1.5}])
    assert {heading: [chart.title for chart in drawn] for heading, drawn in groups.items()} == {
        "Optimisation": ["Entropy"]
    }
