"""From an observation to prompt ids: a style's templates, then the model's chat template, then tokens within a budget.

Every turn's prompt is built anew from the memory and stands alone: nothing depends on what an earlier prompt held, so a
chat template may rewrite past messages as it likes (`agentrl.trajectory` is the exception). What never changes comes
first (rules, actions, reply format), then the episode's mission, then what changes by turn, so that turns share their
beginning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib.abc import Traversable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import SandboxedEnvironment
from pydantic import ValidationError

from agentrl.config import PromptConfig, Section
from agentrl.envs import Observation, TextEnv
from agentrl.errors import UserError
from agentrl.memory import Memory, Remembered
from agentrl.parsing import MARKER
from agentrl.plainyaml import load_yaml
from agentrl.records import Message

if TYPE_CHECKING:  # a second saved where a person plays, with no model
    from tokenizers import AddedToken
    from transformers import GenerationConfig, PreTrainedTokenizerBase

CACHE = 4096
"""Rendered messages and encoded pieces that are kept: scenes come back, in small games often."""

PROBE = "Xylophone"
"""A word that no template says of itself."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is asked. `dropped_turns` past turns did not fit. Without a tokenizer `ids` is empty."""

    messages: list[Message]
    ids: list[int]
    dropped_turns: int


class PromptTooLong(Exception):
    """Instruction and current observation alone are over budget.

    `ids` are the last `budget` ids of the prompt: good for a bootstrap value, never for a reply.
    """

    def __init__(self, messages: list[Message], ids: list[int], budget: int) -> None:
        super().__init__(f"{len(ids)} tokens without any past turn; prompt.max_prompt_tokens = {budget}")
        self.length = len(ids)
        self.budget = budget
        self.messages = messages
        self.ids = ids[-budget:]


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


VARIABLES = {
    "system": ("rules", "hints", "actions", "max_turns", "mission", "facts"),
    "past": ("scene", "mission"),
    "current": ("scene", "status", "facts", "legal", "mission"),
    "reply": ("action", "scene", "mission"),
    "invalid": ("reply", "action"),
}
"""What each template of a style may use. `actions` and `facts` are (name, text) pairs; `legal` is empty unless the game
narrows its actions this turn."""


