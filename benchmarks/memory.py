"""What each memory keeps: the recall game, a word told at turn 1 and asked for at turn k, learned from random weights.

    python benchmarks/memory.py --lengths 2 4 8 16 --kept memory/ --jobs 2

A row a memory, a column a k: success on held-out episodes, after imitation of the scripted player (the form of notes
is taught by it) and PPO. A window of n past turns can know the word if n >= k - 1; four words: chance is 0.25. Finished
cells are kept in `--kept` and not done again. Unknown options are overrides.
"""

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from quiet_runs import quiet_run

from agentrl import Trainer
from agentrl.configfile import make_config
from agentrl.results import machine, write_json

MEMORIES: dict[str, dict[str, Any]] = {
    **{f"window of {n}": {"history": n} for n in (0, 1, 2, 4, 8)},
    "8 actions alone": {"history": 8, "style": "terse_actions"},
    "differences of 8": {"history": 8, "memory": "diff"},
    "notes, no window": {"history": 0, "memory": "summary", "style": "notes"},
}

NOTES = """past: "{{ scene }}"
current: '{{ [scene, status, mission] | select | join("\\n") }}'
reply: |
  MEMORY: {{ notes.splitlines() | join(" ") }}
  ACTION: {{ action }}
invalid: "{{ action }}"
"""
"""The style of notes for a small model: no words beside the game's own."""


def cell(memory: str, length: int, kept: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Held-out figures of one memory at one length."""
    file = kept / f"{memory.replace(' ', '_')}-{length}.json"
    if file.is_file():
        return json.loads(file.read_text())
    prompt = {"style": "terse", "max_prompt_tokens": 512} | MEMORIES[memory]
    notes = prompt["style"] == "notes"
    with quiet_run() as (folder, quiet):
        if notes:
            prompt["style"] = str(folder / "notes.yaml")
            Path(prompt["style"]).write_text(NOTES)
        tree = {
            "name": "cell",
            "game": {"id": "recall", "options": {"length": length}},
            "prompt": prompt,
            "engine": {"constrain": "actions", "max_reply_tokens": 24 if notes else 8},
            "imitation": {"episodes": 300, "epochs": 12},
            "batch": {"num_envs": 32, "turns_per_env": 16, "updates": 6},
            "algorithm": {"gamma_step": 1.0, "epochs": 2},
            "optimizer": {"lr": 2e-4, "value_lr": 1e-3, "micro_batch_turns": 64},
            "evaluation": {"episodes": 200},
        }
        found = Trainer(make_config(tree, [*quiet, *overrides])).fit()
    row = found["after"]["recall"]
    figures = {name: row[name] for name in ("success", "success_ci95", "invalid_fraction")}
    figures |= {"memory": memory, "length": length, "before_ppo": found["before"]["recall"]["success"]}
    kept.mkdir(parents=True, exist_ok=True)
    write_json(file, figures)
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2, 4, 8, 16], metavar="K")
    parser.add_argument("--only", nargs="+", choices=MEMORIES, default=list(MEMORIES), metavar="MEMORY")
    parser.add_argument("--kept", type=Path, default=Path("memory"), metavar="DIR")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    options, overrides = parser.parse_known_args(arguments)
    rows = []
    print("| memory | " + " | ".join(f"k = {k}" for k in options.lengths) + " |")
    print("|---" * (len(options.lengths) + 1) + "|")
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        waiting = {
            memory: [pool.submit(cell, memory, k, options.kept, overrides) for k in options.lengths]
            for memory in options.only
        }
        for memory, futures in waiting.items():
            found = [future.result() for future in futures]
            rows += found
            cells = (
                f"{row['success']:.2f} [{row['success_ci95'][0]:.2f}, {row['success_ci95'][1]:.2f}]" for row in found
            )
            print(f"| {memory} | " + " | ".join(cells) + " |", flush=True)
    print(json.dumps({"cells": rows, "machine": machine()}))


if __name__ == "__main__":
    main()
