"""The report's bars: which there are, how high, and that no episode is lost between them."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.report_bars import length_histogram, unlock_rates
from agentrl.report_charts import FRAME


def test_unlock_rates_are_sorted_by_the_last_player() -> None:
    groups = {"before": {"achievement_rates": {"a": 0.5, "b": 0.25, "c": 0.0}}}
    assert [row.name for row in unlock_rates(groups)] == ["a", "b", "c"]
    groups["after"] = {"achievement_rates": {"a": 0.5, "b": 0.5, "d": 1.0}}
    assert [(row.name, row.percents) for row in unlock_rates(groups)] == [
        ("d", {"before": 0.0, "after": 100.0}),
        ("a", {"before": 50.0, "after": 50.0}),
        ("b", {"before": 25.0, "after": 50.0}),
        ("c", {"before": 0.0, "after": 0.0}),
    ]
    odd: dict[str, Any] = {"before": {"achievement_rates": ["a"]}, "after": {"achievement_rates": {"a": 2, "b": True}}}
    assert unlock_rates(odd) == []


def test_length_histogram_by_hand() -> None:
    # Lengths 1 to 4, bins of one turn; the highest, 3 of 4 episodes, is 75 % on an axis to 80 %.
    found = length_histogram({"before": {"lengths": [1, 1, 1, 4]}, "after": {"lengths": [2, 4]}})
    assert found is not None
    unit, height = (FRAME.right - FRAME.left) / 4, FRAME.bottom - FRAME.top
    assert found.players == ["before", "after"]
    assert [label for _, label in found.y_ticks] == ["0 %", "20 %", "40 %", "60 %", "80 %"]
    assert [(bar.player, bar.title.partition(", ")[2]) for bar in found.bars] == [
        ("before", "1 turn: 3 of 4 episodes"),
        ("before", "4 turns: 1 of 4 episodes"),
        ("after", "2 turns: 1 of 2 episodes"),
        ("after", "4 turns: 1 of 2 episodes"),
    ]
    for bar, (place, share) in zip(found.bars, [(0.08, 75), (3.08, 25), (1.5, 50), (3.5, 50)], strict=True):
        assert bar.x == pytest.approx(FRAME.left + place * unit, abs=0.06)
        assert bar.width == pytest.approx(0.42 * unit, abs=0.06)
        assert bar.height == pytest.approx(share / 80 * height, abs=0.06)
        assert bar.y + bar.height == pytest.approx(FRAME.bottom, abs=0.11)
    for odd in ([], [5, 5, 5], "5", [None, "x", True, -1, 3], None):
        assert length_histogram({"after": {"lengths": odd}}) is None


@given(st.lists(st.integers(0, 12_000), min_size=1), st.lists(st.integers(0, 600)))
def test_every_episode_is_in_a_bin_of_the_histogram(before: list[int], after: list[int]) -> None:
    found = length_histogram({"before": {"lengths": before}, "after": {"lengths": after}})
    if found is None:
        assert len({*before, *after}) == 1
        return
    counted = {"before": 0, "after": 0}
    for bar in found.bars:
        counted[bar.player] += int(bar.title.partition(": ")[2].partition(" of ")[0])
        assert FRAME.left <= bar.x <= bar.x + bar.width <= FRAME.right + 0.1
        assert FRAME.top - 0.1 <= bar.y <= bar.y + bar.height <= FRAME.bottom + 0.11
        ends = [int(n) for n in re.findall(r"\d+", bar.title.partition(": ")[0].replace(",", ""))]
        inside = [n for n in (before if bar.player == "before" else after) if ends[0] <= n <= ends[-1]]
        assert bar.title.partition(": ")[2].startswith(f"{len(inside)} of ")
    assert counted == {"before": len(before), "after": len(after)}
    assert all(FRAME.left <= x <= FRAME.right + 0.1 for x, _ in found.x_ticks)
