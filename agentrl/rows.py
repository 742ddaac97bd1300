"""From turns to padded rows: what a `TurnBatch` becomes in front of the model."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from agentrl.policy import Rows, pad_rows
from agentrl.records import TurnBatch

Index = NDArray[np.int64]


def ragged_indices(offsets: Index, which: Index) -> Index:
    """Flat positions of the items of segments `which`, in that order."""
    starts, lengths = offsets[which], offsets[which + 1] - offsets[which]
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)


def turn_rows(batch: TurnBatch, which: Index) -> tuple[Rows, Index]:
    """Rows `which` of a batch: prompt and reply of a row's last turn, read wherever a reply token is predicted.

    A row that holds earlier turns too is read at their replies as well: no hidden state depends on what comes behind
    it, so each turn gets what a row of its own would give it. Returns the rows and the flat reply positions (K,
    indices into R) they stand for, in the rows' order.
    """
    turns = ragged_indices(batch.row_offsets, which)
    row_of_turn = np.repeat(np.arange(len(which)), batch.row_turns_P[which])
    tokens_K = ragged_indices(batch.reply_offsets, turns)
    lengths = batch.reply_lengths_N[turns]
    prompt_lengths = np.diff(batch.prompt_offsets)[turns]
    within_K = tokens_K - np.repeat(batch.reply_offsets[turns], lengths)
    choice_C = np.flatnonzero(batch.policy_mask_R[tokens_K])
    chosen_R = tokens_K[choice_C]
    legal_lengths = np.diff(batch.legal_offsets)[chosen_R]
    rows = Rows(
        input_ids_BT=pad_rows([_sequence(batch, int(last)) for last in batch.row_offsets[which + 1] - 1]),
        row_K=torch.from_numpy(np.repeat(row_of_turn, lengths)),
        column_K=torch.from_numpy(np.repeat(prompt_lengths, lengths) - 1 + within_K),
        choice_C=torch.from_numpy(choice_C),
        target_C=torch.from_numpy(batch.reply_ids_R[chosen_R]),
        legal_ids=torch.from_numpy(batch.legal_ids[ragged_indices(batch.legal_offsets, chosen_R)]),
        legal_offsets=torch.from_numpy(np.concatenate([[0], np.cumsum(legal_lengths)])),
    )
    return rows, tokens_K


def prompt_rows(prompts: list[NDArray[np.int64]]) -> Rows:
    """Rows that are read once, at their last token: the values of prompts without a reply."""
    none = torch.zeros(0, dtype=torch.long)
    return Rows(
        input_ids_BT=pad_rows(prompts),
        row_K=torch.arange(len(prompts)),
        column_K=torch.tensor([len(p) - 1 for p in prompts]),
        choice_C=none,
        target_C=none,
        legal_ids=none,
        legal_offsets=torch.zeros(1, dtype=torch.long),
    )


def grouped(which: Index, turns_P: Index, size: int) -> Iterator[Index]:
    """Split rows, in their order, into groups of at most `size` turns; a row of more turns is alone in its group."""
    start = turns = 0
    for end, row in enumerate(which):
        if end > start and turns + turns_P[row] > size:
            yield which[start:end]
            start, turns = end, 0
        turns += turns_P[row]
    if len(which):
        yield which[start:]


def micro_batches(which: Index, lengths_P: Index, turns_P: Index, size: int) -> Iterator[Index]:
    """Split rows into groups of at most `size` turns, of similar length so that little is padded."""
    return grouped(which[np.argsort(lengths_P[which], kind="stable")], turns_P, size)


def _sequence(batch: TurnBatch, turn: int) -> NDArray[np.int64]:
    """A turn's prompt and all but its last reply token, which predicts nothing that is trained on.

    Of a turn without a reply (an error) nothing is read: one id keeps its row.
    """
    prompt = batch.prompt_ids[batch.prompt_offsets[turn] : batch.prompt_offsets[turn + 1]]
    reply = batch.reply_ids_R[batch.reply_offsets[turn] : batch.reply_offsets[turn + 1]]
    return np.concatenate([prompt, reply[:-1]]) if len(reply) else prompt[:1]
