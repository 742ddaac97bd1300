"""A comparison as a table for people, as Markdown, as JSON, and as a picture."""

import json
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentrl.compare import Entry, Figure, Metric, difference
from agentrl.errors import one_line
from agentrl.published import PublishedRow
from agentrl.reference import PLAYERS, reference_rows

PUBLISHED = "published, not measured"


def rows_of(
    entries: Sequence[Entry], metric: Metric, tasks: Sequence[str], published: Sequence[PublishedRow]
) -> dict[str, Any]:
    """The comparison as plain data: a row a task, with a cell an entry, differences to the first entry where both
    played the same seeds, reference players, and published figures apart."""
    rows = []
    for task in tasks:
        found = {entry.name: entry.figures.get((metric, task)) for entry in entries}
        first = found[entries[0].name]
        rows.append(
            {
                "task": task,
                "entries": {name: None if figure is None else _cell(figure) for name, figure in found.items()},
                "difference_to_first": {
                    entry.name: told
                    for entry in entries[1:]
                    if first and (figure := found[entry.name]) and (told := difference(figure, first))
                },
                "reference": {
                    player: row[metric]
                    for player in PLAYERS
                    if (row := reference_rows(task).get(player)) and row.get(metric) is not None
                },
                "published": {row.name: row.tasks[task] for row in published if task in row.tasks},
            }
        )
    return {
        "metric": metric,
        "rows": rows,
        "overall": {entry.name: entry.overall for entry in entries if entry.overall},
        "published": [{"name": row.name, "from": row.cited, "games": row.games} for row in published],
    }


def print_comparison(data: dict[str, Any], names: Sequence[str]) -> None:
    """To the terminal. Names come from files: nothing in them is taken for markup."""
    metric = data["metric"]
    table = Table(title=Text(f"{metric}, 95 % intervals"), box=box.SIMPLE)
    table.add_column("task", no_wrap=True)
    for head in _heads(data, names):
        table.add_column(Text(one_line(head)), justify="right", style="dim" if head in PLAYERS else "")
    for row in data["rows"]:
        table.add_row(Text(one_line(row["task"])), *_texts(data, row, names))
    if data["overall"]:
        table.add_section()
        cells = [data["overall"].get(name) for name in names]
        table.add_row("all games, %", *("" if c is None else f"{c[0]:.1f} ± {c[1]:.1f}" for c in cells))
    console = Console(width=max(60 + 28 * len(names) + 36 * _has_pairs(data), Console().width))
    console.print(table)
    for line in published_lines(data):
        console.print(Text(one_line(line)))


def markdown(data: dict[str, Any], names: Sequence[str]) -> str:
    """The same as a Markdown table."""
    heads = _heads(data, names)
    lines = [f"| {data['metric']} | " + " | ".join(map(_escaped, heads)) + " |", "|---" * (len(heads) + 1) + "|"]
    lines += [f"| {_escaped(row['task'])} | " + " | ".join(_texts(data, row, names)) + " |" for row in data["rows"]]
    return "\n".join([*lines, "", *(f"- {_escaped(line)}" for line in published_lines(data))]) + "\n"


def published_lines(data: dict[str, Any]) -> list[str]:
    """A line for each published row that has something to say here."""
    lines = []
    for row in data["published"]:
        told = [f"{game} {_published(figure)}" for game, figure in row["games"].items()]
        told += [
            f"{r['task']} {_published(r['published'][row['name']])}"
            for r in data["rows"]
            if row["name"] in r["published"]
        ]
        if told:
            lines.append(f"{PUBLISHED}: {row['name']} (%): {', '.join(told)} ({row['from']})")
    return lines


def draw(data: dict[str, Any], names: Sequence[str], file: Path) -> None:
    """Points with their intervals, a row a task; the random player as a grey mark."""
    from matplotlib.figure import Figure as Picture

    rows = data["rows"]
    picture = Picture(figsize=(7.5, 1.2 + 0.22 * len(rows) * (1 + len(names) / 2)), layout="constrained")
    axes = picture.subplots()
    for number, name in enumerate(names):
        for place, row in enumerate(rows):
            cell = row["entries"][name]
            if cell is None:
                continue
            height = place + (number - (len(names) - 1) / 2) * 0.8 / max(1, len(names))
            label = _plain(name) if place == next(i for i, r in enumerate(rows) if r["entries"][name]) else None
            low, high = (cell["mean"] if cell[end] is None else cell[end] for end in ("low", "high"))
            error = [[max(0.0, cell["mean"] - low)], [max(0.0, high - cell["mean"])]]
            axes.errorbar(cell["mean"], height, xerr=error, fmt="o", ms=4, color=f"C{number}", label=label)
    marks = [(row["reference"]["random"], place) for place, row in enumerate(rows) if "random" in row["reference"]]
    if marks:
        axes.plot(*zip(*marks, strict=True), "|", color="grey", ms=12, label="random player")
    axes.set_yticks(range(len(rows)), [_plain(row["task"]) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"{data['metric']}, 95 % intervals")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize="small", loc="best")
    picture.savefig(file)


def _cell(figure: Figure) -> dict[str, Any]:
    low, high = (None if isnan(end) else end for end in (figure.low, figure.high))
    return {"mean": figure.mean, "low": low, "high": high, "episodes": figure.episodes}


def _heads(data: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Of the columns behind the task's: entries by the last part of their path where that tells them apart."""
    last = [Path(name).name for name in names]
    shown = last if len(set(last)) == len(last) else list(names)
    paired = [f"{name} - {shown[0]}, same seeds" for name in shown[1:]] if _has_pairs(data) else []
    return [*shown, *paired, *PLAYERS]


def _has_pairs(data: dict[str, Any]) -> bool:
    return any(row["difference_to_first"] for row in data["rows"])


def _texts(data: dict[str, Any], row: dict[str, Any], names: Sequence[str]) -> list[str]:
    cells = [row["entries"][name] for name in names]
    texts = ["" if c is None else _with_interval(c) for c in cells]
    if _has_pairs(data):
        others = [row["difference_to_first"].get(name) for name in names[1:]]
        texts += ["" if d is None else f"{d[0]:+.3f} [{d[1]:+.3f}, {d[2]:+.3f}]" for d in others]
    return texts + [f"{row['reference'][player]:.3f}" if player in row["reference"] else "" for player in PLAYERS]


def _with_interval(cell: dict[str, Any]) -> str:
    """An evaluation of a run tells no interval of its progression."""
    interval = "" if cell["low"] is None else f" [{cell['low']:.3f}, {cell['high']:.3f}]"
    return f"{cell['mean']:.3f}{interval}, n = {cell['episodes']}"


def _published(figure: dict[str, float | None]) -> str:
    error = figure["standard_error"]
    return f"{figure['progression']:.1f}" + ("" if error is None else f" ± {error:.1f}")


def _escaped(text: str) -> str:
    """For a cell of Markdown, which may be shown as HTML."""
    plain = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("|", "\\|").replace("`", "\\`")


def _plain(text: str) -> str:
    """For matplotlib, to which a dollar begins a formula."""
    return one_line(text).replace("$", "\\$")[-40:]


def as_json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1)
