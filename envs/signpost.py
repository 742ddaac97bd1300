"""A letter, a crossing, and a long walk: the first choice decides, and nobody says so before the last turn.

A game for measuring credit: the reward comes `length` turns after the one action that earned it, and every action in
between is idle. `reminder` decides whether a critic can carry the credit (later scenes show what was chosen) or whether
it must travel through the recursion of advantages (they do not).
"""

from typing import Any

from gymnasium.error import ResetNeeded

from agentrl.envs.base import Observation, ScriptedPlayer, TextEnv
from agentrl.envs.errors import GameError
from agentrl.envs.registry import GameSpec

PLACES = ("mill", "harbour", "church", "forge", "inn", "abbey")
WALKING = {"walk on": "go along the road", "look around": "look at the land while you go along"}
LONGEST = 100_000


class Signpost(TextEnv):
    """Deliver a letter: at turn 1 take the road of the place it is for, then walk.

    Args:
        task: there is only one.
        length: turns of an episode. The last one is its end (`terminated`) and pays 1 if the road was right, else 0.
        choices: roads at the crossing.
        reminder: scenes of the walk tell road and letter; without it they tell the mile alone.

    Whatever is not a road at the crossing leads across the fields, which is wrong. On the way all actions are one.
    """

    default_action = "walk on"

    def __init__(self, task: str = "default", length: int = 400, choices: int = 3, reminder: bool = False) -> None:
        for option, value, least, most in (("length", length, 2, LONGEST), ("choices", choices, 2, len(PLACES))):
            if type(value) is not int or not least <= value <= most:
                raise GameError(f"game.options.{option} = {value!r}: give a whole number from {least} to {most}")
        if type(reminder) is not bool:
            raise GameError(f"game.options.reminder = {reminder!r}: give true or false")
        self.max_turns = length
        self.reminder = reminder
        self._roads = {f"{place} road": place for place in PLACES[:choices]}
        self.actions = {name: f"take the road to the {place}" for name, place in self._roads.items()} | WALKING
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._addressee = list(self._roads.values())[int(self.np_random.integers(len(self._roads)))]
        self._destination: str | None = None
        self._turn = 0
        self._over = False
        return Observation(f"Letter for the {self._addressee}. Which road?"), {"legal_actions": list(self._roads)}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over, or none was begun: call reset() before step()")
        if self._turn == 0:
            self._destination = self._roads.get(action)
        self._turn += 1
        self._over = self._turn == self.max_turns
        if not self._over:
            return Observation(self._on_the_way()), 0.0, False, False, {"legal_actions": list(WALKING)}
        right = self._destination == self._addressee
        scene = f"You arrive. The letter was {'' if right else 'not '}for this place."
        return Observation(scene), float(right), True, False, {"success": right, "progression": float(right)}

    def scripted_player(self) -> ScriptedPlayer:
        return lambda: self.default_action if self._turn else f"{self._addressee} road"

    def _on_the_way(self) -> str:
        if not self.reminder:
            return f"Mile {self._turn}."
        where = "across the fields" if self._destination is None else f"to the {self._destination}"
        return f"Mile {self._turn}, {where}. Letter for the {self._addressee}."


SPEC = GameSpec(
    name="signpost",
    description="One choice at a crossing, a walk of hundreds of turns, and the reward for the choice at its end.",
    make=Signpost,
)
