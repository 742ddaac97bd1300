"""Training in a process of its own, to be killed for real, and what is compared afterwards."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import games  # noqa: F401  (registers fake/echo)
from safetensors.torch import load_file

from agentrl.checkpoint import checkpoints
from agentrl.config import Config
from agentrl.tracking import read_metrics
from agentrl.trainer import Trainer

_context = get_context("forkserver")
# Imported once, not once a process.
_context.set_forkserver_preload(["agentrl.trainer", "transformers.models.qwen2.modeling_qwen2", "matplotlib.figure"])


@dataclass(frozen=True)
class Bomb:
    """`number` is sent to the process at the n-th call of `function` ("module:name" or "module:class.name").

    With `after` the call is finished first.
    """

    function: str
    n: int
    number: int = signal.SIGKILL
    after: bool = False

    def arm(self) -> None:
        module, _, path = self.function.partition(":")
        *owners, name = path.split(".")
        owner: Any = import_module(module)
        for part in owners:
            owner = getattr(owner, part)
        function: Callable[..., Any] = getattr(owner, name)
        calls = 0

        def explosive(*arguments: Any, **settings: Any) -> Any:
            nonlocal calls
            calls += 1
            here = calls == self.n
            if here and not self.after:
                os.kill(os.getpid(), self.number)
            result = function(*arguments, **settings)
            if here and self.after:
                os.kill(os.getpid(), self.number)
            return result

        setattr(owner, name, explosive)


def start(config: Config, bomb: Bomb | None = None) -> Any:
    """A process that trains, resuming what is there."""
    process = _context.Process(target=_train, args=(config, bomb))
    process.start()
    return process


def run(config: Config, bomb: Bomb | None = None) -> int:
    """Train to the end, or to the bomb; the exit code."""
    process = start(config, bomb)
    process.join()
    code: int = process.exitcode
    process.close()
    return code


def _train(config: Config, bomb: Bomb | None) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    if bomb is not None:
        bomb.arm()
    Trainer(config, resume=True).fit()


def left_behind(folder: Path) -> dict[str, Any]:
    """All that must be equal to the bit: weights, moments, generators, games, metrics, evaluations; the seconds too."""
    last = checkpoints(folder)[-1]
    state = json.loads((last / "state.json").read_text())
    for clock in ("seconds", "cpu_seconds"):
        del state["progress"][clock]
    results = json.loads((folder / "results.json").read_text())
    return {
        "step": last.name,
        "tensors": {
            f"{path.name}: {name}": tensor.numpy().tobytes()
            for path in sorted(last.glob("*.safetensors"))
            for name, tensor in load_file(path).items()
        },
        "state": state,
        "games": json.loads((last / "games-0.json").read_text()),
        "metrics": [
            {name: value for name, value in row.items() if not name.startswith("time/")}
            for row in read_metrics(folder / "metrics.jsonl")
        ],
        "seconds": results["seconds"],
        "evaluations": {name: group for name, group in results.items() if isinstance(group, dict)},
    }
