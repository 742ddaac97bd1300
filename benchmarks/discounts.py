"""What one discount for every token costs: credit horizons computed, and success at replies of 3 and of 30 tokens.

    python benchmarks/discounts.py --figure docs/discounts.svg       # --games signpost --seeds 0 for a part

`dual` takes gamma 0.99 and lambda 0.95 from turn to turn and 1 inside a turn; `single` takes them at every token. The
long replies are `hm hm ... ACTION: name`, in which everything but the action is forced: one legal id a position, read
with the prompt in a single pass, no policy loss, but value loss and a step of the recursion each. So the task, its
prompts and its choices stay the same, and only the number of tokens between two choices grows.

`horizon` is the number of turns after which a surprise is worth 1/e to a choice, -1 / (tokens * ln(gamma lambda)): how
far credit goes without a critic. `reach` is the same for gamma alone: how far it goes with a perfect one.
"""

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import yaml
from figure_file import checked
from quiet_runs import pooled_figures, quiet_run, runs_by_row
from seeds import line
from transformers import PreTrainedTokenizerBase

from agentrl.callbacks import Callback, TrainerView
from agentrl.chat import PROBE
from agentrl.configfile import load_config
from agentrl.constrain import ActionConstraint
from agentrl.prompting import Prompter
from agentrl.records import Turn
from agentrl.results import machine
from agentrl.trainer import Trainer

GAMMA, LAMBDA = 0.99, 0.95
TOKENS = (3, 30, 100)
TRAINED = (3, 30)
BESIDE_THE_FILLER = 5
"""Tokens of ` ACTION: name` and the end of the turn, where the name has two."""

DISCOUNTS = {"dual": (GAMMA, LAMBDA, 1.0, 1.0), "single": (GAMMA, LAMBDA, GAMMA, LAMBDA)}
GAMES = {
    "signpost": [
        "experiments/signpost.yaml",
        "--game.options.length=20",
        "--game.options.bench=5",
        "--batch.num_envs=32",
        "--batch.turns_per_env=32",
        "--batch.updates=40",
        "--algorithm.minibatches=8",
        "--optimizer.lr=2e-3",
        "--evaluation.episodes=256",
    ],
    "babyai": ["experiments/quickstart.yaml"],
}


def horizons(tokens: int) -> dict[str, dict[str, float]]:
    """Horizon and reach in turns; the first choice of a turn is `tokens` factors before the next turn's."""
    return {
        name: {"horizon": -1 / (steps * math.log(GAMMA * LAMBDA)), "reach": -1 / (steps * math.log(GAMMA))}
        for name, steps in (("dual", 1), ("single", tokens))
    }


class WholeReply(ActionConstraint):
    """Forces everything that a style puts before the action, not the action alone."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, end_id: int, prompter: Prompter) -> None:
        super().__init__(tokenizer, end_id, after_marker=False)
        self._prefix = prompter.reply_for(PROBE).removesuffix(PROBE)


def padded_style(style: str, tokens: int, folder: Path) -> Path:
    """A copy of a built-in style whose replies have `tokens` tokens."""
    fields = yaml.safe_load(Path(f"prompts/styles/{style}.yaml").read_text())
    fields["reply"] = "hm " * (tokens - BESIDE_THE_FILLER) + "ACTION: {{ action }}"
    path = folder / f"{style}_{tokens}.yaml"
    path.write_text(yaml.safe_dump(fields))
    return path


class Lengths(Callback):
    """Reply tokens a turn, as they were trained on."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def on_batch(self, trainer: TrainerView, turns: list[Turn]) -> None:
        self.lengths += [len(turn.reply_ids) for turn in turns]


