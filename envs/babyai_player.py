"""BabyAI's scripted player: minigrid's planning bot, kept playing where the bot alone would raise."""

import random
from collections.abc import Callable

from minigrid.core.actions import Actions
from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel
from minigrid.utils.baby_ai_bot import BabyAIBot

NAMES = {
    Actions.left: "turn left",
    Actions.right: "turn right",
    Actions.forward: "go forward",
    Actions.pickup: "pick up",
    Actions.drop: "drop",
    Actions.toggle: "toggle",
}
WANDERING = (Actions.forward, Actions.forward, Actions.left, Actions.right)


class BotPlayer:
    """Called once a turn; `last_action()` tells what was really played, so that the bot can mend its plan.

    A bot that raises or thinks itself done is replaced by one that plans anew from where the game stands; if that one
    knows no action either, a step is taken at random (seeded: episodes stay reproducible).
    """

    def __init__(self, level: RoomGridLevel, last_action: Callable[[], Actions | None]) -> None:
        self._level = level
        self._last_action = last_action
        self._random = random.Random(0)
        self._bot: BabyAIBot | None = None

    def __call__(self) -> str:
        action = self._planned(self._last_action()) if self._bot else None
        if action is None:
            self._bot = BabyAIBot(self._level)
            action = self._planned(None)
        if action is None:
            self._bot = None
            action = self._random.choice(WANDERING)
        return NAMES[action]

    def _planned(self, last: Actions | None) -> Actions | None:
        assert self._bot is not None
        try:
            action = self._bot.replan(last)
        except Exception:  # the bot asserts in many places, and knows that it cannot do every level
            return None
        return action if action in NAMES else None
