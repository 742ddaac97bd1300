"""What the arguments of a command mean: a recipe or a model, fields to change, a game's options."""

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from agentrl.config import Config
from agentrl.configfile import load_config, make_config, split_arguments
from agentrl.errors import UserError
from agentrl.plainyaml import load_yaml

PRETRAINED = ("smollm2",)
DTYPES = ("float32", "bfloat16")
"""Of `new-model --from`: what it may name, and the types of the weights it writes, the default first."""

FREE_ARGUMENTS = {"ignore_unknown_options": True}
"""Overrides such as `--a.b=value` reach the command as they stand."""

Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="Option of the game, e.g. reward=binary; repeatable."),
]


def examples(*lines: str) -> str:
    """The epilog of a command's help: what one may type."""
    return "Examples:\n\n" + "\n".join(f"  [bold]{line}[/]" for line in lines)


def read_recipe(arguments: Sequence[str], own_options: Sequence[str]) -> Config:
    """`CONFIG [--a.b=value ...]` as a Config."""
    return load_config(*split(arguments, "recipe", own_options))


def recipe_or_defaults(recipe: Path | None, overrides: Sequence[str], name: str) -> Config:
    """The recipe with its overrides; without one, the defaults with these, under `name`."""
    return load_config(recipe, overrides) if recipe else make_config({"name": name}, overrides)


def split(arguments: Sequence[str], what: str, own_options: Sequence[str]) -> tuple[str, list[str]]:
    """The one positional argument, and the overrides; a typo of the command's own options has landed among these."""
    for name in (argument.partition("=")[0] for argument in arguments if argument.startswith("--")):
        is_field = "." in name or name[2:] in Config.model_fields
        if not is_field and (near := get_close_matches(name, own_options, n=1, cutoff=0.75)):
            raise UserError(f"there is no option {name}; did you mean {near[0]}?")
    positional, overrides = split_arguments(arguments)
    if len(positional) != 1:
        raise UserError(f"one {what} is expected, found {' '.join(positional) or 'none'}")
    return positional[0], overrides


def field_overrides(values: Mapping[str, str | None]) -> list[str]:
    """A command's options that are fields of the recipe: checked as such. None: not given."""
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def game_options(items: Sequence[str] | None) -> dict[str, Any]:
    """`--option NAME=VALUE`, the values being YAML."""
    options = {}
    for item in items or []:
        name, equals, text = item.partition("=")
        if not name.isidentifier() or not equals:
            raise UserError(f"--option {item}: write --option NAME=VALUE")
        try:
            options[name] = load_yaml(text)
        except UserError as error:
            raise UserError(f"--option {item}: {error}") from error
    return options


def game_overrides(game: str | None, items: Sequence[str] | None) -> list[str]:
    """A game that replaces the recipe's, whose options then fall away; and `--option`, on top of those that remain."""
    replaced = [] if game is None else [f"--game={json.dumps(game)}", "--game.options={}"]
    return replaced + [f"--game.options.{name}={json.dumps(value)}" for name, value in game_options(items).items()]


def model_and_recipe(model: str) -> tuple[str, Path | None]:
    """A run's folder stands for its newest checkpoint; a run knows its recipe."""
    path = Path(model)
    if not path.exists() and _means_a_path(model, path):
        near = get_close_matches(path.name, _names_in(path.parent), n=1)
        raise UserError(f"{model}: no such folder{f'; did you mean {path.parent / near[0]}?' if near else ''}")
    if (path / "config.yaml").is_file():
        from agentrl.checkpoint import checkpoints

        found = checkpoints(path)
        if not found:
            raise UserError(f"{model}: this run has no finished checkpoint yet")
        return str(found[-1]), path / "config.yaml"
    run = path.parent if path.name == "best" else path.parent.parent
    known = (path.name == "best" or path.parent.name == "checkpoints") and (run / "config.yaml").is_file()
    return model, run / "config.yaml" if known else None


def require_game(model: str, overrides: Sequence[str]) -> None:
    """Raise UserError unless the overrides name a game: nothing else does, for a model without a recipe."""
    if not any(override.startswith("--game") for override in overrides):
        where = "its folder is no run's" if Path(model).exists() else "no folder here has this name"
        raise UserError(f"{model}: {where}; for a model from elsewhere, name its game: --game ID, or --config FILE")


def require_pretrained(context: typer.Context, source: str, dtype: str) -> None:
    """Raise UserError unless `new-model --from SOURCE --dtype DTYPE` is possible, and no option shapes a new model."""
    if source not in PRETRAINED:
        raise UserError(f"--from {source}: no such model; known: {', '.join(PRETRAINED)}")
    if dtype not in DTYPES:
        raise UserError(f"--dtype {dtype}: one of {', '.join(DTYPES)}")
    for parameter in context.command.params:
        name = parameter.name or ""
        given = getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
        if given and name not in ("directory", "source", "dtype", "overwrite"):
            raise UserError(f"{parameter.opts[0]}: not with --from; {source} brings its own weights and tokenizer")


def require_writable(out: Path) -> None:
    """Raise UserError unless `--out` can be written, before hours are spent on what goes there."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.open("a").close()
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written: {error.strerror}") from error


def _means_a_path(model: str, path: Path) -> bool:
    """A name on Hugging Face has one slash at most; a folder of runs beside it says that another run was meant."""
    dotted = model.startswith(("./", "../"))
    return dotted or path.is_absolute() or len(path.parts) > 2 or any(path.parent.glob("*/config.yaml"))


def _names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []
