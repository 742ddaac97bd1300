"""NetHack in words: MiniHack's small levels and the whole game (NLE).

The rules are NetHack's, the rewards MiniHack's (or NetHack's score). The text is made from what the game shows: its
message, what is in sight and where, the map; as status the vital signs and what one carries. Pages of messages are
turned by themselves. `pip install "agentrl[minihack]"`, or `"agentrl[nle]"`; without, only the tasks' names are here.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded

from agentrl.envs.base import Observation, TextEnv
from agentrl.envs.options import whole_number
from agentrl.envs.registry import GameSpec

LONGEST = 100_000
STANDSTILL = 150
"""Turns in which the game's clock does not move, after which the whole game is given up, as BALROG does."""

MINIHACK_TASKS = (
    "Room-5x5",
    "Room-Random-5x5",
    "MazeWalk-9x9",
    "MazeWalk-15x15",
    "Corridor-R3",
    "CorridorBattle-Dark",
    "Quest-Easy",
    "Quest-Medium",
)
"""BALROG's, but for Boxoban, whose levels are a download; and two easy ones. MiniHack-TASK-v0 there."""

WAYS = {"N": "north", "E": "east", "S": "south", "W": "west"}
WAYS |= {"NE": "northeast", "SE": "southeast", "SW": "southwest", "NW": "northwest"}
KEYS = {
    "UP": "go up the stairs",
    "DOWN": "go down the stairs",
    "WAIT": "stay where you are for a turn",
    "ESC": "cancel",
}
KEYS |= {"MORE": "read on", "OPEN": "open a door, then name its side", "CLOSE": "close a door, then name its side"}
KEYS |= {"KICK": "kick, then name the side", "SEARCH": "look for what is hidden next to you"}
KEYS |= {"PICKUP": "pick up what lies here", "DROP": "drop something, then its letter", "EAT": "eat, then the letter"}
KEYS |= {"APPLY": "use a tool, then its letter", "QUAFF": "drink, then the letter", "READ": "read, then the letter"}
KEYS |= {"WEAR": "put on armour, then its letter", "WIELD": "take a weapon in hand, then its letter"}
KEYS |= {"ZAP": "point a wand, then its letter and the side", "PUTON": "put on a ring or amulet, then its letter"}
KEYS |= {"THROW": "throw, then the letter and the side", "FIRE": "shoot, then the side", "PRAY": "pray to your god"}
KEYS |= {
    "FIGHT": "attack, then name the side",
    "LOOK": "look at what lies here",
    "CAST": "cast a spell, then its letter",
}

WITHHELD = frozenset(
    (
        *("SAVE", "QUIT", "SHELL", "OPTIONS", "HELP", "PREVMSG", "REDRAW", "VERSION", "HISTORY"),
        *("EXTCMD", "EXTLIST", "WHATDOES", "WHATIS", "GLANCE", "INVENTTYPE", "TRAVEL"),
    )
)
"""Keys that end the game from outside, change how it is shown, or ask for a text. Small letters stay: they choose."""

BACKGROUND = frozenset(
    ["", "stone", "wall", "floor of a room", "dark part of a room", "corridor", "lit corridor", "doorway", "dark area"]
)
"""What is on the map but not worth a line; the map shows it."""

DEPTH, DEEPEST, CLOCK = 12, 50, 20
"""Places of the level's depth and of the game's clock in NLE's `blstats`; a dungeon has some 50 levels."""

ROWS = slice(1, 22)
"""Of the 24 rows of the screen those with the map; message above, vital signs below."""

SHOWN = "message", "blstats", "tty_chars", "screen_descriptions", "inv_strs", "inv_letters"

ABORTED, DONE = -1, 2
"""`end_status` of an episode that the environment's own limit ended, and of a MiniHack task that is done."""


