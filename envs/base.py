"""`TextEnv`: a game that speaks text, behind gymnasium's interface."""

import string
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium
from gymnasium import spaces

PRINTABLE = frozenset(string.printable)

ScriptedPlayer = Callable[[], str]
"""Called once a turn, returns the next action's name; it may look inside the game."""


class Observation(dict[str, str]):
    """What a player sees. `scene` is remembered; `status` is shown for the current turn only (inventory, vital signs).

    A dict, so that it belongs to a `gymnasium.spaces.Dict` and gymnasium's own tools accept it.
    """

    def __init__(self, scene: str, status: str = "") -> None:
        super().__init__(scene=scene, status=status)
        for name, text in self.items():
            if not isinstance(text, str):
                raise TypeError(f"Observation.{name} is a {type(text).__name__}: it must be text")

    @property
    def scene(self) -> str:
        return self["scene"]

    @property
    def status(self) -> str:
        return self["status"]


class TextEnv(gymnasium.Env[Observation, str]):
    """Text in, text out. Deterministic: a seed and a list of actions fix the whole episode.

    Attributes:
        actions: name -> one line of help; None means free text that the game judges itself.
        default_action: played when a reply holds no legal action.
        max_turns: the time limit; the game reports it as `truncated`.
        mission: the goal of this episode, "" where a game has none.
        synonyms: other spelling (lower case) -> action name.
        achievements: names of what an episode can unlock, () where a game has none.
        one_level: every seed begins the same episode, and nothing is left to chance: a fixed map.

    `info["legal_actions"]` may narrow a turn to a subset of the actions. At an episode's end `info["success"]` (bool,
    or None where the word has no meaning) and `info["progression"]` (in [0, 1]) are set by the game, never guessed;
    so is `info["achievements"]`, the list of those unlocked, where it has any. A game that gives this list at every
    turn keeps what was unlocked in episodes that do not reach their end.
    """

    actions: dict[str, str] | None
    default_action: str
    max_turns: int
    mission: str = ""
    synonyms: dict[str, str] = {}
    achievements: tuple[str, ...] = ()
    one_level: bool = False

    observation_space: spaces.Space[Any] = spaces.Dict(
        scene=spaces.Text(min_length=0, max_length=100_000, charset=PRINTABLE),
        status=spaces.Text(min_length=0, max_length=100_000, charset=PRINTABLE),
    )
    action_space: spaces.Space[Any] = spaces.Text(min_length=0, max_length=10_000, charset=PRINTABLE)

    @abstractmethod
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; the same seed starts the same one.

        A game calls `super().reset(seed=seed)` first, which seeds `self.np_random`, and draws from that alone.
        """
        return super().reset(seed=seed, options=options)

    @abstractmethod
    def step(self, action: str) -> tuple[Observation, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play one turn: observation, reward, terminated, truncated, info."""

    def prompt_facts(self) -> dict[str, str]:
        """Facts beside the observation that templates may show, e.g. Crafter's open achievements; changes by turn."""
        return {}

    def scripted_player(self) -> ScriptedPlayer | None:
        """A player that knows the game's inside, fresh for the running episode; None if there is none."""
        return None
