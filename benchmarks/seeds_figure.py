"""The figure of `seeds.py`: learning curves; where the game has achievements, unlock rates and episode lengths too."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from agentrl.report_bars import COMPARED, MAX_BINS, unlock_rates
from agentrl.report_charts import ticks

# Names come from a game: a $ in one begins no formula.
plt.rcParams["text.parse_math"] = False

POINT = 32
"""Episodes that a point of a curve is the mean of, at the least."""

LEVELS = {"random": ("random player", ":"), "before": ("held-out, before", "-."), "after": ("held-out, after", "--")}

LABELS = {"success": "success", "achievements": "achievements an episode", "return": "return"}

COLOURS = {"before": "0.72", "after": "C0"}


def draw(
    runs: Sequence[dict[str, Any]], table: dict[str, dict[str, Any]], measure: str, title: str, path: Path
) -> None:
    """`runs` as `seeds.load` returns them, `table` {player: pooled figures}. The ending of `path` names the format."""
    if "achievement_rates" in table["after"]:
        figure = plt.figure(figsize=(9.6, 6), layout="constrained")
        grid = figure.add_gridspec(2, 2, height_ratios=(3, 2), width_ratios=(5, 4))
        curves = figure.add_subplot(grid[0, 0])
        draw_lengths(figure.add_subplot(grid[1, 0]), runs)
        draw_rates(figure.add_subplot(grid[:, 1]), table)
    else:
        figure, curves = plt.subplots(figsize=(7, 3.4), layout="constrained")
    draw_curves(curves, runs, table, measure)
    curves.set_title(title)
    figure.savefig(path)
    plt.close(figure)


def draw_curves(axes: Axes, runs: Sequence[dict[str, Any]], table: dict[str, dict[str, Any]], measure: str) -> None:
    """A line a seed, and what players got in held-out episodes; a band shows the last one's interval."""
    for run in runs:
        points = curve(run, measure)
        axes.plot([turns for turns, _ in points], [mean for _, mean in points], label=f"seed {run['seed']}", lw=1.4)
    for row, (label, style) in LEVELS.items():
        if row in table:
            axes.axhline(table[row][measure], ls=style, color="0.4", lw=1, label=label)
    axes.axhspan(*table["after"][f"{measure}_ci95"], color="0.4", alpha=0.12, lw=0)
    axes.set(xlabel="turns", ylabel=LABELS[measure])
    if measure == "success":
        axes.set_ylim(0, 1.02)
    elif measure == "achievements":
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, edgecolor="none", loc="lower right")


def curve(run: dict[str, Any], measure: str) -> list[tuple[float, float]]:
    """(turns, mean) over batches that follow one another, as few as hold `POINT` finished episodes.

    Batches are left out until as many episodes have ended as there are games: those that end first are the short ones.
    """
    points = []
    ended = episodes = total = 0.0
    for metrics in run["metrics"]:
        if metrics.get(f"episode/{measure}") is None:
            continue
        count = metrics["episode/count"]
        if ended >= run["config"].batch.num_envs:
            episodes += count
            total += count * metrics[f"episode/{measure}"]
        ended += count
        if episodes >= POINT:
            points.append((metrics["turns"], total / episodes))
            episodes = total = 0.0
    return points


def draw_rates(axes: Axes, table: dict[str, dict[str, Any]]) -> None:
    """A pair of bars an achievement, the most often unlocked on top; the random player's rate as a stroke."""
    rows = unlock_rates(table)
    players = [player for player in COMPARED if player in table]
    height = 0.8 / len(players)
    for nth, player in enumerate(players):
        places = [index + (nth + 0.5) * height - 0.4 for index in range(len(rows))]
        percents = [row.percents[player] for row in rows]
        label = f"{player} training (score {table[player]['score']:.1f})"
        axes.barh(places, percents, height, color=COLOURS[player], label=label)
    if "random" in table:
        rates = [100 * table["random"]["achievement_rates"].get(row.name, 0.0) for row in rows]
        label = f"random player (score {table['random']['score']:.1f})"
        axes.plot(rates, range(len(rows)), "|", color="k", ms=9, mew=1.4, ls="none", label=label, clip_on=False)
    axes.set_yticks(range(len(rows)), [row.name.replace("_", " ") for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="% of held-out episodes", xlim=(0, 100), title="unlocked")
    axes.grid(alpha=0.25, axis="x")
    axes.legend(fontsize=8, edgecolor="none", loc="lower right")


def draw_lengths(axes: Axes, runs: Sequence[dict[str, Any]]) -> None:
    """How many held-out episodes had which length: after training filled, before it as an outline."""
    lengths = {
        row: [length for run in runs if row in run for length in next(iter(run[row].values()))["lengths"]]
        for row in COMPARED
    }
    everything = lengths["before"] + lengths["after"]
    low, high = min(everything), max(everything) + 1
    edges = ticks(low, high, most=min(MAX_BINS, high - low))
    axes.hist(lengths["after"], edges, color=COLOURS["after"], label="after training")
    axes.hist(lengths["before"], edges, histtype="step", color="0.4", label="before training")
    axes.set(xlabel=f"turns of a held-out episode, at most {max(lengths['after']):,} after", ylabel="episodes")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, frameon=False)
