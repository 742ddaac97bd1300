"""Train a recipe at home, and in worker processes of which one is killed (SIGKILL) every few seconds.

    python benchmarks/killed_workers.py experiments/quickstart.yaml --seeds 0 1 2 --every 2

Moments are random, from the first evaluation to the last; unknown options are overrides of the recipe. A process that
dies while a game in it is played costs that game's turn (`crashed`) or, in a reset, its episode; one that dies idle
costs nothing but time: its games are replayed. An update is `late` if it took ten times as long as the median one;
`games` are the seconds that training waited for its games.
"""

import argparse
import json
import os
import random
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from statistics import median
from typing import Any

from quiet_runs import quiet_run
from seeds import line, pooled

from agentrl import Trainer, load_config
from agentrl.callbacks import Callback
from agentrl.errors import UserError
from agentrl.faults import KINDS
from agentrl.results import machine

LATE = 10


class Killer(Callback):
    """Kills a worker now and then.

    Args:
        every: mean seconds between two kills.
    """

    def __init__(self, every: float, seed: int) -> None:
        self.kills = 0
        self._every, self._draw = every, random.Random(seed)
        self._over = threading.Event()

    def on_start(self, trainer: Any) -> None:
        self._thread = threading.Thread(target=self._kill, args=(trainer.parts.games.maker.pool,))
        self._thread.start()

    def on_end(self, trainer: Any) -> None:
        self._over.set()
        self._thread.join()

    def _kill(self, pool: Any) -> None:
        while not self._over.wait(self._draw.uniform(0.5, 1.5) * self._every):
            pids = pool.pids()
            with suppress(ProcessLookupError):
                if pids:
                    os.kill(self._draw.choice(pids), signal.SIGKILL)
                    self.kills += 1


class Rows(Callback):
    """Keeps the metrics of every update."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def on_update(self, trainer: Any, metrics: dict[str, float]) -> None:
        self.rows.append(metrics)


def train(recipe: str, overrides: Sequence[str], killer: Killer | None = None) -> dict[str, Any]:
    """Results of one run, and what its updates say of games that broke."""
    kept = Rows()
    with quiet_run() as (_, quiet):
        config = load_config(recipe, [*quiet, *overrides])
        trainer = Trainer(config, callbacks=[kept, *([killer] if killer else [])])
        results = trainer.fit()
    turns = config.turns_per_update
    seconds = [turns / row["time/turns_per_second"] for row in kept.rows]
    evaluations = (results["before"], results["after"])
    return {
        **results,
        "late_updates": sum(each > LATE * median(seconds) for each in seconds),
        "longest_update": max(seconds),
        "games_seconds": sum(row["time/env"] for row in kept.rows),
        "kills": killer.kills if killer else 0,
        "replaced": trainer.parts.games.maker.replaced,
        "broken": {
            **{kind: round(sum(row[f"turns/error_{kind}_fraction"] for row in kept.rows) * turns) for kind in KINDS},
            "episodes": round(sum(row["episode/errors"] for row in kept.rows)),
            "evaluation_episodes": sum(group[config.game.id]["errors"] for group in evaluations),
        },
    }


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums over runs; the longest update of all; success after training."""
    added = ("updates", "late_updates", "turns", "seconds", "games_seconds", "kills", "replaced")
    return {
        "after": pooled(runs, "after"),
        **{name: sum(run[name] for run in runs) for name in added},
        "longest_update": max(run["longest_update"] for run in runs),
        "broken": {name: sum(run["broken"][name] for run in runs) for name in runs[0]["broken"]},
    }


def show(row: str, figures: dict[str, Any]) -> None:
    print(line(row, figures["after"]))
    for each in figures["after"]["each"]:
        print(line(f"  seed {each['seed']}", each))
    print(
        f"  {figures['updates']} updates, {figures['late_updates']} late, longest {figures['longest_update']:.1f} s; "
        f"{figures['games_seconds']:.0f} s for games, {figures['seconds']:.0f} s in all"
    )
    if figures["kills"]:
        broken = ", ".join(f"{name} {count}" for name, count in figures["broken"].items())
        print(f"  {figures['kills']} kills, {figures['replaced']} processes replaced, {figures['turns']} turns")
        print(f"  broken: {broken}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("recipe")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--every", type=float, default=2.0, help="mean seconds between two kills")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rows", nargs="+", choices=["home", "killed"], default=["home", "killed"])
    options, overrides = parser.parse_known_args(arguments)
    if options.every <= 0 or options.processes < 1:
        parser.error("--every must be above 0, --processes at least 1")
    table = {}
    try:
        for row in options.rows:
            killed = row == "killed"
            where = [*overrides, f"--workers.processes={options.processes if killed else 0}"]
            runs = [
                train(options.recipe, [*where, f"--seed={seed}"], Killer(options.every, seed) if killed else None)
                for seed in options.seeds
            ]
            table[row] = summary(runs)
            show(row, table[row])
    except UserError as error:
        parser.exit(2, f"{error}\n")
    asked = {"recipe": options.recipe, "overrides": overrides, "every": options.every, "machine": machine()}
    print(json.dumps({**asked, **table}))


if __name__ == "__main__":
    main()
