"""The recipes under experiments/ train: at the size of a test, with their own games, styles and settings."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from killable import left_behind
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentrl.configfile import load_config
from agentrl.tracking import read_metrics
from agentrl.trainer import Trainer
from agentrl.turn_files import read_turns

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
END = 151645  # <|im_end|> of Qwen2.5

SMALL = [
    "--batch.num_envs=2",
    "--batch.turns_per_env=2",
    "--algorithm.minibatches=2",
    "--evaluation.episodes=1",
    "--evaluation.keep_episodes=1",
    "--evaluation.every=0",
    "--evaluation.greedy=false",
    "--tracking.turns_every=1",
    "--tracking.backends=[]",
]


@pytest.mark.parametrize("name", ["babyai_qwen2.5_3b", pytest.param("babaisai_qwen2.5_3b", marks=pytest.mark.slow)])
def test_a_qwen_recipe_trains_with_the_real_tokenizer(tmp_path: Path, qwen_tiny_dir: Path, name: str) -> None:
    """As its command line says, with two random layers for a model and replies of 6 tokens."""
    overrides = [
        *SMALL,
        f"--output_dir={tmp_path}",
        f"--model.path={qwen_tiny_dir}",
        "--engine.max_reply_tokens=6",
        "--batch.updates=1",
        "--critic_warmup.max_updates=1",
    ]
    config = load_config(EXPERIMENTS / f"{name}.yaml", overrides)
    results = Trainer(config).fit()
    assert (results["updates"], results["turns"]) == (2, 8)
    folder = tmp_path / config.name
    warmup, update = (row for row in read_metrics(folder / "metrics.jsonl") if "losses/value" in row)
    assert (warmup["phase/critic_warmup"], update["phase/critic_warmup"]) == (1.0, 0.0)
    assert update["reference_kl"] == 0.0
    assert update["grad_norm/policy"] > 0
    # bf16 on CPU: prefill with a cache and the trainer's forward pass differ by its rounding, not by more.
    assert update["logprob_diff/max"] < 0.2
    turns = read_turns(folder / "turns" / "update-000002.parquet")
    tokenizer = AutoTokenizer.from_pretrained(qwen_tiny_dir)
    for turn in turns:
        assert turn.prompt_ids == tokenizer.apply_chat_template(
            turn.messages, add_generation_prompt=True, return_dict=False
        )
        assert len(turn.reply_ids) <= 6
        assert turn.finish_reason == ("stop" if turn.reply_ids[-1] == END else "length")
        assert "THINK" in turn.messages[0]["content"]
    lm = AutoModelForCausalLM.from_pretrained(folder / "checkpoints" / "step-2")
    assert lm.config.vocab_size == 151936


@pytest.mark.parametrize(
    "name",
    sorted(path.stem for path in EXPERIMENTS.glob("*.yaml") if "qwen" not in path.stem and "smollm2" not in path.stem),
)
def test_a_small_recipe_trains(tmp_path: Path, name: str) -> None:
    small = [*SMALL, f"--output_dir={tmp_path}", "--batch.updates=1"]
    config = load_config(EXPERIMENTS / f"{name}.yaml", small)
    if config.imitation.episodes:
        config = load_config(EXPERIMENTS / f"{name}.yaml", [*small, "--imitation.episodes=2", "--imitation.epochs=1"])
    results = Trainer(config).fit()
    assert results["updates"] >= 1
    assert all(results[group][config.game.id]["episodes"] == 1 for group in ("random", "before", "after"))


GAMES = {"quickstart": [], "crafter_tiny": ["--game.options.max_turns=40"]}
"""Recipes that are killed, with what makes their episodes short."""


def command(recipe: str, folder: Path, *arguments: str) -> list[str]:
    sizes = ["--batch.num_envs=4", "--batch.turns_per_env=8", "--batch.updates=12", "--critic_warmup.max_updates=2"]
    rest = ["--evaluation.episodes=4", "--checkpoint.every=3", "--tracking.turns_every=0", f"--output_dir={folder}"]
    file = str(EXPERIMENTS / f"{recipe}.yaml")
    own = [*GAMES[recipe], "--name=run", "--evaluation.greedy=false"]
    return [sys.executable, "-m", "agentrl", "train", file, *sizes, *rest, *own, *arguments]


def logged(folder: Path) -> int:
    path = folder / "run" / "metrics.jsonl"
    return sum("losses/value" in row for row in read_metrics(path)) if path.exists() else 0


def interrupt(number: int, recipe: str, folder: Path, *arguments: str) -> int:
    """Start training, send it a signal after two more updates; its exit code."""
    before = logged(folder)
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command(recipe, folder, *arguments), env=one_thread, **quiet) as process:
        while logged(folder) in (0, before, before + 1) and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(number)
        return process.wait(timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", GAMES)
def test_c13_c25_the_command_line_killed_and_resumed(tmp_path: Path, recipe: str) -> None:
    """`agentrl train`, SIGKILL, `--resume`, SIGTERM, `--resume`, SIGINT, `--resume`: as if nothing had been."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert subprocess.run(command(recipe, whole), capture_output=True).returncode == 0
    assert interrupt(signal.SIGKILL, recipe, broken) == -signal.SIGKILL
    again = subprocess.run(command(recipe, broken), capture_output=True, text=True)
    assert again.returncode == 2
    assert again.stderr.splitlines()[-1].startswith("agentrl: ")
    assert "holds a run already: add --resume" in again.stderr
    assert interrupt(signal.SIGTERM, recipe, broken, "--resume") == 0
    assert json.loads((broken / "run" / "results.json").read_text())["interrupted"]
    assert interrupt(signal.SIGINT, recipe, broken, "--resume") == 0
    assert subprocess.run(command(recipe, broken, "--resume"), capture_output=True).returncode == 0
    found, expected = left_behind(broken / "run"), left_behind(whole / "run")
    for name in ("step", "tensors", "state", "games", "metrics", "evaluations"):
        assert found[name] == expected[name]
