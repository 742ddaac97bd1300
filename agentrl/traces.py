"""Where traces of turns end, and sums that decay along them: what every estimator over ragged turns needs.

Shape suffixes: N turns grouped by game slot, in time order within it; R reply tokens, flat; `reply_offsets` N + 1.
Prompt tokens and padding do not exist in this layout, so they cannot leak into a trace. All sums run in float64.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Float64 = NDArray[np.float64]


@dataclass(slots=True)
class Traces:
    """How the turns of a batch hang together.

    Attributes:
        spoken_N: the turn has reply tokens; only an error turn has none.
        first_S, last_S: first and last token of the S turns that have any.
        chained_N: advantages flow into this turn from the next one.
        bootstrap_N: the value behind a turn that is not chained: 0 where `terminated` (truncated too or not); else the
            value of the next prompt if `truncated` or the slot's last turn in the batch; else, an error follows, the
            value of that turn's prompt. Where chained, anything may stand here.
    """

    spoken_N: Bools
    first_S: Ints
    last_S: Ints
    chained_N: Bools
    bootstrap_N: Float64

    @property
    def chain_offsets(self) -> Ints:
        """Turns [offsets[c], offsets[c + 1]) are one chain."""
        return np.concatenate([[0], np.flatnonzero(~self.chained_N) + 1])


def traces(
    reply_offsets: Ints,
    *,
    slot_N: Ints,
    terminated_N: Bools,
    truncated_N: Bools,
    error_N: Bools,
    prompt_values_N: Floats,
    next_values_N: Floats,
) -> Traces:
    """The traces of a batch. `prompt_values_N` is read at error turns only, `next_values_N` where a trace is cut.

    Raises:
        ValueError: an error turn has reply tokens, another turn has none, or a slot's turns are not adjacent.
    """
    slot_N, error_N = np.asarray(slot_N), np.asarray(error_N)
    spoken_N = np.diff(reply_offsets) > 0
    if np.any(spoken_N == error_N):
        turn = int(np.flatnonzero(spoken_N == error_N)[0])
        raise ValueError(f"turn {turn} of the batch: an error turn has no reply tokens, every other turn at least one")
    followed_N = np.zeros(len(slot_N), dtype=bool)
    followed_N[:-1] = slot_N[1:] == slot_N[:-1]
    if np.count_nonzero(~followed_N) != len(np.unique(slot_N)):
        raise ValueError("turns must be grouped by slot: a slot's turns are not adjacent")
    cut_N = truncated_N | ~followed_N
    bootstrap_N = np.where(cut_N, float64(next_values_N), np.roll(float64(prompt_values_N), -1))
    bootstrap_N[terminated_N] = 0.0
    return Traces(
        spoken_N,
        reply_offsets[:-1][spoken_N],
        reply_offsets[1:][spoken_N] - 1,
        ~cut_N & ~terminated_N & ~np.roll(error_N, -1),
        bootstrap_N,
    )


def discounted_tails(x_M: Float64, factor_M: Float64, offsets: Ints) -> Float64:
    """y[m] = x[m] + factor[m] * y[m + 1] within each segment [offsets[s], offsets[s + 1]), where y is 0 at its end.

    One pass per position counted from the segments' ends, over all segments that reach so far.
    """
    y_M = x_M.copy()
    lengths = np.diff(offsets)
    by_length = np.argsort(-lengths, kind="stable")
    last = offsets[1:][by_length] - 1
    longer_than = np.searchsorted(-lengths[by_length], -np.arange(lengths.max(initial=0)), side="left")
    for back, count in enumerate(longer_than[1:], start=1):
        at = last[:count] - back
        y_M[at] += factor_M[at] * y_M[at + 1]
    return y_M


def float64(x: Floats | float) -> Float64:
    return np.asarray(x, dtype=np.float64)
