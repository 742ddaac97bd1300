"""Prompt styles and games' own words: YAML files, read and checked; a style's Jinja2 templates as functions."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.abc import Traversable
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import StrictUndefined, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import SandboxedEnvironment
from pydantic import ValidationError

from agentrl import envs
from agentrl.chat import PROBE
from agentrl.config import Section
from agentrl.errors import UserError, did_you_mean
from agentrl.parsing import MARKER
from agentrl.plainyaml import load_yaml

CACHE = 4096
"""Rendered texts of a template that are kept: scenes come back, in small games often."""

VARIABLES = {
    "system": ("rules", "hints", "actions", "max_turns", "mission", "facts"),
    "past": ("scene", "mission"),
    "current": ("scene", "status", "facts", "legal", "mission"),
    "reply": ("action", "scene", "mission", "notes"),
    "invalid": ("reply", "action"),
}
"""What each template of a style may use. `actions` and `facts` are (name, text) pairs; `legal` is empty unless the game
narrows its actions this turn."""


class Style(Section):
    """Templates of a prompt's messages: prompts/README.md lists the variables of each."""

    system: str = ""
    past: str
    current: str
    reply: str
    invalid: str

    @property
    def reasons(self) -> bool:
        """Whether replies are free text up to `ACTION:`, rather than an action's bare name."""
        return MARKER in self.reply


class GameTexts(Section):
    """A game's own words, for any style; `actions` replaces the help lines of the game's code."""

    rules: str = ""
    hints: str = ""
    actions: dict[str, str] = {}


class Templates:
    """The templates of a style, each a function of the values of its `VARIABLES`, in that order.

    Args:
        name: `prompt.style`, a style in prompts/styles or a path that ends in .yaml.
        clean: what every text goes through at last.

    Raises:
        UserError: an unknown style, or a mistake in it. A template raises it too, where it fails on a turn's values.
    """

    def __init__(self, name: str, clean: Callable[[str], str]) -> None:
        file = _style_file(name)
        self.style = load_words(Style, file)
        self.system, self.past, self.current, self.reply, self.invalid = (
            template(getattr(self.style, field), names, f"{file}: {field}", clean) for field, names in VARIABLES.items()
        )
        told = self.reply(PROBE, "", "", "")
        if told != PROBE and not told.endswith(f"{MARKER} {PROBE}"):
            raise UserError(
                f"{file}: reply: must be {{{{ action }}}} alone or end with {MARKER} {{{{ action }}}}, "
                f"which is how legal-action decoding writes it"
            )


def load_texts(game: str) -> GameTexts:
    """What the game with this id says of itself, in prompts/games/NAME.yaml or in a file of its own; it need not."""
    file = envs.texts(game)
    return GameTexts() if file is None else load_words(GameTexts, file)


_ENVIRONMENT = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_ENVIRONMENT.globals = {"range": range, "dict": dict}  # without `lipsum`: a prompt must come out the same again
del _ENVIRONMENT.filters["random"]

Loaded = TypeVar("Loaded", bound=Section)


def template(source: str, names: Sequence[str], where: str, clean: Callable[[str], str]) -> Callable[..., str]:
    """A function of the values of `names`, in that order; results are stripped, cleaned and remembered.

    Remembered by the values that the template uses: a system text without facts stays the same while they change.
    """
    try:
        used = find_undeclared_variables(_ENVIRONMENT.parse(source))
        template = _ENVIRONMENT.from_string(source)
    except TemplateSyntaxError as error:
        raise UserError(f"{where}, line {error.lineno}: {error.message}") from None
    for unknown in sorted(used - set(names) - set(_ENVIRONMENT.globals)):
        raise UserError(f"{where}: {unknown} is not known here{_known(unknown, names)}")

    @lru_cache(maxsize=CACHE)
    def rendered(given: tuple[tuple[str, Any], ...]) -> str:
        try:
            text = template.render(given)
        except Exception as error:
            raise UserError(f"{where}: {type(error).__name__}: {error}") from error
        return clean(text.strip())

    def render(*values: Any) -> str:
        return rendered(tuple(pair for pair in zip(names, values, strict=True) if pair[0] in used))

    return render


def _style_file(style: str) -> Traversable | Path:
    if style.endswith((".yaml", ".yml")):
        if not Path(style).is_file():
            raise UserError(f"prompt.style = {style!r}: no such file")
        return Path(style)
    styles = {file.name.removesuffix(".yaml"): file for file in (files("agentrl.prompts") / "styles").iterdir()}
    if style not in styles:
        remedy = _known(style, sorted(styles))
        raise UserError(f"prompt.style = {style!r}: no such style{remedy}, or a path that ends in .yaml")
    return styles[style]


def load_words(kind: type[Loaded], file: Traversable | Path) -> Loaded:
    """A YAML file of words as a `Section`. Raises UserError, which names the file and the field."""
    try:
        tree = load_yaml(file.read_text(encoding="utf-8"))
        return kind.model_validate(tree)
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        mistake = error.errors()[0]
        field = ".".join(map(str, mistake["loc"]))
        if mistake["type"] == "extra_forbidden":
            raise UserError(f"{file}: {field}: no such field{_known(field, list(kind.model_fields))}") from None
        raise UserError(f"{file}: {field or 'the file'}: {mistake['msg']}") from None
    except ValueError as error:
        raise UserError(f"{file}: {error}") from None


def _known(name: str, known: Sequence[str]) -> str:
    return f"{did_you_mean(name, known)}; known: {', '.join(known)}"
