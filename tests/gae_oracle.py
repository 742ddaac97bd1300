"""GAE as the formulas read, one token at a time: oracles for `agentrl.advantages` and `agentrl.bilevel_gae`.

    delta = r + gamma * V_next - V        A = delta + gamma * lambda * A_next

Every question about a token ("is it its turn's last? did the turn end the trace?") is asked again at that token, in
plain Python floats. Nothing is shared with the code under test.
"""

from typing import Any

import numpy as np


def oracle_gae(
    rewards_R: Any,
    values_R: Any,
    reply_offsets: Any,
    *,
    slot_N: Any,
    terminated_N: Any,
    truncated_N: Any,
    error_N: Any,
    prompt_values_N: Any,
    next_values_N: Any,
    gamma_step: float,
    lambda_step: float,
    gamma_token: float,
    lambda_token: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """(advantages_R, returns_R); same arguments as `dual_discount_gae`."""
    reward = [float(r) for r in rewards_R]
    value = [float(v) for v in values_R]
    start = [int(s) for s in reply_offsets]
    turns = len(slot_N)
    lambda_of_turn = np.broadcast_to(lambda_token, turns).tolist()
    advantage = [0.0] * len(value)
    for turn in reversed(range(turns)):
        if error_N[turn]:
            continue
        for token in reversed(range(start[turn], start[turn + 1])):
            if token + 1 < start[turn + 1]:
                gamma, lambda_ = gamma_token, lambda_of_turn[turn]
                v_next, a_next = value[token + 1], advantage[token + 1]
            else:
                gamma, lambda_ = gamma_step, lambda_step
                if terminated_N[turn]:
                    v_next, a_next = 0.0, 0.0
                elif truncated_N[turn] or turn + 1 == turns or slot_N[turn + 1] != slot_N[turn]:
                    v_next, a_next = float(next_values_N[turn]), 0.0
                elif error_N[turn + 1]:
                    v_next, a_next = float(prompt_values_N[turn + 1]), 0.0
                else:
                    v_next, a_next = value[start[turn + 1]], advantage[start[turn + 1]]
            delta = reward[token] + gamma * v_next - value[token]
            advantage[token] = delta + gamma * lambda_ * a_next
    return np.array(advantage), np.array([a + v for a, v in zip(advantage, value, strict=True)])


def oracle_bilevel_gae(
    rewards_R: Any,
    values_R: Any,
    reply_offsets: Any,
    *,
    slot_N: Any,
    terminated_N: Any,
    truncated_N: Any,
    error_N: Any,
    prompt_values_N: Any,
    next_values_N: Any,
    gamma_step: float,
    lambda_step: float,
    gamma_token: float,
    lambda_token: float,
) -> tuple[np.ndarray, np.ndarray]:
    """(advantages_R, returns_R) of `agentrl.bilevel_gae`: turns by their last tokens, then each turn's tokens."""
    advantage = [0.0] * len(values_R)
    worth: dict[int, float] = {}
    for turn in reversed(range(len(slot_N))):
        if error_N[turn]:
            continue
        last = int(reply_offsets[turn + 1]) - 1
        following = turn + 1 < len(slot_N) and slot_N[turn + 1] == slot_N[turn]
        if terminated_N[turn]:
            v_next, a_next = 0.0, 0.0
        elif truncated_N[turn] or not following:
            v_next, a_next = float(next_values_N[turn]), 0.0
        elif error_N[turn + 1]:
            v_next, a_next = float(prompt_values_N[turn + 1]), 0.0
        else:
            v_next, a_next = float(values_R[int(reply_offsets[turn + 2]) - 1]), worth[turn + 1]
        delta = float(rewards_R[last]) + gamma_step * v_next - float(values_R[last])
        worth[turn] = advantage[last] = delta + gamma_step * lambda_step * a_next
        for token in reversed(range(int(reply_offsets[turn]), last)):
            delta = float(rewards_R[token]) + gamma_token * float(values_R[token + 1]) - float(values_R[token])
            advantage[token] = delta + gamma_token * lambda_token * advantage[token + 1]
    return np.array(advantage), np.array([a + v for a, v in zip(advantage, values_R, strict=True)])
