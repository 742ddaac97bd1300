"""A game's answers, checked: what no game may answer is an error, which the slot contains like any other of the game's.

Errors are ValueError and TypeError, in the game's own terms: `reward = nan`.
"""

from dataclasses import dataclass
from typing import Any, SupportsFloat

from agentrl.envs import Observation

LARGEST = 1e38
"""Rewards beyond it are errors: training computes in single precision."""

LONGEST = 1_000_000
"""Characters of an observation; minutes would pass until more had become tokens, and no budget would take them."""


@dataclass(slots=True)
class Answer:
    """What an action led to.

    Attributes:
        legal: the actions of the next turn; None where the game takes free text.
        achievements: those unlocked so far; None if the game has none, or does not tell at this turn.
    """

    reward: float
    terminated: bool
    truncated: bool
    success: bool | None
    progression: float | None
    legal: tuple[str, ...] | None
    achievements: tuple[str, ...] | None


def observation(found: object) -> Observation:
    """What `reset` and `step` return first."""
    if not isinstance(found, Observation):
        raise TypeError(f"the observation is a {type(found).__name__}, not an Observation")
    told = Observation(found.scene, found.status)  # its texts are checked anew: it can be written to
    length = len(told.scene) + len(told.status)
    if length > LONGEST:
        raise ValueError(f"an observation of {length:,} characters; at most {LONGEST:,}")
    return told


def check(
    reward: SupportsFloat,
    terminated: bool,
    truncated: bool,
    info: dict[str, Any],
    actions: dict[str, str] | None,
    achievable: tuple[str, ...],
) -> Answer:
    """What `TextEnv.step` returned beside the observation, for a game of these actions and achievements."""
    success, progression = info.get("success"), info.get("progression")
    told = achievable and (terminated or truncated or "achievements" in info)
    return Answer(
        reward=_number("reward", reward),
        terminated=bool(terminated),
        truncated=bool(truncated),
        success=None if success is None else bool(success),
        progression=None if progression is None else _number("progression", progression),
        legal=legal_actions(info, actions),
        achievements=_names("achievements", info.get("achievements"), achievable) if told else None,
    )


def legal_actions(info: dict[str, Any], actions: dict[str, str] | None) -> tuple[str, ...] | None:
    """The actions of the turn that `info` came with: all of the game's, unless it narrows them."""
    narrowed = info.get("legal_actions")
    names = actions if narrowed is None else narrowed
    if names is None:
        return None
    if not names:
        raise ValueError("no action is legal")
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"legal_actions = {names!r}: a list of actions is expected")
    return tuple(names)


def _number(name: str, number: SupportsFloat) -> float:
    value = float(number)
    if not abs(value) < LARGEST:  # nor is NaN
        raise ValueError(f"{name} = {value}")
    return value


def _names(name: str, found: object, known: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `known` that a game's list names. A mapping is refused: one of counts names what is still at 0."""
    if not isinstance(found, list | tuple | set | frozenset) or not all(isinstance(item, str) for item in found):
        raise TypeError(f"{name} = {found!r}: a list of names is expected")
    if unknown := sorted(set(found) - set(known)):
        raise ValueError(f"{name} = {unknown!r}: the game has none of that name")
    return tuple(item for item in known if item in found)
