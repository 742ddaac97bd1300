"""Six estimators on two BabyAI levels, three of them on tiny Crafter: one line of YAML apart, the same number of turns.

    python benchmarks/estimators.py --kept estimators/ --jobs 2
    python benchmarks/estimators.py --only goto_obj/dual_gae goto_obj/grpo --seeds 0 1 --turns 5000

Each finished run is kept as a JSON file and not done again. All settings are the recipe's (quickstart.yaml, tuned with
dual_gae, which favours it; crafter_tiny.yaml), the learning rate constant; none is tuned for an estimator. dual_gae has
lambda_token 0.95: with token factors of 1 it is turn_gae. Those that compare groups play whole episodes, 8 of each game
seed, until they have had as many turns. Figures over seeds: interquartile mean, with the interval of a bootstrap over
seeds; turns until a batch's finished episodes first succeed in 9 of 10, over five batches; CPU seconds of the updates.
"""

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from quiet_runs import quiet_run

from agentrl import Trainer, load_config
from agentrl.callbacks import Callback
from agentrl.results import machine, write_json
from agentrl.statistics import interquartile_mean

RECIPES = Path(__file__).parents[1] / "experiments"
LEVELS = {
    "goto_obj": ("quickstart.yaml", ["--game.id=babyai/BabyAI-GoToObj-v0"]),
    "s5n2": ("quickstart.yaml", []),
    "crafter": ("crafter_tiny.yaml", []),
}
GROUPS = ["--batch.form=episodes", "--batch.group_size=8", "--critic_warmup.max_updates=0"]
ESTIMATORS = {
    "dual_gae": ["--algorithm.lambda_token=0.95"],
    "turn_gae": ["--algorithm.gamma_token=1", "--algorithm.lambda_token=1"],
    "bilevel_gae": [],
    "rebn": [*GROUPS[:1], *GROUPS[2:]],
    "grpo": GROUPS,
    "gigpo": GROUPS,
}
ON_CRAFTER = ("dual_gae", "rebn", "grpo")
RUNS = [f"{level}/{name}" for level in LEVELS for name in ESTIMATORS if level != "crafter" or name in ON_CRAFTER]

WINDOW, GOAL = 5, 0.9


class Budgeted(Trainer):
    """Ends once it has had so many turns, however many updates that takes."""

    budget = 20_000

    @property
    def total_updates(self) -> int:
        return self.update if self.progress.turns >= self.budget else self.update + 1


class Successes(Callback):
    """(turns so far, success of the batch's finished episodes)."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, float]] = []

    def on_update(self, trainer: Any, metrics: dict[str, float]) -> None:
        if "episode/success" in metrics:
            self.rows.append((int(metrics["turns"]), metrics["episode/success"]))


def train(name: str, seed: int, turns: int, kept: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """One run's figures."""
    file = kept / f"{name.replace('/', '-')}-{seed}-{turns}.json"
    if file.is_file():
        return json.loads(file.read_text())
    level, _, estimator = name.partition("/")
    recipe, own = LEVELS[level]
    watch = Successes()
    with quiet_run() as (_, quiet):
        settings = ["--optimizer.schedule=constant", f"--seed={seed}", f"--algorithm.estimator={estimator}"]
        config = load_config(RECIPES / recipe, [*own, *settings, *ESTIMATORS[estimator], *quiet, *overrides])
        trainer = Budgeted(config, callbacks=[watch])
        trainer.budget = turns
        results = trainer.fit()
    (figures,) = results["after"].values()
    found = {
        "run": name,
        "seed": seed,
        "turns": results["turns"],
        "cpu_seconds": trainer.progress.cpu_seconds,
        "success": figures["success"],
        "return": figures["return"],
        "achievements": figures.get("achievements"),
        "turns_to_goal": turns_to_goal(watch.rows),
    }
    kept.mkdir(parents=True, exist_ok=True)
    write_json(file, found)
    return found


def turns_to_goal(rows: Sequence[tuple[int, float]]) -> int | None:
    """Turns after which the mean success of `WINDOW` batches first reached `GOAL`; None if it never did."""
    for end in range(WINDOW, len(rows) + 1):
        if np.mean([success for _, success in rows[end - WINDOW : end]]) >= GOAL:
            return rows[end - 1][0]
    return None


def over_seeds(values: Sequence[float], samples: int = 2000) -> tuple[float, float, float]:
    """Interquartile mean, and the 95 % interval of its bootstrap over seeds."""
    array, rng = np.asarray(values), np.random.default_rng(0)
    drawn = [interquartile_mean(array[rng.integers(0, len(array), len(array))]) for _ in range(samples)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return interquartile_mean(values), float(low), float(high)


def line(name: str, runs: Sequence[dict[str, Any]]) -> str:
    measure = "achievements" if runs[0]["achievements"] is not None else "success"
    mean, low, high = over_seeds([run[measure] for run in runs])
    reached = [run["turns_to_goal"] for run in runs if run["turns_to_goal"] is not None]
    goal = f"{np.median(reached):,.0f} ({len(reached)} of {len(runs)})" if reached else f"none of {len(runs)}"
    seconds = np.mean([run["cpu_seconds"] for run in runs])
    each = " ".join(f"{run[measure]:.2f}" for run in runs)
    return f"| {name} | {mean:.3f} [{low:.3f}, {high:.3f}] {measure} | {each} | {goal} | {seconds:.0f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=RUNS, default=RUNS, metavar="LEVEL/ESTIMATOR")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--kept", type=Path, default=Path("estimators"), metavar="DIR")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    options, overrides = parser.parse_known_args(arguments)
    rows = []
    print("| run | over seeds | each seed | turns to 0.9, median | CPU s |\n|---|---|---|---|---|")
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        waiting = {
            name: [pool.submit(train, name, seed, options.turns, options.kept, overrides) for seed in options.seeds]
            for name in options.only
        }
        for name, futures in waiting.items():
            runs = [future.result() for future in futures]
            rows += runs
            print(line(name, runs), flush=True)
    print(json.dumps({"runs": rows, "machine": machine()}))


if __name__ == "__main__":
    main()
