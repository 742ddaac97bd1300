"""TextWorld's challenges, generated from the episode's seed: coin collector, treasure hunter, cooking.

The game is TextWorld's: world, words, parser, score. It is generated, compiled with the Inform compiler in the package,
and run by its Z-machine, all on this machine; that takes seconds an episode, a turn takes milliseconds.
`pip install "agentrl[textworld]"`; without it, only the list of tasks is here.
"""

import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gymnasium.error import ResetNeeded

from agentrl.envs.base import Observation, ScriptedPlayer, TextEnv
from agentrl.envs.options import choice, own_options, switch, whole_number
from agentrl.envs.registry import GameSpec

LONGEST = 10_000
LONGEST_COMMAND = 150
"""Characters; the longest that a game understands has some 60."""

TASKS: dict[str, dict[str, Any]] = {
    "coin_collector": {"level": 5},
    "treasure_hunter": {"level": 5},
    "cooking": {"recipe": 1, "take": 1, "go": 1, "open": False, "cook": True, "cut": True, "drop": False},
}
"""Task -> its settings, with their defaults."""

BOUNDS = {"coin_collector": {"level": (1, 200)}, "treasure_hunter": {"level": (1, 30)}}
INGREDIENTS = 1, 5
LOCATIONS = 1, 6, 9, 12

TO_THE_INTERPRETER = re.compile(
    r"(tw-|restrict|quit|q\b|restart|restore|save|undo|script|transcript|unscript|record|replay|verify|version|notify"
    r"|brief|normal|long|verbose|short|superbrief|pronouns|nouns|oops|again|g\b|#|\\|@|\$)"
)
"""Beginnings of lines that are for the machine that runs the game, or do a turn once more: not for the player."""

_STATUS_LINE = re.compile(r"\n>[^\n]*\s*\Z")
_OFFER = re.compile(r"\s*Would you like to RESTART.*\Z", re.DOTALL)
_LINES = re.compile(r"\n\s*\n+")


class TextWorld(TextEnv):
    """One of the challenges. The reward is the change of the score; the episode ends when the game is won or lost.

    Args:
        task: of `TASKS`.
        settings: all of the task's, valued.
        max_turns: the time limit.
        listed: each turn tells the commands that do something, and only those are legal; else any text is a command.
    """

    actions = None
    default_action = "look"

    def __init__(self, task: str, settings: Mapping[str, Any], max_turns: int, listed: bool) -> None:
        import textworld

        # Of a game that it has just made itself, each time; what it then cannot tell, the wishes below do.
        warnings.filterwarnings("ignore", message=r"Game '.*' is not fully supported")
        self._task, self._settings = task, dict(settings)
        self.max_turns = max_turns
        self._listed = listed
        self._wanted = textworld.EnvInfos(
            admissible_commands=listed, description=True, inventory=True, score=True, won=True, objective=True
        )
        self._machine: Any = None
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        import textworld

        super().reset(seed=seed)
        self.close()
        with TemporaryDirectory(prefix="agentrl-textworld-") as folder:
            game, file = self._generate(Path(folder))
            self._machine = textworld.start(file, self._wanted)
            state = self._machine.reset()  # from here on it needs the files no more
        self._walkthrough = list(game.metadata.get("walkthrough") or game.walkthrough or ())
        self._highest, self._score, self._turn, self._over = max(1, int(game.max_score)), 0, 0, False
        self.mission = _tidy(state.objective or "")
        self._told = state.feedback = state.feedback.partition(state.objective)[2] or state.description
        return self._observation(state), self._info(state)

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over, or none was begun: call reset() before step()")
        state, score, done = self._machine.step(self._command(action))
        reward, self._score = float(score - self._score), score
        self._turn += 1
        terminated = bool(done)
        truncated = self._turn >= self.max_turns and not terminated
        self._over = terminated or truncated
        info = {} if self._over else self._info(state)
        if self._over:
            won = bool(state.won)
            info = {"success": won, "progression": 1.0 if won else min(1.0, max(0.0, score / self._highest))}
        return self._observation(state), reward, terminated, truncated, info

    def close(self) -> None:
        """End the machine."""
        if self._machine is not None:
            with suppress(Exception):  # the library fails to close a machine that never ran
                self._machine.close()
        self._machine = None
        self._over = True

    def scripted_player(self) -> ScriptedPlayer | None:
        """Follows the solution that the generator left, from the episode's beginning."""
        left = iter(self._walkthrough)
        return lambda: next(left, self.default_action)

    def _generate(self, folder: Path) -> tuple[Any, str]:
        from textworld import GameOptions
        from textworld.challenges import CHALLENGES
        from textworld.generator import compile_game

        options = GameOptions()
        options.seeds = int(self.np_random.integers(2**31))
        options.path = str(folder / "game.z8")
        options.grammar.only_last_action = True  # what is to be done, not each step of the way there
        settings = self._settings
        if self._task == "cooking":
            settings = settings | {"split": None, "recipe_seed": int(self.np_random.integers(1, 2**31))}
        game = CHALLENGES[f"tw-{self._task}"][1](settings, options)
        return game, compile_game(game, options)

    def _command(self, action: str) -> str:
        """One line for the parser, of one command: a full stop would begin another one."""
        plain = "".join(c if c.isascii() and c.isprintable() else " " for c in action)
        line = re.split(r"[.;]|\bthen\b", plain, maxsplit=1, flags=re.IGNORECASE)[0].strip()[:LONGEST_COMMAND]
        return self.default_action if not line or TO_THE_INTERPRETER.match(line.lower()) else line

    def _observation(self, state: Any) -> Observation:
        scene = _tidy(_OFFER.sub("", _STATUS_LINE.sub("", state.feedback)))
        room, carried = _tidy(state.description or ""), _tidy(state.inventory or "")
        shown = [carried] if room in scene else [room, carried]
        return Observation(scene or room, "\n\n".join(shown))

    def _info(self, state: Any) -> dict[str, Any]:
        return {"legal_actions": list(state.admissible_commands)} if self._listed else {}


