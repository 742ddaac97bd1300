"""YAML recipes: read with command-line overrides, checked into one-line errors, written back, described."""

import json
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from agentrl.config import Config, Section
from agentrl.errors import UserError, did_you_mean
from agentrl.game_id import absolute
from agentrl.plainyaml import dump_yaml, load_yaml
from agentrl.reward_terms import TERMS

SHORTHANDS = {"model": "model.path", "game": "game.id"}
"""`--model DIR` and `--game ID`; a mapping as value still sets the whole section."""

COMMAND_LINE = "command line"

_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list such as [a, b]",
    "tuple_type": "a list such as [a, b]",
    "dict_type": "names with values, such as {a: 1}",
    "model_type": "a section of fields",
    "too_long": "fewer values",
}


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML recipe; `overrides` are `--a.b=value` or `--a.b value`, their values YAML too, the last one wins.

    A game in a file (`game.id: FILE.py:CLASS`) is looked for from the recipe's folder, or from here where the command
    line names it. The config holds its absolute path: a run goes on from wherever it is resumed.

    Raises UserError: one line naming the source, the field, the value and what is expected.
    """
    tree = _read(Path(path))
    _anchor_game(tree, Path(path).parent)
    return make_config(tree, overrides, source=str(path))


def make_config(tree: Mapping[str, Any], overrides: Sequence[str] = (), source: str = "config") -> Config:
    """A Config from nested dicts as `load_config` reads them; same overrides, same errors."""
    positional, overrides = split_arguments(overrides)
    if positional:
        raise UserError(f"{COMMAND_LINE}: {_shown(positional[0])}: an override has the form --section.field=value")
    merged = _plain(tree)
    overridden = set()
    for name, value in map(_parse_override, overrides):
        _put(merged, name.split("."), value)
        overridden.add(name)
    _anchor_game(merged, Path())
    try:
        # JSON mode: strict about types, yet a list may fill a tuple.
        return Config.model_validate_json(json.dumps(merged), strict=True)
    except ValidationError as error:
        lines = [_line(dict(mistake), source, overridden) for mistake in error.errors()]
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        raise UserError(lines[0] + more) from None


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Positional arguments, and overrides, each joined to one `--name=value`."""
    positional, overrides, rest = [], [], iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            positional.append(argument)
        elif "=" in argument:
            overrides.append(argument)
        else:
            value = next(rest, None)
            if value is None or value.startswith("--"):
                _known(argument[2:])
                raise UserError(f"{COMMAND_LINE}: {argument}: the value is missing; write {argument}=VALUE")
            overrides.append(f"{argument}={value}")
    return positional, overrides


def dump_config(config: Config) -> str:
    """The whole config as YAML; `load_config` reads the same one back."""
    return dump_yaml(_plain(config.model_dump()))


def require_same_run(config: Config, stored: Path) -> None:
    """Raise UserError if the run to be resumed, its config stored at `stored`, has another seed, game, model or rows.

    Its weights and figures would pass for those of what is asked for now. Other fields may change between two parts
    of a run.
    """
    before = load_config(stored)
    for name in (
        "seed",
        "rows",
        "game.id",
        "game.options",
        "model.path",
        "model.new",
        "batch.form",
        "batch.group_size",
    ):
        asked, begun = (attrgetter(name)(either) for either in (config, before))
        if asked != begun:
            asked, begun = (_plain(x.model_dump()) if isinstance(x, Section) else x for x in (asked, begun))
            raise UserError(
                f"{name} = {_shown(asked)}: the run in {stored.parent} was begun with {_shown(begun)}; "
                f"keep that, or give another --name"
            )