def run(game: str, tokens: int, discount: str, seed: int, extra: Sequence[str]) -> dict[str, Any]:
    """Train one of `GAMES` with replies of `tokens` tokens."""
    start = time.process_time()
    recipe, *changed = GAMES[game]
    factors = zip(("gamma_step", "lambda_step", "gamma_token", "lambda_token"), DISCOUNTS[discount], strict=True)
    changed += [f"--algorithm.{name}={value}" for name, value in factors]
    lengths = Lengths()
    with quiet_run() as (folder, settings):
        changed += [f"--seed={seed}", *settings, *extra]
        if tokens > min(TOKENS):
            style = padded_style(load_config(recipe).prompt.style, tokens, folder)
            changed += [f"--prompt.style={style}", f"--engine.max_reply_tokens={tokens + 10}"]
        trainer = Trainer(load_config(recipe, changed), callbacks=[lengths])
        if tokens > min(TOKENS):
            parts = trainer.parts
            parts.engine.constraint = WholeReply(parts.tokenizer, parts.end_id, parts.games.prompter)
        results = trainer.fit()
    seconds = time.process_time() - start
    return {**results, "reply_tokens": float(np.mean(lengths.lengths)), "total_cpu_seconds": seconds}


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        **pooled_figures(runs),
        "reply_tokens": float(np.mean([run["reply_tokens"] for run in runs])),
    }


def draw(table: dict[str, Any], games: Sequence[str], path: Path) -> None:
    """Horizon over reply length, and success at the two lengths that were trained."""
    figure, axes = plt.subplots(1, 1 + len(games), figsize=(3.4 * (1 + len(games)), 3.3), layout="constrained")
    colours = {"dual": "C0", "single": "C3"}
    lengths = np.geomspace(2, 120, 60)
    for name, colour in colours.items():
        for measure, style in (("horizon", "-"), ("reach", ":")):
            curve = [horizons(n)[name][measure] for n in lengths]
            axes[0].plot(lengths, curve, style, color=colour, lw=1.4, label=f"{name}, {measure}")
    axes[0].set(xscale="log", yscale="log", xlabel="tokens a reply", ylabel="turns", title="credit horizon, computed")
    axes[0].set_xticks(TOKENS, [str(n) for n in TOKENS])
    axes[0].set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes[0].legend(fontsize=7, frameon=False)
    for panel, game in zip(axes[1:], games, strict=True):
        for shift, (name, colour) in zip((-0.12, 0.12), colours.items(), strict=True):
            for place, tokens in enumerate(TRAINED):
                after = table[f"{game}, {tokens} tokens, {name}"]["after"]
                low, high = after["success_ci95"]
                mean = after["success"]
                bars = [[mean - low], [high - mean]]
                label = name if place == 0 else None
                panel.errorbar([place + shift], [mean], yerr=bars, fmt="_", ms=14, color=colour, label=label)
                dots = [each["success"] for each in after["each"]]
                panel.scatter([place + shift] * len(dots), dots, s=14, color=colour, alpha=0.6)
        panel.set(ylim=(-0.02, 1.02), xlim=(-0.5, 1.5), xlabel="tokens a reply", title=f"{game}, success after")
        panel.set_xticks(range(len(TRAINED)), [str(n) for n in TRAINED])
        panel.legend(fontsize=7, frameon=False, loc="lower left")
    for panel in axes:
        panel.grid(alpha=0.25)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--figure", type=Path)
    options, extra = parser.parse_known_args()
    checked(parser, options.figure)
    computed = {str(tokens): horizons(tokens) for tokens in TOKENS}
    print("turns            horizon: dual  single    reach: dual  single")
    for tokens, of in computed.items():
        columns = [of[name][measure] for measure in ("horizon", "reach") for name in ("dual", "single")]
        print("{:>3} tokens a reply  {:9.2f}  {:6.2f}   {:9.1f}  {:6.1f}".format(tokens, *columns), flush=True)
    rows = [(game, tokens, discount) for game in options.games for tokens in TRAINED for discount in DISCOUNTS]
    table: dict[str, Any] = {}
    for (game, tokens, discount), runs in runs_by_row(run, rows, options.seeds, extra, options.jobs):
        name = f"{game}, {tokens} tokens, {discount}"
        table[name] = figures = summary(runs)
        each = " ".join(f"{one['success']:.3f}" for one in figures["after"]["each"])
        print(line(name, figures["after"]), f" seeds {each}  {figures['reply_tokens']:.1f} tokens a reply", flush=True)
    print(json.dumps({"seeds": options.seeds, "machine": machine(), "horizons": computed, **table}))
    if options.figure:
        draw(table, options.games, options.figure)


if __name__ == "__main__":
    main()
