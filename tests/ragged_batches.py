"""Ragged batches of turns for tests of estimators: random games with every mix of ends, cuts and errors."""

import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from hypothesis import strategies as st

from agentrl.advantages import dual_discount_gae

STEP_ONLY = {"gamma_step": 0.99, "lambda_step": 0.95, "gamma_token": 1.0, "lambda_token": 1.0}
ALL_DIFFERENT = {"gamma_step": 0.9, "lambda_step": 0.8, "gamma_token": 0.97, "lambda_token": 0.85}
ONES = {"gamma_step": 1.0, "lambda_step": 1.0, "gamma_token": 1.0, "lambda_token": 1.0}


@dataclass
class Batch:
    """N turns and their R tokens, as `dual_discount_gae` takes them."""

    rewards_R: np.ndarray
    values_R: np.ndarray
    reply_offsets: np.ndarray
    slot_N: np.ndarray
    terminated_N: np.ndarray
    truncated_N: np.ndarray
    error_N: np.ndarray
    prompt_values_N: np.ndarray
    next_values_N: np.ndarray

    def arguments(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def gae(self, **factors: Any) -> tuple[np.ndarray, np.ndarray]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return dual_discount_gae(**self.arguments(), **factors)

    def advantages(self, **factors: float) -> np.ndarray:
        return self.gae(**factors)[0]

    def tokens(self, turn: int) -> slice:
        return slice(self.reply_offsets[turn], self.reply_offsets[turn + 1])

    def is_last_of_slot(self, turn: int) -> bool:
        return turn + 1 == len(self.slot_N) or self.slot_N[turn + 1] != self.slot_N[turn]

    def cuts_trace(self, turn: int) -> bool:
        """No advantage comes from the turn behind this one."""
        ends = self.terminated_N[turn] or self.truncated_N[turn] or self.error_N[turn] or self.is_last_of_slot(turn)
        return bool(ends or self.error_N[turn + 1])

    def take(self, turns: list[int]) -> "Batch":
        """The batch of these turns, in this order."""
        tokens = [i for turn in turns for i in range(self.reply_offsets[turn], self.reply_offsets[turn + 1])]
        lengths = np.diff(self.reply_offsets)[turns]
        per_turn = {name: array[turns] for name, array in self.arguments().items() if name.endswith("_N")}
        return Batch(self.rewards_R[tokens], self.values_R[tokens], np.append(0, np.cumsum(lengths)), **per_turn)


def make_batch(games: list[list[tuple[int, bool, bool]]], rng: np.random.Generator, dtype: Any = np.float64) -> Batch:
    """A batch of games, each a list of turns (tokens, terminated, truncated); no tokens: an error. Random numbers."""
    turns = [turn for game in games for turn in game]
    lengths = np.array([tokens for tokens, _, _ in turns], dtype=np.int64)
    offsets = np.append(0, np.cumsum(lengths))
    values = rng.normal(size=offsets[-1]).astype(dtype)
    prompt_values = rng.normal(size=len(turns)).astype(dtype)
    prompt_values[lengths > 0] = values[offsets[:-1][lengths > 0]]
    return Batch(
        rewards_R=rng.normal(size=offsets[-1]).astype(dtype),
        values_R=values,
        reply_offsets=offsets,
        slot_N=np.repeat(np.arange(len(games)), [len(game) for game in games]),
        terminated_N=np.array([terminated for _, terminated, _ in turns], dtype=bool),
        truncated_N=np.array([truncated for _, _, truncated in turns], dtype=bool),
        error_N=lengths == 0,
        prompt_values_N=prompt_values,
        next_values_N=rng.normal(size=len(turns)).astype(dtype),
    )


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Ragged games with every mix of flags, and errors anywhere; most turns go on, so that traces get long."""
    goes_on, flags = (False, False), [(True, False), (False, True), (True, True)]
    turn = st.builds(lambda tokens, ends: (tokens, *ends), st.integers(0, 5), st.sampled_from([goes_on] * 5 + flags))
    games = draw(st.lists(st.lists(turn, min_size=1, max_size=6), min_size=1, max_size=4))
    return make_batch(games, np.random.default_rng(draw(st.integers(0, 2**32 - 1))))


def factors() -> st.SearchStrategy[dict[str, float]]:
    fraction = st.one_of(st.sampled_from([0.0, 0.5, 0.95, 1.0]), st.floats(0, 1))
    return st.fixed_dictionaries(dict.fromkeys(STEP_ONLY, fraction))


def close(actual: np.ndarray, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9)
