"""Commands that learn from what was played before: `agentrl preferences | train-reward | dpo`."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from agentrl.arguments import FREE_ARGUMENTS, examples, read_recipe, require_writable
from agentrl.errors import UserError, did_you_mean
from agentrl.results import json_text

commands = typer.Typer()

Sources = Annotated[
    list[Path], typer.Argument(metavar="RUN|FILE...", help="Runs with turns/update-*.parquet, or files of turns.")
]
PairsFile = Annotated[Path, typer.Option("--pairs", metavar="FILE", help="What `agentrl preferences` wrote.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The new model's folder.")]
Epochs = Annotated[int, typer.Option(min=1, metavar="N", help="Passes over the pairs.")]
Lr = Annotated[float, typer.Option("--lr", min=0.0, help="Learning rate; it falls linearly to 0.")]

WORTHS = ("advantage", "reward", "return")
KINDS = ("replies", "turns")


@commands.command(
    epilog=examples(
        "agentrl train experiments/quickstart.yaml --name=kept --tracking.turns_every=1",
        "agentrl preferences runs/kept --out pairs.parquet",
        "agentrl preferences runs/kept --out pairs.parquet --by return --between turns --margin 0.2",
    )
)
def preferences(
    sources: Sources,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Written there: .parquet or .jsonl.")],
    by: Annotated[str, typer.Option(help=f"What makes a turn the better one: {', '.join(WORTHS)}.")] = "advantage",
    between: Annotated[
        str, typer.Option(help="replies: to one and the same prompt, as DPO needs; turns: of one game.")
    ] = "replies",
    margin: Annotated[float, typer.Option(min=0.0, help="Worth must differ by more than this.")] = 0.0,
    gamma_step: Annotated[float, typer.Option(min=0.0, max=1.0, help="Discount of --by return.")] = 0.99,
) -> None:
    """Take pairs of turns, one better than the other, from what was played in training."""
    from agentrl.preferences import find_pairs, stored_turns, write_pairs

    for name, value, known in (("--by", by, WORTHS), ("--between", between, KINDS)):
        if value not in known:
            raise UserError(f"{name} {value}: one of {', '.join(known)}{did_you_mean(value, known)}")
    turns = stored_turns(sources)
    pairs = find_pairs(turns, by, between, margin, gamma_step)  # type: ignore[arg-type]
    if not pairs:
        raise UserError(
            f"no pairs among {len(turns)} turns: none differ by more than --margin {margin:g}; "
            f"with --between replies a prompt must have been answered twice"
        )
    require_writable(out)
    write_pairs(out, pairs)
    print(f"{len(pairs)} pairs of {len(turns)} turns written to {out}")


@commands.command(
    "train-reward",
    epilog=examples(
        "agentrl train-reward --pairs pairs.parquet --model Qwen/Qwen2.5-0.5B-Instruct --out models/reward"
    ),
)
def train_reward(
    pairs: PairsFile,
    model: Annotated[str, typer.Option(metavar="DIR", help="A language model (it gets a score head) or reward model.")],
    out: Out,
    epochs: Epochs = 2,
    lr: Lr = 1e-4,
    batch_pairs: Annotated[int, typer.Option(min=1, metavar="N", help="Pairs an optimizer step.")] = 8,
    max_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Of a turn the last so many are read.")] = 1024,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Fit a reward model on pairs of turns (Bradley-Terry), for `rewards.NAME: {kind: reward_model, path: DIR}`."""
    from agentrl.standalone import new_folder

    with redirect_stdout(sys.stderr), new_folder(out):
        from agentrl.preferences import optimizer_steps, read_pairs
        from agentrl.progress import track
        from agentrl.reward_model import train_reward_model

        given = read_pairs(pairs)
        settings = {"epochs": epochs, "lr": lr, "batch_pairs": batch_pairs, "max_tokens": max_tokens, "seed": seed}
        with track(optimizer_steps(len(given), epochs, batch_pairs), "reward model", "steps") as bar:
            figures = train_reward_model(given, model, out, **settings, on_step=bar.step)  # type: ignore[arg-type]
    print(json_text({"model": str(out), **figures}))


@commands.command(
    context_settings=FREE_ARGUMENTS,
    epilog=examples(
        "agentrl dpo experiments/quickstart.yaml --model models/mine --pairs pairs.parquet --out models/dpo"
    ),
)
def dpo(
    arguments: Annotated[
        list[str], typer.Argument(metavar="CONFIG [--a.b=value]", help="YAML recipe, and fields of it to change.")
    ],
    pairs: PairsFile,
    out: Out,
    beta: Annotated[float, typer.Option(min=0.0, help="How far it may move from the model it begins with.")] = 0.1,
    epochs: Epochs = 1,
    lr: Lr = 1e-5,
    batch_pairs: Annotated[int, typer.Option(min=1, metavar="N", help="Pairs an optimizer step.")] = 16,
) -> None:
    """Train a model on pairs of replies by direct preference optimisation, and score it before and after."""
    config = read_recipe(arguments, ["--pairs", "--out", "--beta", "--epochs", "--lr", "--batch-pairs"])
    with redirect_stdout(sys.stderr):
        from agentrl.preferences import read_pairs
        from agentrl.standalone import prefer

        figures = prefer(config, read_pairs(pairs), out, beta=beta, epochs=epochs, lr=lr, batch_pairs=batch_pairs)
    print(json_text(figures))
