"""Whole-trajectory rows: what they train equals what turn rows train, and their prompts are made of sampled ids."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_learner import WHOLE_LOSS, captured, make_learner, noisy_targets
from tiny import KINDS, random_turns, relative_difference, tiny_model

from agentrl.records import Turn, TurnBatch
from agentrl.rows import grouped, turn_rows

END = 9


def trajectory_turns(seed: int = 0, **settings: Any) -> list[Turn]:
    """As `random_turns`, each prompt beginning with the one before and its reply.

    Slot 2 plays a second episode in its turns 2 and 3; slot 1 was in the midst of one when the batch began.
    """
    turns = random_turns(seed, **settings)
    for i, turn in enumerate(turns):
        if turn.slot == 2 and turn.turn > 1:
            turn.episode, turn.turn = 1, turn.turn - 2
        turn.turn += 5 * (turn.slot == 1)
        before = turns[i - 1]
        if i and (turn.slot, turn.episode, turn.turn) == (before.slot, before.episode, before.turn + 1):
            cut = [END] if i % 3 else []  # a reply that was cut by its length is closed in the next prompt
            turn.prompt_ids = [*before.prompt_ids, *before.reply_ids, *cut, *turn.prompt_ids]
    return turns


def rows_of(batch: TurnBatch) -> list[list[int]]:
    return [list(range(a, b)) for a, b in zip(batch.row_offsets[:-1], batch.row_offsets[1:], strict=True)]


def test_rows_are_the_pieces_of_episodes_and_broken_turns_alone() -> None:
    assert rows_of(TurnBatch.from_turns(trajectory_turns())) == [[i] for i in range(12)]
    joined = TurnBatch.from_turns(trajectory_turns(), join=True)
    assert rows_of(joined) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [10, 11]]
    assert joined.row_turns_P.tolist() == [4, 4, 2, 2]
    last = joined.turns[3]
    assert joined.row_lengths_P[0] == len(last.prompt_ids) + len(last.reply_ids)
    assert rows_of(TurnBatch.from_turns(trajectory_turns(errors=[5, 11]), join=True)) == [
        [0, 1, 2, 3],
        *([4], [5], [6, 7]),
        *([8, 9], [10], [11]),
    ]


def test_a_prompt_that_does_not_go_on_begins_a_row() -> None:
    turns = trajectory_turns()
    turns[2].prompt_ids[len(turns[1].prompt_ids)] += 1  # one id of the reply, encoded otherwise
    assert rows_of(TurnBatch.from_turns(turns[:4], join=True)) == [[0, 1], [2], [3]]
    other_slot = replace(turns[1], slot=7)
    assert rows_of(TurnBatch.from_turns([turns[0], other_slot], join=True)) == [[0], [1]]


def test_a_joined_row_is_read_where_each_reply_stands() -> None:
    turns = trajectory_turns(3)
    rows, tokens_K = turn_rows(TurnBatch.from_turns(turns, join=True), np.array([2, 0]))
    assert rows.input_ids_BT[0].tolist()[: len(turns[9].prompt_ids)] == turns[9].prompt_ids
    spoken = [(row, turns[i]) for row, i in ((0, 8), (0, 9), (1, 0), (1, 1), (1, 2), (1, 3))]
    places = [(row, len(turn.prompt_ids) - 1 + j) for row, turn in spoken for j in range(len(turn.reply_ids))]
    assert list(zip(rows.row_K.tolist(), rows.column_K.tolist(), strict=True)) == places
    assert len(tokens_K) == len(places)


def test_groups_hold_whole_rows_and_no_more_turns_than_asked() -> None:
    turns_P = np.array([4, 1, 1, 9, 2, 2, 1])
    groups = [group.tolist() for group in grouped(np.array([6, 5, 4, 3, 2, 1, 0]), turns_P, 4)]
    assert groups == [[6, 5], [4], [3], [2, 1], [0]]
    assert not list(grouped(np.array([], dtype=np.int64), turns_P, 4))


@pytest.mark.parametrize("micro_batch_turns", [1, 5, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_and_gradients_equal_those_of_turn_rows(kind: str, micro_batch_turns: int) -> None:
    turns = trajectory_turns(1, errors=[6])
    apart, joined = TurnBatch.from_turns(turns), TurnBatch.from_turns(copy.deepcopy(turns), join=True)
    found = []
    for batch in (apart, joined):
        optimizer = {"micro_batch_turns": micro_batch_turns}
        learner = make_learner(tiny_model(kind), algorithm=WHOLE_LOSS, reference=True, optimizer=optimizer)
        targets = noisy_targets(apart, learner)
        scores = learner.scores(batch)
        (step,) = captured(learner, batch, targets)
        sums = learner._step(batch, targets, np.arange(len(batch.row_turns_P)), critic_only=False)
        found.append((scores, step, sums))
    (scores, gradients, sums), (other_scores, other_gradients, other_sums) = found
    for name in ("logprobs_R", "reference_R", "values_R", "prompt_values_N", "next_values_N"):
        np.testing.assert_allclose(getattr(other_scores, name), getattr(scores, name), atol=2e-5)
    assert relative_difference(other_gradients, gradients) < 1e-4
    assert other_sums == pytest.approx(sums, rel=1e-4, abs=1e-6)
    assert other_sums["losses/policy"] != 0


def test_minibatches_keep_rows_whole_and_are_always_as_many() -> None:
    batch = TurnBatch.from_turns(trajectory_turns(3), join=True)
    learner = make_learner(algorithm={"minibatches": 3, "epochs": 2})
    seen: list[Any] = []
    step = learner._step
    learner._step = lambda b, t, which, *rest: seen.append(which) or step(b, t, which, *rest)  # type: ignore[method-assign, func-returns-value]
    learner.update(batch, learner.targets(batch)[0], 4)
    assert len(seen) == 6
    assert sorted(np.concatenate(seen[:3])) == sorted(np.concatenate(seen[3:])) == [0, 1, 2, 3]
