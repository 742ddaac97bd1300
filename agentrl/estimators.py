"""Advantages by the estimator that a config names: one table from names to functions over a batch.

Estimators with a critic work on fixed-turn batches and on whole episodes; those without one need whole episodes, since
nothing tells them what lies behind a cut.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agentrl.advantages import dual_discount_gae, length_adaptive_lambda
from agentrl.algorithm_config import AlgorithmConfig
from agentrl.bilevel_gae import bilevel_gae
from agentrl.episode_advantages import dr_grpo, gigpo, grpo, rloo, turn_returns
from agentrl.records import TurnBatch

Array = NDArray[np.float64]

OF_GROUPS: dict[str, Callable[[Array, NDArray[np.int64]], Array]] = {"rloo": rloo, "grpo": grpo, "dr_grpo": dr_grpo}


def with_critic(
    batch: TurnBatch,
    rewards_R: Array,
    values_R: Array,
    prompt_values_N: Array,
    next_values_N: Array,
    algorithm: AlgorithmConfig,
) -> tuple[Array, Array]:
    """Advantages and returns of every reply token, by GAE of one kind or the other.

    `critic_lambda_step` and `critic_lambda_token` give the returns a lambda of their own: VC-PPO's decoupled GAE
    (arXiv 2503.01491), in which the critic learns from lambda 1 whatever the policy's is.
    """
    lambda_token: float | Array = algorithm.lambda_token
    if algorithm.length_adaptive_alpha is not None:
        lambda_token = length_adaptive_lambda(batch.reply_lengths_N, algorithm.length_adaptive_alpha)
    gamma_token = algorithm.gamma_token
    if algorithm.estimator == "single_gae":
        gamma_token, lambda_token = algorithm.gamma_step, algorithm.lambda_step

    def gae(lambda_step: float, lambda_token: float | Array) -> tuple[Array, Array]:
        of_kind = bilevel_gae if algorithm.estimator == "bilevel_gae" else dual_discount_gae
        return of_kind(
            rewards_R,
            values_R,
            batch.reply_offsets,
            slot_N=batch.slot_N,
            terminated_N=batch.terminated_N,
            truncated_N=batch.truncated_N,
            error_N=batch.error_N,
            prompt_values_N=prompt_values_N,
            next_values_N=next_values_N,
            gamma_step=algorithm.gamma_step,
            lambda_step=lambda_step,
            gamma_token=gamma_token,
            lambda_token=lambda_token,
        )

    advantages_R, returns_R = gae(algorithm.lambda_step, lambda_token)
    critic_step, critic_token = algorithm.critic_lambda_step, algorithm.critic_lambda_token
    if critic_step is not None or critic_token is not None:
        _, returns_R = gae(
            algorithm.lambda_step if critic_step is None else critic_step,
            lambda_token if critic_token is None else critic_token,
        )
    return advantages_R, returns_R


def without_critic(batch: TurnBatch, rewards_R: Array, algorithm: AlgorithmConfig) -> tuple[Array, Array]:
    """Advantages and returns of every reply token, the same ones all over a turn; whole episodes only.

    Groups are the batch's episodes of one game seed. An episode that broke, and one whose group has no other left, says
    nothing: advantage 0. A return is the discounted one of `turn_returns`; groups compare undiscounted sums.
    """
    rewards_N = np.array(
        [rewards_R[a:b].sum() for a, b in zip(batch.reply_offsets, batch.reply_offsets[1:], strict=False)]
    )
    episode_N = np.cumsum([i == 0 or turn.turn == 0 for i, turn in enumerate(batch.turns)]) - 1
    returns_N = turn_returns(rewards_N, episode_N, algorithm.gamma_step)
    if algorithm.estimator == "rebn":
        advantages_N = returns_N.copy()
        advantages_N[(np.bincount(episode_N, batch.error_N) > 0)[episode_N]] = 0.0
    else:
        advantages_N = _of_groups(batch, rewards_N, returns_N, episode_N, algorithm)
    lengths_N = batch.reply_lengths_N
    return np.repeat(advantages_N, lengths_N), np.repeat(returns_N, lengths_N)


def _of_groups(
    batch: TurnBatch, rewards_N: Array, returns_N: Array, episode_N: NDArray[np.int64], algorithm: AlgorithmConfig
) -> Array:
    first_E = np.flatnonzero(np.diff(episode_N, prepend=-1))
    _, group_E, sizes = np.unique([batch.turns[i].seed for i in first_E], return_inverse=True, return_counts=True)
    whole_E = np.bincount(episode_N, batch.error_N) == 0
    healthy = np.bincount(group_E, whole_E, minlength=len(sizes))
    compared_E = whole_E & (healthy[group_E] > 1)
    compared_N = compared_E[episode_N]
    sums_E = np.bincount(episode_N, rewards_N)[compared_E]
    index_E = np.cumsum(compared_E) - 1
    advantages_N = np.zeros(len(batch))
    if not compared_E.any():
        return advantages_N
    which_N = index_E[episode_N[compared_N]]
    if algorithm.estimator == "gigpo":
        observations = [turn.messages[-1]["content"] for turn in batch.turns]
        _, anchor_N = np.unique(observations, return_inverse=True)
        advantages_N[compared_N] = gigpo(
            sums_E,
            group_E[compared_E],
            returns_N[compared_N],
            which_N,
            anchor_N[compared_N],
            step_weight=algorithm.gigpo_step_weight,
        )
    else:
        advantages_N[compared_N] = OF_GROUPS[algorithm.estimator](sums_E, group_E[compared_E])[which_N]
    return advantages_N
