"""Dual-discount generalised advantage estimation (GAE) over ragged turns, its rewards, and whitening.

Shapes as in `agentrl.traces`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agentrl.traces import Bools, Float64, Floats, Ints, discounted_tails, float64, traces

SumOverRanks = Callable[[Float64], Float64]


def dual_discount_gae(
    rewards_R: Floats,
    values_R: Floats,
    reply_offsets: Ints,
    *,
    slot_N: Ints,
    terminated_N: Bools,
    truncated_N: Bools,
    error_N: Bools,
    prompt_values_N: Floats,
    next_values_N: Floats,
    gamma_step: float,
    lambda_step: float,
    gamma_token: float,
    lambda_token: float | Floats,
) -> tuple[Float64, Float64]:
    """Advantages and returns of every reply token: (advantages_R, returns_R), returns = advantages + values.

    GAE (Schulman et al. 2016, arXiv 1506.02438) with one pair of factors between the tokens of a turn and another pair
    from a turn's last token to the next turn:

        delta = r + gamma * V_next - V        A = delta + gamma * lambda * A_next

    `values_R` are the values before each reply token, so a turn's first one is V at its prompt's last token.
    A turn ends its trace (A_next = 0) and bootstraps V_next from

        0                       if terminated, truncated too or not
        next_values_N           if truncated, or the last turn of its slot in this batch
        prompt_values_N[i + 1]  if the next turn is an error
        else nothing ends: V_next and A_next are those of the next turn's first token.

    `lambda_token` is one factor, or one a turn (`length_adaptive_lambda`). `prompt_values_N` is read at error turns
    only, `next_values_N` only where the table says so; anything, NaN included, may stand elsewhere.

    Raises:
        ValueError: see `agentrl.traces.traces`.
    """
    rewards_R, values_R = float64(rewards_R), float64(values_R)
    trace = traces(
        reply_offsets,
        slot_N=slot_N,
        terminated_N=terminated_N,
        truncated_N=truncated_N,
        error_N=error_N,
        prompt_values_N=prompt_values_N,
        next_values_N=next_values_N,
    )
    value_N = np.zeros(len(slot_N))
    value_N[trace.spoken_N] = values_R[trace.first_S]
    next_value_N = np.where(trace.chained_N, np.roll(value_N, -1), trace.bootstrap_N)

    next_value_R = np.roll(values_R, -1)
    next_value_R[trace.last_S] = next_value_N[trace.spoken_N]
    gamma_R = np.full(len(values_R), gamma_token)
    gamma_R[trace.last_S] = gamma_step
    delta_R = rewards_R + gamma_R * next_value_R - values_R

    # A is linear in A_next: first each turn alone as if A_next were 0, then the turns' first tokens along each chain of
    # turns, then what arrives at a turn's end is spread over its tokens. Chains end where the trace does, so that
    # nothing beyond an end, not even a NaN, is ever multiplied by 0.
    lengths_N = np.diff(reply_offsets)
    decay_R = np.repeat(np.broadcast_to(gamma_token * float64(lambda_token), lengths_N.shape), lengths_N)
    alone_R = discounted_tails(delta_R, decay_R, reply_offsets)
    tokens_to_end_R = np.repeat(reply_offsets[1:], lengths_N) - 1 - np.arange(len(delta_R))
    weight_R = gamma_step * lambda_step * decay_R**tokens_to_end_R

    alone_N, weight_N = np.zeros(len(slot_N)), np.zeros(len(slot_N))
    alone_N[trace.spoken_N], weight_N[trace.spoken_N] = alone_R[trace.first_S], weight_R[trace.first_S]
    advantage_N = discounted_tails(alone_N, weight_N, trace.chain_offsets)

    arriving_N = np.where(trace.chained_N, np.roll(advantage_N, -1), 0.0)
    advantages_R = alone_R + weight_R * np.repeat(arriving_N, lengths_N)
    return advantages_R, advantages_R + values_R


def length_adaptive_lambda(lengths_N: Ints, alpha: float) -> Float64:
    """lambda = 1 - 1 / (alpha * length), not below 0: a reply's lambda_token, for `dual_discount_gae`.

    VAPO (arXiv 2504.05118): the weights lambda^k of a reply add up to alpha * length, so that the horizon grows with
    the reply instead of covering the whole of short ones and the tail of long ones. Its alpha is 0.05.
    """
    return np.maximum(0.0, 1.0 - 1.0 / (alpha * np.maximum(lengths_N, 1)))


def kl_in_reward(logprobs_R: Floats, reference_R: Floats, mask_R: Bools, coef: float, estimator: str = "k1") -> Float64:
    """KL penalty of each token, -coef * k under the policy mask, 0 elsewhere; d = logprob - reference logprob:

        k1 = d        k2 = d^2 / 2        k3 = exp(-d) - 1 + d

    (Schulman, joschu.net/blog/kl-approx.html.) k1 and k3 are unbiased; k1 has either sign, k2 and k3 have none.
    """
    penalties_R = np.zeros(len(mask_R))
    difference_M = float64(logprobs_R)[mask_R] - float64(reference_R)[mask_R]
    if estimator == "k2":
        difference_M = np.square(difference_M) / 2
    elif estimator == "k3":
        difference_M = np.expm1(-difference_M) + difference_M
    penalties_R[mask_R] = -coef * difference_M
    return penalties_R


def token_rewards(rewards_N: Floats, reply_offsets: Ints, penalties_R: Floats) -> Float64:
    """Per-token rewards: each turn's reward on its last reply token, penalties on their own tokens.

    A turn without tokens (error) has nowhere to put a reward: what a broken game paid is dropped.
    """
    rewards_R = float64(penalties_R).copy()
    spoken_N = np.diff(reply_offsets) > 0
    rewards_R[reply_offsets[1:][spoken_N] - 1] += float64(rewards_N)[spoken_N]
    return rewards_R


def _this_rank(sums: Float64) -> Float64:
    return sums


def whiten(x_R: Floats, mask_R: Bools, *, reduce: SumOverRanks = _this_rank, eps: float = 1e-8) -> NDArray[np.float32]:
    """(x - mean) / sqrt(variance + eps) in float32, both moments under the mask; 0 outside it.

    `reduce` adds an array up over all ranks (default: a single rank); each rank calls it twice, also one without a
    single masked position. Two passes, since E[x^2] - E[x]^2 cancels when the mean is large.
    The variance is the biased one (divided by the count): the batch is all that is averaged over, not a sample of
    something wider, and so the whitened advantages have mean square 1 whatever the size of the batch.
    A single masked position over all ranks has no spread to measure: it becomes 0.
    """
    x_M = float64(x_R)[mask_R]
    count, total = reduce(np.array([len(x_M), x_M.sum()]))
    count = max(count, 1.0)
    centred_M = x_M - total / count
    (square,) = reduce(np.array([np.square(centred_M).sum()]))
    whitened_R = np.zeros(len(mask_R), dtype=np.float32)
    whitened_R[mask_R] = centred_M / np.sqrt(square / count + eps)
    return whitened_R
