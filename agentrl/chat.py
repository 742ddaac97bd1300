"""The model's chat template and tokenizer: messages to ids, ids that end a reply, control tokens that nobody forges."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from agentrl.errors import UserError
from agentrl.records import Message

if TYPE_CHECKING:  # a second saved where a person plays, with no model
    from tokenizers import AddedToken
    from transformers import GenerationConfig, PreTrainedTokenizerBase

CACHE = 4096
"""Encoded pieces that are kept: scenes come back, in small games often."""

PROBE = "Xylophone"
"""A word that no template says of itself."""

ANSWERED: list[Message] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": PROBE}]
"""The shortest dialogue with a reply in it."""


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
        text = well_formed(text)
        while self._control.search(text):  # again, because a cut may lay another one open
            text = self._control.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
        return text

    def end_of_turn(self) -> int | None:
        """The id of the token that the template puts right after an assistant's message, None if it puts none."""
        ending = self.render(ANSWERED, generation_prompt=False).rpartition(PROBE)[2].lstrip()
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


def well_formed(text: str) -> str:
    """Without lone surrogates, which no tokenizer and no JSON takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _controls(token: AddedToken) -> bool:
    shape = token.content.startswith("<|") and token.content.endswith("|>")
    return len(token.content) > 1 and (token.special or shape)


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Matches any of the words, the longest first; nothing if there are none."""
    return re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)")
