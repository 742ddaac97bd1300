"""Bi-level GAE: one recursion over turns, then one inside each turn that starts from what the turn was worth.

VAGEN (arXiv 2510.16907). Shapes as in `agentrl.traces`.
"""

import numpy as np

from agentrl.traces import Bools, Float64, Floats, Ints, discounted_tails, float64, traces


def bilevel_gae(
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

    Turns, read at their last tokens (j = J), whose rewards are the game's:

        A[t,J] = r[t,J] + gamma_step * V[t+1,J] - V[t,J] + gamma_step * lambda_step * A[t+1,J]

    then the tokens of each turn, back from there:

        A[t,j] = r[t,j] + gamma_token * V[t,j+1] - V[t,j] + gamma_token * lambda_token * A[t,j+1]

    Where a trace ends, V[t+1,J] is the bootstrap of `agentrl.traces.Traces` and A[t+1,J] is 0. With replies of one
    token it is GAE over turns. Unlike `dual_discount_gae`, a value inside of a reply, not the one before it, stands for
    its turn, so that rewards on a reply's other tokens (KL) stay within their turn.

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
    lengths_N = np.diff(reply_offsets)
    value_N, delta_N = np.zeros(len(slot_N)), np.zeros(len(slot_N))
    value_N[trace.spoken_N] = values_R[trace.last_S]
    next_value_N = np.where(trace.chained_N, np.roll(value_N, -1), trace.bootstrap_N)
    delta_N[trace.spoken_N] = (rewards_R - values_R)[trace.last_S] + gamma_step * next_value_N[trace.spoken_N]
    advantage_N = discounted_tails(delta_N, np.full(len(slot_N), gamma_step * lambda_step), trace.chain_offsets)

    delta_R = rewards_R + gamma_token * np.roll(values_R, -1) - values_R
    delta_R[trace.last_S] = advantage_N[trace.spoken_N]
    decay_R = np.repeat(np.broadcast_to(gamma_token * float64(lambda_token), lengths_N.shape), lengths_N)
    advantages_R = discounted_tails(delta_R, decay_R, reply_offsets)
    return advantages_R, advantages_R + values_R
