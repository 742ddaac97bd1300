"""Does the reward of turn 400 reach the choice of turn 1? Success, critic and advantages on the game `signpost`.

    python benchmarks/credit.py --figure docs/credit.svg          # --seeds 0 --recipes dual --reminder no for a part

`dual` is experiments/signpost.yaml: batches of 512 turns a game, so that an episode of 400 passes through one
recursion, with a step discount near 1. `single` discounts every token by 0.99 and 0.95 in batches as long; `short` is
`dual` in batches of 16 turns a game. All play the same number of turns in optimizer minibatches of the same size. With
the reminder every scene of the walk tells whether the road is right, so that a critic can carry the credit; without it,
none can.

After training each policy walks from a stirred start, half of the first choices right and half wrong: explained
variance of the discounted return by turn number, and the advantage of right over wrong first choices, computed in
batches as long as in training. `worth` is what the advantage gap would be if the credit arrived whole: the reward,
discounted to turn 1 as the recipe does.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from figure_file import checked
from quiet_runs import pooled_figures, quiet_run, runs_by_row
from seeds import line

from agentrl.collector import Collector
from agentrl.config import Config
from agentrl.configfile import load_config
from agentrl.engines.base import Reply, Request, Sampling
from agentrl.episode import GameSlot
from agentrl.ranks import Ranks
from agentrl.records import TurnBatch
from agentrl.results import machine
from agentrl.seeding import held_out_seed, key
from agentrl.statistics import bootstrap_mean, explained_variance
from agentrl.targets import make_targets
from agentrl.trainer import Trainer

RECIPE = "experiments/signpost.yaml"
SHORT = 16
WALKS = 32
"""Episodes of the measurement, an even number: half of them take the right road."""
LEAST_SPREAD = 0.01
"""Returns whose standard deviation is below it are noise beside a reward of 1: there is no variance to explain."""


def overrides(recipe: str, reminder: bool, config: Config) -> list[str]:
    """What makes `recipe` of the file's config; the short batches keep its turns and the size of its minibatches."""
    changed = [f"--game.options.reminder={str(reminder).lower()}"]
    if recipe == "single":
        pairs = {"gamma": 0.99, "lambda": 0.95}
        changed += [f"--algorithm.{name}_{of}={value}" for name, value in pairs.items() for of in ("step", "token")]
    if recipe == "short":
        times = config.batch.turns_per_env // SHORT
        changed += [
            f"--batch.turns_per_env={SHORT}",
            f"--batch.updates={config.batch.updates * times}",
            f"--algorithm.minibatches={max(1, config.algorithm.minibatches // times)}",
        ]
    return changed


