"""Dual-discount GAE against its oracle and the properties it must have; rewards of tokens; whitening."""

import threading
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gae_oracle import oracle_gae
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ragged_batches import ALL_DIFFERENT, ONES, STEP_ONLY, Batch, batches, close, factors, make_batch

from agentrl.advantages import kl_in_reward, length_adaptive_lambda, token_rewards, whiten


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
        prompt_values_N=np.array([1.0, 3.0]),
        next_values_N=np.array([np.nan, np.nan]),
    )
    advantages, returns = batch.gae(gamma_step=0.9, lambda_step=0.5, gamma_token=0.8, lambda_token=0.25)
    # turn 1, token 2 (terminated): delta = 2 + .9 * 0 - 4 = -2                        A = -2
    # turn 1, token 1:              delta = 0 + .8 * 4 - 1 = 2.2                       A = 2.2 + .2 * -2 = 1.8
    # turn 1, token 0:              delta = .5 + .8 * 1 - 3 = -1.7                     A = -1.7 + .2 * 1.8 = -1.34
    # turn 0, token 1 (next turn):  delta = 1 + .9 * 3 - 2 = 1.7                       A = 1.7 + .45 * -1.34 = 1.097
    # turn 0, token 0:              delta = 0 + .8 * 2 - 1 = .6                        A = .6 + .2 * 1.097 = .8194
    close(advantages, [0.8194, 1.097, -1.34, 1.8, -2.0])
    close(returns, [1.8194, 3.097, 1.66, 2.8, 2.0])


def test_worked_example_of_a_reward_at_the_end() -> None:
    """Token factors 1, reward 1 on the last token of a terminated game: the last two turns, also in closed form."""
    batch = make_batch([[(2, False, False), (3, False, False), (2, True, False)]], np.random.default_rng(0))
    batch.rewards_R = np.array([0, 0, 0, 0, 0, 0, 1.0])
    batch.values_R = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    advantages = batch.advantages(**STEP_ONLY)
    close(advantages[5:], [1 - 0.6, 1 - 0.7])  # A[-1, j] = r - V[-1, j]
    # A[-2, j] = gamma_s * (lambda_s * r + (1 - lambda_s) * V[-1, 0]) - V[-2, j]
    #          = .99 * (.95 * 1 + .05 * .6) - V = .9702 - V
    close(advantages[2:5], [0.9702 - 0.3, 0.9702 - 0.4, 0.9702 - 0.5])
    # A[-3, j] = gamma_s * (V[-2, 0] + lambda_s * A[-2, 0]) - V = .99 * (.3 + .95 * .6702) - V = .9273231 - V
    close(advantages[:2], [0.9273231 - 0.1, 0.9273231 - 0.2])


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_second_to_last_turn(gamma: float, lambda_: float, before: int, last: int, seed: int) -> None:
    batch = make_batch([[(before, False, False), (last, True, False)]], np.random.default_rng(seed))
    reward = batch.rewards_R[-1]
    batch.rewards_R[:-1] = 0
    advantages = batch.advantages(gamma_step=gamma, lambda_step=lambda_, gamma_token=1.0, lambda_token=1.0)
    bootstrap = batch.values_R[before]
    close(advantages[:before], gamma * (lambda_ * reward + (1 - lambda_) * bootstrap) - batch.values_R[:before])


@settings(max_examples=300, deadline=None)
@given(batches(), factors())
def test_equals_the_oracle(batch: Batch, factors: dict[str, float]) -> None:
    advantages, returns = batch.gae(**factors)
    expected_advantages, expected_returns = oracle_gae(**batch.arguments(), **factors)
    close(advantages, expected_advantages)
    close(returns, expected_returns)


def test_length_adaptive_lambda_by_hand() -> None:
    """alpha 0.05: a reply of 40 tokens 1 - 1 / 2, of 200 tokens 1 - 1 / 10, of 20 and fewer 0."""
    close(length_adaptive_lambda(np.array([0, 1, 20, 40, 200]), 0.05), [0, 0, 0, 0.5, 0.9])


