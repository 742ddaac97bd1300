"""BabyAI's scripted player: minigrid's planning bot, kept playing where the bot alone would raise."""

import random
from collections.abc import Callable
from typing import Any

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


DEEPEST_PLAN = 50
"""Goals that the bot may pile up; sound plans have a dozen. Two keys behind each other's doors would have no end."""


class Plan(list[Any]):
    """The bot's pile of goals."""

    def append(self, goal: Any) -> None:
        if len(self) >= DEEPEST_PLAN:
            raise RecursionError("the bot plans in a circle")
        super().append(goal)


class BotPlayer:
    """Called once a turn; `last_action()` tells what was really played, so that the bot can mend its plan.

    A bot that raises, or wrongly thinks itself done, is replaced by one that plans the whole mission anew. A new bot
    does not know what is carried, so hands are emptied before. In the turn of a failure a step is taken at random
    (seeded: episodes stay reproducible).
    """

    def __init__(self, level: RoomGridLevel, last_action: Callable[[], Actions | None]) -> None:
        self._level = level
        self._last_action = last_action
        self._random = random.Random(0)
        self._bot: BabyAIBot | None = None

    def __call__(self) -> str:
        if self._bot is None and self._level.carrying:
            ahead = self._level.grid.get(*self._level.front_pos)
            return NAMES[Actions.drop if ahead is None else Actions.right]
        action = self._planned()
        if action is None or action not in NAMES:
            self._bot = None
            action = self._random.choice(WANDERING)
        return NAMES[action]

    def _planned(self) -> Actions | None:
        """The bot's next action: None if it fails, `done` if it knows nothing more to do."""
        try:
            if self._bot is not None:
                return self._bot.replan(self._last_action())
            self._bot = BabyAIBot(self._level)
            self._bot.stack = Plan(self._bot.stack)
            return self._bot.replan()
        except Exception:  # the bot asserts in many places, and knows that it cannot do every level
            return None