class Stirred:
    """Plays the model, but takes the first choice out of its hands: right in even slots, wrong in odd ones."""

    def __init__(self, trainer: Trainer) -> None:
        self.engine = trainer.parts.engine
        self.sampling = Sampling(1.0, trainer.config.engine.max_reply_tokens)

    def act(self, slots: Sequence[GameSlot]) -> list[Reply]:
        return self.engine.generate([self._request(slot) for slot in slots])

    def _request(self, slot: GameSlot) -> Request:
        legal = slot.legal
        if slot.turn == 0:
            player = slot.game.scripted_player()
            assert player is not None
            assert legal is not None
            right = player()
            wrong = [name for name in legal if name != right]
            legal = (right if slot.index % 2 == 0 else wrong[slot.index // 2 % len(wrong)],)
        seed = key("evaluation", slot.index, slot.turn)
        return Request(slot.prompt.messages, slot.prompt.ids, self.sampling, legal, seed)


def measure(trainer: Trainer) -> dict[str, Any]:
    """Explained variance by turn number, and the advantage of each walk's first choice; W walks of T turns."""
    config = trainer.config
    slots = [trainer.parts.games(i, lambda episode, i=i: held_out_seed(i), evaluation=True) for i in range(WALKS)]
    turns = slots[0].game.max_turns
    collector = Collector(slots, Stirred(trainer))
    values, lengths, rewards = [], [], []
    first_W = np.zeros(0)
    for start in range(0, turns, config.batch.turns_per_env):
        batch = TurnBatch.from_turns(collector.collect(min(config.batch.turns_per_env, turns - start)).turns)
        scores = trainer.learner.scores(batch, policy=False)
        at = batch.reply_offsets[:-1]
        if start == 0:
            targets, _ = make_targets(batch, scores, config.algorithm, Ranks())
            first_W = targets.advantages_R[at].reshape(WALKS, -1)[:, 0]
        values.append(scores.values_R[at].reshape(WALKS, -1))
        lengths.append(batch.reply_lengths_N.reshape(WALKS, -1))
        rewards.append(batch.reward_N.reshape(WALKS, -1))
    collector.close()
    values_WT, lengths_WT, rewards_WT = (np.concatenate(parts, axis=1) for parts in (values, lengths, rewards))
    # From a turn's first token to the last token of the last turn: one token factor inside, one step factor between.
    within_WT = np.log(config.algorithm.gamma_token) * (lengths_WT - 1)
    between_T = np.log(config.algorithm.gamma_step) * np.arange(turns - 1, -1, -1)
    discount_WT = np.exp(np.cumsum(within_WT[:, ::-1], axis=1)[:, ::-1] + between_T)
    returns_WT = discount_WT * rewards_WT[:, -1:]
    return {
        "explained_variance": [_explained(values_WT[:, t], returns_WT[:, t]) for t in range(turns)],
        "right": first_W[0::2].tolist(),
        "wrong": first_W[1::2].tolist(),
        "worth": float(discount_WT[0::2, 0].mean()),
    }


def _explained(values_W: np.ndarray, returns_W: np.ndarray) -> float:
    return explained_variance(values_W, returns_W) if np.std(returns_W) >= LEAST_SPREAD else float("nan")


def run(recipe: str, reminder: bool, seed: int, extra: Sequence[str]) -> dict[str, Any]:
    """Train and measure."""
    start = time.process_time()
    changed = overrides(recipe, reminder, load_config(RECIPE, extra))
    with quiet_run() as (_, settings):
        trainer = Trainer(load_config(RECIPE, [*extra, *changed, f"--seed={seed}", *settings]))
        results = trainer.fit()
        measured = measure(trainer)
    return {**results, **measured, "total_cpu_seconds": time.process_time() - start}


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The runs of a recipe together; the gap's interval is over pairs of a right and a wrong walk."""
    gaps = [[right - wrong for right, wrong in zip(run["right"], run["wrong"], strict=True)] for run in runs]
    by_turn = median_explained(runs)
    return {
        **pooled_figures(runs),
        "gap": float(np.mean(gaps)),
        "gap_ci95": list(bootstrap_mean(np.ravel(gaps).tolist())),
        "gap_each": [round(float(np.mean(gap)), 6) for gap in gaps],
        "worth": runs[0]["worth"],
        "right": float(np.mean([run["right"] for run in runs])),
        "wrong": float(np.mean([run["wrong"] for run in runs])),
        "explained_variance": {
            str(turn): None if np.isnan(by_turn[turn - 1]) else round(float(by_turn[turn - 1]), 3)
            for turn in marks(len(by_turn))
            if turn <= len(by_turn)
        },
    }


def median_explained(runs: Sequence[dict[str, Any]]) -> np.ndarray:
    """By turn, the median over the runs that had a variance to explain; nan where none had."""
    known = np.ma.masked_invalid([run["explained_variance"] for run in runs])
    return np.ma.median(known, axis=0).filled(np.nan)


def marks(turns: int) -> list[int]:
    return [1, 2, turns // 4, turns // 2, turns * 3 // 4, turns]


def draw(found: dict[tuple[str, bool], list[dict[str, Any]]], path: Path) -> None:
    """Explained variance by turn number, and the first choice's advantage, a dot a seed."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained", width_ratios=(3, 2))
    colours = {"dual": "C0", "single": "C3", "short": "C1"}
    labels = []
    for place, ((recipe, reminder), runs) in enumerate(found.items()):
        look: dict[str, Any] = {"color": colours[recipe], "ls": "-" if reminder else ":"}
        label = f"{recipe}, {'reminder' if reminder else 'no reminder'}"
        labels.append(label.replace(", ", "\n"))
        by_turn = np.clip(median_explained(runs), -1, 1)
        left.plot(np.arange(1, len(by_turn) + 1), by_turn, label=label, lw=1.4, **look)
        for name, marker in (("right", "o"), ("wrong", "x")):
            means = [np.mean(run[name]) for run in runs]
            right.scatter([place] * len(means), means, marker=marker, color=colours[recipe], s=28)
    left.set(xlabel="turn number", ylabel="explained variance, median seed", ylim=(-1.05, 1.05))
    left.legend(fontsize=7, frameon=False)
    right.axhline(0, color="0.7", lw=0.8)
    right.set(ylabel="advantage at turn 1: o right, x wrong")
    right.set_xticks(range(len(labels)), labels, fontsize=6)
    for axes in (left, right):
        axes.grid(alpha=0.25)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--recipes", nargs="+", choices=("dual", "single", "short"), default=["dual", "single", "short"]
    )
    parser.add_argument("--reminder", nargs="+", choices=("no", "yes"), default=["no", "yes"])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--figure", type=Path)
    options, extra = parser.parse_known_args()
    checked(parser, options.figure)
    rows = [(recipe, reminder == "yes") for reminder in options.reminder for recipe in options.recipes]
    found: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    table: dict[str, Any] = {}
    for row, runs in runs_by_row(run, rows, options.seeds, extra, options.jobs):
        found[row] = runs
        name = f"{row[0]}, {'reminder' if row[1] else 'no reminder'}"
        table[name] = figures = summary(runs)
        low, high = figures["gap_ci95"]
        print(line(name, figures["after"]))
        print(f"    advantage gap {figures['gap']:.3g} [{low:.3g}, {high:.3g}] of {figures['worth']:.3g}", end="")
        print(f"  seeds {figures['gap_each']}  explained variance by turn {figures['explained_variance']}", flush=True)
    print(json.dumps({"recipe": RECIPE, "overrides": extra, "seeds": options.seeds, "machine": machine(), **table}))
    if options.figure:
        draw(found, options.figure)


if __name__ == "__main__":
    main()
