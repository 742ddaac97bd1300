"""Train one recipe with several seeds and pool what it learned: held-out figures with intervals, CPU seconds, a figure.

    python benchmarks/seeds.py experiments/quickstart.yaml --seeds 0 1 2 --figure docs/quickstart.svg --batch.updates=30
    python benchmarks/seeds.py experiments/crafter_tiny.yaml --from runs/a runs/b runs/c --figure docs/crafter_tiny.svg

Unknown options are overrides of the recipe. `--from` trains nothing: it takes finished runs of the recipe, and refuses
one that was made with other settings. CPU seconds are those of the training loop alone, evaluations left out.

Intervals are 95 %. Success: Wilson, over the episodes of all seeds together. Achievements, or the return where a game
has neither: of one seed a bootstrap over its episodes; of several Student's t over the seeds' means, a seed being one
observation. All seeds play the same held-out episodes: that interval is of other trainings, not of other worlds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from figure_file import checked
from seeds_figure import draw

from agentrl.config import Config, Section
from agentrl.configfile import field_names, load_config
from agentrl.errors import UserError
from agentrl.statistics import wilson
from agentrl.tracking import read_metrics

ROWS = ("random", "untrained", "before", "after", "after_greedy")

MEASURES = ("success", "achievements", "return")
"""What a recipe is judged by: the first of these that its game has."""

BESIDE = ("return", "progression", "score", "length")
"""Means that follow the measure, where the game has them."""

NOT_LEARNED = {"name", "output_dir", "seed", "torch_threads", "max_error_rate", "workers", "checkpoint", "tracking"}
"""Fields in which the runs of one recipe may differ."""

T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t at 97.5 % by degrees of freedom, from 1; for more seeds than ten the last, which is a little wide."""


