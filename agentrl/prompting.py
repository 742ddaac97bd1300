"""From an observation to prompt ids: a style's templates, then the model's chat template, then tokens within a budget.

Every turn's prompt is built anew from the memory and stands alone: nothing depends on what an earlier prompt held, so a
chat template may rewrite past messages as it likes (`agentrl.trajectory` is the exception). What never changes comes
first (rules, actions, reply format), then the episode's mission, then what changes by turn, so that turns share their
beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrl.chat import ChatEncoder, well_formed
from agentrl.config import PromptConfig
from agentrl.envs import Observation, TextEnv
from agentrl.memory import Memory, Remembered
from agentrl.parsing import parse_action
from agentrl.records import Message
from agentrl.styles import Templates, load_texts

if TYPE_CHECKING:  # a second saved where a person plays, with no model
    from transformers import PreTrainedTokenizerBase


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
        self.messages = messages
        self.ids = ids[-budget:]


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
        self._clean = well_formed if self._chat is None else self._chat.neutralise
        self._templates = Templates(config.style, self._clean)
        self.style = self._templates.style
        self.texts = load_texts(game)

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

    def parse(self, reply: str, legal: Sequence[str] | None, synonyms: Mapping[str, str]) -> str | None:
        """The action that a reply names, None if it names none."""
        return parse_action(reply, legal, synonyms)

    def reply_for(self, action: str, scene: str = "", mission: str = "", notes: str = "") -> str:
        """How a scripted player's reply reads in this style; its thought may speak of the scene and the mission.

        `notes`: what it carries on, where the memory has notes.
        """
        return self._templates.reply(action, scene, mission, notes)

    def _assemble(self, game: TextEnv, turns: Sequence[Remembered], current: str) -> list[Message]:
        messages: list[Message] = []
        for number, turn in enumerate(turns):
            scene = turn.scene if number or turn.first is None else turn.first
            past = self._templates.past(scene, game.mission)
            if turn.instead is None:
                reply = self._clean(turn.reply)
            else:
                reply = self._templates.invalid(turn.reply, turn.instead)
            messages += [{"role": "user", "content": past}, {"role": "assistant", "content": reply}]
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
        return self._templates.system(*texts, actions, game.max_turns, game.mission, _facts(game))

    def _current_text(self, game: TextEnv, observation: Observation, legal: Sequence[str] | None) -> str:
        narrowed = tuple(legal) if legal is not None and set(legal) != set(game.actions or ()) else ()
        return self._templates.current(observation.scene, observation.status, _facts(game), narrowed, game.mission)


def _facts(game: TextEnv) -> tuple[tuple[str, str], ...]:
    return tuple(game.prompt_facts().items())