@settings(deadline=None)
@given(batches(), factors(), st.floats(0.1, 2.0))
def test_a_lambda_of_each_turn(batch: Batch, factors: dict[str, float], alpha: float) -> None:
    """As the oracle with that turn's lambda; and one number for all turns is that number for each."""
    lengths = np.diff(batch.reply_offsets)
    every = np.full(len(lengths), factors["lambda_token"])
    np.testing.assert_array_equal(batch.advantages(**factors | {"lambda_token": every}), batch.advantages(**factors))
    own = length_adaptive_lambda(lengths, alpha)
    advantages = batch.advantages(**factors | {"lambda_token": own})
    expected = oracle_gae(**batch.arguments(), **factors | {"lambda_token": own})[0]
    close(advantages, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_dtype_is_summed_in_float64(dtype: Any) -> None:
    games = [[(length, False, False) for length in range(1, 40)]]
    batch = make_batch(games, np.random.default_rng(1), dtype)
    batch.prompt_values_N[:] = 99
    untouched = {name: array.copy() for name, array in batch.arguments().items()}
    advantages, returns = batch.gae(**ALL_DIFFERENT)
    assert advantages.dtype == returns.dtype == np.float64
    close(advantages, oracle_gae(**batch.arguments(), **ALL_DIFFERENT)[0])
    for name, array in batch.arguments().items():
        np.testing.assert_array_equal(array, untouched[name], err_msg=f"{name} was written to")


@settings(deadline=None)
@given(batches(), st.floats(0, 1), st.floats(0, 1))
def test_closed_form_for_token_factors_of_1(batch: Batch, gamma: float, lambda_: float) -> None:
    """A[t,j] = A[t,0] + V[t,0] - V[t,j] - sum_{k<j} r[t,k], and A[t,0] is plain GAE over turns."""
    advantages = batch.advantages(gamma_step=gamma, lambda_step=lambda_, gamma_token=1.0, lambda_token=1.0)
    turn_advantage = 0.0
    for turn in reversed(range(len(batch.slot_N))):
        if batch.error_N[turn]:
            continue
        rewards, values = batch.rewards_R[batch.tokens(turn)], batch.values_R[batch.tokens(turn)]
        own = advantages[batch.tokens(turn)]
        close(own, own[0] + values[0] - values - (np.cumsum(rewards) - rewards))

        if batch.terminated_N[turn]:
            bootstrap = 0.0
        elif batch.truncated_N[turn] or batch.is_last_of_slot(turn):
            bootstrap = batch.next_values_N[turn]
        else:
            bootstrap = batch.prompt_values_N[turn + 1]
        behind = 0.0 if batch.cuts_trace(turn) else turn_advantage
        turn_advantage = rewards.sum() + gamma * bootstrap - values[0] + gamma * lambda_ * behind
        close(own[0], turn_advantage)


@settings(deadline=None)
@given(batches())
def test_all_factors_1_is_return_minus_value(batch: Batch) -> None:
    advantages, returns = batch.gae(**ONES)
    outcome = 0.0
    for turn in reversed(range(len(batch.slot_N))):
        if batch.error_N[turn]:
            continue
        if batch.terminated_N[turn]:
            outcome = 0.0
        elif batch.truncated_N[turn] or batch.is_last_of_slot(turn):
            outcome = batch.next_values_N[turn]
        elif batch.error_N[turn + 1]:
            outcome = batch.prompt_values_N[turn + 1]
        for token in reversed(range(batch.reply_offsets[turn], batch.reply_offsets[turn + 1])):
            outcome += batch.rewards_R[token]
            close(returns[token], outcome)
            close(advantages[token], outcome - batch.values_R[token])


def forever(batch: Batch, gamma: float) -> Batch:
    """The same turns in a game that pays 1 a turn for ever, with its exact value at every position."""
    value = 1 / (1 - gamma)
    return replace(
        batch,
        rewards_R=token_rewards(np.ones(len(batch.slot_N)), batch.reply_offsets, np.zeros(len(batch.values_R))),
        values_R=np.full(len(batch.values_R), value),
        prompt_values_N=np.full(len(batch.slot_N), value),
        next_values_N=np.full(len(batch.slot_N), value),
    )


@settings(deadline=None)
@given(batches(), st.floats(0, 0.999), st.floats(0, 1), st.floats(0, 1))
def test_c10_exact_values_of_an_endless_game_have_no_advantage(
    batch: Batch, gamma: float, lambda_step: float, lambda_token: float
) -> None:
    """At time limits, batch cuts and broken turns alike, with any lambdas."""
    batch = replace(forever(batch, gamma), terminated_N=np.zeros(len(batch.slot_N), dtype=bool))
    advantages = batch.advantages(gamma_step=gamma, lambda_step=lambda_step, gamma_token=1.0, lambda_token=lambda_token)
    np.testing.assert_allclose(advantages, 0, atol=1e-9)


def one_turn(terminated: bool, truncated: bool) -> Batch:
    """Two tokens, then another episode in the same slot. Reward 1, gamma .9, so V = 10 before and after."""
    batch = make_batch([[(2, terminated, truncated), (1, False, False)]], np.random.default_rng(0))
    return forever(batch, 0.9)


def test_c10_time_limit_bootstraps() -> None:
    factors = {"gamma_step": 0.9, "lambda_step": 0.7, "gamma_token": 1.0, "lambda_token": 0.6}
    close(one_turn(terminated=False, truncated=True).advantages(**factors), [0, 0, 0])
    # Without the bootstrap: delta = 1 - 10 = -9 on the last token, .6 * -9 on the first.
    close(one_turn(terminated=True, truncated=False).advantages(**factors), [-5.4, -9, 0])


def test_c10_batch_cut_bootstraps() -> None:
    cut = one_turn(terminated=False, truncated=False).take([0])
    close(cut.advantages(gamma_step=0.9, lambda_step=0.7, gamma_token=1.0, lambda_token=0.6), [0, 0])
    cut.next_values_N[:] = 12  # 2 more than thought: .9 * 2 on the last token, .6 of it on the first
    close(cut.advantages(gamma_step=0.9, lambda_step=0.7, gamma_token=1.0, lambda_token=0.6), [1.08, 1.8])


def test_c10_terminated_wins_over_truncated() -> None:
    both, terminated = one_turn(True, True), one_turn(True, False)
    np.testing.assert_array_equal(both.advantages(**ALL_DIFFERENT), terminated.advantages(**ALL_DIFFERENT))


@settings(deadline=None)
@given(batches(), factors(), st.data())
def test_c10_nothing_crosses_the_end_of_a_trace(batch: Batch, factors: dict[str, float], data: st.DataObject) -> None:
    """Behind the end of an episode, a broken turn or the end of a game not even a NaN changes what was before."""
    ends = [turn for turn in range(len(batch.slot_N)) if batch.cuts_trace(turn) and not batch.error_N[turn]]
    assume(ends)
    behind = data.draw(st.sampled_from(ends)) + 1
    changed = replace(batch, values_R=batch.values_R.copy(), rewards_R=batch.rewards_R.copy())
    changed.values_R[batch.reply_offsets[behind] :] = np.nan
    changed.rewards_R[batch.reply_offsets[behind] :] = np.nan
    before = slice(0, batch.reply_offsets[behind])
    np.testing.assert_array_equal(changed.advantages(**factors)[before], batch.advantages(**factors)[before])


def test_error_bootstraps_from_its_own_prompt() -> None:
    """Turns of 1, 0 (error) and 1 tokens: the first takes V of the broken turn's prompt, the third starts afresh."""
    batch = Batch(
        rewards_R=np.array([1.0, 4.0]),
        values_R=np.array([2.0, 5.0]),
        reply_offsets=np.array([0, 1, 1, 2]),
        slot_N=np.zeros(3, dtype=np.int64),
        terminated_N=np.array([False, True, True]),  # an error's own flags say nothing
        truncated_N=np.array([False, True, False]),
        error_N=np.array([False, True, False]),
        prompt_values_N=np.array([2.0, 3.0, 5.0]),
        next_values_N=np.array([np.nan, np.nan, np.nan]),
    )
    # 1 + .9 * 3 - 2 = 1.7 and nothing of the third turn; 4 + 0 - 5 = -1
    close(batch.advantages(**ALL_DIFFERENT), [1.7, -1.0])


def test_a_batch_of_errors_has_no_advantages() -> None:
    batch = make_batch([[(0, False, False)] * 3, [(0, True, False)]], np.random.default_rng(0))
    advantages, returns = batch.gae(**STEP_ONLY)
    assert advantages.shape == returns.shape == (0,)


@settings(deadline=None)
@given(batches(), factors(), st.data())
def test_split_at_exact_value_changes_nothing_without_lambda(
    batch: Batch, factors: dict[str, float], data: st.DataObject
) -> None:
    """lambda_step = 0, and the value at the cut is V of the next turn's prompt: two batches equal one."""
    factors = factors | {"lambda_step": 0.0}
    turns = list(range(len(batch.slot_N)))
    cut = data.draw(st.integers(0, len(turns)))
    whole = batch.advantages(**factors)
    if 0 < cut < len(turns) and not batch.is_last_of_slot(cut - 1) and not batch.truncated_N[cut - 1]:
        batch.next_values_N[cut - 1] = batch.prompt_values_N[cut]
    parts = [batch.take(part).advantages(**factors) for part in (turns[:cut], turns[cut:]) if part]
    close(np.concatenate(parts), whole)


@settings(deadline=None)
@given(batches(), factors(), st.randoms(use_true_random=False))
def test_order_of_games_changes_nothing(batch: Batch, factors: dict[str, float], random: Any) -> None:
    slots = list(range(batch.slot_N[-1] + 1))
    random.shuffle(slots)
    turns = [turn for slot in slots for turn in np.flatnonzero(batch.slot_N == slot).tolist()]
    tokens = [i for turn in turns for i in range(batch.reply_offsets[turn], batch.reply_offsets[turn + 1])]
    np.testing.assert_array_equal(batch.take(turns).advantages(**factors), batch.advantages(**factors)[tokens])


GARBAGE = [np.nan, np.inf, -np.inf, 1e30]


@settings(deadline=None)
@given(batches(), factors(), st.sampled_from(GARBAGE))
def test_c08_garbage_where_nothing_is_read(batch: Batch, factors: dict[str, float], garbage: float) -> None:
    """Bootstrap values where no trace is cut, prompt values of turns that have tokens, flags of errors."""
    turns = range(len(batch.slot_N))
    cut = np.array([batch.truncated_N[t] or batch.is_last_of_slot(t) for t in turns])
    changed = replace(
        batch,
        next_values_N=np.where(cut & ~batch.terminated_N & ~batch.error_N, batch.next_values_N, garbage),
        prompt_values_N=np.where(batch.error_N, batch.prompt_values_N, garbage),
        terminated_N=batch.terminated_N ^ batch.error_N,
        truncated_N=batch.truncated_N ^ batch.error_N,
    )
    np.testing.assert_array_equal(changed.advantages(**factors), batch.advantages(**factors))


@settings(deadline=None)
@given(batches(), factors(), st.integers(0, 2**32 - 1), st.sampled_from(GARBAGE))
def test_c07_c08_masked_tokens_and_padding_anywhere(
    batch: Batch, factors: dict[str, float], seed: int, garbage: float
) -> None:
    """One wide row a turn, its reply tokens at random columns and garbage in all others (prompt, padding, masked tokens
    inside the reply): walking the rows backwards and past what is masked gives the same advantages.
    """
    rng = np.random.default_rng(seed)
    lengths = np.diff(batch.reply_offsets)
    columns = range(lengths.max() + 3)
    mask_NP = rng.permuted(np.arange(len(columns)) < lengths[:, None], axis=1)
    values_NP, rewards_NP, expected_NP = (np.full(mask_NP.shape, garbage) for _ in range(3))
    values_NP[mask_NP], rewards_NP[mask_NP] = batch.values_R, batch.rewards_R

    v_next = a_next = 0.0
    for turn in reversed(range(len(lengths))):
        if batch.error_N[turn]:
            v_next, a_next = batch.prompt_values_N[turn], 0.0
            continue
        if batch.terminated_N[turn]:
            v_next = a_next = 0.0
        elif batch.truncated_N[turn] or batch.is_last_of_slot(turn):
            v_next, a_next = batch.next_values_N[turn], 0.0
        gamma, lambda_ = factors["gamma_step"], factors["lambda_step"]
        for column in reversed(columns):
            if mask_NP[turn, column]:
                delta = rewards_NP[turn, column] + gamma * v_next - values_NP[turn, column]
                a_next = expected_NP[turn, column] = delta + gamma * lambda_ * a_next
                v_next = values_NP[turn, column]
                gamma, lambda_ = factors["gamma_token"], factors["lambda_token"]
    close(batch.advantages(**factors), expected_NP[mask_NP])


@settings(deadline=None)
@given(batches(), st.floats(0, 1), st.floats(0, 1), st.data())
def test_c07_forced_tokens_of_no_news_change_nothing(
    batch: Batch, gamma: float, lambda_: float, data: st.DataObject
) -> None:
    """A forced token is part of the recursion: with token factors 1, reward 0 and the next token's value, A passes."""
    assume(len(batch.values_R))
    at = data.draw(st.integers(0, len(batch.values_R) - 1))
    turn = np.searchsorted(batch.reply_offsets, at, side="right") - 1
    longer = replace(
        batch,
        rewards_R=np.insert(batch.rewards_R, at, 0.0),
        values_R=np.insert(batch.values_R, at, batch.values_R[at]),
        reply_offsets=batch.reply_offsets + (np.arange(len(batch.reply_offsets)) > turn),
    )
    factors = {"gamma_step": gamma, "lambda_step": lambda_, "gamma_token": 1.0, "lambda_token": 1.0}
    close(np.delete(longer.advantages(**factors), at), batch.advantages(**factors))


def test_turns_without_tokens_must_be_errors() -> None:
    batch = make_batch([[(2, False, False), (0, False, False), (1, True, False)]], np.random.default_rng(0))
    with pytest.raises(ValueError, match="turn 1 of the batch"):
        replace(batch, error_N=np.array([False, False, False])).gae(**STEP_ONLY)
    with pytest.raises(ValueError, match="turn 2 of the batch"):
        replace(batch, error_N=np.array([False, True, True])).gae(**STEP_ONLY)


def test_turns_must_be_grouped_by_slot() -> None:
    """Time-major turns would each look like a batch cut, and read bootstrap values that nobody wrote."""
    batch = make_batch([[(1, False, False)] * 4], np.random.default_rng(0))
    with pytest.raises(ValueError, match="grouped by slot"):
        replace(batch, slot_N=np.array([0, 1, 0, 1])).gae(**STEP_ONLY)


def test_token_rewards_go_to_the_last_token_and_an_errors_is_dropped() -> None:
    rewards = token_rewards(np.array([1.0, 100.0, -2.0]), np.array([0, 3, 3, 4]), np.array([0.1, 0.2, 0.3, 0.4]))
    close(rewards, [0.1, 0.2, 1.3, -1.6])
    close(token_rewards(np.array([5.0]), np.array([0, 0]), np.zeros(0)), [])


def test_kl_in_reward_is_k1_under_the_mask() -> None:
    logprobs, reference = np.array([-1.0, -2.0, np.nan, -0.5]), np.array([-1.5, -1.0, 0.0, np.nan])
    penalties = kl_in_reward(logprobs, reference, np.array([True, True, False, False]), 0.1)
    close(penalties, [-0.05, 0.1, 0.0, 0.0])  # -.1 * (-1 + 1.5), -.1 * (-2 + 1): of either sign


def test_c09_whitening_by_hand() -> None:
    x = np.array([1.0, np.nan, 2.0, np.inf, 3.0, -1e9], dtype=np.float32)
    mask = np.array([True, False, True, False, True, False])
    whitened = whiten(x, mask)
    # mean 2, variance (1 + 0 + 1) / 3, so 1 becomes -1 / sqrt(2 / 3) = -1.2247449
    np.testing.assert_allclose(whitened, [-1.2247449, 0, 0, 0, 1.2247449, 0], rtol=1e-6)
    assert whitened.dtype == np.float32


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=50), st.floats(-1e6, 1e6), st.integers(0, 2**32 - 1))
def test_c09_mean_0_and_mean_square_1_far_from_zero_too(noise: list[float], centre: float, seed: int) -> None:
    spread = np.concatenate([noise, [20.0, -20.0]])
    mask = np.random.default_rng(seed).permutation(np.repeat([True, False], len(spread)))
    x = np.full(len(mask), np.nan)
    x[mask] = spread + centre
    whitened = whiten(x, mask).astype(np.float64)
    assert abs(whitened[mask].mean()) < 1e-6
    assert abs(np.square(whitened[mask]).mean() - 1) < 1e-5
    assert not whitened[~mask].any()


