"""Baba Is AI (arXiv 2407.13729) in words: win by pushing the very words that make the rules. The text is BALROG's."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded

from agentrl.envs.babaisai_levels import TASKS, Level, lay_out
from agentrl.envs.babaisai_maps import read_map
from agentrl.envs.babaisai_player import Solver
from agentrl.envs.babaisai_rules import BORDER, NOTHING, World
from agentrl.envs.babaisai_text import describe
from agentrl.envs.base import Observation, ScriptedPlayer, TextEnv
from agentrl.envs.errors import GameError, unknown
from agentrl.envs.options import choice
from agentrl.envs.registry import GameSpec

MAX_TURNS = 100
DIRECTIONS = ("right", "down", "left", "up")
REWARDS = ("native", "binary")
OWN_MAP = "map"
MIXED = "mixed"
"""Tasks of ours: a level from a file; one of several tasks, drawn anew for each episode."""


class BabaIsAI(TextEnv):
    """Reach what IS WIN with what IS YOU, under the rules that the words on the map spell out.

    The episode is won by a step onto something that IS WIN, and lost by one onto something that IS LOSE, or when
    nothing in sight IS YOU any more; `info["ended"]` says which: "won", "lost", "you_lost" or "time_limit".

    Args:
        task: one of `TASKS`, or `map`, or `mixed`.
        reward: at success `native` pays 1 - 0.9 * turns / 100, `binary` pays 1; LOSE costs 1, all else pays nothing.
        map: path of the level of the task `map`; see `agentrl.envs.babaisai_maps`.
        tasks: those that `mixed` draws from, anew for each episode.
        compat: `balrog` is the original to the letter: no synonyms, the time limit is `terminated`, of several YOU the
            last one to move decides, and YOU is lost when the last rule of that kind is about nothing in sight.

    A seed starts the original's level of that seed; a reset without one goes on with the random numbers, as the
    original does where YOU is lost. An action that is not among `actions` plays `default_action`.

    What is inside, for those who compare or plan: `level.world`, `level.plan` and `turn`; and, in the form of
    recordings, `rules()`, `grid()`, `agent_pos` (where the last of YOU to move stands) and `agent_dir` (its way: 0
    right, 1 down, 2 left, 3 up).
    """

    actions = {
        "idle": "do nothing for a turn",
        "up": "take one step up",
        "right": "take one step to the right",
        "down": "take one step down",
        "left": "take one step to the left",
    }
    default_action = "idle"
    max_turns = MAX_TURNS
    synonyms = {
        **{
            f"{verb} {side}": side
            for verb in ("move", "go", "step", "push")
            for side in ("up", "right", "down", "left")
        },
        **dict.fromkeys(("upward", "upwards", "north", "move north", "go north"), "up"),
        **dict.fromkeys(("rightward", "rightwards", "east", "move east", "go east"), "right"),
        **dict.fromkeys(("downward", "downwards", "south", "move south", "go south"), "down"),
        **dict.fromkeys(("leftward", "leftwards", "west", "move west", "go west"), "left"),
        **dict.fromkeys(("wait", "stay", "noop", "no-op", "do nothing", "pass", "rest"), "idle"),
    }

    def __init__(
        self,
        task: str,
        reward: str = "native",
        map: str | None = None,
        tasks: Sequence[str] = (),
        compat: str | None = None,
    ) -> None:
        self.reward = choice("reward", reward, REWARDS)
        self._original = choice("compat", compat, (None, "balrog")) == "balrog"
        if self._original:
            self.synonyms = {}
        self._tasks = _tasks(task, tasks)
        self._map = _own_map(task, map)
        self.one_level = self._map is not None
        self._random: np.random.RandomState | None = None
        self.level: Level
        self.turn = 0
        self.agent_dir = 0
        self.agent_pos = [0, 0]
        self._you: int | None = None
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None or self._random is None:
            self._random = _generator(int(self.np_random.integers(2**32)) if seed is None else seed)
        self.level = self._next_level(self._random)
        self.turn, self.agent_dir = 0, 0
        self._you = self.level.world.you()
        self.agent_pos = self._position(self._you or 0)
        self._over = False
        return self._observe(), {}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over, or none was begun: call reset() before step()")
        self.turn += 1
        won = lost = False
        if action in DIRECTIONS:
            self.agent_dir = DIRECTIONS.index(action)
            landings = self.level.world.step(action)
            self.agent_pos = self._position(landings[-1].cell)
            if self._original:
                landings = landings[-1:]
            won = any(landing.win for landing in landings)
            lost = any(landing.lose for landing in landings) and not won
            self._you = self.level.world.you(of_last_rule=self._original)
        ended = "won" if won else "lost" if lost else "you_lost" if self._you is None else None
        late = self.turn >= MAX_TURNS and ended is None
        terminated = ended is not None or (late and self._original)
        truncated = late and not self._original
        self._over = terminated or truncated
        reward = 0.0
        if won:
            reward = 1.0 if self.reward == "binary" else 1 - 0.9 * self.turn / MAX_TURNS
        elif lost:
            reward = -1.0
        info: dict[str, Any] = {}
        if self._over:
            info = {"success": won, "progression": float(won), "ended": ended or "time_limit"}
        return self._observe(), reward, terminated, truncated, info

    def scripted_player(self) -> ScriptedPlayer:
        return Solver(lambda: self.level.world)

    def _position(self, cell: int) -> list[int]:
        return [cell % self.level.world.width, cell // self.level.world.width]

    def rules(self) -> list[str]:
        """Every rule that is written on the map, in reading order: "ball is win"."""
        return [f"{subject} is {word}" for subject, word in self.level.world.rules]

    def grid(self) -> list[list[Any]]:
        """[x, y, stack] of every cell that is not empty, row by row, the border apart; a stack is "bottom>top"."""
        world = self.level.world
        cells = [(cell, world.stack(cell)) for cell, top in enumerate(world.tops) if top not in (NOTHING, BORDER)]
        return [[cell % world.width, cell // world.width, ">".join(stack)] for cell, stack in cells]

    def _observe(self) -> Observation:
        return Observation(describe(self.level.world, self._you))

    def _next_level(self, random: np.random.RandomState) -> Level:
        if self._map is not None:
            return Level(self._map.copy(), "")
        task = self._tasks[random.randint(len(self._tasks))] if len(self._tasks) > 1 else self._tasks[0]
        return lay_out(task, random)


def _generator(seed: int) -> np.random.RandomState:
    """The original's generator; it takes 32 bits, so of a larger seed all parts of that size."""
    words = [seed >> shift & 0xFFFFFFFF for shift in range(0, max(seed.bit_length(), 1), 32)]
    return np.random.RandomState(words if len(words) > 1 else words[0])


