"""Dual-discount generalised advantage estimation (GAE) over ragged turns, its rewards, and whitening.

Shape suffixes: N turns grouped by game slot, in time order within it; R reply tokens, flat; `reply_offsets` N + 1.
Prompt tokens and padding do not exist in this layout, so they cannot leak into a trace. All sums run in float64.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Float64 = NDArray[np.float64]
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
    lambda_token: float,
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

    `prompt_values_N` is read at error turns only, `next_values_N` only where the table says so; anything, NaN included,
    may stand elsewhere.

    Raises:
        ValueError: an error turn has reply tokens, another turn has none, or a slot's turns are not adjacent.
    """
    rewards_R, values_R = _float64(rewards_R), _float64(values_R)
    slot_N, error_N = np.asarray(slot_N), np.asarray(error_N)
    spoken_N = np.diff(reply_offsets) > 0
    if np.any(spoken_N == error_N):
        turn = int(np.flatnonzero(spoken_N == error_N)[0])
        raise ValueError(f"turn {turn} of the batch: an error turn has no reply tokens, every other turn at least one")
    followed_N = np.zeros(len(slot_N), dtype=bool)
    followed_N[:-1] = slot_N[1:] == slot_N[:-1]
    if np.count_nonzero(~followed_N) != len(np.unique(slot_N)):
        raise ValueError("turns must be grouped by slot: a slot's turns are not adjacent")

    first_S, last_S = reply_offsets[:-1][spoken_N], reply_offsets[1:][spoken_N] - 1  # S: the turns with tokens
    value_N = _float64(prompt_values_N).copy()
    value_N[spoken_N] = values_R[first_S]
    next_value_N = np.where(truncated_N | ~followed_N, _float64(next_values_N), np.roll(value_N, -1))
    next_value_N[terminated_N] = 0.0

    next_value_R = np.roll(values_R, -1)
    next_value_R[last_S] = next_value_N[spoken_N]
    gamma_R = np.full(len(values_R), gamma_token)
    gamma_R[last_S] = gamma_step
    delta_R = rewards_R + gamma_R * next_value_R - values_R

    # A is linear in A_next: first each turn alone as if A_next were 0, then the turns' first tokens along each chain of
    # turns, then what arrives at a turn's end is spread over its tokens. Chains end where the trace does, so that
    # nothing beyond an end, not even a NaN, is ever multiplied by 0.
    alone_R = _discounted_tails(delta_R, np.full(len(delta_R), gamma_token * lambda_token), reply_offsets)
    tokens_to_end_R = np.repeat(reply_offsets[1:], np.diff(reply_offsets)) - 1 - np.arange(len(delta_R))
    powers = (gamma_token * lambda_token) ** np.arange(tokens_to_end_R.max(initial=0) + 1)
    weight_R = gamma_step * lambda_step * powers[tokens_to_end_R]

    chained_N = followed_N & ~terminated_N & ~truncated_N & ~np.roll(error_N, -1)
    alone_N, weight_N = np.zeros(len(slot_N)), np.zeros(len(slot_N))
    alone_N[spoken_N], weight_N[spoken_N] = alone_R[first_S], weight_R[first_S]
    chain_offsets = np.concatenate([[0], np.flatnonzero(~chained_N) + 1])
    advantage_N = _discounted_tails(alone_N, weight_N, chain_offsets)

    arriving_N = np.where(chained_N, np.roll(advantage_N, -1), 0.0)
    advantages_R = alone_R + weight_R * np.repeat(arriving_N, np.diff(reply_offsets))
    return advantages_R, advantages_R + values_R


def _discounted_tails(x_M: Float64, factor_M: Float64, offsets: Ints) -> Float64:
    """y[m] = x[m] + factor[m] * y[m + 1] within each segment [offsets[s], offsets[s + 1]), where y is 0 at its end.

    One pass per position counted from the segments' ends, over all segments that reach so far.
    """
    y_M = x_M.copy()
    lengths = np.diff(offsets)
    by_length = np.argsort(-lengths, kind="stable")
    last = offsets[1:][by_length] - 1
    longer_than = np.searchsorted(-lengths[by_length], -np.arange(lengths.max(initial=0)), side="left")
    for back, count in enumerate(longer_than[1:], start=1):
        at = last[:count] - back
        y_M[at] += factor_M[at] * y_M[at + 1]
    return y_M


def _float64(x: Floats) -> Float64:
    return np.asarray(x, dtype=np.float64)


def kl_in_reward(logprobs_R: Floats, reference_R: Floats, mask_R: Bools, coef: float) -> Float64:
    """KL penalty of each token, -coef * (logprob - reference logprob) under the policy mask, 0 elsewhere.

    The k1 estimate of Schulman's note on approximating KL (joschu.net/blog/kl-approx.html): unbiased, of either sign.
    """
    penalties_R = np.zeros(len(mask_R))
    penalties_R[mask_R] = -coef * (_float64(logprobs_R)[mask_R] - _float64(reference_R)[mask_R])
    return penalties_R


def token_rewards(rewards_N: Floats, reply_offsets: Ints, penalties_R: Floats) -> Float64:
    """Per-token rewards: each turn's reward on its last reply token, penalties on their own tokens.

    A turn without tokens (error) has nowhere to put a reward: what a broken game paid is dropped.
    """
    rewards_R = _float64(penalties_R).copy()
    spoken_N = np.diff(reply_offsets) > 0
    rewards_R[reply_offsets[1:][spoken_N] - 1] += _float64(rewards_N)[spoken_N]
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
    x_M = _float64(x_R)[mask_R]
    count, total = reduce(np.array([len(x_M), x_M.sum()]))
    count = max(count, 1.0)
    centred_M = x_M - total / count
    (square,) = reduce(np.array([np.square(centred_M).sum()]))
    whitened_R = np.zeros(len(mask_R), dtype=np.float32)
    whitened_R[mask_R] = centred_M / np.sqrt(square / count + eps)
    return whitened_R
