"""What can be played, for people and for machines: `agentrl games`."""

import json

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentrl import envs
from agentrl.errors import one_line

SHOWN_TASKS = 12


def print_games(as_json: bool) -> None:
    """Each game with its description and its tasks; in the table, the first `SHOWN_TASKS` of these."""
    specs = envs.games().values()
    if as_json:
        rows = [{"name": s.name, "description": s.description, "tasks": list(s.tasks)} for s in specs]
        print(json.dumps(rows, indent=2))
        return
    table = Table("game", "tasks", "description", box=box.SIMPLE)
    for spec in specs:
        more = len(spec.tasks) - SHOWN_TASKS
        tasks = [*spec.tasks[:SHOWN_TASKS], *([f"and {more} more: agentrl games --json"] if more > 0 else [])]
        table.add_row(
            Text(one_line(spec.name)), Text("\n".join(map(one_line, tasks))), Text(one_line(spec.description))
        )
    Console().print(table)
