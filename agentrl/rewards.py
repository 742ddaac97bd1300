"""What a turn is paid beside the game's own reward: named terms that follow from the turn alone.

A turn's reward is the sum of its parts, and `Turn.reward_parts` names them: `game`, `format` where a reply held no
legal action, and those of `rewards` in the recipe. Terms that a model gives are in `agentrl.scorers`. Evaluations pay
the game's reward and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from agentrl.dotted import imported
from agentrl.envs import Observation
from agentrl.errors import UserError, in_short
from agentrl.reward_terms import LengthTerm, RewardTerm, RuleTerm, ShapingTerm


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """A turn as a rule sees it. `reward` is the game's own; `success` and `progression` are told at the end alone."""

    before: Observation
    after: Observation
    reply: str
    reply_tokens: int
    action: str
    valid: bool
    reward: float
    terminated: bool
    truncated: bool
    success: bool | None = None
    progression: float | None = None


Part = Callable[[Sequence[TurnFacts]], float]
"""What a term pays for the last of an episode's turns so far."""


class TurnTerms:
    """The terms of a recipe that need nothing but the episode's turns.

    Args:
        terms: name -> term; those of other kinds are passed over.
        gamma_step: of the discounted return that shaping must leave the best policies of.

    Raises:
        UserError: a dotted path leads to nothing that can be called.
    """

    def __init__(self, terms: Mapping[str, RewardTerm], gamma_step: float) -> None:
        self._parts: dict[str, tuple[float, Part]] = {}
        for name, term in terms.items():
            part = _part(name, term, gamma_step)
            if part is not None:
                self._parts[name] = term.weight, part

    def __bool__(self) -> bool:
        return bool(self._parts)

    def score(self, episode: Sequence[TurnFacts]) -> dict[str, float]:
        """Name -> weighted reward of the episode's last turn.

        Raises:
            UserError: a function of the user's raises, or returns no finite number.
        """
        return {name: weight * part(episode) for name, (weight, part) in self._parts.items()}


def overlong(tokens: int, free: int, most: int) -> float:
    """0 up to `free` tokens, falling in a straight line to -1 at `most` (DAPO, arXiv 2503.14476, equation 13)."""
    return -min(1.0, max(0.0, (tokens - free) / (most - free)))


def potential_difference(before: float, after: float, gamma_step: float, terminated: bool) -> float:
    """F = gamma * Phi(s') - Phi(s), Phi being 0 where the game itself ended: it leaves every policy's rank as it was
    (Ng, Harada, Russell 1999). A time limit or a batch's cut is no end: what comes next still has its potential."""
    return (0.0 if terminated else gamma_step * after) - before


def _part(name: str, term: RewardTerm, gamma_step: float) -> Part | None:
    if isinstance(term, LengthTerm):
        free, most = term.free_tokens, term.most_tokens
        return lambda episode: overlong(episode[-1].reply_tokens, free, most)
    if isinstance(term, ShapingTerm):
        phi = _function(f"rewards.{name}.potential", term.potential)

        def shaping(episode: Sequence[TurnFacts]) -> float:
            turn = episode[-1]
            after = 0.0 if turn.terminated else phi(turn.after)
            return potential_difference(phi(turn.before), after, gamma_step, turn.terminated)

        return shaping
    if isinstance(term, RuleTerm):
        rule = _function(f"rewards.{name}.rule", term.rule)
        if term.scope == "turn":
            return lambda episode: rule(episode[-1])
        return lambda episode: rule(episode) if episode[-1].terminated or episode[-1].truncated else 0.0
    return None


def _function(field: str, path: str) -> Callable[[Any], float]:
    """The function at a dotted path, its mistakes told as the user's."""
    given = imported(path, f"{field} = {path!r}")
    if not callable(given):
        raise UserError(f"{field} = {path!r}: is no function")

    def called(argument: Any) -> float:
        try:
            value = float(given(argument))
        except Exception as error:
            raise UserError(f"{field} = {path!r}: {in_short(error)}") from error
        if not isfinite(value):
            raise UserError(f"{field} = {path!r}: returned {value}; a reward is a finite number, true or false")
        return value

    return called
