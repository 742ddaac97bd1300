"""The records of a turn: `Turn`, and `TurnBatch`, many turns as flat arrays plus offsets.

Text exists on the game's side only. What was sampled is what is trained on: ids are never decoded and encoded again.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Message = dict[str, str]
FinishReason = Literal["stop", "length", "error"]

FREE: tuple[int, ...] = ()
"""A position where the whole vocabulary was allowed."""


@dataclass(slots=True)
class Turn:
    """One prompt, one reply, and what the game answered.

    `reply_ids` holds the sampled ids, the end-of-turn token included. `reply_legal[j]` are the ids that were allowed at
    position j, or `FREE`. `next_prompt_ids` is set only where the trace is cut (time limit or batch end): the value at
    its last token is the bootstrap. A turn with `error` set keeps its place in the batch and enters no loss.
    `reward` is the sum of `reward_parts`, by name; `notes` are what a judge says of the turn, by name, too.
    """

    game: str
    slot: int
    episode: int
    turn: int
    seed: int
    prompt_ids: list[int]
    reply_ids: list[int] = field(default_factory=list)
    reply_logprobs: list[float] = field(default_factory=list)
    reply_legal: list[tuple[int, ...]] = field(default_factory=list)
    policy_version: int = 0
    action: str = ""
    valid: bool = True
    finish_reason: FinishReason = "stop"
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    error: str | None = None
    next_prompt_ids: list[int] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    reply_text: str = ""
    dropped_turns: int = 0
    value: float | None = None
    advantage: float | None = None
    reward_parts: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def continues(turn: Turn, before: Turn) -> bool:
    """Whether a turn's prompt goes on where the turn before it ended: one row, read once, then holds both."""
    said = before.prompt_ids + before.reply_ids
    same = (turn.slot, turn.episode, turn.turn) == (before.slot, before.episode, before.turn + 1)
    return same and not turn.error and not before.error and turn.prompt_ids[: len(said)] == said


def _offsets(lengths: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


@dataclass(slots=True)
class TurnBatch:
    """N turns, ordered by game slot and then by time; R reply tokens in all.

    Shapes: per turn N, per reply token R, offsets N + 1 (or R + 1). Turns with an error have zero reply tokens here.
    `row_offsets` (P + 1): turns row_offsets[p] to row_offsets[p + 1] - 1 are read as one row; mostly each is its own.
    """

    turns: list[Turn]
    prompt_ids: NDArray[np.int64]
    prompt_offsets: NDArray[np.int64]
    reply_ids_R: NDArray[np.int64]
    reply_offsets: NDArray[np.int64]
    logprobs_R: NDArray[np.float32]
    policy_mask_R: NDArray[np.bool_]
    legal_ids: NDArray[np.int64]
    legal_offsets: NDArray[np.int64]
    next_prompt_ids: NDArray[np.int64]
    next_prompt_offsets: NDArray[np.int64]
    slot_N: NDArray[np.int64]
    reward_N: NDArray[np.float64]
    terminated_N: NDArray[np.bool_]
    truncated_N: NDArray[np.bool_]
    error_N: NDArray[np.bool_]
    row_offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.turns)

    @property
    def reply_lengths_N(self) -> NDArray[np.int64]:
        return np.diff(self.reply_offsets)

    @property
    def row_turns_P(self) -> NDArray[np.int64]:
        """Turns of each row."""
        return np.diff(self.row_offsets)

    @property
    def row_lengths_P(self) -> NDArray[np.int64]:
        """Tokens of each row: prompt and reply of its last turn."""
        last = self.row_offsets[1:] - 1
        return np.diff(self.prompt_offsets)[last] + self.reply_lengths_N[last]

    @property
    def first_token_R(self) -> NDArray[np.bool_]:
        """True at the first reply token of each turn (j = 0)."""
        first = np.zeros(len(self.reply_ids_R), dtype=bool)
        first[self.reply_offsets[:-1][self.reply_lengths_N > 0]] = True
        return first

    @classmethod
    def from_turns(cls, turns: list[Turn], join: bool = False) -> "TurnBatch":
        """Flatten turns; they must come grouped by slot, in time order within it.

        With `join`, turns that continue the one before share its row.
        """
        replies = [[] if t.error else t.reply_ids for t in turns]
        logprobs = [[] if t.error else t.reply_logprobs for t in turns]
        legal = [ids for t in turns if not t.error for ids in t.reply_legal]
        for turn in turns:
            if not turn.error and not len(turn.reply_ids) == len(turn.reply_logprobs) == len(turn.reply_legal) > 0:
                raise ValueError(f"turn {turn.turn} of {turn.game} has no sampled ids and logprobs to be trained on")
        begins = [i for i, turn in enumerate(turns) if not (join and i and continues(turn, turns[i - 1]))]
        return cls(
            turns=turns,
            prompt_ids=np.array([i for t in turns for i in t.prompt_ids], dtype=np.int64),
            prompt_offsets=_offsets([len(t.prompt_ids) for t in turns]),
            reply_ids_R=np.array([i for ids in replies for i in ids], dtype=np.int64),
            reply_offsets=_offsets([len(ids) for ids in replies]),
            logprobs_R=np.array([x for xs in logprobs for x in xs], dtype=np.float32),
            policy_mask_R=np.array([len(ids) != 1 for ids in legal], dtype=bool),
            legal_ids=np.array([i for ids in legal for i in ids], dtype=np.int64),
            legal_offsets=_offsets([len(ids) for ids in legal]),
            next_prompt_ids=np.array([i for t in turns for i in t.next_prompt_ids], dtype=np.int64),
            next_prompt_offsets=_offsets([len(t.next_prompt_ids) for t in turns]),
            slot_N=np.array([t.slot for t in turns], dtype=np.int64),
            reward_N=np.array([t.reward for t in turns], dtype=np.float64),
            terminated_N=np.array([t.terminated for t in turns], dtype=bool),
            truncated_N=np.array([t.truncated for t in turns], dtype=bool),
            error_N=np.array([t.error is not None for t in turns], dtype=bool),
            row_offsets=np.array([*begins, len(turns)], dtype=np.int64),
        )
