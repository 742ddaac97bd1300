"""Text games and their adapters."""

from agentrl.envs.base import Observation, ScriptedPlayer, TextEnv
from agentrl.envs.errors import GameError
from agentrl.envs.registry import GameSpec, check, games, known_here_alone, make, register, texts

__all__ = [
    "GameError",
    "GameSpec",
    "Observation",
    "ScriptedPlayer",
    "TextEnv",
    "check",
    "games",
    "known_here_alone",
    "make",
    "register",
    "texts",
]
