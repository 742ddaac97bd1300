"""`rows: trajectory`, the baseline: an episode is one growing dialogue, as other frameworks train it.

A turn's prompt is the prompt before it, the reply as it was sampled, and a new user message; nothing is encoded again,
nothing forgotten. Training reads the turns of an episode as one row. When `prompt.max_prompt_tokens` are full, the
episode is cut there like at a time limit. What the chat template would leave out of a past reply (its reasoning) stays
in; a system message stays as it was at the first turn; an invalid reply is not worded by the style's `invalid`.

The cost grows with a turn's number, which is what turn rows avoid: each turn's generation reads the whole prompt again
(no cache is kept between turns), and each turn's record holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from agentrl.chat import ANSWERED, PROBE, ChatEncoder
from agentrl.config import Config, PromptConfig
from agentrl.envs import Observation, TextEnv
from agentrl.errors import UserError
from agentrl.prompting import Prompt, Prompter
from agentrl.records import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def make_prompter(config: Config, tokenizer: PreTrainedTokenizerBase | None) -> Prompter:
    """The prompter of the config's game, for the rows that it asks for."""
    kind = TrajectoryPrompter if config.rows == "trajectory" else Prompter
    return kind(config.prompt, config.game.id, tokenizer)


class TrajectoryPrompter(Prompter):
    """Begins a dialogue as its base class does, and `extend`s it turn by turn.

    Raises:
        UserError: as the base class; and a chat template that shows messages otherwise once others have followed, or
            ends replies with no token of their own.
    """

    def __init__(self, config: PromptConfig, game: str, tokenizer: PreTrainedTokenizerBase | None) -> None:
        super().__init__(config, game, tokenizer)
        if self._chat is not None and not _grows(self._chat):
            raise UserError(
                "rows = trajectory: the model's chat template rewrites a dialogue as it grows, or ends replies with no "
                "token of their own; use rows: turn"
            )

    def extend(
        self,
        asked: Prompt,
        reply: str,
        reply_ids: Sequence[int],
        game: TextEnv,
        observation: Observation,
        legal: Sequence[str] | None = None,
    ) -> Prompt:
        """The prompt after `asked` was answered. A reply without ids, of a player who samples none, is encoded.

        It may be over budget: good for a bootstrap value, never for a reply. Of one twice over budget, its tail.
        """
        current = self._current_text(game, observation, legal)
        answer = self._clean(reply)
        messages = [*asked.messages, {"role": "assistant", "content": answer}, {"role": "user", "content": current}]
        if self._chat is None:
            return Prompt(messages, [], 0)
        said = list(reply_ids or self._chat.encode_text(answer))
        following = self._chat.encode_text(_after_reply(self._chat, current))
        closed = said[-1:] == following[:1]  # a reply that was cut by its length is not
        ids = [*asked.ids, *said, *following[closed:]]
        return Prompt(messages, ids[-2 * self.budget :], 0)

    def is_full(self, prompt: Prompt) -> bool:
        """Whether a prompt leaves no place for another reply."""
        return len(prompt.ids) > self.budget


def _after_reply(chat: ChatEncoder, text: str) -> str:
    """What the template puts behind a reply: its end-of-turn token, the user message `text`, the next header."""
    return chat.render([*ANSWERED, {"role": "user", "content": text}]).partition(PROBE)[2]


def _grows(chat: ChatEncoder) -> bool:
    """Whether a longer dialogue is the shorter one and what `_after_reply` says, as text and as ids."""
    system: list[Message] = [{"role": "system", "content": "0"}] if chat.takes_system else []
    one, two, three = ([{"role": "user", "content": number}] for number in "123")
    answer: list[Message] = [{"role": "assistant", "content": PROBE}]
    try:
        begun = chat.render(system + one) + PROBE
        behind = _after_reply(chat, "2"), _after_reply(chat, "3")
        whole = chat.render(system + one + answer + two + answer + three)
    except TemplateError:
        return False
    apart = chat.encode_text(behind[0])
    return (
        whole == begun + behind[0] + PROBE + behind[1]
        and apart[0] == chat.end_of_turn()
        and chat.encode_text(begun + behind[0]) == chat.encode_text(begun) + apart
    )
