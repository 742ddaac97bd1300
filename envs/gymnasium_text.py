"""Text games registered with gymnasium, as they are: gymnasium/ENV_ID, or gymnasium/MODULE:ENV_ID.

A game fits if it observes `Text`, or a `Dict` of them, and acts by `Text`, or by `Discrete` numbers that have names.
Names are looked for in this order: the method `get_action_meanings()` (list), the attributes `action_names` (list) and
`actions` (name -> help). Success and progression are what its info says ("success" or "is_success", "progression").
"""

from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from agentrl.envs.base import Observation, TextEnv
from agentrl.envs.errors import GameError
from agentrl.envs.options import whole_number
from agentrl.envs.registry import GameSpec

LONGEST = 10**6


class GymnasiumText(TextEnv):
    """A gymnasium environment that speaks text.

    Keys of a `Dict` observation: "scene", "status" and "mission" have the meaning that they have here; any others are
    lines of the scene, each after its key.

    Args:
        env_id: for error messages.
        env: the environment, made.
        max_turns: the time limit; None: the environment's own.
        default_action: played when a reply holds no action; None: the first one (of free text, the shortest).
    """

    def __init__(
        self, env_id: str, env: gymnasium.Env[Any, Any], max_turns: int | None, default_action: str | None
    ) -> None:
        self._env = env
        observed = env.observation_space
        if not _is_text(observed) and not (
            isinstance(observed, spaces.Dict) and all(map(_is_text, observed.spaces.values()))
        ):
            raise _unfit(env_id, "observation_space", observed, "Text, or a Dict of Text")
        self._action_space = env.action_space
        if isinstance(self._action_space, spaces.Discrete):
            self.actions = _named(env_id, env, self._action_space)
            self._numbers = {name: n for n, name in enumerate(self.actions, int(self._action_space.start))}
            first = next(iter(self.actions))
        elif isinstance(self._action_space, spaces.Text):
            self.actions = None
            first = self._action_space.characters[:1] * self._action_space.min_length
        else:
            raise _unfit(env_id, "action_space", self._action_space, "Text, or Discrete")
        self.default_action = first if default_action is None else default_action
        own = env.spec.max_episode_steps if env.spec else None
        if own is None and max_turns is None:
            raise GameError(
                f"game.id = 'gymnasium/{env_id}': it has no time limit (max_episode_steps): give game.options.max_turns"
            )
        self.max_turns = own if max_turns is None else whole_number("max_turns", max_turns, 1, LONGEST)  # type: ignore[assignment]
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        observed, info = self._env.reset(seed=seed, options=options)
        self._turn, self._over = 0, False
        return self._told(observed), self._info(info)

    def step(self, action: str) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over, or none was begun: call reset() before step()")
        observed, reward, terminated, truncated, info = self._env.step(self._played(action))
        self._turn += 1
        truncated = truncated or (self._turn >= self.max_turns and not terminated)
        self._over = terminated or truncated
        return self._told(observed), reward, terminated, truncated, self._info(info)

    def close(self) -> None:
        self._env.close()

    def _played(self, action: str) -> Any:
        """What the environment takes: of text, what belongs to its space."""
        if isinstance(self._action_space, spaces.Discrete):
            return self._numbers.get(action, self._numbers[self.default_action])
        space = self._action_space
        assert isinstance(space, spaces.Text)
        text = "".join(c for c in action if c in space.character_set)[: space.max_length]
        return text if len(text) >= space.min_length else self.default_action

    def _told(self, observed: Any) -> Observation:
        if not isinstance(observed, dict):
            return Observation(observed)
        self.mission = observed.get("mission", "")
        own = [observed["scene"]] if "scene" in observed else []
        other = [f"{key}: {text}" for key, text in observed.items() if key not in ("scene", "status", "mission")]
        return Observation("\n".join(own + other), observed.get("status", ""))

    def _info(self, info: dict[str, Any]) -> dict[str, Any]:
        if "is_success" in info:
            info = {"success": info["is_success"], **info}
        return info


def make(task: str, max_turns: int | None = None, default_action: str | None = None, **options: Any) -> TextEnv:
    """The environment `task`; `options` are its own. One that is a `TextEnv` already is taken as it is."""
    try:
        env = gymnasium.make(task, disable_env_checker=True, **options)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise GameError(f"game.id = 'gymnasium/{task}': cannot be made: {type(error).__name__}: {error}") from error
    if isinstance(env.unwrapped, TextEnv):
        return env.unwrapped
    try:
        return GymnasiumText(task, env, max_turns, default_action)
    except GameError:
        env.close()
        raise


def _is_text(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Text)


def _named(env_id: str, env: gymnasium.Env[Any, Any], space: spaces.Discrete) -> dict[str, str]:
    """The actions' names, in the order of their numbers, with their help where there is any."""
    inner = env.unwrapped
    meanings = getattr(inner, "get_action_meanings", None)
    found = meanings() if callable(meanings) else getattr(inner, "action_names", getattr(inner, "actions", None))
    helped = found if isinstance(found, dict) else {}
    names = list(found) if isinstance(found, Sequence | dict) and not isinstance(found, str) else []
    if len(names) != space.n or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise _unfit(env_id, "action_space", space, "Discrete with as many names in `action_names`, or Text")
    return {name: str(helped.get(name, "")) for name in names}


def _unfit(env_id: str, field: str, space: spaces.Space[Any], wanted: str) -> GameError:
    return GameError(f"game.id = 'gymnasium/{env_id}': {field} is {str(space)[:80]}: it must be {wanted}")


SPEC = GameSpec(
    name="gymnasium",
    description="Any text game registered with gymnasium: gymnasium/ENV_ID; gymnasium/MODULE:ENV_ID imports it first.",
    make=make,
    tasks=(),
    any_task=True,
)