class NetHack(TextEnv):
    """What MiniHack and the whole game have in common.

    Args:
        made: the environment, with `seed(core, disp, reseed, lgen)` as NLE has it.
        max_turns: the time limit.
    """

    actions: dict[str, str]

    def __init__(self, made: Any, max_turns: int) -> None:
        self._inner = made
        self.max_turns = max_turns
        keys = [(number, key) for number, key in enumerate(made.actions) if key.name not in WITHHELD]
        self._numbers = {_name(key): number for number, key in keys}
        self.actions = {_name(key): _help(key) for _, key in keys}
        self.synonyms = _synonyms(self.actions, [key for _, key in keys])
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        core, display, level = (int(number) for number in self.np_random.integers(2**31, size=3))
        self._inner.seed(core, display, reseed=False, lgen=level)
        shown, _ = self._inner.reset()
        self._turn, self._over = 0, False
        self._began(shown)
        return _observation(shown), {}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over, or none was begun: call reset() before step()")
        number = self._numbers.get(action, self._numbers[self.default_action])
        shown, reward, over, _, info = self._inner.step(number)
        self._turn += 1
        terminated = bool(over) and int(info["end_status"]) != ABORTED
        given_up = self._look(shown, info)
        truncated = not terminated and (bool(over) or given_up or self._turn >= self.max_turns)
        self._over = terminated or truncated
        told = {"success": self._won, "progression": self._progression()} if self._over else {}
        return _observation(shown), float(reward), terminated, truncated, told

    def close(self) -> None:
        self._inner.close()
        self._over = True

    def _began(self, shown: dict[str, Any]) -> None:
        self._won = False

    @abstractmethod
    def _look(self, shown: dict[str, Any], info: dict[str, Any]) -> bool:
        """Take note of a turn; whether the game is given up."""

    @abstractmethod
    def _progression(self) -> float: ...


class MiniHack(NetHack):
    """A small level with a goal. The reward is MiniHack's: 1 at the goal, -0.01 for a turn without effect."""

    default_action = "north"

    def __init__(self, task: str, max_turns: int = 100) -> None:
        import gymnasium
        import minihack  # noqa: F401  (registers the levels)

        limit = whole_number("max_turns", max_turns, 1, LONGEST)
        made = gymnasium.make(
            f"MiniHack-{task}-v0",
            disable_env_checker=True,
            observation_keys=SHOWN,
        ).unwrapped
        made._max_episode_steps = limit + 1  # type: ignore[attr-defined]  # its own limit is each level's
        self.mission = MISSIONS.get(task, "Get to the staircase that leads down.")
        super().__init__(made, limit)

    def _look(self, shown: dict[str, Any], info: dict[str, Any]) -> bool:
        self._won = int(info["end_status"]) == DONE
        return False

    def _progression(self) -> float:
        return float(self._won)


MISSIONS = {
    "Quest-Easy": "Find the wand, cross the lava by its cold, and get past the monsters to the staircase down.",
    "Quest-Medium": "Find a way across the lava, and get past the monsters to the staircase down.",
    "CorridorBattle-Dark": "Get past the monsters in the dark to the staircase down; in the corridor they come singly.",
}


class WholeGame(NetHack):
    """NetHack from the start, character drawn by the seed. The reward is what the score gains.

    Success is to ascend. Progression is the deepest level reached, of some 50: a scale of ours, not BALROG's.
    """

    default_action = "esc"
    mission = "Get as deep into the dungeon as you can, and stay alive."

    def __init__(self, task: str, max_turns: int = 100_000) -> None:
        from nle import nethack
        from nle.env.tasks import NetHackScore

        limit = whole_number("max_turns", max_turns, 1, LONGEST)
        made = NetHackScore(
            character="@",
            actions=nethack.ACTIONS,
            allow_all_yn_questions=True,
            penalty_step=0.0,
            max_episode_steps=limit + 1,
            observation_keys=SHOWN,
        )
        super().__init__(made, limit)

    def _began(self, shown: dict[str, Any]) -> None:
        super()._began(shown)
        self._deepest, self._clock, self._still = 1, int(shown["blstats"][CLOCK]), 0

    def _look(self, shown: dict[str, Any], info: dict[str, Any]) -> bool:
        self._won = bool(info["is_ascended"])
        self._deepest = max(self._deepest, int(shown["blstats"][DEPTH]))
        clock = int(shown["blstats"][CLOCK])
        self._still = self._still + 1 if clock == self._clock else 0
        self._clock = clock
        return self._still >= STANDSTILL

    def _progression(self) -> float:
        return 1.0 if self._won else min(1.0, (self._deepest - 1) / (DEEPEST - 1))


