"""A benchmark's scores as a table, the random and the scripted player's beside them."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentrl.errors import one_line


def print_results(results: dict[str, Any]) -> None:
    """Progression in percent with its standard error, success with its interval, a line a task, a game, and overall."""
    agent, sampling = results["agent"], results["sampling"]
    how = f"temperature {sampling['temperature']:g}" if sampling else "no model"
    asked = f"{agent['style']}, history {agent['history']}, {agent['parsing']}, {how}"
    title = f"{results['model']} · suite {results['suite']} · {asked}"
    table = Table(title=Text(one_line(title)), box=box.SIMPLE)
    table.add_column("task", no_wrap=True)
    for name in ("episodes", "progression %", "success", "turns", "invalid", "random %", "scripted %"):
        table.add_column(name, justify="right")
    for task, row in results["tasks"].items():
        reference = results["reference"].get(task, {})
        others = [_percent(reference.get(player, {}).get("progression")) for player in ("random", "scripted")]
        failed = f" + {row['failed']} failed" if row["failed"] else ""
        if not row["episodes"]:
            table.add_row(Text(one_line(task)), f"0{failed}", *[""] * 4, *others)
            continue
        table.add_row(
            Text(one_line(task)),
            f"{row['episodes']}{failed}",
            f"{100 * row['progression']:.1f} ± {100 * row['progression_se']:.1f}",
            ""
            if row["success"] is None
            else f"{row['success']:.2f} [{row['success_ci95'][0]:.2f}, {row['success_ci95'][1]:.2f}]",
            f"{row['length']:.1f}",
            f"{row['invalid_fraction']:.1%}",
            *others,
        )
    table.add_section()
    for game, row in results["games"].items():
        table.add_row(Text(one_line(game)), str(row["episodes"]), _with_error(row))
    if results["overall"]["progression"] is not None:
        table.add_row("all games", "", _with_error(results["overall"]))
    Console(width=140).print(table)


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.1f}"


def _with_error(row: dict[str, Any]) -> str:
    return f"{row['progression']:.1f} ± {row['standard_error']:.1f}"