@pytest.mark.parametrize("positions", [[], [2]])
def test_c09_fewer_than_two_positions_have_no_advantage(positions: list[int]) -> None:
    mask = np.zeros(4, dtype=bool)
    mask[positions] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(whiten(np.array([1.0, 2.0, 3.0, 4.0]), mask), np.zeros(4))


def test_c09_equal_advantages_whiten_to_0() -> None:
    np.testing.assert_allclose(whiten(np.full(1000, 0.1), np.ones(1000, dtype=bool)), 0, atol=1e-6)


@pytest.mark.parametrize("cuts", [[10], [3, 4], [0, 20], [20]])
def test_c09_whitening_over_ranks_equals_one_rank(cuts: list[int]) -> None:
    """Ranks of unequal size, of one position and of none; each a thread, the sum an all-reduce between them."""
    rng = np.random.default_rng(3)
    x, mask = rng.normal(5, 3, size=20), rng.random(20) < 0.7
    shards = list(zip(np.split(x, cuts), np.split(mask, cuts), strict=True))
    barrier = threading.Barrier(len(shards), timeout=10)
    sent: list[Any] = [None] * len(shards)
    result: list[Any] = [None] * len(shards)

    def work(rank: int) -> None:
        def all_reduce(sums: np.ndarray) -> np.ndarray:
            sent[rank] = sums
            barrier.wait()
            total = np.sum(sent, axis=0)
            barrier.wait()
            return total

        result[rank] = whiten(*shards[rank], reduce=all_reduce)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(shards))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(np.concatenate(result), whiten(x, mask), rtol=0, atol=1e-6)


def test_kl_in_reward_by_every_estimate() -> None:
    """d = log 2: k1 log 2, k2 log(2)^2 / 2, k3 1/2 - 1 + log 2."""
    d = np.log(2)
    for estimator, k in (("k1", d), ("k2", d * d / 2), ("k3", -0.5 + d)):
        penalties = kl_in_reward(np.array([d, 9.0]), np.zeros(2), np.array([True, False]), 0.1, estimator)
        np.testing.assert_allclose(penalties, [-0.1 * k, 0.0])
