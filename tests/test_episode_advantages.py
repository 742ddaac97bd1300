"""Advantages without a critic: by hand, against loops as the papers' formulas read, and the identities between them."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.episode_advantages import dr_grpo, gigpo, grpo, rloo, turn_returns

FOUR = np.array([1.0, 0.0, 0.0, 1.0])
TWO_GROUPS = np.array([5, 5, 9, 9])


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@st.composite
def groups(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Returns and groups of E episodes, groups of 2 to 5, in any order."""
    sizes = draw(st.lists(st.integers(2, 5), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    group_E = rng.permutation(np.repeat(np.arange(len(sizes)) * 7, sizes))
    return rng.choice([0.0, 1.0, 0.3], len(group_E)) + draw(st.sampled_from([0.0, 1e6])), group_E


def test_by_hand() -> None:
    """Groups (1, 0) and (0, 1) and one of four: mean 1/2, deviation of the sample sqrt(1/2) and sqrt(1/3)."""
    close(rloo(FOUR, TWO_GROUPS), [1, -1, -1, 1])
    close(dr_grpo(FOUR, TWO_GROUPS), [0.5, -0.5, -0.5, 0.5])
    np.testing.assert_allclose(grpo(FOUR, TWO_GROUPS), np.array([1, -1, -1, 1]) * 0.5 / math.sqrt(0.5), rtol=2e-6)
    one_group = np.zeros(4, dtype=int)
    close(rloo(FOUR, one_group), [2 / 3, -2 / 3, -2 / 3, 2 / 3])
    np.testing.assert_allclose(grpo(FOUR, one_group), np.array([1, -1, -1, 1]) * 0.5 / math.sqrt(1 / 3), rtol=2e-6)


@settings(deadline=None)
@given(groups())
def test_equal_to_loops_over_the_group(case: tuple[np.ndarray, np.ndarray]) -> None:
    returns_E, group_E = case
    for i, (mine, group) in enumerate(zip(returns_E, group_E, strict=True)):
        everyone = returns_E[group_E == group]
        others = [returns_E[j] for j in range(len(returns_E)) if j != i and group_E[j] == group]
        np.testing.assert_allclose(rloo(returns_E, group_E)[i], mine - sum(others) / len(others), atol=1e-8)
        np.testing.assert_allclose(dr_grpo(returns_E, group_E)[i], mine - everyone.mean(), atol=1e-8)
        spread = np.std(everyone - everyone[0], ddof=1) + 1e-6
        np.testing.assert_allclose(grpo(returns_E, group_E)[i], (mine - everyone.mean()) / spread, atol=1e-3)


@settings(deadline=None)
@given(groups())
def test_identities(case: tuple[np.ndarray, np.ndarray]) -> None:
    """Dr.GRPO with groups of n is (n - 1) / n times RLOO; all add up to 0 in a group and forget a constant."""
    returns_E, group_E = case
    _, which, sizes = np.unique(group_E, return_inverse=True, return_counts=True)
    n = sizes[which]
    np.testing.assert_allclose(dr_grpo(returns_E, group_E), (n - 1) / n * rloo(returns_E, group_E), atol=1e-9)
    for estimator in (rloo, dr_grpo, grpo):
        advantages = estimator(returns_E, group_E)
        np.testing.assert_allclose(np.bincount(which, advantages), 0, atol=1e-4)
        np.testing.assert_allclose(estimator(returns_E + 3.0, group_E), advantages, atol=1e-3)
        order = np.random.default_rng(0).permutation(len(group_E))
        np.testing.assert_allclose(estimator(returns_E[order], group_E[order]), advantages[order], atol=1e-9)


@pytest.mark.parametrize("estimator", [rloo, dr_grpo, grpo])
def test_equal_returns_teach_nothing_and_a_group_of_one_is_refused(estimator: Any) -> None:
    assert estimator(np.full(3, 0.1), np.zeros(3)).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="group of one"):
        estimator(FOUR, np.array([0, 0, 0, 1]))


def test_turn_returns_by_hand() -> None:
    close(turn_returns(np.array([1.0, 0.0, 2.0, 4.0]), np.array([3, 3, 3, 1]), 0.5), [1.5, 1.0, 2.0, 4.0])
    with pytest.raises(ValueError, match="adjacent"):
        turn_returns(np.ones(3), np.array([0, 1, 0]), 0.5)
    assert len(turn_returns(np.ones(0), np.zeros(0), 0.5)) == 0


def test_gigpo_by_hand() -> None:
    """One group of two episodes: turns A B and A C with rewards 0 1 and 0 0, gamma 1/2; both met A, nobody else B or C.

    Episodes: returns 1 and 0, Dr.GRPO +1/2 and -1/2. Steps: at A the discounted returns are 1/2 and 0: +-1/4.
    """
    anchor_N, episode_N = np.array([0, 1, 0, 2]), np.array([0, 0, 1, 1])
    steps_N = turn_returns(np.array([0.0, 1.0, 0.0, 0.0]), episode_N, 0.5)
    arguments: tuple[Any, ...] = (np.array([1.0, 0.0]), np.array([4, 4]), steps_N, episode_N, anchor_N)
    close(gigpo(*arguments, normalise=False), [0.75, 0.5, -0.75, -0.5])
    close(gigpo(*arguments, normalise=False, step_weight=2.0), [1.0, 0.5, -1.0, -0.5])
    whitened = 1 / math.sqrt(2)  # two numbers, one apart from the other, divided by their deviation
    np.testing.assert_allclose(gigpo(*arguments), [2 * whitened, whitened, -2 * whitened, -whitened], rtol=1e-5)
    # Without a common observation, and without a weight on it, it is the episode's own estimator.
    alone = (*arguments[:4], np.arange(4))
    for found in (gigpo(*alone), gigpo(*arguments, step_weight=0.0)):
        close(found, grpo(arguments[0], arguments[1])[episode_N])


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_gigpo_equals_a_loop(seed: int, normalise: bool) -> None:
    rng = np.random.default_rng(seed)
    group_E = np.repeat([3, 8], [2, 3])
    lengths = rng.integers(1, 5, 5)
    episode_N, turns = np.repeat(np.arange(5), lengths), int(lengths.sum())
    anchor_N, rewards = rng.integers(0, 3, turns), rng.normal(size=turns)
    steps_N, returns_E = turn_returns(rewards, episode_N, 0.9), np.bincount(episode_N, rewards)
    found = gigpo(returns_E, group_E, steps_N, episode_N, anchor_N, step_weight=0.7, normalise=normalise)
    of_episode = (grpo if normalise else dr_grpo)(returns_E, group_E)
    for turn in range(turns):
        same = [
            other
            for other in range(turns)
            if group_E[episode_N[other]] == group_E[episode_N[turn]] and anchor_N[other] == anchor_N[turn]
        ]
        step = 0.0
        if len(same) > 1:
            step = float(steps_N[turn] - np.mean(steps_N[same]))
            step /= float(np.std(steps_N[same], ddof=1)) + 1e-6 if normalise else 1.0
        np.testing.assert_allclose(found[turn], of_episode[episode_N[turn]] + 0.7 * step, atol=1e-6)
