"""What a turn costs at turn 10, 400, 4,000 and 10,000 of one game: turn rows, and whole trajectories beside them.

    python benchmarks/flat_turns.py --figure docs/flat_turns.svg

The game never ends; a small model made for it plays. Between the marks replies are given, not sampled. From each mark
on 4 turns are sampled one by one, and 16 are one batch, trained on in one pass. `generate` is the CPU time of a sampled
turn, `game` that of the game and the next prompt, `train` that of scores, targets and optimizer step by the turn, all
the least of several; `activations` is what autograd keeps for the backward pass, by the turn; `checkpoint` the size of
the game's own state.

Whole trajectories stop where their context is full. Their generation reads the whole prompt each turn, no cache being
kept between turns. Their training is cheapest where a batch holds the whole episode: a row is then shared by all turns
so far, which `episode train` and `episode activations` measure beside the batch of 16.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from accelerate import Accelerator
from figure_file import checked

from agentrl import envs
from agentrl.agents import Agent
from agentrl.assembly import Parts, assemble
from agentrl.config import Config, NewModelConfig
from agentrl.engines.base import Reply
from agentrl.envs import GameSpec, Observation, TextEnv
from agentrl.episode import GameSlot
from agentrl.learner import Learner
from agentrl.new_model import create
from agentrl.records import FREE, Turn, TurnBatch
from agentrl.results import machine

MARKS = (10, 40, 100, 200, 400, 1_000, 4_000, 10_000)
SHOWN = (10, 100, 400, 4_000, 10_000)
SAMPLED, BATCH = 4, 16
COLUMNS = {
    "generate_ms": "ms",
    "game_ms": "ms",
    "train_ms": "ms",
    "activations_mb": "MB",
    "episode_train_ms": "ms",
    "episode_activations_mb": "MB",
    "checkpoint_kb": "KB",
}


class Road(TextEnv):
    """A road without end. `turns` is there for the reading of its text alone."""

    actions = {"left": "", "right": "", "on": ""}
    default_action = "on"

    def __init__(self, task: str = "default", turns: int = 1_000_000) -> None:
        self.max_turns = turns

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Any]:
        super().reset(seed=seed)
        return Observation("The road begins. A field to the left, a wood to the right."), {}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        mile = int(self.np_random.integers(100, 1_000))
        return Observation(f"Stone {mile}. A field to the left, a wood to the right."), 1.0, False, False, {}


class Given:
    """Answers `on` without asking the model."""

    def __init__(self, parts: Parts) -> None:
        ids = [*parts.tokenizer.encode("on", add_special_tokens=False), parts.end_id]
        self._reply = Reply("on", ids, [-1.0] * len(ids), [FREE] * len(ids))

    def act(self, slots: Sequence[GameSlot]) -> list[Reply]:
        return [self._reply] * len(slots)


class Kept:
    """Counts the bytes that autograd keeps for the backward pass; the weights, which are there anyway, left out."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self._bytes: dict[int, int] = {}

    def __enter__(self) -> "Kept":
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)
        self._hooks.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._hooks.__exit__(*exception)

    @property
    def bytes(self) -> int:
        return sum(self._bytes.values())

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._weights:
            self._bytes[storage.data_ptr()] = storage.nbytes()
        return tensor


class Full(Exception):
    """The context is full: the episode is over."""


def play(slot: GameSlot, agent: Agent, turns: int) -> tuple[list[Turn], list[float], list[float]]:
    """The turns, and each one's CPU seconds for the reply and for the game."""
    played, answering, stepping = [], [], []
    for _ in range(turns):
        start = time.process_time()
        (reply,) = agent.act([slot])
        answered = time.process_time()
        turn, episode = slot.play(reply)
        answering.append(answered - start)
        stepping.append(time.process_time() - answered)
        if episode is not None:
            raise Full
        played.append(turn)
    return played, answering, stepping


def train(learner: Learner, turns: list[Turn], following: list[int]) -> tuple[float, float]:
    """CPU milliseconds and MB of activations, by the turn, of an update on one batch."""
    last = replace(turns[-1], next_prompt_ids=following)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        batch = TurnBatch.from_turns([*turns[:-1], last], join=learner.config.rows == "trajectory")
        targets, _ = learner.targets(batch)
        with Kept(learner.model) as kept:
            learner.update(batch, targets, update=0)
        seconds.append(time.process_time() - start)
    return 1e3 * min(seconds) / len(turns), kept.bytes / len(turns) / 2**20


