"""Scores of a batch, and what follows from them before the first optimizer step."""

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from tiny import naive_logprobs, random_turns, tiny_model
from torch import Tensor

from agentrl.algorithm_config import AlgorithmConfig
from agentrl.policy import ActorCritic, Rows
from agentrl.ranks import Ranks
from agentrl.records import FREE, Turn, TurnBatch
from agentrl.targets import Forward, Scores, annotate, make_targets, score

TEMPERATURE = 0.7


@cache
def model(seed: int) -> ActorCritic:
    return tiny_model(seed=seed)


def forward_of(model: ActorCritic) -> Forward:
    def forward(rows: Rows, *, policy: bool = True, values: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        return model(rows, TEMPERATURE, policy=policy, values=values)

    return forward


def scores_of(turns: list[Turn], micro_batch_turns: int = 5, **options: Any) -> tuple[TurnBatch, Scores]:
    batch = TurnBatch.from_turns(turns)
    return batch, score(batch, forward_of(model(0)), forward_of(model(9)), micro_batch_turns, **options)


@torch.no_grad()
def naive_values(ids: Sequence[int], columns: range) -> list[float]:
    hidden = model(0).lm.base_model(torch.tensor([list(ids)]), use_cache=False).last_hidden_state[0]
    return model(0).value_head(hidden[list(columns)]).tolist()


def test_scores_equal_each_turn_alone() -> None:
    turns = random_turns(1, errors=[5])
    batch, scores = scores_of(turns)
    assert scores.reference_R is not None
    spoken = [turn for turn in turns if not turn.error]
    logprobs, reference, values = [], [], []
    for turn in spoken:
        arguments = turn.prompt_ids, turn.reply_ids, turn.reply_legal, TEMPERATURE
        logprobs += naive_logprobs(model(0).lm, *arguments)
        reference += naive_logprobs(model(9).lm, *arguments)
        columns = range(len(turn.prompt_ids) - 1, len(turn.prompt_ids) + len(turn.reply_ids) - 1)
        values += naive_values(turn.prompt_ids + turn.reply_ids, columns)
    forced = ~batch.policy_mask_R
    assert forced.any()
    assert not scores.reference_R[forced].any()
    assert np.array_equal(scores.logprobs_R[forced], batch.logprobs_R[forced])
    np.testing.assert_allclose(scores.logprobs_R[~forced], np.array(logprobs)[~forced], atol=1e-5)
    np.testing.assert_allclose(scores.reference_R, reference, atol=1e-5)
    np.testing.assert_allclose(scores.values_R, values, atol=1e-5)


def test_the_value_of_a_next_prompt_is_the_one_that_its_own_turn_begins_with() -> None:
    """What bootstraps a cut turn, V(next prompt), is V[t+1, 0] of the turn that was played from that prompt."""
    turns = random_turns(2, errors=[6])
    following: dict[int, int] = {}
    for i, (turn, after) in enumerate(pairwise(turns)):
        if turn.slot == after.slot and not turn.error:
            turn.next_prompt_ids, following[i] = after.prompt_ids, i + 1
    batch, scores = scores_of(turns)
    assert len(following) > 5
    assert 6 in following.values()
    for i, after in following.items():
        # Of a turn with a reply this is its first position's value; of a broken one, that of its prompt.
        np.testing.assert_allclose(scores.next_values_N[i], scores.prompt_values_N[after], atol=1e-5)
    answered = batch.reply_lengths_N > 0
    assert np.array_equal(scores.prompt_values_N[answered], scores.values_R[batch.first_token_R])
    last = len(turns[6].prompt_ids) - 1
    np.testing.assert_allclose(
        scores.prompt_values_N[6], naive_values(turns[6].prompt_ids, range(last, last + 1)), atol=1e-5
    )
    silent = np.diff(batch.next_prompt_offsets) == 0
    assert silent.any()
    assert not scores.next_values_N[silent].any()


@pytest.mark.parametrize("micro_batch_turns", [1, 4, 100])
def test_scores_do_not_depend_on_the_micro_batch(micro_batch_turns: int) -> None:
    turns = random_turns(3, errors=[1])
    expected = scores_of(turns, 2)[1]
    found = scores_of(turns, micro_batch_turns)[1]
    for field in fields(Scores):
        np.testing.assert_allclose(getattr(found, field.name), getattr(expected, field.name), atol=1e-5)


def test_c17_critic_pre_training_asks_for_no_logprobs() -> None:
    calls = []

    def spied(rows: Rows, *, policy: bool = True, values: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        calls.append((policy, values))
        return forward_of(model(0))(rows, policy=policy, values=values)

    def unasked(rows: Rows, *, policy: bool = True, values: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        raise AssertionError("the reference's logprobs would not be used")

    batch = TurnBatch.from_turns(random_turns(1))
    scores = score(batch, spied, unasked, 5, policy=False)
    assert np.array_equal(scores.logprobs_R, batch.logprobs_R)
    assert scores.reference_R is None
    assert set(calls) == {(False, True)}
    np.testing.assert_allclose(scores.values_R, scores_of(random_turns(1))[1].values_R, atol=1e-5)


def test_an_error_turn_enters_nothing() -> None:
    """Whatever a broken turn holds beside its prompt, no score, target or metric changes."""
    turns, changed = random_turns(4, errors=[5]), random_turns(4, errors=[5])
    changed[5].reply_ids, changed[5].reply_logprobs, changed[5].reply_legal = [7] * 9, [float("nan")] * 9, [FREE] * 9
    changed[5].reward = 1e9
    for algorithm in (AlgorithmConfig(), AlgorithmConfig(kl_coef=0.1)):
        (targets, metrics), (targets2, metrics2) = (
            make_targets(*scores_of(which), algorithm, Ranks()) for which in (turns, changed)
        )
        assert metrics == metrics2
        for field in fields(targets):
            assert np.array_equal(getattr(targets, field.name), getattr(targets2, field.name))


def test_scores_of_nothing_but_errors() -> None:
    batch, scores = scores_of(random_turns(errors=range(12)))
    assert len(scores.values_R) == 0
    assert scores.prompt_values_N.all()
    targets, metrics = make_targets(batch, scores, AlgorithmConfig(), Ranks())
    assert len(targets.policy_advantages_R) == 0
    assert np.isnan(metrics.pop("explained_variance"))
    assert all(np.isfinite(value) for value in metrics.values())


def hand_batch() -> tuple[TurnBatch, Scores]:
    """One game: a turn of two tokens (the second forced) that pays 1, then a turn of one token that pays 2 and ends."""
    first = Turn("tiny", 0, 0, 0, 0, [1, 2], [3, 4], [-0.5, 0.0], [FREE, (4,)], reward=1.0)
    last = Turn("tiny", 0, 0, 1, 0, [1], [5], [-1.0], [FREE], reward=2.0, terminated=True)
    scores = Scores(
        logprobs_R=np.array([-0.6, 0.0, -1.0]),
        reference_R=np.array([-0.4, 0.0, -2.0]),
        values_R=np.array([0.5, 0.25, 1.0]),
        prompt_values_N=np.array([0.5, 1.0]),
        next_values_N=np.zeros(2),
    )
    return TurnBatch.from_turns([first, last]), scores


HAND: dict[str, Any] = {"gamma_step": 0.5, "lambda_step": 0.5, "whiten_advantages": False}


def test_advantages_by_hand() -> None:
    """A[1,0] = 2 - 1 = 1.  A[0,1] = 1 + .5 * 1 - .25 + .25 * 1 = 1.5.  A[0,0] = .25 - .5 + 1.5 = 1.25."""
    targets, metrics = make_targets(*hand_batch(), AlgorithmConfig(**HAND), Ranks())
    assert targets.advantages_R.tolist() == [1.25, 1.5, 1.0]
    assert targets.policy_advantages_R.tolist() == [1.25, 1.5, 1.0]
    assert targets.returns_R.tolist() == [1.75, 1.75, 2.0]
    assert targets.old_logprobs_R.tolist() == [-0.6, 0.0, -1.0]
    # At j = 0: values 0.5 and 1, returns 1.75 and 2; the errors' variance is 0.015625, the returns' as much.
    assert metrics["explained_variance"] == pytest.approx(0.0)
    assert metrics["values/mean"] == 0.75
    assert metrics["returns/mean"] == 1.875
    # Trainer minus sampler where there was a choice: -0.1 and 0.
    assert metrics["logprob_diff/max"] == pytest.approx(0.1)
    assert metrics["logprob_diff/mean"] == pytest.approx(0.05)
    assert metrics["reference_kl"] == pytest.approx((-0.2 + 1.0) / 2)


def test_whitening_looks_at_tokens_with_a_choice_alone() -> None:
    """1.25 and 1 have the mean 1.125 and the deviation 0.125; the forced token's 1.5 takes no part."""
    targets, _ = make_targets(*hand_batch(), AlgorithmConfig(gamma_step=0.5, lambda_step=0.5), Ranks())
    np.testing.assert_allclose(targets.policy_advantages_R, [1.0, 0.0, -1.0], atol=1e-5)
    assert targets.advantages_R.tolist() == [1.25, 1.5, 1.0]


def test_the_kl_penalty_is_in_the_reward_of_its_own_token() -> None:
    """-0.5 * (-0.2) = 0.1 at the first token, -0.5 * 1 at the last: A[1,0] = .5, A[0,1] = 1.375, A[0,0] = 1.225."""
    targets, _ = make_targets(*hand_batch(), AlgorithmConfig(**HAND, kl_coef=0.5), Ranks())
    np.testing.assert_allclose(targets.advantages_R, [1.225, 1.375, 0.5], atol=1e-12)
    targets, _ = make_targets(*hand_batch(), AlgorithmConfig(**HAND, kl_coef=0.5, kl_kind="loss"), Ranks())
    assert targets.advantages_R.tolist() == [1.25, 1.5, 1.0]
    assert targets.reference_R is not None


def test_annotate_writes_a_turns_first_position() -> None:
    turns = random_turns(5, errors=[3])
    batch, scores = scores_of(turns)
    targets, _ = make_targets(batch, scores, AlgorithmConfig(), Ranks())
    annotate(batch, targets, AlgorithmConfig())
    assert turns[3].value is None
    assert turns[3].advantage is None
    spoken = [turn for turn in turns if not turn.error]
    assert [turn.value for turn in spoken] == targets.values_R[batch.first_token_R].tolist()
    assert [turn.advantage for turn in spoken] == targets.advantages_R[batch.first_token_R].tolist()


def test_c10_a_cut_bootstraps_from_the_next_prompt_and_an_end_from_nothing() -> None:
    """With all factors 1 a return is the sum of the rewards up to the end of the trace, plus what stands there."""
    turns = random_turns(6)
    batch, scores = scores_of(turns)
    algorithm = AlgorithmConfig(gamma_step=1.0, lambda_step=1.0)
    targets, _ = make_targets(batch, scores, algorithm, Ranks())
    returns_N = targets.returns_R[batch.first_token_R].reshape(3, 4)
    rewards_N, next_N = batch.reward_N.reshape(3, 4), scores.next_values_N.reshape(3, 4)
    np.testing.assert_allclose(returns_N[0, 0], rewards_N[0].sum() + next_N[0, 3])
    np.testing.assert_allclose(returns_N[1, 0], rewards_N[1].sum())
    np.testing.assert_allclose(returns_N[2, 0], rewards_N[2, :2].sum() + next_N[2, 1])
    np.testing.assert_allclose(returns_N[2, 2], rewards_N[2, 2:].sum() + next_N[2, 3])