def describe(config: Config) -> str:
    """The whole config as YAML, and what follows from it as comments: the text is itself a recipe."""
    warmup, per_update = config.critic_warmup.max_updates, config.turns_per_update
    tokens = per_update * (config.prompt.max_prompt_tokens + config.engine.max_reply_tokens)
    episodes = config.batch.form == "episodes"
    turns_in_all = (config.batch.updates + warmup) * per_update
    players = ["sampled"] + [kind for kind in ("greedy", "random") if getattr(config.evaluation, kind)]
    facts = {
        "turns per update": f"those of {per_update:,} episodes" if episodes else f"{per_update:,}",
        "optimizer steps per update": f"{config.optimizer_steps_per_update:,}",
        "optimizer steps of the policy": f"{config.policy_steps:,}",
        "critic warm-up updates, at most": f"{warmup:,}",
        **({} if episodes else {"critic warm-up turns, at most": f"{warmup * per_update:,}"}),
        **({} if episodes else {"turns in all, at most": f"{turns_in_all:,}"}),
        **({} if episodes else {"prompt + reply tokens per update, at most": f"{tokens:,}"}),
        "imitation episodes": f"{config.imitation.episodes:,}",
        "games run in": f"{config.workers.processes:,} worker processes"
        if config.workers.processes
        else "the trainer's own process",
        "episodes per evaluation": f"{config.evaluation.episodes:,} each of {', '.join(players)}"
        if config.evaluation.episodes
        else "0",
    }
    width = max(map(len, facts))
    return dump_config(config) + "\n" + "\n".join(f"# {name:<{width}}  {value}" for name, value in facts.items()) + "\n"


def field_names(section: type[Section] = Config, prefix: str = "") -> dict[str, FieldInfo]:
    """Dotted name -> field, sections before the fields in them."""
    names: dict[str, FieldInfo] = {}
    for name, field in section.model_fields.items():
        names[prefix + name] = field
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            names |= field_names(field.annotation, f"{prefix}{name}.")
    return names


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """The dotted names that `name` may have meant, best first: its last part weighs more than its section."""
    leaf = name.rpartition(".")[2]

    def likeness(candidate: str) -> tuple[float, float]:
        ending = candidate.rpartition(".")[2]
        return SequenceMatcher(None, leaf, ending).ratio(), SequenceMatcher(None, name, candidate).ratio()

    scored = sorted(((likeness(candidate), candidate) for candidate in names), key=lambda pair: -sum(pair[0]))
    same_leaf = [candidate for (ending, _), candidate in scored if ending == 1.0]
    return same_leaf[:3] or [candidate for (ending, whole), candidate in scored[:1] if max(ending, whole) >= 0.7]


def _read(path: Path) -> dict[str, Any]:
    try:
        tree = _plain(load_yaml(path.read_bytes()))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file{_near_files(path)}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if not isinstance(tree, dict):
        raise UserError(f"{path}: a recipe is a mapping of fields, found {_shown(tree)}")
    return tree


def _anchor_game(tree: dict[str, Any], folder: Path) -> None:
    game = tree.get("game")
    if isinstance(game, dict) and isinstance(game.get("id"), str):
        game["id"] = absolute(game["id"], folder)


def _plain(tree: Any) -> Any:
    """A copy without shared parts: an override must not reach a second section through a YAML alias."""
    try:
        return json.loads(json.dumps(tree))
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"only text, numbers, true, false, null, lists and mappings fit here: {error}") from None


def _near_files(path: Path) -> str:
    siblings = [p for p in path.parent.iterdir() if p.is_file()] if path.parent.is_dir() else []
    by_name = {p.name: p for p in siblings} | {p.stem: p for p in siblings}
    close = get_close_matches(path.name, by_name, n=1) or get_close_matches(path.stem, by_name, n=1)
    return f"; did you mean {by_name[close[0]]}?" if close else ""


def _parse_override(argument: str) -> tuple[str, Any]:
    name, _, text = argument[2:].partition("=")
    try:
        value = _plain(load_yaml(text))
    except UserError as error:
        raise UserError(f"{COMMAND_LINE}: {name} = {_shown(text)}: {error}") from None
    if name in SHORTHANDS and not isinstance(value, dict):
        name = SHORTHANDS[name]
    _known(name, value)
    return name, value


def _known(name: str, value: Any = ...) -> None:
    """Raise UserError unless `name` is a field, or a key inside a field of free keys such as game.options."""
    names = field_names()
    free = [n for n, field in names.items() if getattr(field.annotation, "__origin__", None) is dict]
    if name not in names and not any(name.startswith(f"{n}.") for n in free):
        raise UserError(f"{COMMAND_LINE}: {_unknown(name, value)}")


def _unknown(name: str, value: Any) -> str:
    names = field_names()
    shown = "" if value is ... else f" = {_shown(value)}"
    close = nearest(name, names)
    if close:
        remedy = f"did you mean {' or '.join(close)}?"
    else:
        section = name.rpartition(".")[0]
        level = [n for n in names if n.rpartition(".")[0] == (section if section in names else "")]
        remedy = f"known: {', '.join(level)}"
    return f"{name}{shown}: no such field; {remedy}"


