"""What each process of tests/test_processes.py runs: torchrun tests/two_processes.py FOLDER."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from games import recipe
from safetensors.torch import save_file

from agentrl.callbacks import Callback
from agentrl.trainer import Trainer

GAME: dict[str, Any] = {
    "game": {"options": {"breaks": "step", "break_every": 3}},  # episodes of two lengths, error turns
    "max_error_rate": 1.0,
    "critic_warmup": {"max_updates": 1},
    "batch": {"num_envs": 4, "turns_per_env": 6, "updates": 3},
    "algorithm": {"kl_coef": 0.1},
    "optimizer": {"micro_batch_turns": 5},
    "evaluation": {"episodes": 5, "num_envs": 2, "greedy": False, "keep_episodes": 3},
    "tracking": {"turns_every": 1},
}


class Stop(Callback):
    """The last process alone gets a signal, in the second update."""

    def on_batch(self, trainer: Any, turns: Any) -> None:
        if trainer.update == 1 and trainer.ranks.index == trainer.ranks.count - 1:
            os.kill(os.getpid(), signal.SIGTERM)


def main(folder: Path, model: str) -> None:
    def config(name: str) -> Any:
        return recipe(folder, name=name, model={"path": model}, **GAME)

    for name, arguments in (
        ("whole", {}),
        ("stopped", {"callbacks": [Stop()]}),
        ("stopped", {"resume": True}),
    ):
        trainer = Trainer(config(name), **arguments)
        results = trainer.fit()
        assert results["interrupted"] == ("callbacks" in arguments)
        assert trainer.update == (2 if results["interrupted"] else 4)
        weights = {key: value.detach().clone() for key, value in trainer.parts.model.named_parameters()}
        save_file(weights, folder / f"{name}-{trainer.ranks.index}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