def train(recipe: str, seed: int, folder: Path, overrides: list[str]) -> dict[str, Any]:
    """One run in a process of its own, as `load` returns it."""
    name = f"seed-{seed}"
    command = [sys.executable, "-m", "agentrl", "train", recipe, f"--seed={seed}", f"--name={name}"]
    finished = subprocess.run(
        [*command, f"--output_dir={folder}", *overrides], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if finished.returncode:
        raise SystemExit(f"seed {seed} failed:\n{finished.stdout[-2000:]}")
    return load(folder / name)


def load(run_dir: Path) -> dict[str, Any]:
    """A run's results, with its "metrics" and its "config", a Config. Raises UserError if the run is not finished."""
    config = load_config(run_dir / "config.yaml")
    try:
        results: dict[str, Any] = json.loads((run_dir / "results.json").read_bytes())
        metrics = read_metrics(run_dir / "metrics.jsonl")
    except (OSError, ValueError) as error:
        raise UserError(f"{run_dir}: cannot be read as a run: {error}") from error
    if "after" not in results:
        raise UserError(
            f"{run_dir}: no evaluation after training; finish it: agentrl train {run_dir}/config.yaml --resume"
        )
    return {**results, "metrics": metrics, "config": config}


def require_one_recipe(recipe: Config, run_dirs: Sequence[Path], runs: Sequence[dict[str, Any]]) -> None:
    """Raise UserError if a run is not one of `recipe`, or if two have the same seed."""
    seeds: dict[int, Path] = {}
    for run_dir, run in zip(run_dirs, runs, strict=True):
        if (seed := run["seed"]) in seeds:
            raise UserError(f"--from: {seeds[seed]} and {run_dir} both have seed {seed}: leave one out")
        seeds[seed] = run_dir
        for name in field_names():
            asked, found = (attrgetter(name)(config) for config in (recipe, run["config"]))
            if asked != found and not isinstance(asked, Section) and name.partition(".")[0] not in NOT_LEARNED:
                raise UserError(
                    f"--from: {run_dir}: {name} = {found}, the recipe has {asked}: override that too, or leave it out"
                )


def pooled(runs: Sequence[dict[str, Any]], row: str) -> dict[str, Any] | None:
    """One player's figures over all runs, each run's own beside them; None if it played in none.

    Success counts every episode the same. All else is a mean of the runs' means: the score of the seeds' scores, not
    of their pooled rates, as Hafner (2021, arXiv:2109.06780) reports it.
    """
    found = {run["seed"]: next(iter(run[row].values())) for run in runs if row in run}
    if not found:
        return None
    each = list(found.values())
    episodes = sum(f["episodes"] for f in each)
    measure = measure_of(each[0])
    interval = f"{measure}_ci95"
    names = dict.fromkeys((measure, *BESIDE))
    means = {name: float(np.mean([f[name] for f in each])) for name in names if each[0].get(name) is not None}
    if measure == "success":
        successes = sum(round(f["success"] * f["episodes"]) for f in each)
        means[measure] = successes / episodes
        bounds = wilson(successes, episodes)
    else:
        bounds = over_seeds([f[measure] for f in each]) if len(each) > 1 else each[0][interval]
    table = {"episodes": episodes, measure: means.pop(measure), interval: list(bounds), **means}
    if rates := each[0].get("achievement_rates"):
        table["achievement_rates"] = {
            name: float(np.mean([f["achievement_rates"].get(name, 0.0) for f in each])) for name in rates
        }
    shown = ("episodes", measure, interval, *means)
    table["each"] = [{"seed": seed, **{name: f[name] for name in shown}} for seed, f in found.items()]
    return table


def measure_of(figures: dict[str, Any]) -> str:
    return next(name for name in MEASURES if figures.get(name) is not None)


def over_seeds(means: Sequence[float]) -> tuple[float, float]:
    """Student's 95 % interval of a mean of two values or more."""
    half = T_975[min(len(means) - 1, len(T_975)) - 1] * np.std(means, ddof=1) / np.sqrt(len(means))
    return float(np.mean(means) - half), float(np.mean(means) + half)


def line(label: str, figures: dict[str, Any]) -> str:
    measure = measure_of(figures)
    low, high = figures[f"{measure}_ci95"]
    beside = "".join(f"  {name} {figures[name]:.3g}" for name in BESIDE if name in figures and name != measure)
    return f"{label:13} {measure} {figures[measure]:.3f} [{low:.3f}, {high:.3f}]{beside}  n={figures['episodes']}"


def show(table: dict[str, dict[str, Any]]) -> None:
    for row, figures in table.items():
        print(line(row, figures))
        for run in figures["each"]:
            print(line(f"  seed {run['seed']}", run))
    rates = {row: figures["achievement_rates"] for row, figures in table.items() if "achievement_rates" in figures}
    if rates:
        print("unlocked, % of episodes:", ", ".join(rates))
    for name in dict.fromkeys(name for known in rates.values() for name in known):
        print(f"  {name:22}" + "".join(f"{100 * known.get(name, 0.0):8.1f}" for known in rates.values()))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("recipe")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    source.add_argument("--from", type=Path, nargs="+", dest="run_dirs", metavar="RUN_DIR", help="train nothing")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder")
    options, overrides = parser.parse_known_args(arguments)
    if options.jobs < 1:
        parser.error(f"argument --jobs: {options.jobs}: at least one run at a time")
    if len(set(options.seeds)) < len(options.seeds):
        parser.error(f"argument --seeds: {' '.join(map(str, options.seeds))}: give each seed once")
    checked(parser, options.figure)
    try:
        if options.run_dirs:
            runs = [load(run_dir) for run_dir in options.run_dirs]
            require_one_recipe(load_config(options.recipe, overrides), options.run_dirs, runs)
        else:
            with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
                folder = options.keep or Path(scratch)
                runs = list(pool.map(lambda seed: train(options.recipe, seed, folder, overrides), options.seeds))
    except UserError as error:
        parser.exit(2, f"{error}\n")
    table = {row: figures for row in ROWS if (figures := pooled(runs, row)) is not None}
    show(table)
    print("CPU seconds of training:", " ".join(f"{run['cpu_seconds']:.0f}" for run in runs))
    summary = {
        "recipe": options.recipe,
        "overrides": overrides,
        "seeds": [run["seed"] for run in runs],
        "machine": "; ".join(sorted({run["machine"] for run in runs})),
        "cpu_seconds": [round(run["cpu_seconds"], 1) for run in runs],
        "seconds": [round(run["seconds"], 1) for run in runs],
        "turns": [run["turns"] for run in runs],
        **table,
    }
    print(json.dumps(summary))
    if options.figure:
        draw(runs, table, measure_of(table["after"]), Path(options.recipe).stem, options.figure)


if __name__ == "__main__":
    main()