def _tidy(text: str) -> str:
    lines = (line.rstrip() for line in text.strip().splitlines())
    return _LINES.sub("\n\n", "\n".join(lines))


def make(
    task: str,
    max_turns: int = 80,
    commands: str = "listed",
    level: int | None = None,
    recipe: int | None = None,
    take: int | None = None,
    go: int | None = None,
    open: bool | None = None,
    cook: bool | None = None,
    cut: bool | None = None,
    drop: bool | None = None,
) -> TextWorld:
    """A game of one challenge; settings have TextWorld's names and meaning, None is the default of `TASKS`.

    Args:
        commands: "listed", or "free" for any text.
        level: how hard, coin collector 1 to 200, treasure hunter 1 to 30.
        recipe, take: ingredients, and how many of them are to be fetched (at most as many).
        go: rooms, 1, 6, 9 or 12.
        open, cook, cut, drop: whether doors and containers are closed; food must be cooked, be cut; one carries little.
    """
    given = own_options(
        f"textworld/{task}",
        TASKS[task],
        level=level, recipe=recipe, take=take, go=go, open=open, cook=cook, cut=cut, drop=drop,
    )  # fmt: skip
    settings = TASKS[task] | given
    for name, (least, most) in BOUNDS.get(task, {}).items():
        whole_number(name, settings[name], least, most)
    if task == "cooking":
        whole_number("recipe", settings["recipe"], *INGREDIENTS)
        whole_number("take", settings["take"], 1, settings["recipe"])
        choice("go", settings["go"], LOCATIONS)
        for name in ("open", "cook", "cut", "drop"):
            switch(name, settings[name])
    listed = choice("commands", commands, ("listed", "free")) == "listed"
    return TextWorld(task, settings, whole_number("max_turns", max_turns, 1, LONGEST), listed)


SPEC = GameSpec(
    name="textworld",
    description="TextWorld: rooms, doors and things to find, take, cook; a new game for each seed.",
    make=make,
    tasks=tuple(TASKS),
    needs="textworld",
)
