"""What an update holds fixed: values, logprobs, advantages and returns of a batch, before the first step."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl.advantages import kl_in_reward, token_rewards, whiten
from agentrl.algorithm_config import AlgorithmConfig
from agentrl.estimators import with_critic, without_critic
from agentrl.losses import mismatch_stats
from agentrl.policy import Rows
from agentrl.ranks import Ranks
from agentrl.records import TurnBatch
from agentrl.rows import micro_batches, prompt_rows, turn_rows
from agentrl.statistics import explained_variance

Array = NDArray[np.float64]


class Forward(Protocol):
    """A model on padded rows: logprobs (C), entropies (C) and values (K)."""

    def __call__(self, rows: Rows, *, policy: bool = True, values: bool = True) -> tuple[Tensor, Tensor, Tensor]: ...


@dataclass(slots=True)
class Scores:
    """The models' word on a batch. Positions without a choice of token have logprob 0 in all three."""

    logprobs_R: Array
    reference_R: Array | None
    values_R: Array
    prompt_values_N: Array
    next_values_N: Array


@dataclass(slots=True)
class Targets:
    """`advantages_R` as the estimator gives them, `policy_advantages_R` whitened under the policy mask if it says so.

    `weights_R`: what each token counts for in means over tokens with a choice, see `aggregation_weights`.
    """

    old_logprobs_R: Array
    reference_R: Array | None
    values_R: Array
    advantages_R: Array
    policy_advantages_R: Array
    returns_R: Array
    weights_R: Array


@torch.no_grad()
def score(
    batch: TurnBatch,
    forward: Forward,
    reference: Forward | None,
    micro_batch_turns: int,
    policy: bool = True,
    values: bool = True,
) -> Scores:
    """Run the models over a batch once.

    Without `policy` (critic pre-training) logprobs are left at the sampler's, without `values` (no critic) those at 0.
    """
    logprobs_R = batch.logprobs_R.astype(np.float64)
    reference_R = None if reference is None or not policy else np.zeros(len(logprobs_R))
    values_R = np.zeros(len(logprobs_R))
    whole = np.flatnonzero(~batch.error_N[batch.row_offsets[:-1]])  # a broken turn shares its row with no other
    for part in micro_batches(whole, batch.row_lengths_P, batch.row_turns_P, micro_batch_turns):
        rows, tokens_K = turn_rows(batch, part)
        chosen_R = tokens_K[rows.choice_C.numpy()]
        logprobs_C, _, values_K = forward(rows, policy=policy, values=values)
        if values:
            values_R[tokens_K] = _numpy(values_K)
        if policy:
            logprobs_R[chosen_R] = _numpy(logprobs_C)
        if reference_R is not None and reference is not None:
            reference_R[chosen_R] = _numpy(reference(rows, values=False)[0])

    def values_of(ids: NDArray[np.int64], offsets: NDArray[np.int64], which: NDArray[np.int64]) -> Array:
        values_N = np.zeros(len(batch))
        for part in micro_batches(which, np.diff(offsets), np.ones_like(offsets), micro_batch_turns):
            rows = prompt_rows([ids[offsets[i] : offsets[i + 1]] for i in part])
            values_N[part] = _numpy(forward(rows, policy=False)[2])
        return values_N

    if not values:
        return Scores(logprobs_R, reference_R, values_R, np.zeros(len(batch)), np.zeros(len(batch)))
    prompt_values_N = values_of(batch.prompt_ids, batch.prompt_offsets, np.flatnonzero(batch.error_N))
    answered = np.flatnonzero(batch.reply_lengths_N > 0)
    prompt_values_N[answered] = values_R[batch.reply_offsets[answered]]
    has_next = np.flatnonzero(np.diff(batch.next_prompt_offsets) > 0)
    next_values_N = values_of(batch.next_prompt_ids, batch.next_prompt_offsets, has_next)
    return Scores(logprobs_R, reference_R, values_R, prompt_values_N, next_values_N)


