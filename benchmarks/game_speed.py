"""Steps a second of games without pictures, beside the packages that they come from: random play, resets included.

    python benchmarks/game_speed.py --seconds 10

One process plays uniformly random legal actions, and starts the next seed when an episode is over. Seconds are those
of its own CPU time: a neighbour on the machine is not counted. `package` is what our game stands on, played by turns
with ours, in the same run, with the pictures that BALROG's wrappers draw in text mode, too: minigrid's level, its own
encoded view and one picture a step; crafter's own world and two pictures of 256 x 256 pixels. Of BabaIsAI there is no
package. `wrapper` is the rate of BALROG's wrapper itself on such a machine, which another run measured: a hint only.

`first` is the time from a game's making to its first observation. Crafter's holds the import of numba and the loading
of its compiled code; the first time that a machine plays it, the compilation instead (8 s). No rate includes it.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrl import envs
from agentrl.envs.babaisai_levels import TASKS as BABAISAI
from agentrl.envs.babyai_levels import TASKS as BABYAI
from agentrl.results import machine

ROUNDS = 4
WRAPPERS = {"babyai": 1700, "babaisai": 1300, "crafter": 60}
"""Steps a second of BALROG's wrappers, resets included."""
PICTURE = 256
"""Pixels a side, of the pictures that BALROG asks crafter for."""


@dataclass
class Player:
    """Random play that can be interrupted.

    Args:
        begin: starts the episode of a seed.
        act: takes a step; whether it was the episode's last.
    """

    actions: Sequence[Any]
    begin: Callable[[int], object]
    act: Callable[[Any], bool]
    steps: int = 0
    seconds: float = 0.0
    resets: int = 0
    reset_seconds: float = 0.0
    draw: random.Random = field(default_factory=lambda: random.Random(0))

    def play(self, seconds: float) -> None:
        """Play on for so long. The first call starts the first episode, which no figure counts."""
        if not self.steps:
            self.begin(0)
        began = now = time.process_time()
        while now - began < seconds:
            over = self.act(self.draw.choice(self.actions))
            self.steps += 1
            if over:
                before = time.process_time()
                self.resets += 1
                self.begin(self.resets)
                self.reset_seconds += time.process_time() - before
            now = time.process_time()
        self.seconds += now - began

    @property
    def rate(self) -> float:
        return self.steps / self.seconds


def ours(ids: Sequence[str], options: dict[str, Any]) -> Player:
    """Our games, an episode of each in turn."""
    games = [envs.make(each, **options) for each in ids]
    game = games[0]

    def begin(seed: int) -> None:
        nonlocal game
        game = games[seed % len(games)]
        game.reset(seed=seed)

    def act(action: str) -> bool:
        _, _, terminated, truncated, _ = game.step(action)
        return terminated or truncated

    return Player(list(game.actions or ()), begin, act)


def minigrid_package(task: str) -> Player:
    """The same level as minigrid plays it."""
    from agentrl.envs.babyai import ACTIONS
    from agentrl.envs.babyai_levels import make_level

    level = make_level(task, 0)

    def act(action: Any) -> bool:
        _, _, terminated, truncated, _ = level.step(action)
        level.get_frame()
        return terminated or truncated

    return Player(list(ACTIONS.values()), lambda seed: level.reset(seed=seed), act)


def crafter_package() -> Player:
    """The package's own world; its resets go on to the next one."""
    import crafter

    world = crafter.Env(size=(PICTURE, PICTURE), seed=0)

    def act(action: int) -> bool:
        _, _, over, _ = world.step(action)
        world.render()
        return bool(over)

    return Player(range(world.action_space.n), lambda seed: world.reset(), act)


@dataclass
class Row:
    """What is measured together."""

    name: str
    ids: Sequence[str]
    options: dict[str, Any] = field(default_factory=dict)
    package: Callable[[], Player] | None = None


def rows() -> Iterator[Row]:
    for task in BABYAI:
        yield Row(f"babyai/{task}", [f"babyai/{task}"], package=lambda task=task: minigrid_package(task))  # type: ignore[misc]
    yield Row("babaisai, 40 tasks", [f"babaisai/{task}" for task in BABAISAI])
    yield Row("crafter", ["crafter"], package=crafter_package)
    yield Row("crafter, night_rng: balrog", ["crafter"], {"night_rng": "balrog"}, crafter_package)


def measure(row: Row, seconds: float) -> dict[str, float]:
    """Ours and the package's by turns, so that a busy machine is busy for both."""
    began = time.perf_counter()
    player = ours(row.ids, row.options)
    player.begin(0)
    first = time.perf_counter() - began
    package = row.package() if row.package else None
    for _ in range(ROUNDS):
        player.play(seconds / ROUNDS)
        if package:
            package.play(seconds / ROUNDS)
    wrapper = WRAPPERS[row.ids[0].partition("/")[0]]
    figures = {
        "steps_per_second": player.rate,
        "reset_ms": 1000 * player.reset_seconds / max(player.resets, 1),
        "resets": player.resets,
        "first_start_seconds": first,
        "wrapper_steps_per_second_elsewhere": wrapper,
        "ratio_to_wrapper_elsewhere": player.rate / wrapper,
    }
    if package:
        figures |= {"package_steps_per_second": package.rate, "ratio_to_package": player.rate / package.rate}
    return figures


def line(name: str, figures: dict[str, float]) -> str:
    """The figures of a row of the table."""
    beside = f"{'-':>10}{'-':>9}"
    if "ratio_to_package" in figures:
        beside = f"{figures['package_steps_per_second']:10,.0f}{figures['ratio_to_package']:8.1f}x"
    return (
        f"{name:28}{figures['steps_per_second']:8,.0f}{figures['reset_ms']:10.2f}{beside}"
        f"{figures['wrapper_steps_per_second_elsewhere']:11,.0f}{figures['ratio_to_wrapper_elsewhere']:8.1f}x"
        f"{figures['first_start_seconds']:11.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", nargs="*", metavar="GAME", help="measure those alone whose name begins so")
    parser.add_argument("--seconds", type=float, default=10.0, help="of play, of each player")
    options = parser.parse_args(arguments)
    chosen = [row for row in rows() if not options.games or row.name.startswith(tuple(options.games))]
    if not chosen:
        parser.error(f"no such game; there are {', '.join(row.name for row in rows())}")
    print(machine())
    print(f"{'steps/s, resets included':28}{'ours':>8}{'reset ms':>10}{'package':>10}{'ratio':>9}", end="")
    print(f"{'wrapper':>11}{'ratio':>9}{'first, s':>11}")
    table = {}
    for row in chosen:
        table[row.name] = measure(row, options.seconds)
        print(line(row.name, table[row.name]), flush=True)
    print(json.dumps({**table, "seconds": options.seconds, "machine": machine()}))


if __name__ == "__main__":
    main()
