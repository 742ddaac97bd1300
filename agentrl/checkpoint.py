"""Checkpoints: everything that makes N updates + kill + resume + N updates equal 2N updates, to the bit.

A checkpoint is a Hugging Face folder (model and tokenizer) with value.safetensors, optimizer.safetensors and state.json
beside it, and games-RANK.json and rng-RANK.safetensors for each process. It is written under a temporary name, fsynced
and renamed: a folder named step-N is always whole. Nothing in it is pickled.
"""

import json
import os
import random
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerBase

from agentrl.callbacks import Callback
from agentrl.config import Config
from agentrl.configfile import load_config
from agentrl.episode import SlotState
from agentrl.errors import UserError
from agentrl.learner import Learner
from agentrl.policy import load_values, save_policy
from agentrl.results import evaluations


@dataclass(slots=True)
class Progress:
    """Where a run stands at an update's boundary. `cpu_seconds` are those of the updates, evaluations left out;
    `skipped_steps` are the optimizer steps whose gradient was not finite, `kl_coef` is what it was adapted to."""

    update: int = 0
    warmup_updates: int = 0
    warmup_done: bool = False
    turns: int = 0
    policy_version: int = 0
    skipped_steps: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    kl_coef: float | None = None
    evaluations: dict[str, Any] = field(default_factory=dict)


class Checkpoints(Callback):
    """Writes a checkpoint every K updates."""

    def on_update(self, trainer: Any, metrics: dict[str, float]) -> None:
        every = trainer.config.checkpoint.every
        if every and trainer.update % every == 0:
            trainer.save_checkpoint()


def checkpoints(run_dir: Path) -> list[Path]:
    """Finished checkpoints of a run, oldest first."""
    found = [p for p in (run_dir / "checkpoints").glob("step-*") if p.name.removeprefix("step-").isdecimal()]
    return sorted(found, key=lambda p: int(p.name.removeprefix("step-")))


def save(
    run_dir: Path,
    learner: Learner,
    tokenizer: PreTrainedTokenizerBase,
    progress: Progress,
    games: list[SlotState],
    keep: int,
) -> Path:
    """Write checkpoints/step-N, N being the number of finished updates; older ones beyond `keep` are removed.

    Every process calls it, once an update: each writes its own games, the main one everything else. No checkpoint of
    that name may exist.
    """
    accelerator = learner.accelerator
    folder = run_dir / "checkpoints"
    final = folder / f"step-{progress.update}"
    temporary = folder / f".writing-{final.name}"
    if accelerator.is_main_process:
        for left_by_a_kill in (*folder.glob(".writing-*"), *folder.glob(".removing-*")):
            shutil.rmtree(left_by_a_kill)
        temporary.mkdir(parents=True)
    accelerator.wait_for_everyone()
    (temporary / f"games-{accelerator.process_index}.json").write_text(json.dumps(games))
    save_file(_rng_tensors(), temporary / f"rng-{accelerator.process_index}.safetensors")
    if accelerator.is_main_process:
        save_policy(learner.model, tokenizer, temporary)
        moments = _optimizer_tensors(learner)
        save_file(moments, temporary / "optimizer.safetensors")
        counters = {"policy_steps": learner.policy_steps, "value_steps": learner.value_steps, "moments": len(moments)}
        state = {"progress": asdict(progress), "learner": counters, "processes": accelerator.num_processes}
        (temporary / "state.json").write_text(json.dumps(state))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        for path in temporary.iterdir():
            # safetensors makes files for their owner alone; colleagues on a cluster want to read them.
            path.chmod(temporary.stat().st_mode & 0o666)
            _fsync(path)
        _fsync(temporary)
        temporary.rename(final)
        _fsync(folder)
        for old in checkpoints(run_dir)[:-keep]:
            shutil.rmtree(old.rename(folder / f".removing-{old.name}"))
    accelerator.wait_for_everyone()
    return final


