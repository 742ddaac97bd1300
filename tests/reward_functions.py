"""Rules and potentials that tests name by their dotted path."""

from collections.abc import Sequence

from agentrl.envs import Observation
from agentrl.rewards import TurnFacts


def says_please(turn: TurnFacts) -> bool:
    return "please" in turn.reply


def mean_reply_tokens(episode: Sequence[TurnFacts]) -> float:
    return sum(turn.reply_tokens for turn in episode) / len(episode)


def length_of_scene(observation: Observation) -> float:
    return float(len(observation.scene))


def breaks(_: object) -> float:
    raise KeyError("no such fact")


def infinite(_: object) -> float:
    return float("inf")


NO_FUNCTION = 3
