"""The geometry of the report's line charts: numbers in, path strings and tick positions out.

No markup is made here. The template draws it, so that every text goes through its escaping.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeGuard


@dataclass(frozen=True)
class Frame:
    """The drawing, and in it the rectangle that the axes span, in the units of the SVG's viewBox."""

    width: float = 340
    height: float = 184
    left: float = 42
    right: float = 324
    top: float = 10
    bottom: float = 160


FRAME = Frame()

MAX_POINTS = 150
"""Longer curves are drawn as the mean of bins, with a band from their least to their greatest value."""

Rows = Sequence[Mapping[str, float | None]]
"""Metrics in order of their `update`, at most one row an update; what is missing or None is not drawn."""


@dataclass(frozen=True)
class ChartSpec:
    """What one chart shows. `series`: metric name -> label; `evaluation`: the figure of held-out episodes marked in it.

    Values are clipped to `limits`; `whole` shows all of the limits instead of the data's range.
    """

    title: str
    series: dict[str, str]
    limits: tuple[float, float] | None = None
    whole: bool = False
    evaluation: str | None = None


@dataclass(frozen=True)
class Mark:
    """A held-out evaluation: (update, value), with an interval where one is known."""

    update: float
    value: float
    low: float
    high: float
    title: str


@dataclass(frozen=True)
class Line:
    """One series: the values as they are, or their band where they were binned, and a moving average over them."""

    label: str
    raw: str
    band: str
    smooth: str
    last: str


@dataclass(frozen=True)
class PlacedMark:
    x: float
    y: float
    y_low: float
    y_high: float
    title: str


@dataclass(frozen=True)
class Chart:
    title: str
    lines: list[Line]
    marks: list[PlacedMark]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    warmup: list[tuple[float, float]]
    hover: list[tuple[float, float, str]]


@dataclass(frozen=True)
class _Point:
    update: float
    mean: float
    low: float
    high: float


def draw(spec: ChartSpec, rows: Rows, marks: Sequence[Mark] = ()) -> Chart | None:
    """Lay a chart out; None if the rows hold none of its series and there is no mark."""
    curves = {label: _points(name, rows, spec.limits) for name, label in spec.series.items()}
    curves = {label: points for label, points in curves.items() if points}
    if not curves and not marks:
        return None
    updates = [float(row["update"] or 0) for row in rows] + [mark.update for mark in marks]
    x_low, x_high = min(updates), max(updates)
    if x_low == x_high:
        x_low, x_high = x_low - 0.5, x_high + 0.5
    if spec.whole and spec.limits:
        y_low, y_high = spec.limits
    else:
        values = [value for points in curves.values() for point in points for value in (point.low, point.high)]
        y_low, y_high = _range([*values, *(value for mark in marks for value in (mark.low, mark.high))])
    y_ticks = ticks(y_low, y_high)
    y_low, y_high = min(y_low, y_ticks[0]), max(y_high, y_ticks[-1])

    def x(update: float) -> float:
        return round(FRAME.left + (update - x_low) / (x_high - x_low) * (FRAME.right - FRAME.left), 1)

    def y(value: float) -> float:
        value = min(max(value, y_low), y_high)
        return round(FRAME.top + (y_high - value) / (y_high - y_low) * (FRAME.bottom - FRAME.top), 1)

    lines = []
    for label, points in curves.items():
        means = [(x(p.update), y(value)) for p, value in zip(points, _moving_average(points), strict=True)]
        binned = any(p.low < p.high for p in points)
        edge = [(x(p.update), y(p.high)) for p in points] + [(x(p.update), y(p.low)) for p in reversed(points)]
        lines.append(
            Line(
                label,
                raw="" if binned else _path([(x(p.update), y(p.mean)) for p in points]),
                band=_path(edge) + "Z" if binned else "",
                smooth=_path(means),
                last=number(points[-1].mean),
            )
        )
    return Chart(
        title=spec.title,
        lines=lines,
        marks=[PlacedMark(x(m.update), y(m.value), y(m.low), y(m.high), m.title) for m in marks],
        x_ticks=[(x(tick), number(tick)) for tick in ticks(x_low, x_high) if x_low <= tick <= x_high and tick % 1 == 0],
        y_ticks=[(y(tick), number(tick)) for tick in y_ticks],
        warmup=[
            (x(max(first - 0.5, x_low)), round(x(min(last + 0.5, x_high)) - x(max(first - 0.5, x_low)), 1))
            for first, last in _warmup(rows)
        ],
        hover=_hover(curves, x),
    )


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) from at or below `low` to at or above `high`."""
    step = 10 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if (high - low) / (step * factor) <= most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def is_number(value: Any) -> TypeGuard[float]:
    """Whether what a file holds can be drawn: finite, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_interval(bounds: Any) -> TypeGuard[list[float]]:
    """Whether what a file holds is [low, high]."""
    return isinstance(bounds, list) and len(bounds) == 2 and all(map(is_number, bounds))


