"""A word is told, some turns pass, and the word is asked for: a game for measuring what a memory keeps.

At turn k one needs what was told at turn 1: a window of n past turns holds it if n >= k - 1, and nothing shorter does.
"""

from typing import Any

from gymnasium.error import ResetNeeded

from agentrl.envs.base import Observation, ScriptedPlayer, TextEnv
from agentrl.envs.options import whole_number
from agentrl.envs.registry import GameSpec

WORDS = ("amber", "birch", "coral", "denim", "ember", "fjord", "grove", "hazel")
WAITING = "go on"
LONGEST = 10_000


class Recall(TextEnv):
    """Name at the last turn the word that was told at the first one.

    Args:
        task: there is only one.
        length: turns of an episode, k. The last one names the word and ends it (`terminated`); it pays 1 if right.
        words: how many there are.
    """

    default_action = WAITING

    def __init__(self, task: str = "default", length: int = 4, words: int = 4) -> None:
        self.max_turns = whole_number("length", length, 2, LONGEST)
        self._words = WORDS[: whole_number("words", words, 2, len(WORDS))]
        self.actions = {WAITING: "wait for the question"} | {word: f'answer "{word}"' for word in self._words}
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._word = self._words[int(self.np_random.integers(len(self._words)))]
        self._turn, self._over = 0, False
        self.default_action = WAITING
        return Observation(f"The word is {self._word}."), {"legal_actions": [WAITING]}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over, or none was begun: call reset() before step()")
        self._turn += 1
        if self._turn == self.max_turns:
            self._over = True
            right = action == self._word
            info = {"success": right, "progression": float(right)}
            return Observation("Right." if right else f"No: {self._word}."), float(right), True, False, info
        if self._turn == self.max_turns - 1:
            self.default_action = self._words[0]
            return Observation("Which word was it?"), 0.0, False, False, {"legal_actions": list(self._words)}
        return Observation("Not yet."), 0.0, False, False, {"legal_actions": [WAITING]}

    def scripted_player(self) -> ScriptedPlayer:
        return lambda: self._word if self._turn == self.max_turns - 1 else WAITING


SPEC = GameSpec(
    name="recall",
    description="A word is told at the first turn and asked for at the last: what does a memory keep?",
    make=Recall,
)