class Prompter:
    """Builds the prompts of one kind of game.

    Args:
        game: NAME or NAME/TASK; NAME chooses prompts/games/NAME.yaml, which a game need not have.
        tokenizer: with None, prompts have messages only and nothing is dropped.

    Attributes:
        budget: most tokens of a prompt that is answered.

    Raises:
        UserError: an unknown style, a mistake in a template, a model without a usable chat template. Any method raises
            it too, where a template fails on a turn's values.
    """

    def __init__(self, config: PromptConfig, game: str, tokenizer: PreTrainedTokenizerBase | None) -> None:
        self.budget = config.max_prompt_tokens
        self._chat = None if tokenizer is None else ChatEncoder(tokenizer)
        self._clean = _well_formed if self._chat is None else self._chat.neutralise
        style_file = _style_file(config.style)
        self.style = _load(Style, style_file)
        game_file = files("agentrl.prompts") / "games" / f"{game.partition('/')[0]}.yaml"
        self.texts = _load(GameTexts, game_file) if game_file.is_file() else GameTexts()
        self._system, self._past, self._current, self._reply, self._invalid = (
            _template(getattr(self.style, field), names, f"{style_file}: {field}", self._clean)
            for field, names in VARIABLES.items()
        )
        if self.reply_for(PROBE) != PROBE and not self.reply_for(PROBE).endswith(f"{MARKER} {PROBE}"):
            raise UserError(
                f"{style_file}: reply: must be {{{{ action }}}} alone or end with {MARKER} {{{{ action }}}}, "
                f"which is how legal-action decoding writes it"
            )

    def messages(
        self,
        game: TextEnv,
        observation: Observation,
        memory: Memory,
        drop: int = 0,
        legal: Sequence[str] | None = None,
    ) -> list[Message]:
        """The turn's messages in OpenAI form, without the `drop` oldest past turns."""
        return self._assemble(game, memory.recall()[drop:], self._current_text(game, observation, legal))

    def build(
        self, game: TextEnv, observation: Observation, memory: Memory, legal: Sequence[str] | None = None
    ) -> Prompt:
        """The prompt within the token budget: past turns are dropped, oldest first, until it fits.

        Raises:
            PromptTooLong: it does not fit without any past turn.
        """
        turns, current = memory.recall(), self._current_text(game, observation, legal)
        if self._chat is None:
            return Prompt(self._assemble(game, turns, current), [], 0)
        for dropped in range(len(turns) + 1):
            messages = self._assemble(game, turns[dropped:], current)
            ids = self._chat.encode(messages)
            if len(ids) <= self.budget:
                return Prompt(messages, ids, dropped)
        raise PromptTooLong(messages, ids, self.budget)

    def reply_for(self, action: str, scene: str = "", mission: str = "") -> str:
        """How a scripted player's reply reads in this style; its thought may speak of the scene and the mission."""
        return self._reply(action, scene, mission)

    def _assemble(self, game: TextEnv, turns: Sequence[Remembered], current: str) -> list[Message]:
        messages: list[Message] = []
        for turn in turns:
            reply = self._clean(turn.reply) if turn.instead is None else self._invalid(turn.reply, turn.instead)
            messages.append({"role": "user", "content": self._past(turn.scene, game.mission)})
            messages.append({"role": "assistant", "content": reply})
        messages.append({"role": "user", "content": current})
        system = self._system_text(game)
        if not system:
            return messages
        if self._chat is None or self._chat.takes_system:
            return [{"role": "system", "content": system}, *messages]
        messages[0] = {"role": "user", "content": f"{system}\n\n{messages[0]['content']}"}
        return messages

    def _system_text(self, game: TextEnv) -> str:
        own = self.texts.actions
        actions = tuple((name, own.get(name, meaning)) for name, meaning in (game.actions or {}).items())
        texts = (self.texts.rules.strip(), self.texts.hints.strip())
        return self._system(*texts, actions, game.max_turns, game.mission, _facts(game))

    def _current_text(self, game: TextEnv, observation: Observation, legal: Sequence[str] | None) -> str:
        narrowed = tuple(legal) if legal is not None and set(legal) != set(game.actions or ()) else ()
        return self._current(observation.scene, observation.status, _facts(game), narrowed, game.mission)


class ChatEncoder:
    """Messages to ids through the model's own chat template, and messages kept from forging its control tokens.

    Attributes:
        takes_system: whether the template shows a system message; some refuse it, some leave it out.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        added = list(tokenizer.added_tokens_decoder.values())
        self._control = _any_of(token.content for token in added if _controls(token))
        # A tokenizer cuts the text at its added tokens before it does anything else, so pieces that begin with one can
        # be encoded apart (and remembered) and joined: the ids are those of the whole text. Not so for tokens that
        # look at what stands before them.
        whole = [token for token in added if not token.normalized]
        apart = tokenizer.is_fast and not any(token.lstrip or token.single_word for token in whole)
        self._borders = _any_of(token.content for token in whole) if apart else _any_of([])
        self._piece_ids = lru_cache(maxsize=CACHE)(self._encode_piece)
        question, instruction = {"role": "user", "content": "?"}, {"role": "system", "content": PROBE}
        try:
            self.render([question])
        except (TemplateError, ValueError) as error:
            raise UserError(f"the model's chat template cannot be used: {type(error).__name__}: {error}") from error
        try:
            self.takes_system = PROBE in self.render([instruction, question])
        except TemplateError:
            self.takes_system = False

    def render(self, messages: list[Message], generation_prompt: bool = True) -> str:
        text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generation_prompt)
        assert isinstance(text, str)
        return text

    def encode(self, messages: list[Message]) -> list[int]:
        """The ids of the rendered messages and the header of the reply to come."""
        return self.encode_text(self.render(messages))

    def encode_text(self, text: str) -> list[int]:
        """The ids of a rendered text, or of a part of one that begins with one of the tokenizer's added tokens."""
        ids: list[int] = []
        start = 0
        for border in self._borders.finditer(text):
            ids += self._piece_ids(text[start : border.start()])
            start = border.start()
        ids += self._piece_ids(text[start:])
        return ids

    def neutralise(self, text: str) -> str:
        """Text of a game or a model in which no control token is left: a blank is put behind its first character.

        `<|im_end|>` becomes `< |im_end|>`. Control tokens are the tokenizer's special ones and whatever else it has
        added in the form `<|...|>`.
        """
        text = _well_formed(text)
        while self._control.search(text):  # again, because a cut may lay another one open
            text = self._control.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
        return text

    def end_of_turn(self) -> int | None:
        """The id of the token that the template puts right after an assistant's message, None if it puts none."""
        dialogue = [{"role": "user", "content": "?"}, {"role": "assistant", "content": PROBE}]
        ending = self.render(dialogue, generation_prompt=False).rpartition(PROBE)[2].lstrip()
        first = self._control.match(ending)
        return self._tokenizer.convert_tokens_to_ids(first[0]) if first else None

    def _encode_piece(self, piece: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(piece, add_special_tokens=False))


