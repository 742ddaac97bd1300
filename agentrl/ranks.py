"""Sums and concatenations over all processes of a run; on one process they give back what they were given."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import gather_object
from numpy.typing import NDArray

from agentrl.config import Config

Array = NDArray[np.float64]
T = TypeVar("T")


def make_accelerator(config: Config) -> Accelerator:
    """Device and precision of a run, with torch's threads set."""
    if config.torch_threads:
        torch.set_num_threads(config.torch_threads)
    # Accelerate fixes a process's precision once; here each run has its own.
    AcceleratorState._reset_state()
    # Without being told cpu, it makes of torchrun's processes on CPUs as many runs that do not know each other.
    return Accelerator(cpu=not torch.accelerator.is_available(), mixed_precision=config.model.precision)


class Ranks:
    """The processes of a run, `index` this one's number among `count`; without an accelerator, this process alone."""

    def __init__(self, accelerator: Accelerator | None = None) -> None:
        self.accelerator = accelerator
        self.index = accelerator.process_index if accelerator else 0
        self.count = accelerator.num_processes if accelerator else 1

    def sum(self, array: Array) -> Array:
        """Elementwise sum over processes; every process gets it."""
        if self.accelerator is None or self.count == 1:
            return array
        tensor = torch.from_numpy(np.asarray(array, dtype=np.float64)).to(self.accelerator.device)
        return np.asarray(self.accelerator.reduce(tensor, reduction="sum").cpu().numpy())

    def concatenate(self, array: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """All processes' arrays, in rank order; lengths may differ."""
        return np.concatenate(self.gather([array]))

    def gather(self, items: list[T]) -> list[T]:
        """All processes' lists joined, in rank order."""
        return items if self.count == 1 else cast(list[T], gather_object(items))

    def any(self, flag: bool) -> bool:
        """Whether `flag` is set on any process."""
        return bool(self.sum(np.array([float(flag)]))[0])

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Add up gradients over processes, in place. Who has none where another has one adds zeros."""
        if self.count == 1:
            return
        present = self.sum(np.array([float(parameter.grad is not None) for parameter in parameters]))
        pending = []
        for parameter, holders in zip(parameters, present, strict=True):
            if holders:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                pending.append(torch.distributed.all_reduce(parameter.grad, async_op=True))
        for work in pending:
            work.wait()

    def broadcast(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Give every process the main one's weights."""
        if self.count > 1:
            for parameter in parameters:
                torch.distributed.broadcast(parameter.data, src=0)