def _observation(shown: dict[str, Any]) -> Observation:
    screen = [bytes(row).decode("ascii", "replace").rstrip() for row in shown["tty_chars"]]
    message = bytes(shown["message"]).partition(b"\0")[0].decode("ascii", "replace").strip()
    column, row = int(shown["blstats"][0]), int(shown["blstats"][1])
    seen = _in_sight(shown["screen_descriptions"], row, column)
    parts = [message, "You see:\n" + "\n".join(seen) if seen else "You see nothing of note.", _cropped(screen[ROWS])]
    carried = [
        f"{chr(letter)}: {bytes(text).partition(bytes(1))[0].decode('ascii', 'replace')}"
        for letter, text in zip(shown["inv_letters"], shown["inv_strs"], strict=True)
        if letter
    ]
    held = "You carry:\n" + "\n".join(carried) if carried else "You carry nothing."
    return Observation("\n\n".join(filter(None, parts)), "\n".join([*screen[ROWS.stop :], held]).strip())


def _in_sight(descriptions: Any, row: int, column: int) -> list[str]:
    """A line for each thing on the map: what it is, and how many steps off, nearest first."""
    found = []
    for y, x in np.argwhere(descriptions[:, :, 0] != 0).tolist():
        what = bytes(descriptions[y, x]).partition(b"\0")[0].decode("ascii", "replace").strip()
        if what not in BACKGROUND and (y, x) != (row, column):
            found.append((max(abs(y - row), abs(x - column)), y, x, f"- {what}: {_offset(y - row, x - column)}"))
    return [line for *_, line in sorted(found)]


def _offset(south: int, east: int) -> str:
    parts = [f"{abs(south)} {'south' if south > 0 else 'north'}"] if south else []
    return " and ".join([*parts, *([f"{abs(east)} {'east' if east > 0 else 'west'}"] if east else [])])


def _cropped(rows: list[str]) -> str:
    """The map without empty margins."""
    filled = [row for row in rows if row.strip()]
    if not filled:
        return ""
    left = min(len(row) - len(row.lstrip()) for row in filled)
    first, last = rows.index(filled[0]), len(rows) - rows[::-1].index(filled[-1])
    return "Map, you are @:\n" + "\n".join(row[left:] for row in rows[first:last])


def _name(key: Any) -> str:
    """The action's name: a way, "far" for running there, or the key's own name."""
    kind = type(key).__name__
    if kind.startswith("Compass"):
        return f"far {WAYS[key.name]}" if kind.endswith("Longer") else WAYS[key.name]
    return str(key.name).lower()


def _help(key: Any) -> str:
    name = _name(key)
    if name.startswith("far "):
        return f"go {name[4:]} until something comes up"
    if type(key).__name__.startswith("Compass"):
        return f"one step {name}, or hit what is there"
    return KEYS.get(key.name, f"NetHack's command of that name, key {chr(key) if 32 < key < 127 else hex(key)}")


def _synonyms(names: Collection[str], keys: Iterable[Any]) -> dict[str, str]:
    """Letters for the actions that send them, as answers to "which one?", and other words for ways."""
    letters = {chr(key): _name(key) for key in keys if 97 <= key <= 122}
    return letters | {f"{verb} {way}": way for way in WAYS.values() if way in names for verb in ("go", "move")}


def _spec(name: str, description: str, make: Callable[..., TextEnv], tasks: tuple[str, ...]) -> GameSpec:
    return GameSpec(name=name, description=description, make=make, tasks=tasks, needs=name)


MINIHACK = _spec("minihack", "Small levels of NetHack: rooms, mazes, corridors, quests.", MiniHack, MINIHACK_TASKS)
NLE = _spec("nle", "NetHack, the whole game, for thousands of turns.", WholeGame, ("default",))
