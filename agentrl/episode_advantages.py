"""Advantages without a critic: what an episode, or the rest of it, returned, beside others.

Shape suffixes: E whole episodes, `group_E` the number of each one's group (episodes of one game seed); N turns of whole
episodes in time order, `episode_N` which of them belong together. All sums run in float64.
"""

import numpy as np

from agentrl.traces import Float64, Floats, Ints, discounted_tails, float64

EPSILON = 1e-6
"""Added to standard deviations, in the unit of the returns."""


def turn_returns(reward_N: Floats, episode_N: Ints, gamma_step: float) -> Float64:
    """Each turn's discounted return to its episode's end, G[t] = r[t] + gamma_step * G[t+1].

    REINFORCE's return per turn; ReBN (GEM, arXiv 2510.01051) whitens it over the batch (`agentrl.advantages.whiten`).

    Raises:
        ValueError: the turns of an episode are not adjacent.
    """
    reward_N = float64(reward_N)
    begins = np.flatnonzero(np.diff(episode_N, prepend=np.nan))
    offsets = np.append(begins, len(reward_N))
    if len(np.unique(episode_N)) != len(begins):
        raise ValueError("turns must be grouped by episode: an episode's turns are not adjacent")
    return discounted_tails(reward_N, np.full(len(reward_N), gamma_step), offsets)


def rloo(returns_E: Floats, group_E: Ints) -> Float64:
    """Return minus the mean of the group's other returns (Ahmadian et al. 2024, arXiv 2402.14740).

    Raises:
        ValueError: a group has a single episode, and nothing to compare it with.
    """
    centred_E, _, sizes_E = _centred(returns_E, group_E)
    return centred_E * sizes_E / (sizes_E - 1)


def dr_grpo(returns_E: Floats, group_E: Ints) -> Float64:
    """Return minus the group's mean (Dr.GRPO, arXiv 2503.20783): (n - 1) / n times RLOO for a group of n.

    Without the division by the spread, which weighs groups up that are nearly always won or lost.

    Raises:
        ValueError: as `rloo`.
    """
    return _centred(returns_E, group_E)[0]


def grpo(returns_E: Floats, group_E: Ints) -> Float64:
    """(return - mean) / (standard deviation + 1e-6) of the group (GRPO, arXiv 2402.03300).

    The deviation is the sample's, divided by n - 1. A group of equal returns has advantages of 0.

    Raises:
        ValueError: as `rloo`.
    """
    centred_E, deviations_E, _ = _centred(returns_E, group_E)
    return centred_E / (deviations_E + EPSILON)


def gigpo(
    returns_E: Floats,
    group_E: Ints,
    turn_returns_N: Floats,
    episode_N: Ints,
    anchor_N: Ints,
    *,
    step_weight: float = 1.0,
    normalise: bool = True,
) -> Float64:
    """Advantage of each turn, from its episode and from its step: A_episode + step_weight * A_step.

    GiGPO (arXiv 2505.10978). A_episode compares the episodes of a group; A_step compares the discounted returns
    `turn_returns_N` (see `turn_returns`) of all turns of a group that met the same observation, whichever episodes they
    are from. `anchor_N` numbers the observations, `episode_N` is an index into E. Both parts are GRPO's, or with
    `normalise` off Dr.GRPO's. A turn whose observation nobody else in its group met has A_step = 0.

    Raises:
        ValueError: as `rloo`.
    """
    of_episodes = grpo if normalise else dr_grpo
    advantages_N = of_episodes(returns_E, group_E)[episode_N]
    pairs = np.stack([np.asarray(group_E)[episode_N], np.asarray(anchor_N)])
    _, step_N, sizes = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
    step_N = step_N.reshape(-1)
    met = sizes[step_N] > 1
    if met.any():
        advantages_N[met] += step_weight * of_episodes(float64(turn_returns_N)[met], step_N[met])
    return advantages_N


def _centred(x_E: Floats, group_E: Ints) -> tuple[Float64, Float64, Ints]:
    """Each element less its group's mean; the group's standard deviation (n - 1) and size."""
    _, first, which_E, sizes = np.unique(group_E, return_index=True, return_inverse=True, return_counts=True)
    if np.any(sizes < 2):
        raise ValueError("a group of one episode has nothing to be compared with: a group needs two or more")
    # From the group's first element on, so that equal ones are exactly 0 apart: the mean of three 0.1 is not 0.1.
    from_first_E = float64(x_E) - float64(x_E)[first][which_E]
    centred_E = from_first_E - (np.bincount(which_E, from_first_E) / sizes)[which_E]
    deviations = np.sqrt(np.bincount(which_E, np.square(centred_E)) / (sizes - 1))
    return centred_E, deviations[which_E], sizes[which_E]
