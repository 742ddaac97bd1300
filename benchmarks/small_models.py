"""What small models learn, against the figures of an earlier prototype: success and CPU seconds of the training loop.

    python benchmarks/small_models.py --seeds 0            # all rows; --rows goto_obj free to choose

The prototype (0.13 M parameters, one torch thread, bf16, another processor) is quoted, not run: its figures are one
seed over 64 or 128 episodes. `to 0.95` is the CPU seconds after which four batches in a row had that success.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from seeds import pooled, train

from agentrl.results import machine

QUICKSTART, FREE = "experiments/quickstart.yaml", "experiments/babyai_free.yaml"

ROWS: dict[str, dict[str, Any]] = {
    "goto_obj": {
        "recipe": QUICKSTART,
        "overrides": ["--game.id=babyai/BabyAI-GoToObj-v0", "--batch.updates=16"],
        "prototype": {"success": 1.00, "turns": 16_000, "cpu_seconds": 32},
    },
    "s5n2": {
        "recipe": QUICKSTART,
        "overrides": [],
        "prototype": {"success": 0.95, "turns": 30_000, "cpu_seconds": 76},
    },
    "s5n2_imitated": {
        "recipe": QUICKSTART,
        "overrides": ["--imitation.episodes=100", "--imitation.epochs=20", "--batch.updates=12"],
        "prototype": {"success": 0.98, "turns": 12_000, "cpu_seconds": 32},
    },
    "goto_local": {
        "recipe": QUICKSTART,
        "overrides": ["--game.id=babyai/BabyAI-GoToLocal-v0", "--prompt.max_prompt_tokens=512", "--batch.updates=16"],
        "prototype": {"success": 0.63, "turns": 16_000, "cpu_seconds": 115},
    },
    "free": {
        "recipe": FREE,
        "overrides": ["--batch.updates=20"],
        "prototype": {"success": 0.69, "turns": 20_000, "cpu_seconds": 54},
    },
}


def seconds_to(run: dict[str, Any], success: float, batches: int = 4) -> float | None:
    """CPU seconds until `batches` batches in a row had that success; None if it never came."""
    rows = [m for m in run["metrics"] if "episode/success" in m]
    for end in range(batches, len(rows) + 1):
        if all(m["episode/success"] >= success for m in rows[end - batches : end]):
            share = rows[end - 1]["turns"] / rows[-1]["turns"]
            return round(run["cpu_seconds"] * share, 1)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine(), "seeds": options.seeds}
    for name in options.rows:
        row = ROWS[name]
        with tempfile.TemporaryDirectory() as folder:
            runs = [train(row["recipe"], seed, Path(folder), row["overrides"]) for seed in options.seeds]
        figures[name] = {
            "before": pooled(runs, "before"),
            "after": pooled(runs, "after"),
            "turns": [run["turns"] for run in runs],
            "cpu_seconds": [round(run["cpu_seconds"], 1) for run in runs],
            "to_0.95": [seconds_to(run, 0.95) for run in runs],
            "prototype": row["prototype"],
        }
        print(f"{name}: {json.dumps(figures[name])}", flush=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