def _put(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        if tree.get(key) is None:
            tree[key] = {}
        if not isinstance(tree[key], dict):
            return  # the file's own mistake: validation names it
        tree = tree[key]
    tree[keys[-1]] = value


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _line(mistake: dict[str, Any], source: str, overridden: set[str]) -> str:
    """One validation error of pydantic as one line."""
    if mistake["loc"][:1] == ("rewards",) and len(mistake["loc"]) > 1:
        return _term_line(mistake, source, overridden)
    name, kind, value = ".".join(map(str, mistake["loc"])), mistake["type"], mistake["input"]
    names = field_names()
    if any(name == n or name.startswith(f"{n}.") for n in overridden):
        source = COMMAND_LINE
    if kind == "value_error":
        prefix = f"{name}: " if name else ""
        return f"{source}: {prefix}{mistake['ctx']['error']}"
    if kind == "extra_forbidden":
        return f"{source}: {_unknown(name, value)}"
    if kind == "missing" and (name in names):
        required = [n for n, f in names.items() if n.startswith(name) and f.is_required()][-1]
        meaning = names[required].description
        option = next((short for short, full in SHORTHANDS.items() if full == required), required)
        return f"{source}: {required} is missing ({meaning}); add it, or give --{option}=VALUE"
    field = names.get(re.sub(r"\.\d+$", "", name))
    return f"{source}: {name} = {_shown(value)}: expected {_expected(mistake, field)}"


def _term_line(mistake: dict[str, Any], source: str, overridden: set[str]) -> str:
    """As `_line`, of a term of `rewards`; pydantic puts the term's kind between its name and the field's."""
    (_, name, *rest), kind, value = mistake["loc"], mistake["type"], mistake["input"]
    place = ".".join(["rewards", name, *map(str, rest[1:])])
    if any(f"{place}.".startswith(f"{n}.") for n in overridden):
        source = COMMAND_LINE
    if kind == "string_pattern_mismatch" and rest == ["[key]"]:
        return f"{source}: rewards.{name}: a name has small letters, digits and _, the first one a letter"
    if kind.startswith("union_tag"):
        given = value.get("kind") if isinstance(value, dict) else value
        shown = " is missing" if given is None else f" = {_shown(given)}"
        return f"{source}: {place}.kind{shown}: expected {' or '.join(TERMS)}{did_you_mean(str(given), TERMS)}"
    fields = TERMS[rest[0]].model_fields if rest and rest[0] in TERMS else {}
    if kind == "extra_forbidden":
        known = did_you_mean(str(rest[-1]), fields) or f"; known: {', '.join(fields)}"
        return f"{source}: {place} = {_shown(value)}: no such field{known}"
    if kind == "missing":
        return f"{source}: {place} is missing ({fields[rest[-1]].description or 'a number'}); add it"
    if kind == "value_error":
        return f"{source}: {place}: {mistake['ctx']['error']}"
    return f"{source}: {place} = {_shown(value)}: expected {_expected(mistake, fields.get(rest[-1]) if rest else None)}"


def _expected(mistake: dict[str, Any], field: FieldInfo | None) -> str:
    kind, value = mistake["type"], mistake["input"]
    nullable = field is not None and types.NoneType in get_args(field.annotation)
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", mistake["ctx"]["expected"])
        return " or ".join(choices) + did_you_mean(str(value), choices)
    if kind == "string_pattern_mismatch":
        meaning = f" ({field.description})" if field and field.description else ""
        return f"text of the form {mistake['ctx']['pattern']}{meaning}"
    if kind == "missing":
        return "one more value"
    expected = _EXPECTED.get(kind) or re.sub(r"^Input should be (a )?", "a value ", mistake["msg"])
    expected += " or null" if nullable and value is not None else ""
    if isinstance(value, str) and kind in ("int_type", "float_type", "bool_type"):
        if _reads_as_other_than_text(value):
            expected += "; remove the quotes"
        elif nullable and value.lower() == "none":
            expected += "; write null for none"
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        expected += "; put it in quotes"
    return expected


def _reads_as_other_than_text(text: str) -> bool:
    try:
        return not isinstance(load_yaml(text), str)
    except UserError:
        return False
