"""Train one recipe with several seeds and pool what it learned: success with Wilson intervals, CPU seconds, a figure.

    python benchmarks/seeds.py experiments/quickstart.yaml --seeds 0 1 2 --figure docs/quickstart.svg --batch.updates=30

Unknown options are overrides of the recipe. CPU seconds are those of the training loop alone, evaluations left out.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from agentrl.results import machine
from agentrl.statistics import wilson

ROWS = ("random", "untrained", "before", "after", "after_greedy")


def train(recipe: str, seed: int, folder: Path, overrides: list[str]) -> dict[str, Any]:
    """One run in a process of its own; its results, and its metrics under "metrics"."""
    name = f"seed-{seed}"
    command = [sys.executable, "-m", "agentrl", "train", recipe, f"--seed={seed}", f"--name={name}"]
    finished = subprocess.run(
        [*command, f"--output_dir={folder}", *overrides], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if finished.returncode:
        raise SystemExit(f"seed {seed} failed:\n{finished.stdout[-2000:]}")
    results: dict[str, Any] = json.loads((folder / name / "results.json").read_text())
    results["metrics"] = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    return results


def pooled(runs: list[dict[str, Any]], row: str) -> dict[str, Any] | None:
    """Successes of all runs together, each run's own beside them."""
    figures = [next(iter(run[row].values())) for run in runs if row in run]
    if not figures or figures[0]["success"] is None:
        return None
    episodes = sum(f["episodes"] for f in figures)
    successes = sum(round(f["success"] * f["episodes"]) for f in figures)
    return {
        "success": successes / episodes,
        "success_ci95": wilson(successes, episodes),
        "episodes": episodes,
        "each": [f["success"] for f in figures],
        "return": sum(f["return"] for f in figures) / len(figures),
        "length": sum(f["length"] for f in figures) / len(figures),
    }


def draw(runs: list[dict[str, Any]], seeds: list[int], title: str, path: Path) -> None:
    """Success of the episodes that ended in each batch, over turns, a line a seed.

    The first two batches are left out: only short episodes, the successful ones, can have ended by then.
    """
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    for seed, run in zip(seeds, runs, strict=True):
        rows = [m for m in run["metrics"] if "episode/success" in m and m["update"] > 2]
        axes.plot([m["turns"] for m in rows], [m["episode/success"] for m in rows], label=f"seed {seed}", lw=1.4)
    for row, style in (("random", ":"), ("after", "--")):
        if (figures := pooled(runs, row)) is not None:
            label = {"random": "random player", "after": "held-out, after"}[row]
            axes.axhline(figures["success"], ls=style, color="0.4", lw=1, label=label)
    axes.set(xlabel="turns", ylabel="success", ylim=(0, 1.02), title=title)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder")
    options, overrides = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        with ThreadPoolExecutor(options.jobs) as pool:
            runs = list(pool.map(lambda seed: train(options.recipe, seed, folder, overrides), options.seeds))
    table = {row: figures for row in ROWS if (figures := pooled(runs, row)) is not None}
    for row, figures in table.items():
        low, high = figures["success_ci95"]
        each = " ".join(f"{x:.3f}" for x in figures["each"])
        print(
            f"{row:13} success {figures['success']:.3f} [{low:.3f}, {high:.3f}]  seeds {each}  n={figures['episodes']}"
        )
    print("CPU seconds of training:", " ".join(f"{run['cpu_seconds']:.0f}" for run in runs))
    if options.figure:
        draw(runs, options.seeds, Path(options.recipe).stem, options.figure)
    summary = {
        "recipe": options.recipe,
        "overrides": overrides,
        "seeds": options.seeds,
        "machine": machine(),
        "cpu_seconds": [round(run["cpu_seconds"], 1) for run in runs],
        "seconds": [round(run["seconds"], 1) for run in runs],
        "turns": [run["turns"] for run in runs],
        **table,
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
