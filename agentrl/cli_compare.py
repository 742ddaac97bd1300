"""`agentrl compare`: benchmarks and runs beside each other."""

from pathlib import Path
from typing import Annotated

import typer

from agentrl.arguments import examples, require_writable
from agentrl.errors import UserError, did_you_mean, one_line

commands = typer.Typer()

DRAWN = (".svg", ".png", ".pdf")
WRITTEN = (*DRAWN, ".md", ".json")


@commands.command(
    epilog=examples(
        "agentrl compare results/a results/b",
        "agentrl compare runs/quickstart:before runs/quickstart --out before-after.svg",
        "agentrl compare --group ours=runs/s0,runs/s1,runs/s2 --group theirs=runs/t0,runs/t1,runs/t2",
        "agentrl compare results/a --published Qwen2.5-72B-Instruct --published Llama-3.2-1B",
    )
)
def compare(
    entries: Annotated[
        list[str] | None,
        typer.Argument(metavar="ENTRY...", help="Benchmark's folder, run (RUN:PLAYER), or file of `eval --out`."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME=A,B,...", help="Runs of different training seeds as one entry."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="success, progression or return; without it the first that all have.")
    ] = None,
    published: Annotated[
        list[str] | None, typer.Option("--published", metavar="NAME|all", help="Published rows, marked as such.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help=f"Write it there, too: {', '.join(WRITTEN)}.")
    ] = None,
) -> None:
    """Print what each entry reached on the tasks they share, with 95 % intervals, and what they differ in."""
    from agentrl.compare import METRICS, differing, load_entry, pooled, shared_metric, tasks_of
    from agentrl.compare_table import as_json, draw, markdown, print_comparison, rows_of
    from agentrl.published import find_rows
    from agentrl.results import write_text

    if metric is not None and metric not in METRICS:
        raise UserError(f"--metric {metric}: one of {', '.join(METRICS)}{did_you_mean(metric, METRICS)}")
    if out is not None and out.suffix not in WRITTEN:
        raise UserError(f"--out {out}: its name ends in one of {', '.join(WRITTEN)}")
    rows = find_rows(published or [])
    found = [load_entry(argument) for argument in entries or []]
    for item in group or []:
        name, equals, members = item.partition("=")
        if not name or not equals or not members:
            raise UserError(f"--group {item}: write --group NAME=RUN,RUN,...")
        found.append(pooled(name, [load_entry(member) for member in members.split(",")]))
    names = [entry.name for entry in found]
    if not names:
        raise UserError("nothing to compare: name folders of benchmarks or runs, or --group NAME=RUN,RUN")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{name}: given twice")
    chosen = shared_metric(found, metric)
    data = rows_of(found, chosen, tasks_of(found, chosen), rows)
    print_comparison(data, names)
    for line in [*(note for entry in found for note in entry.notes), *differing(found)]:
        print(one_line(f"note: {line}"))
    if out is not None:
        require_writable(out)
        if out.suffix in DRAWN:
            draw(data, names, out)
        else:
            write_text(out, markdown(data, names) if out.suffix == ".md" else as_json(data) + "\n")
