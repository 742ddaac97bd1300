"""The best player of a game whose rules are a table of chances, as gymnasium's toy-text games keep them in `P`."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Outcome = tuple[float, int, float, bool]
"""Probability, next state, reward, whether the episode is over."""

Table = Mapping[int, Mapping[int, Sequence[Outcome]]]
"""State -> action -> what may come of it."""

SWEEPS = 2_000
SETTLED = 1e-9


def best_actions(table: Table, discount: float) -> NDArray[np.intp]:
    """The action of most value in every state, shape [states], by value iteration (Sutton and Barto, section 4.4)."""
    most = max(len(outcomes) for actions in table.values() for outcomes in actions.values())
    shape = len(table), len(table[0]), most
    chance, then, reward, goes_on = np.zeros(shape), np.zeros(shape, int), np.zeros(shape), np.zeros(shape)
    for state, actions in table.items():
        for action, outcomes in actions.items():
            for n, (probability, following, paid, over) in enumerate(outcomes):
                at = state, action, n
                chance[at], then[at], reward[at], goes_on[at] = probability, following, paid, not over
    values = np.zeros(len(table))
    for _ in range(SWEEPS):
        worth = (chance * (reward + discount * goes_on * values[then])).sum(axis=2)
        before, values = values, worth.max(axis=1)
        if np.abs(values - before).max() < SETTLED:
            break
    return worth.argmax(axis=1)
