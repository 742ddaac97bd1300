"""Supervised warm start: the model learns to answer as the game's scripted player does.

Prompts and replies are built as in reinforcement learning, over the same legal sets and at the same temperature: what
is learned is what is sampled from afterwards.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from agentrl.agents import ScriptedAgent, styled_reply
from agentrl.assembly import Parts
from agentrl.collector import play_round
from agentrl.config import Config
from agentrl.constrain import ActionConstraint
from agentrl.engines.base import Reply
from agentrl.episode import GameSlot
from agentrl.errors import UserError
from agentrl.evaluation import MakeSlot
from agentrl.policy import ActorCritic
from agentrl.progress import track
from agentrl.records import FREE, Turn, TurnBatch
from agentrl.rows import micro_batches, ragged_indices, turn_rows
from agentrl.seeding import HELD_OUT, key, permutation
from agentrl.stopping import Interrupted


def require_player(make_slot: MakeSlot) -> None:
    """Raise the UserError of a game without a scripted player before anything else is done."""
    with closing(make_slot(0, lambda episode: 0, evaluation=False)) as slot:
        slot.next_episode()
        ScriptedAgent().act([slot])


def warm_start(
    parts: Parts, config: Config, stop: Callable[[], bool] = lambda: False, turns: list[Turn] | None = None
) -> dict[str, float]:
    """Imitate the scripted player on `config.imitation.episodes` episodes; returns what came of it.

    With `turns`, these are imitated instead: filtered imitation, if they are those of the best episodes.

    Raises:
        UserError: the game has no scripted player, or none of its replies can be learnt, or they are longer than
            the engine's.
        Interrupted: `stop` returned True between two episodes or steps.
    """
    section = config.imitation

    def go_on() -> None:
        if stop():
            raise Interrupted

    figures = {}
    if turns is None:
        with track(section.episodes, "scripted player", "episodes") as bar:

            def on_episode(turns: int) -> None:
                go_on()
                bar.advance()

            shown = demonstrate(
                parts.games, parts.tokenizer, parts.end_id, parts.constraint, section.episodes, config.seed, on_episode
            )
        turns, figures["scripted_success"] = shown.turns, shown.success
        if not turns:
            raise UserError(
                f"imitation.episodes = {section.episodes}: not one turn of {config.game.id} could be played"
            )
    longest = max(len(turn.reply_ids) for turn in turns)
    if longest > config.engine.max_reply_tokens:
        raise UserError(f"engine.max_reply_tokens = {config.engine.max_reply_tokens}: what is imitated has {longest}")
    steps = section.epochs * -(-len(turns) // section.batch_turns)
    with track(steps, "imitation", "steps") as bar:

        def on_step(loss: float) -> None:
            go_on()
            bar.step(loss)

        loss = imitate(parts.model, turns, config, on_step, parts.engine.autocast)
    return {"turns": float(len(turns)), **figures, "loss": loss}


@dataclass(slots=True)
class Demonstrations:
    """Turns of the scripted player with token ids, and the fraction of its episodes that succeeded."""

    turns: list[Turn]
    success: float


def demonstrate(
    make_slot: MakeSlot,
    tokenizer: PreTrainedTokenizerBase,
    end_id: int,
    constraint: ActionConstraint | None,
    episodes: int,
    seed: int,
    on_episode: Callable[[int], None] = lambda turns: None,
) -> Demonstrations:
    """Let the scripted player play `episodes` training episodes."""
    agent, turns, successes = _Demonstrator(tokenizer, end_id, constraint), [], 0

    def game_seed(episode: int) -> int | None:
        return key("imitation", seed, episode) % HELD_OUT if episode < episodes else None

    with closing(make_slot(0, game_seed, evaluation=False)) as slot:
        running = slot.next_episode()
        while running:
            (_, turn, episode), *_ = play_round([slot], agent)
            if turn.error is None:
                turns.append(turn)
            if episode is not None:
                successes += bool(episode.success)
                on_episode(episode.length)
                running = slot.next_episode()
    return Demonstrations(turns, successes / episodes)


def imitate(
    model: ActorCritic,
    turns: list[Turn],
    config: Config,
    on_step: Callable[[float], None] = lambda loss: None,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> float:
    """Minimise the mean negative logprob of the demonstrated tokens; only the language model is trained.

    Where a legal set leaves no choice there is nothing to learn. The learning rate falls linearly to 0.
    Returns the mean loss of the last epoch.
    """
    batch = TurnBatch.from_turns(turns)
    section = config.imitation
    parameters = [p for _, p in model.policy_parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=section.lr, weight_decay=0.01)
    steps = section.epochs * -(-len(turns) // section.batch_turns)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / steps)
    model.train()
    losses: list[float] = []
    for epoch in range(section.epochs):
        losses = []
        order = permutation(key("imitation", config.seed, epoch, 1), len(turns))
        for start in range(0, len(order), section.batch_turns):
            which = order[start : start + section.batch_turns]
            total = max(1, int(batch.policy_mask_R[ragged_indices(batch.reply_offsets, which)].sum()))
            loss_sum = 0.0
            micro_batch_turns = config.optimizer.micro_batch_turns
            for part in micro_batches(which, batch.row_lengths_P, batch.row_turns_P, micro_batch_turns):
                rows, _ = turn_rows(batch, part)
                with autocast():
                    logprobs_C, _, _ = model(rows.to(model.lm.device), config.engine.temperature, values=False)
                loss = -logprobs_C.sum() / total
                loss.backward()
                loss_sum += float(loss.detach())
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
            losses.append(loss_sum)
            on_step(loss_sum)
    model.eval()
    return float(np.mean(losses))


class _Demonstrator(ScriptedAgent):
    """The scripted player, with the ids that the sampler would have drawn for its replies, and their legal sets."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, end_id: int, constraint: ActionConstraint | None) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._end_id = end_id
        self._constraint = constraint

    def act(self, slots: Sequence[GameSlot]) -> list[Reply]:
        return [self._reply(slot) for slot in slots]

    def _reply(self, slot: GameSlot) -> Reply:
        action = self._action(slot)
        text = styled_reply(slot, action)
        allowed: list[tuple[int, ...]]
        if self._constraint is None or slot.legal is None:
            ids = [*self._tokenizer.encode(text, add_special_tokens=False), self._end_id]
            allowed = [FREE] * len(ids)
        else:
            ids, allowed = [*self._constraint.encode(text, action), self._end_id], []
            cursor = self._constraint.cursor(slot.legal)
            for token in ids:
                allowed.append(cursor.allowed)
                if cursor.allowed != FREE and token not in cursor.allowed:
                    raise UserError(f"{slot.game_id}: the scripted player's reply {text!r} is not a legal action")
                cursor.advance(token)
        return Reply(text, ids, [0.0] * len(ids), allowed)