def measure(slot: GameSlot, parts: Parts, learner: Learner, given: Agent, before: list[Turn]) -> dict[str, float]:
    """The cost of a turn from where `slot` stands; of whole trajectories, whose turns so far are `before`, in both
    kinds of batch."""
    sampled, answering, stepping = play(slot, parts.agent("sample"), SAMPLED)
    state = len(json.dumps(slot.state()))
    rest, _, more = play(slot, given, BATCH - SAMPLED)
    turns = sampled + rest
    figures: dict[str, float] = {"turn": turns[0].turn, "prompt_tokens": len(turns[0].prompt_ids)}
    figures["generate_ms"] = 1e3 * min(answering)
    figures["game_ms"] = 1e3 * min(stepping + more)
    figures["train_ms"], figures["activations_mb"] = train(learner, turns, slot.prompt.ids)
    if learner.config.rows == "trajectory":
        whole = train(learner, before + turns, slot.prompt.ids)
        figures["episode_train_ms"], figures["episode_activations_mb"] = whole
        before += turns
    figures["checkpoint_kb"] = state / 2**10
    return {name: round(figure, 3) for name, figure in figures.items()}


def curve(rows: str, model: Path, context: int, marks: Sequence[int]) -> dict[str, Any]:
    """Measurements at `marks`, and the turn at which the context was full (none: it never was)."""
    config = Config.model_validate(
        {
            "name": "flat_turns",
            "rows": rows,
            "game": {"id": "road"},
            "model": {"path": str(model)},
            "prompt": {"style": "terse", "max_prompt_tokens": context},
            "engine": {"max_reply_tokens": 4},
            "batch": {"num_envs": 1, "turns_per_env": BATCH},
            "algorithm": {"minibatches": 1},
            "optimizer": {"micro_batch_turns": max(marks)},
        }
    )
    parts = assemble(config, model, torch.device("cpu"))
    learner, given = Learner(config, parts.model, Accelerator(cpu=True)), Given(parts)
    warm = parts.games(1, lambda episode: episode, evaluation=False)
    warm.next_episode()
    measure(warm, parts, learner, given, [])
    slot = parts.games(0, lambda episode: episode, evaluation=False)
    slot.next_episode()
    points: list[dict[str, float]] = []
    before: list[Turn] = []
    try:
        for mark in marks:
            turns, *_ = play(slot, given, mark - slot.turn)
            before += turns if rows == "trajectory" else []
            points.append(measure(slot, parts, learner, given, before))
            print(f"{rows:10}  turn {mark:6}  {json.dumps(points[-1])}", flush=True)
    except Full:
        return {"points": points, "context_full_at": slot.turn}
    return {"points": points, "context_full_at": None}


def show(curves: dict[str, dict[str, Any]]) -> None:
    heads = [name.rpartition("_")[0].replace("_", " ") for name in COLUMNS]
    print("\nrows          turn  prompt  " + "  ".join(f"{head:>{max(9, len(head))}}" for head in heads))
    for rows, found in curves.items():
        at = {point["turn"]: point for point in found["points"]}
        for mark in SHOWN:
            line = f"{rows:10}  {mark:6}  "
            if mark not in at:
                print(f"{line}context full after turn {found['context_full_at']}")
                continue
            line += f"{at[mark]['prompt_tokens']:6}"
            for head, (name, unit) in zip(heads, COLUMNS.items(), strict=True):
                text = f"{at[mark][name]:.4g} {unit}" if name in at[mark] else "-"
                line += f"  {text:>{max(9, len(head))}}"
            print(line)


def draw(curves: dict[str, dict[str, Any]], context: int, path: Path) -> None:
    """Generation, training and memory of a turn; dashed, where a batch holds the whole episode."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    panels = {
        "generation, CPU ms a turn": ("generate_ms", "", (1, 2_000)),
        "training, CPU ms a turn": ("train_ms", "episode_train_ms", (1, 2_000)),
        "training, MB of activations a turn": ("activations_mb", "episode_activations_mb", (0.1, 20)),
    }
    for ax, (label, (name, whole, limits)) in zip(axes, panels.items(), strict=True):
        for (rows, found), colour in zip(curves.items(), ("C0", "C1"), strict=True):
            points = found["points"]
            turns = [point["turn"] for point in points]
            ax.plot(turns, [p[name] for p in points], "o-", color=colour, ms=4, lw=1.4, label=f"rows: {rows}")
            if whole in points[0]:
                episode = [point[whole] for point in points]
                ax.plot(turns, episode, "o--", color=colour, ms=3, lw=1, label="whole episode in a batch")
            if found["context_full_at"] is not None:
                ax.axvline(found["context_full_at"], ls=":", color="0.4", lw=1, label=f"{context:,} tokens full")
        ax.set(xscale="log", yscale="log", xlabel="turn of the game", ylim=limits, title=label)
        ax.title.set_fontsize(10)
        ax.grid(alpha=0.25)
    axes[1].legend(fontsize=7, frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--context", type=int, default=16_000, help="tokens that a prompt may have")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    checked(parser, options.figure)
    torch.set_num_threads(1)
    envs.register(GameSpec("road", "A road without end.", Road))
    shape = NewModelConfig(max_positions=options.context + 64)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        create(model, "road", {"turns": 8}, shape)
        curves = {rows: curve(rows, model, options.context, MARKS) for rows in ("turn", "trajectory")}
    show(curves)
    print(json.dumps({"machine": machine(), "context": options.context, "batch_turns": BATCH, **curves}))
    if options.figure:
        draw(curves, options.context, options.figure)


if __name__ == "__main__":
    main()
