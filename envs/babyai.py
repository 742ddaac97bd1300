"""BabyAI (arXiv 1810.08272) in words: rules and levels of the minigrid package, the text of BALROG.

No image is encoded, and none drawn unless `render` is called: minigrid's own observation is switched off, and each
step describes one view.
"""

from typing import Any

from gymnasium.error import ResetNeeded
from minigrid.core.actions import Actions

from agentrl.envs.babyai_levels import MINIGRID_LEVELS, TASKS, make_level
from agentrl.envs.babyai_player import NAMES, BotPlayer
from agentrl.envs.babyai_text import describe
from agentrl.envs.base import Observation, ScriptedPlayer, TextEnv
from agentrl.envs.errors import GameError
from agentrl.envs.options import choice, whole_number
from agentrl.envs.registry import GameSpec

ACTIONS = {name: action for action, name in NAMES.items()}
REWARDS = ("native", "binary")
MOST_DISTRACTORS = 12
"""Rooms in which every object can be reached become rare: at 12 a reset takes 40 ms, at 16 it takes seconds."""


class BabyAI(TextEnv):
    """A mission in a grid of rooms, seen through a 7x7 view.

    Args:
        task: one of `TASKS`, or the id of one of minigrid's levels (`MINIGRID_LEVELS`).
        num_dists: objects that the mission does not need; for `TASKS` only, minigrid's levels have their own number.
        reward: at success `native` pays 1 - 0.9 * turns / max_turns, `binary` pays 1; nothing before.
        compat: `balrog` is the original to the letter: no synonyms, and success in the last turn is truncated, too.
        render_mode: `rgb_array` lets `render()` draw.

    An action that is not among `actions` plays `default_action`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}
    actions = {
        "turn left": "turn by 90 degrees to the left",
        "turn right": "turn by 90 degrees to the right",
        "go forward": "move one step ahead, if nothing is in the way",
        "pick up": "take the object one step ahead of you",
        "drop": "put what you carry one step ahead of you, if nothing is there",
        "toggle": "open or close the door one step ahead; a locked one needs a key of its colour; a box breaks",
    }
    default_action = "go forward"
    synonyms = {
        "left": "turn left",
        "right": "turn right",
        "rotate left": "turn left",
        "rotate right": "turn right",
        "forward": "go forward",
        "move forward": "go forward",
        "step forward": "go forward",
        "walk forward": "go forward",
        "move ahead": "go forward",
        "go ahead": "go forward",
        "go straight": "go forward",
        "pickup": "pick up",
        "pick-up": "pick up",
        "pick": "pick up",
        "take": "pick up",
        "grab": "pick up",
        "put down": "drop",
        "release": "drop",
        "open": "toggle",
        "close": "toggle",
        "unlock": "toggle",
        "open door": "toggle",
        "open the door": "toggle",
    }

    def __init__(
        self,
        task: str,
        num_dists: int = 0,
        reward: str = "native",
        compat: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        if whole_number("num_dists", num_dists, 0, MOST_DISTRACTORS) and task not in TASKS:
            field = f"game.options.num_dists = {num_dists!r}"
            raise GameError(f"{field}: {task} sets its own number of distractors; leave the option out")
        self.reward = choice("reward", reward, REWARDS)
        self._original = choice("compat", compat, (None, "balrog")) == "balrog"
        if self._original:
            self.synonyms = {}
        self.render_mode = choice("render_mode", render_mode, (None, "rgb_array"))
        self.level = make_level(task, num_dists)
        self.level.gen_obs = dict  # type: ignore[method-assign]  # the encoded view is most of minigrid's time
        # The limit depends on the mission: one is drawn for its sake, so that `max_turns` is there before `reset`.
        self.level.reset(seed=0)
        self.max_turns = self.level.max_steps
        self._last_action: Actions | None = None
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self.level._np_random = self.np_random
        self.level.reset()
        self.mission = self.level.mission
        self.max_turns = self.level.max_steps
        self._last_action = None
        self._over = False
        return self._observe(), {}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over, or none was begun: call reset() before step()")
        self._last_action = ACTIONS.get(action, ACTIONS[self.default_action])
        _, native, terminated, late, _ = self.level.step(self._last_action)
        truncated = late and (self._original or not terminated)
        self._over = terminated or truncated
        # A level ends by failure too (a wrong object in strict ones). It pays at success alone, never less than 0.1.
        success = terminated and float(native) > 0
        reward = float(native) if self.reward == "native" else float(success)
        info = {"success": success, "progression": float(success)} if self._over else {}
        return self._observe(), reward, terminated, truncated, info

    def scripted_player(self) -> ScriptedPlayer:
        return BotPlayer(self.level, lambda: self._last_action)

    def render(self) -> Any:
        """Minigrid's picture of the whole level, (height, width, 3) bytes, in `render_mode: rgb_array`; else None."""
        return self.level.get_frame() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        self.level.close()

    def _observe(self) -> Observation:
        level = self.level
        x, y = level.agent_pos
        return Observation(describe(level.grid, (int(x), int(y)), level.agent_dir, level.carrying))


SPEC = GameSpec(
    name="babyai",
    description="Follow an instruction in rooms seen through a small window: go to, pick up, open, put next to.",
    make=BabyAI,
    tasks=(*TASKS, *MINIGRID_LEVELS),
)