def load(directory: Path, learner: Learner) -> tuple[Progress, list[SlotState]]:
    """Restore value head, optimizer, generators and counters; the language model was loaded from the same folder.

    Raises:
        UserError: the checkpoint was written by another number of processes or for another number of games, is damaged,
            or lacks a tensor.
    """
    rank, count = learner.ranks.index, learner.ranks.count
    try:
        state = json.loads((directory / "state.json").read_text())
        if state["processes"] != count:
            raise UserError(
                f"{directory} was written by {state['processes']} processes: resume with as many, not {count}"
            )
        games: list[SlotState] = json.loads((directory / f"games-{rank}.json").read_text())
        if len(games) * count != learner.config.batch.num_envs:
            raise UserError(
                f"batch.num_envs = {learner.config.batch.num_envs}: {directory} holds {len(games) * count} games"
            )
        load_values(learner.model, directory)
        moments = load_file(directory / "optimizer.safetensors")
        if len(moments) != state["learner"]["moments"]:
            raise KeyError(f"{len(moments)} of {state['learner']['moments']} tensors in optimizer.safetensors")
        _load_optimizer(learner, moments)
        learner.policy_steps = state["learner"]["policy_steps"]
        learner.value_steps = state["learner"]["value_steps"]
        _set_rng(load_file(directory / f"rng-{rank}.safetensors"))
        return Progress(**state["progress"]), games
    except UserError:
        raise
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise UserError(
            f"{directory} is damaged ({type(error).__name__}: {error}): remove it, to resume from the one before"
        ) from error


def recall(progress: Progress, run_dir: Path, config: Config) -> None:
    """Take up what results.json knows beyond the checkpoint, if the same config wrote it at the same update.

    Evaluations come after the checkpoint of their update; of the same weights, they would come out the same.
    """
    try:
        results = json.loads((run_dir / "results.json").read_bytes())
        if load_config(run_dir / "config.yaml") == config and results["updates"] == progress.update:
            played = {player: tasks for player, tasks in evaluations(results).items() if config.game.id in tasks}
            progress.seconds = max(progress.seconds, float(results["seconds"]))
            progress.evaluations |= played
    except (OSError, ValueError, KeyError, TypeError):
        return  # no such file, or not one of ours: then they are played again


def _optimizer_tensors(learner: Learner) -> dict[str, torch.Tensor]:
    """Adam's moments by parameter name: "NAME/exp_avg" and so on. Parameters that were never stepped have none."""
    state = learner.optimizer.state
    return {
        f"{name}/{part}": tensor.detach().contiguous()
        for name, parameter in learner.model.named_parameters()
        for part, tensor in state.get(parameter, {}).items()
    }


def _load_optimizer(learner: Learner, tensors: dict[str, torch.Tensor]) -> None:
    parameters = dict(learner.model.named_parameters())
    for full_name, tensor in tensors.items():
        name, part = full_name.rsplit("/", 1)
        parameter = parameters[name]
        value = tensor if part == "step" else tensor.to(parameter.device)
        learner.optimizer.state[parameter][part] = value


def _rng_tensors() -> dict[str, torch.Tensor]:
    version, words, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    tensors = {
        "torch": torch.get_rng_state(),
        "python": torch.tensor([version, *words], dtype=torch.int64),
        "python_gauss": torch.tensor([float("nan") if gauss is None else gauss], dtype=torch.float64),
        "numpy": torch.from_numpy(np.asarray(keys, dtype=np.int64)),
        "numpy_rest": torch.tensor([position, has_gauss, cached], dtype=torch.float64),
    }
    for index in range(torch.cuda.device_count()):
        tensors[f"cuda-{index}"] = torch.cuda.get_rng_state(index)
    return tensors


def _set_rng(tensors: dict[str, torch.Tensor]) -> None:
    torch.set_rng_state(tensors["torch"])
    version, *words = tensors["python"].tolist()
    gauss = float(tensors["python_gauss"])
    random.setstate((version, tuple(words), None if np.isnan(gauss) else gauss))
    position, has_gauss, cached = tensors["numpy_rest"].tolist()
    np.random.set_state(("MT19937", tensors["numpy"].numpy().astype(np.uint32), int(position), int(has_gauss), cached))
    for index in range(torch.cuda.device_count()):
        if f"cuda-{index}" in tensors:
            torch.cuda.set_rng_state(tensors[f"cuda-{index}"], index)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
