"""Turns as flat arrays, and flat arrays as padded rows: the sampled ids arrive as they were, in their places."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import VOCAB, random_turns, tiny_lm, tokenizer

from agentrl.engines.base import Request, Sampling
from agentrl.engines.transformers import TransformersEngine
from agentrl.records import FREE, Turn, TurnBatch
from agentrl.rows import micro_batches, prompt_rows, ragged_indices, turn_rows


def three_turns() -> list[Turn]:
    """The second one broke after its reply; the last one is cut by a time limit."""
    first = Turn("tiny", 0, 0, 0, 0, [1, 2, 3], [4, 5, 6], [-0.5, 0.0, -1.5], [FREE, (5,), (6, 7)], reward=1.0)
    broken = Turn("tiny", 0, 0, 1, 0, [1, 2], [4], [-0.25], [FREE], error="raised: it broke")
    cut = Turn("tiny", 1, 0, 0, 0, [8], [9, 10], [-1.0, -2.0], [(9, 11), FREE], truncated=True, next_prompt_ids=[1, 2])
    return [first, broken, cut]


def test_from_turns_by_hand() -> None:
    batch = TurnBatch.from_turns(three_turns())
    assert len(batch) == 3
    assert batch.prompt_ids.tolist() == [1, 2, 3, 1, 2, 8]
    assert batch.prompt_offsets.tolist() == [0, 3, 5, 6]
    assert batch.reply_ids_R.tolist() == [4, 5, 6, 9, 10]
    assert batch.reply_offsets.tolist() == [0, 3, 3, 5]
    assert batch.logprobs_R.tolist() == [-0.5, 0.0, -1.5, -1.0, -2.0]
    assert batch.policy_mask_R.tolist() == [True, False, True, True, True]
    assert batch.legal_ids.tolist() == [5, 6, 7, 9, 11]
    assert batch.legal_offsets.tolist() == [0, 0, 1, 3, 5, 5]
    assert batch.next_prompt_ids.tolist() == [1, 2]
    assert batch.next_prompt_offsets.tolist() == [0, 0, 0, 2]
    assert batch.slot_N.tolist() == [0, 0, 1]
    assert batch.reward_N.tolist() == [1.0, 0.0, 0.0]
    assert batch.error_N.tolist() == [False, True, False]
    assert batch.truncated_N.tolist() == [False, False, True]
    assert not batch.terminated_N.any()
    assert batch.reply_lengths_N.tolist() == [3, 0, 2]
    assert batch.first_token_R.tolist() == [True, False, False, True, False]


def test_turns_without_sampled_ids_are_refused() -> None:
    """An engine that only evaluates gives no ids; a turn that broke needs none."""
    for field, value in (("reply_ids", []), ("reply_logprobs", [-1.0]), ("reply_legal", [])):
        turns = three_turns()
        setattr(turns[0], field, value)
        with pytest.raises(ValueError, match="turn 0 of tiny has no sampled ids and logprobs"):
            TurnBatch.from_turns(turns)
    turns = three_turns()
    turns[1].reply_ids, turns[1].reply_logprobs, turns[1].reply_legal = [], [], []
    assert TurnBatch.from_turns(turns).reply_offsets.tolist() == [0, 3, 3, 5]


def test_a_batch_of_errors_alone_is_a_batch() -> None:
    turns = random_turns(errors=range(12))
    batch = TurnBatch.from_turns(turns)
    assert len(batch) == 12
    assert len(batch.reply_ids_R) == len(batch.first_token_R) == 0
    rows, tokens_K = turn_rows(batch, np.arange(12))
    assert len(rows.input_ids_BT) == 12
    assert len(tokens_K) == len(rows.row_K) == len(rows.choice_C) == 0


@given(st.lists(st.integers(0, 5), max_size=8), st.data())
def test_ragged_indices_are_the_segments_in_the_order_asked(lengths: list[int], data: st.DataObject) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    which = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=6) if lengths else st.just([]))
    expected = [i for segment in which for i in range(offsets[segment], offsets[segment + 1])]
    assert ragged_indices(offsets, np.array(which, dtype=np.int64)).tolist() == expected


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 5), st.integers(0, 99))
def test_micro_batches_are_a_partition_sorted_by_length(lengths: list[int], size: int, seed: int) -> None:
    which = np.random.default_rng(seed).permutation(len(lengths))
    parts = list(micro_batches(which, np.array(lengths), np.ones(len(lengths), dtype=np.int64), size))
    assert sorted(np.concatenate(parts)) == sorted(which)
    assert all(len(part) == size for part in parts[:-1])
    flat = [lengths[i] for part in parts for i in part]
    assert flat == sorted(flat)


@given(st.integers(0, 50), st.data())
def test_c01_rows_hold_prompt_and_sampled_ids_and_predict_each_where_it_stands(seed: int, data: st.DataObject) -> None:
    turns = random_turns(seed, errors=[2, 7])
    batch = TurnBatch.from_turns(turns)
    which = np.array(data.draw(st.permutations(range(12)))[: data.draw(st.integers(1, 12))])
    rows, tokens_K = turn_rows(batch, which)
    expected, choices = [], []
    for row, i in enumerate(which):
        turn = turns[i]
        if turn.error:
            continue
        ids = rows.input_ids_BT[row].tolist()
        assert ids[: len(turn.prompt_ids) + len(turn.reply_ids) - 1] == (turn.prompt_ids + turn.reply_ids)[:-1]
        for j, (token, legal) in enumerate(zip(turn.reply_ids, turn.reply_legal, strict=True)):
            expected.append((row, len(turn.prompt_ids) - 1 + j, token))
            if len(legal) != 1:
                choices.append((len(expected) - 1, token, list(legal)))
    assert [
        (r, c, batch.reply_ids_R[t]) for r, c, t in zip(rows.row_K, rows.column_K, tokens_K, strict=True)
    ] == expected
    assert rows.choice_C.tolist() == [k for k, _, _ in choices]
    assert rows.target_C.tolist() == [token for _, token, _ in choices]
    offsets = rows.legal_offsets.tolist()
    lists = [rows.legal_ids[a:b].tolist() for a, b in pairwise(offsets)]
    assert lists == [ids for _, _, ids in choices]


def test_prompt_rows_are_read_at_their_last_id() -> None:
    rows = prompt_rows([np.array([5, 6, 7]), np.array([8])])
    assert rows.input_ids_BT.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert (rows.row_K.tolist(), rows.column_K.tolist()) == ([0, 1], [2, 0])
    assert rows.legal_offsets.tolist() == [0]
    moved = rows.to(torch.device("meta"))
    assert all(getattr(moved, name).is_meta for name in rows.__slots__)


def test_c01_what_was_sampled_is_trained_on_even_where_encoding_would_join_it() -> None:
    """A random model babbles ids such as "g", "o" where the tokenizer writes "go": they must not be mended."""
    engine = TransformersEngine(tiny_lm(), tokenizer(), [tokenizer().eos_token_id])
    asked = [Request([], [5, 6, 7 + i], Sampling(1.0, 12), seed=i) for i in range(40)]
    replies = engine.generate(asked)
    changed = [r for r in replies if tokenizer().encode(r.text, add_special_tokens=False) != r.ids]
    assert len(changed) > 5
    go = tokenizer().encode("go", add_special_tokens=False)
    apart = [tokenizer().encode(letter, add_special_tokens=False)[0] for letter in "go"]
    assert tokenizer().decode(apart) == tokenizer().decode(go)
    assert len(go) == 1 != len(apart)
    turns = [
        Turn("tiny", 0, 0, i, 0, asked[i].prompt_ids or [], r.ids, r.logprobs, r.legal, reply_text=r.text)
        for i, r in enumerate(replies)
    ]
    turns.append(Turn("tiny", 0, 0, 40, 0, [5], apart, [-1.0, -1.0], [FREE, FREE], reply_text="go"))
    batch = TurnBatch.from_turns(turns)
    sampled = [token for turn in turns for token in turn.reply_ids]
    assert batch.reply_ids_R.tolist() == sampled
    rows, _ = turn_rows(batch, np.arange(41))
    assert rows.target_C.tolist() == sampled
    assert rows.input_ids_BT[40].tolist()[:2] == [5, apart[0]]
    assert max(sampled) < VOCAB
