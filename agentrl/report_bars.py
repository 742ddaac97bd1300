"""The report's bars, before training beside after it: how often each achievement was unlocked, how long episodes ran.

As in `report_charts` no markup is made here; the template draws it, so that every text goes through its escaping.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentrl.report_charts import FRAME, is_number, number, ticks

COMPARED = ("before", "after")

MAX_BINS = 16

Groups = Mapping[str, Mapping[str, Any]]
"""A game's evaluations, {player: figures} out of results.json; what has not the expected type is left out."""


@dataclass(frozen=True)
class UnlockRates:
    """How often an achievement was unlocked, in percent of the episodes: by player, those of `COMPARED` that played."""

    name: str
    percents: dict[str, float]


@dataclass(frozen=True)
class Bar:
    player: str
    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Histogram:
    """Bars and axes in the units of `FRAME`: turns to the right, percent of a player's episodes upwards."""

    players: list[str]
    bars: list[Bar]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]


def unlock_rates(groups: Groups) -> list[UnlockRates]:
    """One entry an achievement, that unlocked most often by the last player first; ties in the game's own order."""
    rates = {
        player: {name: 100 * rate for name, rate in found.items() if is_number(rate) and 0 <= rate <= 1}
        for player in COMPARED
        if isinstance(found := groups.get(player, {}).get("achievement_rates"), dict)
    }
    names = dict.fromkeys(name for known in rates.values() for name in known)
    rows = [UnlockRates(name, {player: known.get(name, 0.0) for player, known in rates.items()}) for name in names]
    return sorted(rows, key=lambda row: [-percent for percent in reversed(row.percents.values())])


def length_histogram(groups: Groups) -> Histogram | None:
    """Shares of episodes by their length in turns, in bins that all players share; None if all have the same length."""
    lengths = {player: known for player in COMPARED if (known := _lengths(groups.get(player, {})))}
    everything = [length for known in lengths.values() for length in known]
    if not everything or min(everything) == max(everything):
        return None
    low, high = min(everything), max(everything) + 1
    edges = ticks(low, high, most=min(MAX_BINS, high - low))
    size = edges[1] - edges[0]
    counts = {player: [0] * (len(edges) - 1) for player in lengths}
    for player, known in lengths.items():
        for length in known:
            counts[player][int((length - edges[0]) // size)] += 1
    shares = {player: [100 * n / len(lengths[player]) for n in bins] for player, bins in counts.items()}
    y_ticks = ticks(0, max(share for known in shares.values() for share in known))
    unit = (FRAME.right - FRAME.left) / (len(edges) - 1)
    thickness = 0.84 * unit / len(lengths)

    def bar(nth: int, player: str, index: int) -> Bar:
        height = shares[player][index] / y_ticks[-1] * (FRAME.bottom - FRAME.top)
        first, last = int(edges[index]), int(edges[index + 1]) - 1
        turns = f"{first:,} to {last:,} turns" if last > first else f"{first:,} turn{'' if first == 1 else 's'}"
        return Bar(
            player,
            x=round(FRAME.left + (index + 0.08) * unit + nth * thickness, 1),
            y=round(FRAME.bottom - height, 1),
            width=round(thickness, 1),
            height=round(height, 1),
            title=f"{player} training, {turns}: {counts[player][index]} of {len(lengths[player])} episodes",
        )

    bars = [
        bar(nth, player, index)
        for nth, (player, bins) in enumerate(counts.items())
        for index, count in enumerate(bins)
        if count
    ]
    labels = [tick for tick in ticks(edges[0], edges[-1]) if edges[0] <= tick <= edges[-1] and tick % 1 == 0]
    return Histogram(
        players=list(lengths),
        bars=bars,
        x_ticks=[(round(FRAME.left + (tick - edges[0]) / size * unit, 1), number(tick)) for tick in labels],
        y_ticks=[
            (round(FRAME.bottom - tick / y_ticks[-1] * (FRAME.bottom - FRAME.top), 1), f"{number(tick)} %")
            for tick in y_ticks
        ],
    )


def _lengths(figures: Mapping[str, Any]) -> list[int]:
    found = figures.get("lengths")
    return [int(n) for n in found if is_number(n) and 0 <= n < 1e9] if isinstance(found, list) else []
