"""Bi-level GAE: by hand, against its oracle, and beside GAE over turns."""

from typing import Any

import numpy as np
import pytest
from gae_oracle import oracle_bilevel_gae
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_batches import ALL_DIFFERENT, Batch, batches, close, factors, make_batch

from agentrl.bilevel_gae import bilevel_gae


def advantages_of(batch: Batch, **factors: Any) -> np.ndarray:
    return bilevel_gae(**batch.arguments(), **factors)[0]


def test_two_turns_by_hand() -> None:
    """One game, turns of 2 and 3 tokens, the second terminated; gamma_s .9, lambda_s .5, gamma_t .8, lambda_t .25."""
    batch = Batch(
        rewards_R=np.array([0.0, 1.0, 0.5, 0.0, 2.0]),
        values_R=np.array([1.0, 2.0, 3.0, 1.0, 4.0]),
        reply_offsets=np.array([0, 2, 5]),
        slot_N=np.array([7, 7]),
        terminated_N=np.array([False, True]),
        truncated_N=np.array([False, False]),
        error_N=np.array([False, False]),
        prompt_values_N=np.array([np.nan, np.nan]),
        next_values_N=np.array([np.nan, np.nan]),
    )
    advantages, returns = bilevel_gae(
        **batch.arguments(), gamma_step=0.9, lambda_step=0.5, gamma_token=0.8, lambda_token=0.25
    )
    # turns:            turn 1: 2 + .9 * 0 - 4 = -2        turn 0: 1 + .9 * 4 - 2 + .45 * -2 = 1.7
    # turn 1, token 1:  delta = 0 + .8 * 4 - 1 = 2.2       A = 2.2 + .2 * -2 = 1.8
    # turn 1, token 0:  delta = .5 + .8 * 1 - 3 = -1.7     A = -1.7 + .2 * 1.8 = -1.34
    # turn 0, token 0:  delta = 0 + .8 * 2 - 1 = .6        A = .6 + .2 * 1.7 = .94
    close(advantages, [0.94, 1.7, -1.34, 1.8, -2.0])
    close(returns, [1.94, 3.7, 1.66, 2.8, 2.0])


@settings(max_examples=300, deadline=None)
@given(batches(), factors())
def test_equals_the_oracle(batch: Batch, factors: dict[str, float]) -> None:
    for found, expected in zip(
        bilevel_gae(**batch.arguments(), **factors), oracle_bilevel_gae(**batch.arguments(), **factors), strict=True
    ):
        close(found, expected)


@settings(deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from([(1, False, False)] * 4 + [(1, True, False), (0, False, False)]), min_size=1, max_size=6
        ),
        min_size=1,
        max_size=4,
    ),
    factors(),
)
def test_with_replies_of_one_token_it_is_gae_over_turns(games: Any, factors: dict[str, float]) -> None:
    batch = make_batch(games, np.random.default_rng(0))
    batch.prompt_values_N[~batch.error_N] = batch.values_R
    close(advantages_of(batch, **factors), batch.advantages(**factors))


def test_what_a_turn_is_worth_does_not_see_rewards_on_its_other_tokens() -> None:
    batch = make_batch([[(3, False, False), (4, False, False), (2, True, False)]], np.random.default_rng(3))
    last = batch.reply_offsets[1:] - 1
    before = advantages_of(batch, **ALL_DIFFERENT)
    inside = np.setdiff1d(np.arange(len(batch.rewards_R)), last)
    batch.rewards_R[inside] -= 5.0
    after = advantages_of(batch, **ALL_DIFFERENT)
    np.testing.assert_array_equal(after[last], before[last])
    assert (after[inside] < before[inside]).all()


@given(st.floats(0.05, 0.95), st.floats(0, 1), st.floats(0, 1))
def test_a_perfect_critic_leaves_nothing(gamma: float, lambda_step: float, lambda_token: float) -> None:
    """Reward 1 a turn for ever is worth 1 / (1 - gamma), at a time limit and a batch cut too."""
    batch = make_batch([[(3, False, False), (1, False, True), (2, False, False)]], np.random.default_rng(0))
    batch.values_R = np.full(len(batch.values_R), 1 / (1 - gamma))
    batch.next_values_N[:] = 1 / (1 - gamma)
    batch.rewards_R = np.zeros(len(batch.values_R))
    batch.rewards_R[batch.reply_offsets[1:] - 1] = 1.0
    found = advantages_of(batch, gamma_step=gamma, lambda_step=lambda_step, gamma_token=1.0, lambda_token=lambda_token)
    close(found, 0.0)


def test_an_error_turn_with_tokens_is_refused() -> None:
    batch = make_batch([[(2, False, False)]], np.random.default_rng(0))
    batch.error_N[:] = True
    with pytest.raises(ValueError, match="turn 0"):
        advantages_of(batch, **ALL_DIFFERENT)
