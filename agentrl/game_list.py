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
        rows = [
            {"name": s.name, "description": s.description, "tasks": list(s.tasks), "missing": s.missing} for s in specs
        ]
        print(json.dumps(rows, indent=2))
        return
    table = Table("game", "tasks", "description", box=box.SIMPLE)
    for spec in specs:
        more = len(spec.tasks) - SHOWN_TASKS
        tasks = [*spec.tasks[:SHOWN_TASKS], *([f"and {more} more: agentrl games --json"] if more > 0 else [])]
        told = f"{spec.description} Needs {spec.missing}" if spec.missing else spec.description
        table.add_row(Text(one_line(spec.name)), Text("\n".join(map(one_line, tasks))), Text(one_line(told)))
    Console().print(table)


def print_tokens(model: str, style: str, as_json: bool) -> None:
    """Length of each game's prompts in the tokens of a model, of the first `SHOWN_TASKS` tasks of a game.

    Raises:
        UserError: the model has no tokenizer that can be used, or there is no such style.
    """
    from agentrl.policy import load_tokenizer
    from agentrl.prompt_tokens import measure

    tokenizer = load_tokenizer(model)
    ids = [f"{spec.name}/{task}" for spec in envs.games().values() for task in spec.tasks[:SHOWN_TASKS]]
    measured = [measure(game_id, style, tokenizer) for game_id in ids]
    if as_json:
        print(json.dumps([found.row() for found in measured], indent=2))
        return
    table = Table(box=box.SIMPLE)
    table.add_column("game", no_wrap=True)
    for title in ("prompts", "tokens, mean", "longest", "shared by turns", "shared by episodes"):
        table.add_column(title, justify="right")
    for found in measured:
        cells = ["-"]
        if not found.problem:
            parts = found.shared_by_turns, found.shared_by_episodes
            cells = [str(found.prompts), f"{found.mean:.0f}", str(found.longest)]
            cells += [f"{part:.0f} ({part / found.mean:.0%})" for part in parts]
        table.add_row(Text(one_line(found.game)), *cells)
    console = Console()
    console.print(table)
    for found in measured:
        if found.problem:
            console.print(Text(one_line(f"{found.game}: {found.problem}")))
    console.print(Text(one_line(f"Tokenizer of {model}, style {style}, random play; a prompt shows one past turn.")))
