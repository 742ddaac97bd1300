"""Turns a second of the harness itself: games, prompts, parsing and records, with a model that answers at once.

    python benchmarks/harness_speed.py babyai/goto crafter --concurrent 1 8 64 --seconds 5

Each episode has a thread of its own, as where an endpoint is asked; beside it the lock step of engines in process, one
batch a round. What a model takes comes on top: a harness of 1,000 turns/s costs 1 ms of a turn. Turns a CPU second
(`_cpu`) say the same where other programs want the cores, too.
"""

import argparse
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from agentrl import envs
from agentrl.agents import ModelAgent
from agentrl.collector import begin_episodes, play_round
from agentrl.config import PromptConfig
from agentrl.engines.base import Reply, Request, Sampling
from agentrl.episode import GameSlot
from agentrl.errors import UserError
from agentrl.memory import make_memory
from agentrl.prompting import Prompter
from agentrl.results import machine

SAMPLING = Sampling(0.0, 64)


class AtOnce:
    """An engine that has its answer ready."""

    in_process = False

    def __init__(self, action: str) -> None:
        self.reply = f"THINK: no.\nACTION: {action}"

    def generate(self, requests: list[Request]) -> list[Reply]:
        return [Reply(self.reply) for _ in requests]


def make_slot(game: str, index: int, prompter: Prompter, config: PromptConfig) -> GameSlot:
    """A slot whose episodes never run out, each with a seed of its own."""
    return GameSlot(
        index, game, lambda: envs.make(game), prompter, make_memory(config), lambda episode: index * 10_000 + episode
    )


def in_threads(slots: Sequence[GameSlot], agent: ModelAgent, seconds: float) -> int:
    """Turns played by one thread for each slot, until the time is over."""
    turns = [0] * len(slots)
    until = time.perf_counter() + seconds

    def play(slot: GameSlot) -> None:
        while time.perf_counter() < until:
            for _, _, episode in play_round([slot], agent):
                turns[slot.index] += 1
                if episode is not None:
                    slot.next_episode()

    threads = [threading.Thread(target=play, args=(slot,)) for slot in slots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(turns)


def in_lock_step(slots: Sequence[GameSlot], agent: ModelAgent, seconds: float) -> int:
    """Turns played one batch a round, until the time is over."""
    turns, until = 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        for slot, _, episode in play_round(slots, agent):
            turns += 1
            if episode is not None:
                slot.next_episode()
    return turns


def rate(
    game: str,
    style: str,
    count: int,
    play: Callable[[Sequence[GameSlot], ModelAgent, float], int],
    seconds: float,
) -> tuple[float, float]:
    """Turns of `count` games a second, and a CPU second; their first resets are not counted, later ones are."""
    config = PromptConfig(style=style, history=16)
    prompter = Prompter(config, game, None)
    slots = [make_slot(game, index, prompter, config) for index in range(count)]
    try:
        begin_episodes(slots)
        agent = ModelAgent(AtOnce(slots[0].game.default_action), SAMPLING, seed=0)
        began, cpu_began = time.perf_counter(), time.process_time()
        turns = play(slots, agent, seconds)
        return turns / (time.perf_counter() - began), turns / (time.process_time() - cpu_began)
    finally:
        for slot in slots:
            slot.close()


def measure(game: str, options: argparse.Namespace) -> dict[str, float]:
    """Rates of a game by the number of its concurrent episodes."""
    with closing(envs.make(game)) as warm:  # what is made once, compiled loops say, is nobody's turn
        warm.reset(seed=0)
        warm.step(warm.default_action)
    figures: dict[str, float] = {}
    for name, play in (("threads", in_threads), ("lock_step", in_lock_step)):
        for n in options.concurrent:
            figures[f"{name}_{n}"], figures[f"{name}_{n}_cpu"] = rate(game, options.style, n, play, options.seconds)
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="+", metavar="GAME", help="as `agentrl games` lists it")
    parser.add_argument("--concurrent", type=int, nargs="+", default=[1, 8, 64], help="episodes at a time")
    parser.add_argument("--style", default="cot", help="prompt style")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each figure")
    options = parser.parse_args(arguments)
    try:
        table: dict[str, Any] = {game: measure(game, options) for game in options.ids}
    except UserError as error:
        parser.exit(2, f"{error}\n")
    for game, figures in table.items():
        shown = "  ".join(
            f"{n} at a time {figures[f'threads_{n}']:,.0f} (lock step {figures[f'lock_step_{n}']:,.0f})"
            for n in options.concurrent
        )
        most = max(value for name, value in figures.items() if name.endswith("_cpu"))
        print(f"{game:24} turns/s: {shown}; at most {most:,.0f} a CPU second")
    print(json.dumps({**table, "style": options.style, "cores": os.cpu_count(), "machine": machine()}))


if __name__ == "__main__":
    main()
