"""A game whose texts a test can set, and prompters and memories for it."""

from typing import Any

from chat_templates import TOKENIZER
from transformers import PreTrainedTokenizerBase

from agentrl.config import PromptConfig
from agentrl.envs import Observation, TextEnv
from agentrl.memory import PastTurn, WindowMemory
from agentrl.prompting import Prompter
from agentrl.records import Message

STYLES = ("action", "cot", "terse")


class Corridor(TextEnv):
    """A game that no file in prompts/games describes."""

    default_action = "go forward"
    max_turns = 9

    def __init__(self) -> None:
        self.actions: dict[str, str] | None = {"turn left": "a quarter turn", "go forward": "one step ahead"}
        self.mission = "reach the red ball"
        self.facts: dict[str, str] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        self.place = 0
        return Observation("at 0"), {}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self.place += action == "go forward"
        return Observation(f"at {self.place}"), 0.0, False, False, {}

    def prompt_facts(self) -> dict[str, str]:
        return self.facts


def prompter(style: str = "action", tokenizer: PreTrainedTokenizerBase | None = TOKENIZER, **fields: Any) -> Prompter:
    return Prompter(PromptConfig(style=style, **{"max_prompt_tokens": 4000} | fields), "corridor", tokenizer)


def remembering(*turns: tuple[str, str, str, bool], keep: str = "whole") -> WindowMemory:
    memory = WindowMemory(max(len(turns), 1), keep)
    for turn in turns:
        memory.add(PastTurn(*turn))
    return memory


LEFT = ("a wall", "turn left", "turn left", True)
NOW = Observation("a red ball", "health 9")


def contents(messages: list[Message]) -> list[str]:
    return [message["content"] for message in messages]