def number(value: float) -> str:
    """Three significant digits: 0.0512, 12.3, 1024, 20.5k, 1.2e-5."""
    for least, size, suffix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{float(f'{value / size:.3g}'):g}{suffix}"
    if value != 0 and abs(value) < 1e-3:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{float(f'{value:.3g}'):g}"


def _points(name: str, rows: Rows, limits: tuple[float, float] | None) -> list[_Point]:
    known = [(float(row["update"] or 0), value) for row in rows if (value := row.get(name)) is not None]
    if limits:
        known = [(update, min(max(value, limits[0]), limits[1])) for update, value in known]
    size = math.ceil(len(known) / MAX_POINTS) or 1
    bins = [known[start : start + size] for start in range(0, len(known), size)]
    return [
        _Point(
            sum(update for update, _ in pairs) / len(pairs),
            sum(value for _, value in pairs) / len(pairs),
            min(value for _, value in pairs),
            max(value for _, value in pairs),
        )
        for pairs in bins
    ]


def _moving_average(points: list[_Point]) -> list[float]:
    """Centred, over a tenth of the curve; short curves stay as they are."""
    half = len(points) // 20
    averages = []
    for index in range(len(points)):
        window = points[max(index - half, 0) : index + half + 1]
        averages.append(sum(point.mean for point in window) / len(window))
    return averages


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    if 0 < low < high / 2:
        low = 0.0
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        return (0.0, 1.0) if low == 0 else (low - abs(low) / 2, high + abs(high) / 2)
    return low, high


def _warmup(rows: Rows) -> list[tuple[float, float]]:
    """First and last update of each stretch of critic warm-up."""
    stretches: list[tuple[float, float]] = []
    open_ = False
    for row in rows:
        phase = row.get("phase/critic_warmup")
        if phase is None:
            continue
        if phase:
            update = float(row["update"] or 0)
            stretches = [*stretches[:-1], (stretches[-1][0], update)] if open_ else [*stretches, (update, update)]
        open_ = bool(phase)
    return stretches


def _hover(curves: Mapping[str, list[_Point]], x: Callable[[float], float]) -> list[tuple[float, float, str]]:
    """Columns that show the numbers at one update: (left, width, text)."""
    texts: dict[float, list[str]] = {}
    for label, points in curves.items():
        for point in points:
            texts.setdefault(point.update, []).append(f"{label} {number(point.mean)}")
    if not texts:
        return []
    updates = sorted(texts)
    middles = [(a + b) / 2 for a, b in pairwise(x(update) for update in updates)]
    edges = [FRAME.left, *middles, FRAME.right]
    return [
        (round(left, 1), round(right - left, 1), f"update {update:g}: {', '.join(texts[update])}")
        for update, (left, right) in zip(updates, pairwise(edges), strict=True)
    ]


def _path(points: list[tuple[float, float]]) -> str:
    """A lone point gets a stroke of no length, which round line caps show as a dot."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points) + ("h0" if len(points) == 1 else "")
