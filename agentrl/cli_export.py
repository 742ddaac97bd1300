"""The command `agentrl export`. As in `agentrl.cli`, what is heavy is imported inside it."""

from pathlib import Path
from typing import Annotated

import typer

from agentrl.arguments import examples
from agentrl.errors import UserError

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "agentrl export runs/quickstart --dataset exports/turns",
        "agentrl export runs/quickstart --model exports/model",
        "agentrl export runs/quickstart/checkpoints/step-20 --model exports/step-20",
        "agentrl export results/bench --dataset exports/bench",
    )
)
def export(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="A run, one of its checkpoints, or the folder of a benchmark's results."),
    ],
    dataset: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write all turns there: Parquet for load_dataset(DIR), with a dataset card."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the newest checkpoint there (or the named one), with a model card."),
    ] = None,
) -> None:
    """Write the turns or the model of a run as a folder in Hugging Face's form, with a filled card."""
    if dataset is None and model is None:
        raise UserError("what is to be exported? Give --dataset DIR, --model DIR, or both")
    from agentrl.export import export_dataset, export_model, open_source

    checkpoint = source if source.parent.name == "checkpoints" else None
    opened = open_source(source.parent.parent if checkpoint else source)
    if dataset is not None:
        print(f"{export_dataset(opened, dataset):,} turns written to {dataset}")
    if model is not None:
        print(f"{export_model(opened, checkpoint, model)} written to {model}")