def end_of_turn_ids(tokenizer: PreTrainedTokenizerBase, generation_config: GenerationConfig | None) -> list[int]:
    """The ids that end a reply, the one that the chat template itself uses first.

    Raises:
        UserError: the model names none.
    """
    configured = generation_config.eos_token_id if generation_config else None
    several = configured if isinstance(configured, list) else [configured]
    ids = [ChatEncoder(tokenizer).end_of_turn(), tokenizer.eos_token_id, *several]
    found = list(dict.fromkeys(i for i in ids if i is not None))
    if not found:
        raise UserError(
            "the model's tokenizer names no token that ends a reply: set eos_token in its tokenizer_config.json"
        )
    return found


_ENVIRONMENT = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_ENVIRONMENT.globals = {"range": range, "dict": dict}  # without `lipsum`: a prompt must come out the same again
del _ENVIRONMENT.filters["random"]

Loaded = TypeVar("Loaded", bound=Section)


def _template(source: str, names: Sequence[str], where: str, clean: Callable[[str], str]) -> Callable[..., str]:
    """A function of the values of `names`, in that order; results are stripped, cleaned and remembered.

    Remembered by the values that the template uses: a system text without facts stays the same while they change.
    """
    try:
        used = find_undeclared_variables(_ENVIRONMENT.parse(source))
        template = _ENVIRONMENT.from_string(source)
    except TemplateSyntaxError as error:
        raise UserError(f"{where}, line {error.lineno}: {error.message}") from None
    for unknown in sorted(used - set(names) - set(_ENVIRONMENT.globals)):
        raise UserError(f"{where}: {unknown} is not known here{_suggestion(unknown, names)}")

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


def _facts(game: TextEnv) -> tuple[tuple[str, str], ...]:
    return tuple(game.prompt_facts().items())


def _style_file(style: str) -> Traversable | Path:
    if style.endswith((".yaml", ".yml")):
        if not Path(style).is_file():
            raise UserError(f"prompt.style = {style!r}: no such file")
        return Path(style)
    styles = {file.name.removesuffix(".yaml"): file for file in (files("agentrl.prompts") / "styles").iterdir()}
    if style not in styles:
        remedy = _suggestion(style, sorted(styles))
        raise UserError(f"prompt.style = {style!r}: no such style{remedy}, or a path that ends in .yaml")
    return styles[style]


def _load(kind: type[Loaded], file: Traversable | Path) -> Loaded:
    try:
        tree = load_yaml(file.read_text(encoding="utf-8"))
        return kind.model_validate(tree)
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        mistake = error.errors()[0]
        field = ".".join(map(str, mistake["loc"]))
        if mistake["type"] == "extra_forbidden":
            raise UserError(f"{file}: {field}: no such field{_suggestion(field, list(kind.model_fields))}") from None
        raise UserError(f"{file}: {field or 'the file'}: {mistake['msg']}") from None
    except ValueError as error:
        raise UserError(f"{file}: {error}") from None


def _suggestion(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return (f"; did you mean {close[0]}?" if close else "") + f"; known: {', '.join(known)}"


def _controls(token: AddedToken) -> bool:
    shape = token.content.startswith("<|") and token.content.endswith("|>")
    return len(token.content) > 1 and (token.special or shape)


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Matches any of the words, the longest first; nothing if there are none."""
    return re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)")


def _well_formed(text: str) -> str:
    """Without lone surrogates, which no tokenizer and no JSON takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
