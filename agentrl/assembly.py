"""From a config to the parts that play: model, tokenizer, prompts, engine, games."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from agentrl import envs
from agentrl.agents import ModelAgent
from agentrl.chat import end_of_turn_ids
from agentrl.config import Config
from agentrl.constrain import ActionConstraint
from agentrl.engines.base import Sampling
from agentrl.engines.transformers import TransformersEngine
from agentrl.episode import GameSlot
from agentrl.errors import UserError
from agentrl.game_maker import GameMaker, game_is_made
from agentrl.memory import make_memory
from agentrl.new_model import game_texts, new_model
from agentrl.policy import ActorCritic, load_critic, load_lm, load_tokenizer
from agentrl.prompting import Prompter
from agentrl.results import settings
from agentrl.rewards import TurnTerms
from agentrl.seeding import key
from agentrl.trajectory import make_prompter

NEW_MODEL_EPISODES = 50
"""Episodes of random play whose text a new model's tokenizer is made from."""


class Games:
    """Makes the slots of a run: the game of the config, its prompts and a memory each.

    One slot is made at once, so that a mistake in the options of game or memory shows before a run begins.

    Args:
        maker: makes the game; at home or in worker processes.

    Attributes:
        free_text: the game judges replies itself; it has no list of actions.
        settings: what its results are played under; see `agentrl.results.settings`.
    """

    def __init__(self, config: Config, prompter: Prompter, maker: GameMaker | None = None) -> None:
        self.config = config
        self.prompter = prompter
        self.maker = maker or GameMaker(config)
        self._terms = TurnTerms(config.rewards, config.algorithm.gamma_step)
        slot = self(0, lambda episode: None, evaluation=False)
        with closing(slot), game_is_made(config.game):
            self.free_text = slot.game.actions is None
            self.settings = settings(config, slot.game, prompter)

    def __call__(self, index: int, seeds: Callable[[int], int | None], *, evaluation: bool) -> GameSlot:
        config = self.config
        return GameSlot(
            index,
            config.game.id,
            self.maker,
            self.prompter,
            make_memory(config.prompt),
            seeds,
            format_penalty=0.0 if evaluation else config.algorithm.format_penalty,
            keep_turns=evaluation and index < config.evaluation.keep_episodes,
            terms=None if evaluation else self._terms,
        )

    def close(self) -> None:
        """End the worker processes; they start again when a game is made."""
        self.maker.close()


@dataclass(slots=True)
class Parts:
    """What plays and what is trained."""

    model: ActorCritic
    tokenizer: PreTrainedTokenizerBase
    constraint: ActionConstraint | None
    end_id: int
    engine: TransformersEngine
    games: Games
    config: Config

    def agent(self, stream: str, greedy: bool = False) -> ModelAgent:
        """The model as a player; `stream` keeps the draws of training and evaluation apart."""
        temperature = 0.0 if greedy else self.config.engine.temperature
        sampling = Sampling(temperature, self.config.engine.max_reply_tokens)
        return ModelAgent(self.engine, sampling, self.config.seed, stream)


def assemble(
    config: Config,
    path: str | Path | None,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Parts:
    """Load the model at `path` (None: make a new small one) and build everything around it.

    Raises:
        UserError: model, style, memory or game cannot be made, the context is too short for the prompts, or the engine
            is an endpoint.
    """
    if config.engine.name != "transformers":
        raise UserError(
            f"engine.name = {config.engine.name}: an endpoint gives no ids to train on; set transformers, or score the "
            f"endpoint with agentrl bench"
        )
    envs.check(config.game.id, **config.game.options)
    maker = GameMaker(config)
    try:
        return _assemble(config, path, device, autocast, maker)
    except BaseException:
        maker.close()
        raise


def _assemble(
    config: Config,
    path: str | Path | None,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[object]],
    maker: GameMaker,
) -> Parts:
    if path is None:
        options, style = config.game.options, config.prompt.style
        texts = game_texts(config.game.id, options, NEW_MODEL_EPISODES, config.seed, style, maker)
        lm, tokenizer = new_model(texts, config.model.new, config.seed, config.model.attention)
        separate = config.model.critic == "separate"
        critic = copy.deepcopy(lm.base_model) if separate else None
    else:
        lm = load_lm(str(path), config.model)
        tokenizer = load_tokenizer(str(path), config.model.trust_remote_code)
        critic = load_critic(str(path), config.model)
    _check_context(config, lm)
    prompter = make_prompter(config, tokenizer)
    end_ids = end_of_turn_ids(tokenizer, lm.generation_config)
    constraint = None
    if config.engine.constrain == "actions":
        constraint = ActionConstraint(tokenizer, end_ids[0], after_marker=prompter.style.reasons)
    model = ActorCritic(lm, critic, key("value_head", config.seed)).to(device).eval()
    engine = TransformersEngine(lm, tokenizer, end_ids, constraint, config.engine.batch_size, autocast)
    return Parts(model, tokenizer, constraint, end_ids[0], engine, Games(config, prompter, maker), config)


def _check_context(config: Config, lm: PreTrainedModel) -> None:
    longest = cast(int | None, getattr(lm.config.get_text_config(), "max_position_embeddings", None))
    asked = config.prompt.max_prompt_tokens + config.engine.max_reply_tokens
    if longest is not None and asked > longest:
        raise UserError(
            f"prompt.max_prompt_tokens + engine.max_reply_tokens = {asked}: the model's context is {longest} tokens"
        )
