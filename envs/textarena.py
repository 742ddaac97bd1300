"""TextArena's games for one player, by its own names: textarena/GuessTheNumber-v0.

Rules, words and rewards are TextArena's; any text is a move. What its games draw from the global random numbers of
Python and numpy is kept apart from everybody else's. `pip install "agentrl[textarena]"`; without it, only the list of
tasks is here.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded

from agentrl.envs.base import Observation, TextEnv
from agentrl.envs.errors import GameError, unknown
from agentrl.envs.options import whole_number
from agentrl.envs.registry import GameSpec

LONGEST = 100_000
LONGEST_MOVE = 1_000
LIMIT = 200
"""Turns of games that have no limit of their own."""

VARIED = (
    "2048",
    "Bandit",
    "Blackjack",
    "Crosswords",
    "FifteenPuzzle",
    "FrozenLake",
    "GuessTheNumber",
    "LightsOut",
    "LogicPuzzle",
    "Mastermind",
    "Minesweeper",
    "RushHour",
    "Secretary",
    "Set",
    "Sokoban",
    "Sudoku",
)
FIXED = ("PegJump", "TowerOfHanoi")
"""Games that begin alike whatever the seed, and leave nothing to chance."""

REFUSED = dict.fromkeys(("Hangman", "WordLadder", "WordSearch", "Wordle"), "it downloads lists of words as it starts")
REFUSED |= dict.fromkeys(("GuessWho", "TwentyQuestions"), "a model behind OpenRouter answers in it")
REFUSED |= dict.fromkeys(("Klondike", "UltimateTexasHoldem"), "TextArena 0.7.4 has a syntax error in it")
REFUSED |= dict.fromkeys(
    ("Countdown", "Cryptarithm", "Slitherlink", "ThreeCardMonte"), "TextArena 0.7.4 takes a sentence for its reward"
)


class TextArena(TextEnv):
    """A game of TextArena's; its end is the game's own, `truncated` is only what `max_turns` cuts.

    A move may stand in square brackets, as the games ask for, or without them. A second impossible move in a row ends
    most games. The reward comes at the end; success is to have all of it (1), progression what one has of it.

    Args:
        task: TextArena's name of the game.
        max_turns: None is twice the game's own limit, which does not count impossible moves; 200 where it has none.
    """

    actions = None
    default_action = "pass"

    def __init__(self, task: str, max_turns: int | None = None) -> None:
        name = task.partition("-v")[0]
        if name in REFUSED:
            raise GameError(f"game.id = 'textarena/{task}': {REFUSED[name]}; choose another game")
        if name not in VARIED + FIXED:
            ids = [f"textarena/{known}" for known in known_tasks()]
            raise unknown("game.id", f"textarena/{task}", "there is no such game for one player", ids)
        with _quiet():
            from textarena.envs.registration import ENV_REGISTRY, make

            raw = f"{task}-raw"  # without wrappers, which tell the whole game anew each turn
            if raw not in ENV_REGISTRY:
                raise GameError(f"game.id = 'textarena/{task}': TextArena has no such variant of {name}; leave it out")
            self._inner = make(raw)
        self.one_level = name in FIXED
        self._given = None if max_turns is None else whole_number("max_turns", max_turns, 1, LONGEST)
        self.max_turns = self._given or LIMIT
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31))
        self._chance: tuple[Any, Any] = random.Random(drawn).getstate(), np.random.RandomState(drawn).get_state()
        with self._apart():
            self._inner.reset(num_players=1, seed=drawn)
            told = self._inner.get_observation()[1]
        own = self._inner.state.max_turns
        self.max_turns = self._given or (2 * own if own else LIMIT)
        self._turn, self._over = 0, False
        self.mission = "\n".join(text.strip() for _, text, kind in told if kind.name == "PROMPT")
        return Observation(_scene(told) or "The game begins."), {}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over, or none was begun: call reset() before step()")
        move = action.strip()[:LONGEST_MOVE]
        with self._apart():
            ended, _ = self._inner.step(move if "[" in move else f"[{move}]")
            told = self._inner.get_observation()[1]
        self._turn += 1
        truncated = self._turn >= self.max_turns and not ended
        self._over = ended or truncated
        if not ended:
            info = {"success": False, "progression": 0.0} if truncated else {}
            return Observation(_scene(told)), 0.0, False, truncated, info
        rewards, facts = self._inner.close()
        reward, why = float(rewards[0]), str(facts[0].get("reason") or "")
        scene = "\n".join(filter(None, (_scene(told), why.strip())))
        return (
            Observation(scene),
            reward,
            True,
            False,
            {"success": reward >= 1, "progression": min(1.0, max(0.0, reward))},
        )

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """The game draws its own random numbers, and prints nothing."""
        others = random.getstate(), np.random.get_state()
        random.setstate(self._chance[0])
        np.random.set_state(self._chance[1])
        try:
            with _quiet():
                yield
        finally:
            self._chance = random.getstate(), np.random.get_state()
            random.setstate(others[0])
            np.random.set_state(others[1])


def known_tasks() -> tuple[str, ...]:
    """One variant of each game; TextArena has others, `Sudoku-v0-hard`."""
    return tuple(f"{name}-v0" for name in sorted(VARIED + FIXED))


@contextmanager
def _quiet() -> Iterator[None]:
    with redirect_stdout(StringIO()):
        yield


def _scene(told: list[tuple[int, str, Any]]) -> str:
    """What the game says, without the rules (the mission has them) and the player's own words (the memory has them)."""
    return "\n".join(text.strip() for _, text, kind in told if kind.name not in ("PROMPT", "PLAYER_ACTION"))


SPEC = GameSpec(
    name="textarena",
    description="TextArena's games for one player: puzzles, cards, guessing; variants by their names, Sudoku-v0-hard.",
    make=TextArena,
    tasks=known_tasks(),
    any_task=True,
    needs="textarena",
)