def _tasks(task: str, tasks: Sequence[str]) -> tuple[str, ...]:
    """What is laid out, nothing for a map; a GameError if there is no such task."""
    if task == MIXED:
        if not isinstance(tasks, list | tuple) or not tasks:
            raise GameError(f"game.options.tasks = {tasks!r}: give a list of tasks, such as [{TASKS[0]}, {TASKS[1]}]")
        for name in tasks:
            if name not in TASKS:
                raise unknown("game.options.tasks", str(name), "babaisai has no such task", TASKS)
        return tuple(tasks)
    if tasks:
        raise GameError(f"game.options.tasks = {tasks!r}: only babaisai/{MIXED} draws from several tasks")
    if task != OWN_MAP and task not in TASKS:
        known = [f"babaisai/{name}" for name in (*TASKS, OWN_MAP, MIXED)]
        raise unknown("game.id", f"babaisai/{task}", "babaisai has no such task", known)
    return () if task == OWN_MAP else (task,)


def _own_map(task: str, path: str | None) -> World | None:
    if task != OWN_MAP and path is not None:
        raise GameError(f"game.options.map = {path!r}: {task} lays out its own map; play babaisai/{OWN_MAP}")
    if task == OWN_MAP and path is None:
        raise GameError(f"game.options.map is missing: babaisai/{OWN_MAP} plays the level in a file; give its path")
    return read_map(path) if path is not None else None


SPEC = GameSpec(
    name="babaisai",
    description="Push words around to change the rules of the map, and reach what the rules say wins.",
    make=BabaIsAI,
    tasks=TASKS,
    any_task=True,
)
