"""Training on two processes: they agree, one of them writes, and neither waits for the other for ever."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from games import recipe
from killable import left_behind
from safetensors.torch import load_file
from two_processes import GAME

from agentrl.new_model import create
from agentrl.tracking import read_metrics
from agentrl.trainer import Trainer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    create(folder, "fake/echo", {}, recipe(folder).model.new)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """A whole run, and one that was stopped by a signal to one of its processes, and resumed."""
    folder = tmp_path_factory.mktemp("runs")
    script = Path(__file__).with_name("two_processes.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(script), str(folder), str(model)], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def bits(path: Path) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in load_file(path).items()}


def test_both_processes_end_with_the_same_weights(runs: Path, model: Path) -> None:
    assert bits(runs / "whole-0.safetensors") == bits(runs / "whole-1.safetensors")
    stored = bits(runs / "whole" / "checkpoints" / "step-4" / "model.safetensors")
    assert all(bits(runs / "whole-1.safetensors")[f"lm.{name}"] == weights for name, weights in stored.items())
    assert stored != bits(model / "model.safetensors")


def test_the_main_process_alone_writes(runs: Path) -> None:
    folder = runs / "whole"
    rows = read_metrics(folder / "metrics.jsonl")
    assert [row["update"] for row in rows if "losses/value" in row] == [1, 2, 3, 4]
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"step-2", "step-4"}
    names = {path.name for path in (folder / "checkpoints" / "step-4").iterdir()}
    assert {"games-0.json", "games-1.json", "rng-0.safetensors", "rng-1.safetensors"} < names
    state = json.loads((folder / "checkpoints" / "step-4" / "state.json").read_text())
    assert state["processes"] == 2
    assert state["progress"]["turns"] == 4 * 24


def test_two_processes_play_what_one_would(runs: Path, model: Path, tmp_path: Path) -> None:
    """Games, evaluations and the first batch's figures do not depend on the number of processes."""
    sections: dict[str, Any] = {**GAME, "batch": {**GAME["batch"], "updates": 1}, "critic_warmup": {"max_updates": 0}}
    alone = Trainer(recipe(tmp_path, model={"path": str(model)}, **sections)).fit()
    together = json.loads((runs / "whole" / "results.json").read_text())
    assert together["random"] == alone["random"]
    assert together["before"] == alone["before"]
    first, expected = (
        next(row for row in read_metrics(folder / "metrics.jsonl") if "losses/value" in row)
        for folder in (runs / "whole", tmp_path / "run")
    )
    names = [name for name in expected if name.startswith(("episode/", "turns/", "returns/", "values/"))]
    assert len(names) > 10
    assert {name: first[name] for name in names} == pytest.approx({name: expected[name] for name in names})


def test_c13_two_processes_resume_to_the_bit(runs: Path) -> None:
    """Stopped by a signal that only one of them got."""
    whole, stopped = left_behind(runs / "whole"), left_behind(runs / "stopped")
    for name in ("step", "tensors", "state", "games", "metrics", "evaluations"):
        assert stopped[name] == whole[name]
    assert bits(runs / "stopped-0.safetensors") == bits(runs / "stopped-1.safetensors")
