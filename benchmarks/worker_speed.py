"""Steps a second of games in worker processes, as a ratio to the same games at home: random play, resets included.

    python benchmarks/worker_speed.py crafter babyai/goto --workers 1 2 --games 32 --seconds 10

Every game is asked before any is waited for, as training does. What a worker adds to a step is the way there and back:
that is lost where a step costs less, and won back where it costs more and there are cores for all processes.
"""

import argparse
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Any

from agentrl import envs
from agentrl.config import WorkersConfig
from agentrl.envs import TextEnv
from agentrl.errors import UserError
from agentrl.remote import RemoteGame
from agentrl.results import machine
from agentrl.workers import WorkerPool


def rate(make: Callable[[], TextEnv], count: int, seconds: float) -> float:
    """Steps a second of `count` games together, each reset when its episode is over."""
    draw, steps, seed = random.Random(0), 0, count
    with ExitStack() as stack:
        games = [stack.enter_context(closing(make())) for _ in range(count)]
        for number, game in enumerate(games):
            game.reset(seed=number)
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            actions = [draw.choice(list(game.actions or [game.default_action])) for game in games]
            for game, action in zip(games, actions, strict=True):
                if isinstance(game, RemoteGame):
                    game.begin_step(action)
            over = []
            for game, action in zip(games, actions, strict=True):
                _, _, terminated, truncated, _ = game.step(action)
                if terminated or truncated:
                    seed += 1
                    over.append((game, seed))
                    if isinstance(game, RemoteGame):
                        game.begin_reset(seed)
            for game, number in over:
                game.reset(seed=number)
            steps += count
        return steps / (time.perf_counter() - began)


def measure(game: str, options: argparse.Namespace) -> dict[str, Any]:
    """Rates of a game by the number of its workers."""
    rates = {0: rate(lambda: envs.make(game), options.games, options.seconds)}
    for processes in options.workers:
        with closing(WorkerPool(WorkersConfig(processes=processes))) as pool:
            rates[processes] = rate(lambda pool=pool: pool.open(game, {}), options.games, options.seconds)  # type: ignore[misc]
    return {
        "at_home": rates[0],
        **{f"workers_{n}": each for n, each in rates.items() if n},
        **{f"ratio_{n}": each / rates[0] for n, each in rates.items() if n},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="+", metavar="GAME", help="as `agentrl games` lists it")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--games", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args(arguments)
    try:
        table = {game: measure(game, options) for game in options.ids}
    except UserError as error:
        parser.exit(2, f"{error}\n")
    for game, figures in table.items():
        shown = "  ".join(
            f"{n} workers {figures[f'workers_{n}']:,.0f} ({figures[f'ratio_{n}']:.2f}x)" for n in options.workers
        )
        print(f"{game:16} steps/s: at home {figures['at_home']:,.0f}  {shown}")
    print(json.dumps({**table, "games": options.games, "cores": os.cpu_count(), "machine": machine()}))


if __name__ == "__main__":
    main()
