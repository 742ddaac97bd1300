"""Checkpoints are whole or not there; what is missing or does not fit is one line, never a silent new start."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from games import recipe
from safetensors.torch import load_file, save_file

import agentrl.checkpoint
from agentrl.checkpoint import Progress, checkpoints, recall
from agentrl.config import Config
from agentrl.configfile import dump_config
from agentrl.errors import UserError
from agentrl.results import write_json, write_text
from agentrl.trainer import Trainer

SECTIONS: dict[str, Any] = {"batch": {"num_envs": 2, "turns_per_env": 4, "updates": 2}, "evaluation": {"episodes": 0}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two updates."""
    folder = tmp_path_factory.mktemp("finished")
    Trainer(recipe(folder, **SECTIONS)).fit()
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Config:
    """A copy of it, to be damaged."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return recipe(tmp_path, **SECTIONS)


def newest(config: Config) -> Path:
    return checkpoints(Path(config.output_dir) / config.name)[-1]


def test_checkpoints_are_sorted_by_number(tmp_path: Path) -> None:
    for name in ("step-10", "step-9", "step-0", ".writing-step-11", ".removing-step-3", "step-x", "step-²", "other"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-0", "step-9", "step-10"]
    assert checkpoints(tmp_path / "nowhere") == []


def test_results_of_the_same_update_and_config_are_recalled(tmp_path: Path) -> None:
    path, config = tmp_path / "results.json", recipe(tmp_path)

    def recalled(config: Config = config, update: int = 3) -> tuple[dict[str, Any], float]:
        progress = Progress(update=update, seconds=2.0, evaluations={"before": {}})
        recall(progress, tmp_path, config)
        return progress.evaluations, progress.seconds

    nothing = {"before": {}}, 2.0
    after = {"after": {"fake/echo": {"success": 1}}}
    write_json(path, {**after, "other": {"h": {}}, "updates": 3, "seconds": 7.5, "versions": {"torch": "2"}})
    assert recalled() == nothing  # by an unknown config
    write_text(tmp_path / "config.yaml", dump_config(config))
    assert recalled() == ({"before": {}, **after}, 7.5)
    assert recalled(update=2) == nothing
    assert recalled(recipe(tmp_path, engine={"temperature": 0.5})) == nothing
    for text in ("[1]", "{", "\xff", '{"updates": 3}'):
        path.write_text(text, encoding="latin-1")
        assert recalled() == nothing
    path.unlink()
    assert recalled() == nothing


def without_a_tensor(path: Path) -> None:
    tensors = load_file(path)
    tensors.popitem()
    save_file(tensors, path)


def with_another_tensor(path: Path) -> None:
    save_file({**load_file(path), "nobody": torch.zeros(1)}, path)


def with_anothers_tensor(path: Path) -> None:
    tensors = load_file(path)
    tensors["nobody/exp_avg"] = tensors.popitem()[1]
    save_file(tensors, path)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def edited(**fields: Any) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return edit


DAMAGES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "value head lacks a tensor": ("value.safetensors", without_a_tensor, "does not fit the model"),
    "value head has a tensor too many": ("value.safetensors", with_another_tensor, "does not fit the model"),
    "value head missing": ("value.safetensors", Path.unlink, "is damaged"),
    "value head truncated": ("value.safetensors", truncated, "is damaged"),
    "optimizer missing": ("optimizer.safetensors", Path.unlink, "is damaged"),
    "optimizer truncated": ("optimizer.safetensors", truncated, "is damaged"),
    "optimizer lacks a moment": ("optimizer.safetensors", without_a_tensor, "is damaged .*53 of 54 tensors"),
    "optimizer of another model": ("optimizer.safetensors", with_anothers_tensor, "is damaged .*'nobody'"),
    "generators missing": ("rng-0.safetensors", Path.unlink, "is damaged"),
    "generators lack one": ("rng-0.safetensors", without_a_tensor, "is damaged"),
    "games missing": ("games-0.json", Path.unlink, "is damaged"),
    "games truncated": ("games-0.json", truncated, "is damaged"),
    "state truncated": ("state.json", truncated, "is damaged"),
    "state of another version": ("state.json", edited(progress={"updates": 3}), "is damaged"),
    "written by more processes": ("state.json", edited(processes=4), "was written by 4 processes: resume with as many"),
    "model missing": ("model.safetensors", Path.unlink, "no causal language model could be loaded"),
    "model truncated": ("model.safetensors", truncated, "no causal language model could be loaded"),
    "model lacks a tensor": ("model.safetensors", without_a_tensor, "lack 1 of the model's tensors"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_c13_a_damaged_checkpoint_is_one_line(run: Config, damage: str) -> None:
    name, do, message = DAMAGES[damage]
    do(newest(run) / name)
    with pytest.raises(UserError, match=message) as caught:
        Trainer(run, resume=True)
    assert str(newest(run)) in str(caught.value)


def test_another_number_of_games_is_one_line(run: Config) -> None:
    batch = run.batch.model_copy(update={"num_envs": 4})
    with pytest.raises(UserError, match=r"batch\.num_envs = 4: .*step-2 holds 2 games"):
        Trainer(run.model_copy(update={"batch": batch}), resume=True)


def test_without_the_damaged_one_the_run_resumes_from_the_one_before(run: Config) -> None:
    truncated(newest(run) / "optimizer.safetensors")
    shutil.rmtree(newest(run))
    trainer = Trainer(run, resume=True)
    assert trainer.update == 0
    assert trainer.fit()["updates"] == 2


def test_all_that_was_saved_comes_back(run: Config) -> None:
    trainer = Trainer(run, resume=True)
    folder = newest(run)
    state = json.loads((folder / "state.json").read_text())
    assert (trainer.update, trainer.learner.policy_steps, trainer.learner.value_steps) == (2, 4, 4)
    assert trainer.progress.turns == state["progress"]["turns"] == 16
    moments = load_file(folder / "optimizer.safetensors")
    names = dict(trainer.parts.model.named_parameters())
    assert {name.rsplit("/", 1)[0] for name in moments} == set(names)
    for name, parameter in names.items():
        for part in ("exp_avg", "exp_avg_sq", "step"):
            assert torch.equal(trainer.learner.optimizer.state[parameter][part], moments[f"{name}/{part}"])
    values = load_file(folder / "value.safetensors")
    assert all(torch.equal(parameter, values[name]) for name, parameter in trainer.parts.model.value_parameters())
    assert any(parameter.abs().sum() > 0 for name, parameter in trainer.parts.model.value_parameters() if "out" in name)


def draws() -> list[float]:
    random.gauss(0, 1)  # leaves a second number in store
    np.random.standard_normal()
    return [
        random.random(),
        random.gauss(0, 1),
        float(np.random.standard_normal()),
        float(torch.rand(())),
        np.random.rand(),
    ]


def test_generators_of_every_kind_come_back(run: Config) -> None:
    Trainer(run, resume=True)
    first = draws()
    draws()
    Trainer(run, resume=True)
    assert draws() == first
    tensors = agentrl.checkpoint._rng_tensors()
    second = draws()
    agentrl.checkpoint._set_rng(tensors)
    assert draws() == second != first


def test_what_a_kill_left_is_cleared_away(run: Config) -> None:
    folder = newest(run).parent
    for name in (".writing-step-7", ".removing-step-1"):
        (folder / name).mkdir()
        (folder / name / "model.safetensors").write_text("half")
    longer = run.model_copy(update={"batch": run.batch.model_copy(update={"updates": 3})})
    Trainer(longer, resume=True).fit()
    assert {path.name for path in folder.iterdir()} == {"step-2", "step-3"}


def test_a_failure_to_write_leaves_no_checkpoint_of_that_name(run: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(agentrl.checkpoint, "_fsync", full)
    longer = run.model_copy(update={"batch": run.batch.model_copy(update={"updates": 4})})
    with pytest.raises(OSError, match="No space left"):
        Trainer(longer, resume=True).fit()
    assert newest(run).name == "step-2"


def test_nothing_in_a_checkpoint_is_pickled(run: Config) -> None:
    suffixes = {path.suffix for path in newest(run).iterdir()}
    assert suffixes == {".safetensors", ".json", ".jinja"}


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_its_files_are_for_whom_the_folder_is(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        config = recipe(tmp_path, batch={"num_envs": 2, "turns_per_env": 2, "updates": 1}, evaluation={"episodes": 0})
        Trainer(config).fit()
    finally:
        os.umask(before)
    assert {file.name: file.stat().st_mode & 0o777 for file in newest(config).iterdir()} == {
        file.name: 0o666 & ~umask for file in newest(config).iterdir()
    }