def make_targets(
    batch: TurnBatch, scores: Scores, algorithm: AlgorithmConfig, ranks: Ranks, kl_coef: float | None = None
) -> tuple[Targets, dict[str, float]]:
    """Advantages and returns from scores, and the metrics known before the first step (over all ranks).

    `kl_coef` stands for the config's where that has been adapted.
    """
    mask_R = batch.policy_mask_R
    penalties_R = np.zeros(len(mask_R))
    if scores.reference_R is not None and algorithm.kl_kind == "reward":
        coef = algorithm.kl_coef if kl_coef is None else kl_coef
        penalties_R = kl_in_reward(scores.logprobs_R, scores.reference_R, mask_R, coef, algorithm.kl)
    rewards_R = token_rewards(batch.reward_N, batch.reply_offsets, penalties_R)
    if algorithm.has_critic:
        bootstrap = scores.prompt_values_N, scores.next_values_N
        advantages_R, returns_R = with_critic(batch, rewards_R, scores.values_R, *bootstrap, algorithm)
    else:
        advantages_R, returns_R = without_critic(batch, rewards_R, algorithm)
    policy_advantages_R = whiten(advantages_R, mask_R, reduce=ranks.sum) if algorithm.whitens else advantages_R
    first_R = batch.first_token_R
    returns = ranks.concatenate(returns_R[first_R])
    trainer, sampler = ranks.concatenate(scores.logprobs_R[mask_R]), ranks.concatenate(batch.logprobs_R[mask_R])
    metrics = {
        "returns/mean": float(returns.mean()) if len(returns) else 0.0,
        **mismatch_stats(
            torch.from_numpy(trainer), torch.from_numpy(sampler), torch.ones(len(trainer), dtype=torch.bool)
        ),
    }
    if algorithm.has_critic:
        values = ranks.concatenate(scores.values_R[first_R])
        metrics["explained_variance"] = explained_variance(values, returns)
        metrics["values/mean"] = float(values.mean()) if len(values) else 0.0
    if scores.reference_R is not None:
        difference = ranks.concatenate(scores.logprobs_R[mask_R] - scores.reference_R[mask_R])
        metrics["reference_kl"] = float(difference.mean()) if len(difference) else 0.0
    targets = Targets(
        scores.logprobs_R,
        scores.reference_R,
        scores.values_R,
        advantages_R,
        np.asarray(policy_advantages_R, dtype=np.float64),
        returns_R,
        aggregation_weights(batch, algorithm.aggregate),
    )
    return targets, metrics


def aggregation_weights(batch: TurnBatch, over: Literal["token", "turn", "episode"]) -> Array:
    """Weights of tokens with which a weighted mean over tokens with a choice is the mean over turns, or episodes.

    The mean over turns averages each turn's own mean (as GRPO does with its replies): 1 / tokens of the turn each. An
    episode is the part of it that lies in the batch. Tokens without a choice weigh 0. Sums of weights count what is
    averaged over, so that they can be added up over micro-batches and processes.
    """
    if over == "token":
        return batch.policy_mask_R.astype(np.float64)
    group_N = np.arange(len(batch))
    if over == "episode":
        keys = np.array([(turn.slot, turn.episode) for turn in batch.turns]).reshape(-1, 2)
        _, group_N = np.unique(keys, axis=0, return_inverse=True)
    group_R = np.repeat(group_N.reshape(-1), batch.reply_lengths_N)
    tokens = np.bincount(group_R, batch.policy_mask_R)
    return batch.policy_mask_R / np.maximum(tokens[group_R], 1.0)


def annotate(batch: TurnBatch, targets: Targets, algorithm: AlgorithmConfig) -> None:
    """Write each turn's advantage at its first reply position, and its value if there is a critic, into its record."""
    for turn, start, length in zip(batch.turns, batch.reply_offsets[:-1], batch.reply_lengths_N, strict=True):
        if length:
            turn.advantage = float(targets.advantages_R[start])
            if algorithm.has_critic:
                turn.value = float(targets.values_R[start])


def _numpy(tensor: Tensor) -> Array:
    return tensor.cpu().double().numpy()  # in this order: Apple's GPUs have no float64
