"""The commands about games: `agentrl play | games | new-game | check-env | check-golden`.

As in `agentrl.cli`, what is heavy is imported inside the commands.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from agentrl.arguments import (
    FREE_ARGUMENTS,
    Options,
    examples,
    field_overrides,
    game_overrides,
    recipe_or_defaults,
    split,
)
from agentrl.errors import UserError

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "agentrl play babyai/goto",
        "agentrl play babyai/open --seed 7 --style cot --prompt",
        "agentrl play --config experiments/babyai_qwen2.5_3b.yaml --prompt",
    )
)
def play(
    game: Annotated[
        str | None, typer.Argument(metavar="GAME", help="A game as `agentrl games` lists it; else the recipe's.")
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Recipe: its game, its prompts, its model's tokenizer if model.path is a folder.",
        ),
    ] = None,
    option: Options = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Episode; without it a new one each time.")] = None,
    style: Annotated[
        str | None,
        typer.Option(help="Prompt style: a name, or a path to a YAML file; without it the recipe's, else action."),
    ] = None,
    prompt: Annotated[bool, typer.Option("--prompt", help="Show the whole prompt at every turn.")] = False,
) -> None:
    """Play a game in the terminal, seeing exactly what the model sees."""
    if game is None and recipe is None:
        raise UserError("what is to be played? Give a GAME as `agentrl games` lists it, or a recipe: --config FILE")
    overrides = game_overrides(game, option)
    overrides += field_overrides({"prompt.style": None if style is None else json.dumps(style)})
    config = recipe_or_defaults(recipe, overrides, name="play")
    from rich.console import Console

    from agentrl.play import play as play_game

    play_game(config, seed, prompt, Console())


@commands.command(
    epilog=examples(
        "agentrl games",
        "agentrl games --json",
        "agentrl games --tokens Qwen/Qwen2.5-3B-Instruct --style cot",
    )
)
def games(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for machines.")] = False,
    tokens: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Instead, length of prompts in this model's tokens, and what they share."),
    ] = None,
    style: Annotated[str | None, typer.Option(help="With --tokens: prompt style; without it action.")] = None,
) -> None:
    """List the games that can be played, with their tasks; GAME/TASK is a game's id."""
    from agentrl.game_list import print_games, print_tokens

    if tokens is not None:
        print_tokens(tokens, style or "action", as_json)
        return
    if style is not None:
        raise UserError(f"--style {style}: only with --tokens MODEL")
    print_games(as_json)


@commands.command("new-game", epilog=examples("agentrl new-game my_game", "agentrl new-game my_game --dir projects"))
def new_game(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the game, its package and its folder.")],
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where its folder is made.")] = Path(),
) -> None:
    """Write a small game of your own to begin with: a package that installs, passes its tests, and trains."""
    from agentrl.new_game import create

    folder = create(name, directory)
    print(f"Written to {folder}. What now:")
    for line in (
        f"pip install -e {folder}",
        f"agentrl check-env {name}",
        f"agentrl play {name}",
        f"agentrl train {folder / 'quickstart.yaml'}",
    ):
        print(f"  {line}")


@commands.command(
    "check-env",
    context_settings=FREE_ARGUMENTS,
    epilog=examples(
        "agentrl check-env babyai/goto --option num_dists=3",
        "agentrl check-env my_game",
        "agentrl check-env path/to/file.py:MyGame",
    ),
)
def check_env(
    arguments: Annotated[
        list[str], typer.Argument(metavar="GAME [--game.options.a=value]", help="The game, and options of it.")
    ],
    option: Options = None,
) -> None:
    """Try a game out and say what is wrong with it: a table of checks; exit status 1 if any failed."""
    game, overrides = split(arguments, "game", ["--option"])
    config = recipe_or_defaults(None, [*game_overrides(game, option), *overrides], name="check-env")
    from rich.console import Console

    from agentrl.check_env import FAILED, check_env, print_results

    results = check_env(config.game.id, config.game.options)
    print_results(config.game.id, results, Console())
    if any(result.state == FAILED for result in results):
        raise typer.Exit(1)


@commands.command("check-golden", epilog=examples("agentrl check-golden recordings/*.jsonl"))
def check_golden(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Recordings, as docs/games.md describes them.")
    ],
) -> None:
    """Replay recorded episodes through our games, and say row by row whether anything came out otherwise.

    One line a file. Exit status 1 if there was a difference, 2 if a file is no recording.
    """
    from agentrl.golden.check import check_all

    raise typer.Exit(check_all(files))
