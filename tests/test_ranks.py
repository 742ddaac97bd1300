"""Two processes (gloo, on CPU) against one: the same turns give the same gradient, however unevenly they are spread."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from tiny import random_turns, relative_difference, tiny_config, tiny_model
from torch import Tensor

from agentrl.learner import Learner
from agentrl.policy import ActorCritic
from agentrl.ranks import Ranks
from agentrl.records import Turn, TurnBatch

ALGORITHM = {"minibatches": 1, "entropy_coef": 0.03, "kl_coef": 0.2, "kl_kind": "loss"}
CASES: dict[str, list[list[int]]] = {
    "even": [[], []],
    "uneven": [[], [1, 2, 3, 6, 7]],
    "one rank without a reply": [[], list(range(8))],
}
"""Which turns of each process's share broke."""


def share(rank: int, errors: list[int]) -> list[Turn]:
    """Two games of four turns: process 0's end or meet a time limit, process 1's are cut or end."""
    turns = random_turns(10 + rank, slots=2 if rank else 3, length=4, errors=errors)[-8:]
    for turn in turns:
        turn.slot += 10 * rank
    return turns


def make_learner(accelerator: Accelerator, model: ActorCritic, **algorithm: Any) -> Learner:
    config = tiny_config(algorithm={**ALGORITHM, **algorithm}, optimizer={"lr": 0.01, "micro_batch_turns": 3})
    learner = Learner(config, model, accelerator)
    learner.reference = tiny_model(seed=5).requires_grad_(False)
    return learner


def gradients(learner: Learner, batch: TurnBatch) -> dict[str, Tensor]:
    """Of an update's only step, which is taken."""
    found: dict[str, Tensor] = {}
    apply = learner._apply_gradients

    def capture(critic_only: bool) -> dict[str, float]:
        found.update({n: p.grad.clone() for n, p in learner.model.named_parameters() if p.grad is not None})
        return apply(critic_only)

    learner._apply_gradients = capture  # type: ignore[method-assign]
    targets, metrics = learner.targets(batch)
    metrics |= learner.update(batch, targets, 0)
    learner._apply_gradients = apply  # type: ignore[method-assign]
    return {**found, **{f"metric {name}": torch.tensor([value]) for name, value in metrics.items()}}


def worker(rank: int, port: int, folder: Path) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    os.environ |= {"MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    ranks = Ranks(accelerator)
    assert (ranks.index, ranks.count) == (rank, 2)
    facts = {
        "sum": ranks.sum(np.array([1.0, rank])).tolist(),
        "concatenate": ranks.concatenate(np.arange(rank + 1.0)).tolist(),
        "gather": ranks.gather([f"of {rank}"] * (2 - rank)),
        "any": [ranks.any(False), ranks.any(rank == 1)],
    }
    everywhere, on_one, nowhere = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    everywhere.grad = torch.full((2,), rank + 1.0)
    on_one.grad = torch.ones(2) if rank else None  # as an expert that only one process's tokens were sent to
    ranks.sum_gradients([nowhere, on_one, everywhere])
    assert on_one.grad is not None
    facts["gradients"] = [on_one.grad.tolist(), everywhere.grad.tolist(), nowhere.grad is None]
    for separate in (False, True):
        for name, errors in CASES.items():
            learner = make_learner(accelerator, tiny_model(separate_critic=separate))
            found = gradients(learner, TurnBatch.from_turns(share(rank, errors[rank])))
            save_file(found, folder / f"{name}-{separate}-{rank}.safetensors")

    # A warm start trains the bare model on each process; then the critic alone is trained, the policy staying as it is.
    model = tiny_model()
    learner = make_learner(accelerator, model)
    batch = TurnBatch.from_turns(share(rank, []))
    model.lm(torch.tensor([[1, 2, 3]])).logits.sum().backward()
    model.zero_grad(set_to_none=True)
    before = {name: p.detach().clone() for name, p in model.policy_parameters()}
    learner.update(batch, learner.targets(batch, critic_only=True)[0], 0, critic_only=True)
    facts["policy untouched"] = all(torch.equal(p, before[name]) for name, p in model.policy_parameters())
    for update in range(2):
        learner.update(batch, learner.targets(batch)[0], update)
    save_file(
        {name: p.detach().clone() for name, p in model.named_parameters()}, folder / f"weights-{rank}.safetensors"
    )

    with torch.no_grad():
        model.value_head.out.weight.fill_(float(rank))
    ranks.broadcast(model.parameters())
    facts["broadcast"] = float(model.value_head.out.weight.detach().abs().sum())
    (folder / f"facts-{rank}.json").write_text(json.dumps(facts))
    accelerator.end_training()


@pytest.mark.slow
def test_c16_two_processes_make_the_step_of_one(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(worker, (port, tmp_path), nprocs=2)  # type: ignore[no-untyped-call]

    facts = [json.loads((tmp_path / f"facts-{rank}.json").read_text()) for rank in (0, 1)]
    assert facts[0] == facts[1]
    assert facts[0] == {
        "sum": [2.0, 1.0],
        "concatenate": [0.0, 0.0, 1.0],
        "gather": ["of 0", "of 0", "of 1"],
        "any": [False, True],
        "gradients": [[1.0, 1.0], [3.0, 3.0], True],
        "policy untouched": True,
        "broadcast": 0.0,
    }
    accelerator = Accelerator(cpu=True)
    for separate in (False, True):
        for name, errors in CASES.items():
            found = [load_file(tmp_path / f"{name}-{separate}-{rank}.safetensors") for rank in (0, 1)]
            assert found[0].keys() == found[1].keys()
            assert all(torch.equal(tensor, found[1][part]) for part, tensor in found[0].items())
            turns = [turn for rank in (0, 1) for turn in share(rank, errors[rank])]
            learner = make_learner(accelerator, tiny_model(separate_critic=separate))
            expected = gradients(learner, TurnBatch.from_turns(turns))
            metrics = {part for part in expected if part.startswith("metric")}
            for part in metrics:
                torch.testing.assert_close(found[0].pop(part), expected.pop(part), rtol=1e-5, atol=1e-6, equal_nan=True)
            assert relative_difference(found[0], expected) < 2e-6, name
    one, other = (load_file(tmp_path / f"weights-{rank}.safetensors") for rank in (0, 1))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_one_process_gets_back_what_it_gave() -> None:
    ranks = Ranks()
    assert (ranks.index, ranks.count) == (0, 1)
    assert ranks.sum(np.array([1.5])).tolist() == ranks.concatenate(np.array([1.5])).tolist() == [1.5]
    assert ranks.gather(["a", "b"]) == ["a", "b"]
    assert (ranks.any(True), ranks.any(False)) == (True, False)
    ranks.broadcast([torch.nn.Parameter(torch.ones(1))])
