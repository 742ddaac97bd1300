"""Crafter (arXiv 2109.06780) in words: survive, gather and build in a world of 64x64 cells. The text is BALROG's."""

from collections.abc import Collection
from typing import Any

from gymnasium.error import ResetNeeded

from agentrl.envs.base import Observation, ScriptedPlayer, TextEnv
from agentrl.envs.crafter_actions import ACTIONS, SYNONYMS
from agentrl.envs.crafter_player import SurvivalPlayer
from agentrl.envs.crafter_text import ITEMS, SceneOptions, scene, status
from agentrl.envs.crafter_world import Simulation
from agentrl.envs.errors import GameError, unknown
from agentrl.envs.options import choice, switch, whole_number
from agentrl.envs.registry import GameSpec

MOST_TURNS = 10_000
"""An episode's length in the original."""

NIGHT_PICTURES = {"isolated": 0, "balrog": 2}
"""Pictures a step that are paid for at night: BALROG draws two."""

ACHIEVEMENTS = (
    "collect_wood",
    "place_table",
    "make_wood_pickaxe",
    "make_wood_sword",
    "collect_sapling",
    "place_plant",
    "collect_drink",
    "eat_cow",
    "collect_stone",
    "place_stone",
    "collect_coal",
    "place_furnace",
    "make_stone_pickaxe",
    "make_stone_sword",
    "defeat_zombie",
    "wake_up",
    "defeat_skeleton",
    "eat_plant",
    "collect_iron",
    "make_iron_pickaxe",
    "make_iron_sword",
    "collect_diamond",
)
"""Roughly as they come within reach."""


class Crafter(TextEnv):
    """One life: +1 in a step that unlocks achievements, 0.1 for each point of health won or lost.

    Death is `terminated`, the limit `truncated`. `info["success"]` is None: nothing counts as winning.

    Args:
        task: "default", the only one.
        precise_location: "2 steps north and 1 step east" rather than "3 steps to your north-east".
        unique_items: of each kind of thing the nearest alone is told.
        skip_items: kinds that are never told.
        edge_only_items: kinds that are told only where another kind borders on them.
        max_turns: BALROG plays 2,000, the original 10,000.
        sleep: `step`: a turn is a step, and a sleeper's actions are not carried out; `skip`: the turn that falls
            asleep lasts until waking or death, and has the rewards of all its steps.
        night_rng: `isolated` (the default): pictures cost no random numbers; `balrog`: at night each step consumes
            those of the two pictures that BALROG draws. Either way an episode is the same with and without pictures.
        compat: `balrog` is the original to the letter: its night, no synonyms, and nothing seen near two borders.
        render_mode: `rgb_array` lets `render()` draw.

    A seed starts the package's first world of that seed; a reset without a seed, its next one. An action that is not
    among `actions` plays `default_action`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}
    actions = {name: meaning for name, (_, meaning) in ACTIONS.items()}
    default_action = "Noop"
    synonyms = SYNONYMS
    achievements = ACHIEVEMENTS

    def __init__(
        self,
        task: str,
        precise_location: bool = False,
        unique_items: bool = True,
        skip_items: Collection[str] = (),
        edge_only_items: Collection[str] = (),
        max_turns: int = 2000,
        sleep: str = "step",
        night_rng: str | None = None,
        compat: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.max_turns = whole_number("max_turns", max_turns, 1, MOST_TURNS)
        original = choice("compat", compat, (None, "balrog")) == "balrog"
        night_rng = choice("night_rng", night_rng, (None, *NIGHT_PICTURES)) or ("balrog" if original else "isolated")
        self.render_mode = choice("render_mode", render_mode, (None, "rgb_array"))
        self.simulation = Simulation(NIGHT_PICTURES[night_rng])
        if original:
            self.synonyms = {}
        self._skips_sleep = choice("sleep", sleep, ("step", "skip")) == "skip"
        self._scene_options = SceneOptions(
            switch("precise_location", precise_location),
            switch("unique_items", unique_items),
            _kinds("skip_items", skip_items),
            _kinds("edge_only_items", edge_only_items),
            blind_borders=original,
        )
        self._seed: int | None = None
        self._episode = 0
        self._turns = 0
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None or self._seed is None:
            self._seed, self._episode = int(self.np_random.integers(2**31)) if seed is None else seed, 0
        self._episode += 1
        self.simulation.begin(self._seed, self._episode)
        self.simulation.step("noop")  # as BALROG does
        self._turns = 0
        self._over = False
        return self._observe(), {}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over, or none was begun: call reset() before step()")
        native, _ = ACTIONS.get(action, ACTIONS[self.default_action])
        reward, dead = self.simulation.step(native)
        while self._skips_sleep and self.simulation.player.sleeping and not dead:
            more, dead = self.simulation.step("noop")
            reward += more
        self._turns += 1
        truncated = self._turns >= self.max_turns and not dead
        self._over = dead or truncated
        return self._observe(), reward, dead, truncated, self._info()

    def prompt_facts(self) -> dict[str, str]:
        unlocked = self.simulation.unlocked
        left = [name.replace("_", " ") for name in ACHIEVEMENTS if name not in unlocked]
        return {"Still to do": ", ".join(left)} if left else {}

    def scripted_player(self) -> ScriptedPlayer:
        return SurvivalPlayer(self.simulation)

    def render(self) -> Any:
        """The picture of BALROG, (256, 256, 3) bytes, in `render_mode: rgb_array`; else None."""
        return self.simulation.render() if self.render_mode == "rgb_array" else None

    def _info(self) -> dict[str, Any]:
        unlocked = [name for name in ACHIEVEMENTS if name in self.simulation.unlocked]
        end = {"success": None, "progression": len(unlocked) / len(ACHIEVEMENTS)} if self._over else {}
        return {"achievements": unlocked, **end}

    def _observe(self) -> Observation:
        world, player = self.simulation.world, self.simulation.player
        return Observation(scene(world, player, self._scene_options), status(player.inventory))


def _kinds(option: str, value: Collection[str]) -> frozenset[str]:
    field = f"game.options.{option}"
    if not isinstance(value, list | tuple):
        raise GameError(f"{field} = {value!r}: give a list of kinds, such as [grass, sand]")
    for kind in value:
        if kind not in ITEMS:
            raise unknown(field, str(kind), "there is no such kind of thing", ITEMS)
    return frozenset(value)


SPEC = GameSpec(
    name="crafter",
    description="Survive in the wild: gather, build tools, fight; 22 achievements to unlock.",
    make=Crafter,
)
