"""A letter, a crossing, and a long walk: the first choice decides, and nobody says so before the last turn.

A game for measuring credit: the reward comes `length` turns after the one action that earned it, and every choice in
between is idle. `reminder` decides whether a critic can carry the credit (later scenes show what the choice was worth)
or whether it must travel through the recursion of advantages (they do not).
"""

from typing import Any

from gymnasium.error import ResetNeeded

from agentrl.envs.base import Observation, ScriptedPlayer, TextEnv
from agentrl.envs.options import switch, whole_number
from agentrl.envs.registry import GameSpec

PLACES = ("mill", "harbour", "church", "forge", "inn", "abbey")
WALKING = {"walk on": "go along the road", "rest": "sit on the bench for a while"}
LONGEST = 100_000


class Signpost(TextEnv):
    """Deliver a letter: at turn 1 take the road of the place it is for, then walk.

    Args:
        task: there is only one.
        length: turns of an episode. The last one is its end (`terminated`) and pays 1 if the road was right, else 0.
        choices: roads at the crossing.
        reminder: scenes of the walk tell whether the road is the right one; without it they tell the mile alone.
        bench: miles from one bench to the next. There one may rest instead of walking on, without consequence.

    Whatever is not a road at the crossing is wrong. A reply without an action takes the first one.
    """

    default_action = "walk on"

    def __init__(
        self, task: str = "default", length: int = 400, choices: int = 3, reminder: bool = False, bench: int = 10
    ) -> None:
        self.max_turns = whole_number("length", length, 2, LONGEST)
        roads = PLACES[: whole_number("choices", choices, 2, len(PLACES))]
        self.bench = whole_number("bench", bench, 1, LONGEST)
        self.reminder = switch("reminder", reminder)
        self._roads = {f"{place} road": place for place in roads}
        self.actions = {name: f"take the road to the {place}" for name, place in self._roads.items()} | WALKING
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._addressee = list(self._roads.values())[int(self.np_random.integers(len(self._roads)))]
        self._right = False
        self._turn = 0
        self._over = False
        self.default_action = next(iter(self._roads))
        return Observation(f"Letter for the {self._addressee}. Which road?"), {"legal_actions": list(self._roads)}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over, or none was begun: call reset() before step()")
        if self._turn == 0:
            self._right = self._roads.get(action) == self._addressee
        self._turn += 1
        self.default_action = "walk on"
        self._over = self._turn == self.max_turns
        if self._over:
            scene = f"You arrive. The letter was {'' if self._right else 'not '}for this place."
            info = {"success": self._right, "progression": float(self._right)}
            return Observation(scene), float(self._right), True, False, info
        bench = self._turn % self.bench == 0
        road = f" This is {'the right' if self._right else 'a wrong'} road." if self.reminder else ""
        scene = f"Mile {self._turn}.{' A bench.' if bench else ''}{road}"
        return Observation(scene), 0.0, False, False, {"legal_actions": list(WALKING) if bench else ["walk on"]}

    def scripted_player(self) -> ScriptedPlayer:
        return lambda: self.default_action if self._turn else f"{self._addressee} road"


SPEC = GameSpec(
    name="signpost",
    description="One choice at a crossing, a walk of hundreds of turns, and the reward for the choice at its end.",
    make=Signpost,
)
