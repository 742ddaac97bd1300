"""How long a game's prompts are, in a model's tokens, and how much of them turns share: `agentrl games --tokens MODEL`.

Two prompts share their common beginning: what an engine with a prefix cache reads once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING

from agentrl import envs
from agentrl.config import PromptConfig
from agentrl.envs import TextEnv
from agentrl.errors import UserError, in_short
from agentrl.memory import PastTurn, make_memory
from agentrl.prompting import Prompter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EPISODES, TURNS = 3, 50
"""Episodes of random play, and the most turns of each."""

UNBOUNDED = 2**31


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """Of one game's prompts, one past turn shown in each (the default), none dropped.

    Attributes:
        prompts: how many were measured.
        mean, longest: tokens of a prompt, the header of the reply included.
        shared_by_turns: tokens that a prompt has in common with the one before it, on average over an episode's turns.
        shared_by_episodes: tokens that the first prompts of two episodes have in common, on average.
        problem: why nothing could be measured; "" if it could.
    """

    game: str
    prompts: int = 0
    mean: float = 0.0
    longest: int = 0
    shared_by_turns: float = 0.0
    shared_by_episodes: float = 0.0
    problem: str = ""

    def row(self) -> dict[str, object]:
        return asdict(self)


def measure(game_id: str, style: str, tokenizer: PreTrainedTokenizerBase) -> PromptTokens:
    """Of a few episodes of random play; a game that cannot be played has its `problem` told.

    Raises:
        UserError: there is no such style, or the tokenizer's chat template cannot be used.
    """
    prompter = Prompter(PromptConfig(style=style, max_prompt_tokens=UNBOUNDED), game_id, tokenizer)
    try:
        with closing(envs.make(game_id)) as game:
            episodes = [list(_prompts(game, prompter, seed)) for seed in range(EPISODES)]
    except Exception as error:
        return PromptTokens(game_id, problem=str(error) if isinstance(error, UserError) else in_short(error))
    lengths = [len(ids) for episode in episodes for ids in episode]
    return PromptTokens(
        game_id,
        prompts=len(lengths),
        mean=mean(lengths),
        longest=max(lengths),
        shared_by_turns=mean([shared(*pair) for episode in episodes for pair in pairwise(episode)] or [0]),
        shared_by_episodes=mean(shared(*pair) for pair in pairwise([episode[0] for episode in episodes])),
    )


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _prompts(game: TextEnv, prompter: Prompter, seed: int) -> Iterator[list[int]]:
    """Ids of each turn's prompt, replies being what the style's scripted player would write."""
    config, draw = PromptConfig(), random.Random(seed)
    memory = make_memory(config)
    observation, info = game.reset(seed=seed)
    for _ in range(TURNS):
        legal = info.get("legal_actions") or game.actions
        yield prompter.build(game, observation, memory, None if legal is None else tuple(legal)).ids
        action = game.default_action if legal is None else draw.choice(list(legal))
        reply = prompter.reply_for(action, observation.scene, game.mission)
        memory.add(PastTurn(observation.scene, reply, action, valid=True))
        observation, _, terminated, truncated, info = game.step(action)
        if terminated or truncated:
            break
