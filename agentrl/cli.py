"""The command line: `agentrl train | eval | imitate | new-model`, and the commands of `agentrl.cli_games`.

torch and transformers are imported inside the commands, so that `--help` and every mistake answer at once.
"""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from agentrl import __version__
from agentrl.arguments import (
    DTYPES,
    FREE_ARGUMENTS,
    PRETRAINED,
    Options,
    examples,
    field_overrides,
    game_options,
    game_overrides,
    model_and_recipe,
    read_recipe,
    recipe_or_defaults,
    require_game,
    require_pretrained,
    require_writable,
    split,
)
from agentrl.cli_bench import commands as benchmark
from agentrl.cli_compare import commands as comparing
from agentrl.cli_export import commands as exporting
from agentrl.cli_games import commands
from agentrl.cli_learn import commands as learning
from agentrl.cli_view import commands as viewing
from agentrl.config import NewModelConfig
from agentrl.configfile import describe, make_config
from agentrl.errors import UserError
from agentrl.exit_status import OneLineErrors
from agentrl.results import json_text

app = typer.Typer(
    cls=OneLineErrors,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Recipe = Annotated[
    list[str], typer.Argument(metavar="CONFIG [--a.b=value]", help="YAML recipe, and fields of it to change.")
]


@app.callback(
    invoke_without_command=True,
    epilog=examples(
        "agentrl games",
        "agentrl train experiments/quickstart.yaml",
        "agentrl eval runs/quickstart",
        "agentrl play babyai/goto",
    ),
)
def _root(
    ctx: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Train and benchmark LLM agents on text games that last hundreds of turns."""
    if version:
        print(f"agentrl {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


@app.command(
    context_settings=FREE_ARGUMENTS,
    epilog=examples(
        "agentrl train experiments/quickstart.yaml",
        "agentrl train experiments/quickstart.yaml --name=slow --optimizer.lr=3e-4",
        "agentrl train experiments/babyai_qwen2.5_3b.yaml --game babyai/open --dry-run",
        "agentrl train runs/slow/config.yaml --resume",
    ),
)
def train(
    arguments: Recipe,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the run's newest checkpoint.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the whole config and what follows from it; touch nothing.")
    ] = False,
) -> None:
    """Train an agent, evaluate it before and after, and write a report.

    Any field of the recipe can be changed as --section.field=value, the value being YAML.
    --model DIR is short for --model.path=DIR, --game ID for --game.id=ID.
    """
    config = read_recipe(arguments, ["--resume", "--dry-run"])
    if dry_run:
        from agentrl.game_maker import check_game

        check_game(config.game)
        print(describe(config), end="")
        return
    from agentrl.trainer import Trainer

    trainer = Trainer(config, resume=resume)
    results = trainer.fit()
    if trainer.is_main:
        print(f"Report: {trainer.run_dir / 'report.html'}")
        if results["interrupted"]:
            recipe = trainer.run_dir / "config.yaml"
            print(f"Interrupted after {results['updates']} updates. To go on: agentrl train {recipe} --resume")


@app.command(
    "eval",
    context_settings=FREE_ARGUMENTS,
    epilog=examples(
        "agentrl eval runs/quickstart --episodes 256",
        "agentrl eval runs/quickstart/checkpoints/step-20 --greedy --out figures.json",
        "agentrl eval Qwen/Qwen2.5-3B-Instruct --config experiments/babyai_qwen2.5_3b.yaml",
    ),
)
def evaluate(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL [--a.b=value]",
            help="Run, checkpoint, or Hugging Face model (name or folder), and fields of the recipe to change.",
        ),
    ],
    recipe: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Recipe; without it the run's own, else defaults.")
    ] = None,
    game: Annotated[str | None, typer.Option("--game", metavar="ID", help="Another game than the recipe's.")] = None,
    option: Options = None,
    episodes: Annotated[
        str | None,
        typer.Option(metavar="N", help="Held-out episodes, each played to its end; without it the recipe's."),
    ] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The likeliest token each time, instead of sampling.")
    ] = False,
    temperature: Annotated[str | None, typer.Option(metavar="T", help="Of sampling; without it the recipe's.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the figures there too, as JSON.")] = None,
) -> None:
    """Score a model on held-out episodes: success, return, progression, length, achievements, with 95 % intervals."""
    own_options = ["--config", "--option", "--episodes", "--greedy", "--temperature", "--out"]
    named, overrides = split(arguments, "model", own_options)
    model, own_recipe = model_and_recipe(named)
    if greedy and temperature is not None:
        raise UserError("--greedy and --temperature exclude each other: give one")
    overrides += game_overrides(game, option)
    overrides += field_overrides({"evaluation.episodes": episodes, "engine.temperature": temperature})
    recipe = recipe or own_recipe
    if recipe is None:
        require_game(model, overrides)
    config = recipe_or_defaults(recipe, overrides, name="eval")
    if out is not None:
        require_writable(out)
    with redirect_stdout(sys.stderr):
        from agentrl.standalone import evaluate_model

        figures = evaluate_model(config, model, greedy)
    _print_figures(figures, out)


@app.command(
    context_settings=FREE_ARGUMENTS,
    epilog=examples(
        "agentrl imitate experiments/babyai_tiny.yaml --imitation.episodes=20 --out models/warm",
        "agentrl train experiments/babyai_tiny.yaml --imitation.episodes=0 --model models/warm",
        "agentrl imitate experiments/babyai_tiny.yaml --from runs/kept --best 0.1 --out models/filtered",
    ),
)
def imitate(
    arguments: Recipe,
    sources: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="RUN|FILE", help="Imitate the best episodes kept there; repeatable."),
    ] = None,
    best: Annotated[float, typer.Option(min=0.0, max=1.0, help="The share of --from that is imitated.")] = 0.1,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The model's folder; without it OUTPUT_DIR/NAME-imitation.")
    ] = None,
) -> None:
    """Fine-tune a model on episodes of the game's scripted player, or on the best that were played; save and score it.

    The folder is in Hugging Face format. Of --from whole episodes count, by the game's own reward.
    """
    config = read_recipe(arguments, ["--out", "--from", "--best"])
    with redirect_stdout(sys.stderr):
        from agentrl.preferences import best_episodes, stored_turns
        from agentrl.standalone import imitate_player

        turns = best_episodes(stored_turns(sources), best) if sources else None
        figures = imitate_player(config, out or Path(config.output_dir) / f"{config.name}-imitation", turns)
    _print_figures(figures)


@app.command(
    "new-model",
    epilog=examples(
        "agentrl new-model models/tiny --game babyai/goto",
        "agentrl new-model models/wide --game babyai/goto --hidden-size 128 --ffn-size 384",
        "agentrl new-model models/smollm2 --from smollm2",
    ),
)
def new_model(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the model is written.")],
    source: Annotated[
        str | None, typer.Option("--from", metavar="NAME", help=f"A pretrained model instead: {', '.join(PRETRAINED)}.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(metavar="DTYPE", help="Of what is written --from: float32 (default) or bfloat16.")
    ] = None,
    game: Annotated[
        str | None, typer.Option("--game", metavar="ID", help="The game whose text makes the tokenizer.")
    ] = None,
    option: Options = None,
    hidden_size: Annotated[str | None, typer.Option(metavar="N", help="Width.")] = None,
    layers: Annotated[str | None, typer.Option(metavar="N", help="Transformer layers.")] = None,
    heads: Annotated[str | None, typer.Option(metavar="N", help="Attention heads.")] = None,
    kv_heads: Annotated[str | None, typer.Option(metavar="N", help="Heads of keys and values.")] = None,
    ffn_size: Annotated[str | None, typer.Option(metavar="N", help="Width of the feed-forward part.")] = None,
    vocab_size: Annotated[
        str | None, typer.Option(metavar="N", help="Most tokens; the first are 256 bytes and 3 special ones.")
    ] = None,
    max_positions: Annotated[str | None, typer.Option(metavar="N", help="Longest prompt and reply together.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the weights and of the play that gives the text.")] = 0,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of random play whose text is used.")] = 50,
    style: Annotated[
        str, typer.Option(help="Prompt style whose words the tokenizer learns beside the game's.")
    ] = "terse",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in DIR.")] = False,
) -> None:
    """Make a small Qwen2-architecture model: random weights, and a tokenizer made from a game's text.

    Sizes that are left out are those of model.new in a recipe.
    With --from, write a pretrained model that a Python package holds; it brings its own weights, shape and tokenizer.
    """
    if source is not None:
        dtype = dtype or DTYPES[0]
        require_pretrained(context, source, dtype)
        from agentrl.smollm2 import create as write_pretrained

        write_pretrained(directory, dtype, overwrite)
        print(f"Written to {directory}")
        return
    if dtype is not None:
        raise UserError(f"--dtype {dtype}: only with --from; a new model's weights are float32")
    if game is None:
        raise UserError("a model of what? Give --game ID as `agentrl games` lists it, or --from smollm2")
    # The sizes' options have the names of model.new's fields.
    sizes = field_overrides({f"model.new.{name}": context.params.get(name) for name in NewModelConfig.model_fields})
    shape = make_config({"name": "new", "game": {"id": game}}, sizes).model.new
    from agentrl.new_model import create

    create(directory, game, game_options(option), shape, seed, episodes, overwrite, style)
    print(f"Written to {directory}")


app.add_typer(commands)
app.add_typer(exporting)
app.add_typer(learning)
app.add_typer(benchmark)
app.add_typer(comparing)
app.add_typer(viewing)


def main() -> None:
    """Entry point of the console script."""
    app()


def _print_figures(figures: dict[str, Any], out: Path | None = None) -> None:
    """As JSON on stdout; progress went to stderr."""
    text = json_text(figures)
    print(text)
    if out is not None:
        out.write_text(text + "\n")
