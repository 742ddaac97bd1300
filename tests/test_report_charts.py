"""The geometry of the report's line charts."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agentrl.report_charts import FRAME, MAX_POINTS, Chart, ChartSpec, Mark, draw, number, ticks


def test_chart_geometry_by_hand() -> None:
    rows = [
        {"update": u, "m": v, "phase/critic_warmup": float(u in (2, 3))}
        for u, v in ((1, 0.0), (2, 1.0), (3, 0.5), (5, 1.0))
    ]
    chart = draw(ChartSpec("m", {"m": "m"}, limits=(0, 1), whole=True), rows)
    assert chart is not None
    # Updates 1..5 span left..right, values 0..1 bottom..top.
    unit = (FRAME.right - FRAME.left) / 4
    x = [round(FRAME.left + unit * (u - 1), 1) for u in (1, 2, 3, 5)]
    y = [FRAME.bottom, FRAME.top, (FRAME.top + FRAME.bottom) / 2, FRAME.top]
    assert chart.lines[0].raw == "M" + "L".join(f"{a:g} {b:g}" for a, b in zip(x, y, strict=True))
    assert chart.lines[0].smooth == chart.lines[0].raw
    assert chart.lines[0].band == ""
    assert chart.lines[0].last == "1"
    assert chart.warmup == [(round(FRAME.left + unit / 2, 1), round(2 * unit, 1))]
    assert [label for _, label in chart.x_ticks] == ["1", "2", "3", "4", "5"]
    assert [label for _, label in chart.y_ticks] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert chart.hover[0] == (FRAME.left, round(unit / 2, 1), "update 1: m 0")


def test_a_long_curve_is_binned_with_its_band() -> None:
    rows = [{"update": u, "m": float(u % 2)} for u in range(10 * MAX_POINTS)]
    chart = draw(ChartSpec("m", {"m": "m"}), rows)
    assert chart is not None
    (line,) = chart.lines
    assert line.raw == ""
    assert line.smooth.count("L") == MAX_POINTS - 1
    assert {float(point.split()[1]) for point in line.smooth[1:].split("L")} == {(FRAME.top + FRAME.bottom) / 2}
    assert f" {FRAME.top:g}" in line.band
    assert f" {FRAME.bottom:g}" in line.band


VALUES = st.none() | st.floats(-1e30, 1e30)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=30), st.sampled_from([None, (0.0, 1.0)]), st.booleans(), VALUES)
def test_every_chart_stays_in_its_frame(
    values: list[tuple[float | None, float | None]], limits: tuple[float, float] | None, whole: bool, mark: float | None
) -> None:
    rows = [{"update": float(u), "a": a, "b": b} for u, (a, b) in enumerate(values)]
    marks = [] if mark is None else [Mark(3.0, mark, mark - 1, mark + 1, "t")]
    chart = draw(ChartSpec("t", {"a": "A", "b": "B"}, limits, whole), rows, marks)
    if chart is None:
        assert not marks
        assert all(a is None and b is None for a, b in values)
        return
    for x, y in _places(chart):
        assert FRAME.left <= x <= FRAME.right
        assert FRAME.top <= y <= FRAME.bottom
    assert 2 <= len(chart.y_ticks) <= 7


def _places(chart: Chart) -> list[tuple[float, float]]:
    paths = [path for line in chart.lines for path in (line.raw, line.band, line.smooth)]
    points = [pair for path in paths for pair in re.findall(r"(-?[\d.e+]+) (-?[\d.e+]+)", path)]
    marks = [(mark.x, y) for mark in chart.marks for y in (mark.y, mark.y_low, mark.y_high)]
    return [(float(x), float(y)) for x, y in points] + marks + [(FRAME.left, y) for y, _ in chart.y_ticks]


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_enclose_the_range_with_few_round_numbers(low: float, size: float) -> None:
    high = low + size
    if high - low < 1e-6 * abs(low):
        return
    found = ticks(low, high)
    assert found[0] <= low + 1e-6 * size
    assert found[-1] >= high - 1e-6 * size
    assert 2 <= len(found) <= 7


def test_numbers_are_short() -> None:
    given_ = [0, 0.05123, 12.345, 999.6, 1024, 20480, 999999, 1.5e6, 2e9, 1.2e-5, -0.25]
    shown = ["0", "0.0512", "12.3", "1000", "1024", "20.5k", "1000k", "1.5M", "2G", "1.2e-5", "-0.25"]
    assert [number(value) for value in given_] == shown
