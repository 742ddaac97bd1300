"""Direct preference optimisation: learn from pairs of replies without a reward model and without playing.

Rafailov et al. 2023, arXiv 2305.18290: loss = -log sigmoid(beta * (d - d_ref)), d being log pi(preferred) - log
pi(other) of whole replies, d_ref the same under the model that it began with. Replies are the ids that were sampled,
over their legal sets, at the temperature of the recipe.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl.config import Config
from agentrl.errors import UserError
from agentrl.policy import ActorCritic
from agentrl.preferences import Pair, held_out, optimizer_steps
from agentrl.records import TurnBatch
from agentrl.rows import turn_rows
from agentrl.seeding import key, permutation
from agentrl.statistics import wilson

Index = NDArray[np.int64]


def dpo_loss(preferred_P: Tensor, other_P: Tensor, reference_P: Tensor, beta: float) -> Tensor:
    """Loss of each of P pairs.

    Args:
        preferred_P, other_P: log-probabilities of whole replies.
        reference_P: preferred minus other under the reference.
    """
    return -torch.nn.functional.logsigmoid(beta * (preferred_P - other_P - reference_P))


def train_dpo(
    model: ActorCritic,
    pairs: Sequence[Pair],
    config: Config,
    *,
    beta: float = 0.1,
    epochs: int = 1,
    lr: float = 1e-5,
    batch_pairs: int = 16,
    on_step: Callable[[float], None] = lambda loss: None,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> dict[str, Any]:
    """Train the language model of `model` on pairs of replies to the same prompts; value head and critic stay.

    Returns:
        loss of the last epoch; of the held-out pairs, how many have the more likely reply preferred, before and after.

    Raises:
        UserError: too few pairs, or pairs of different prompts.
    """
    held = held_out(len(pairs))
    if any(pair.preferred.prompt_ids != pair.other.prompt_ids for pair in pairs):
        raise UserError("DPO compares replies to one prompt: make pairs with `agentrl preferences --between replies`")
    batch = TurnBatch.from_turns([turn for pair in pairs for turn in (pair.preferred, pair.other)])
    order = permutation(key("dpo", config.seed), len(pairs))
    tested, trained = order[:held], order[held:]
    at_a_time = max(1, config.optimizer.micro_batch_turns // 2)

    def differences(which: Index) -> Iterator[tuple[Index, Tensor, Tensor]]:
        """(pairs, log-probabilities of their preferred and of their other replies), some at a time."""
        for start in range(0, len(which), at_a_time):
            part = which[start : start + at_a_time]
            with autocast():
                sums = reply_logprobs(model, batch, np.concatenate([2 * part, 2 * part + 1]), config.engine.temperature)
            good, bad = sums.chunk(2)
            yield part, good, bad

    reference = torch.zeros(len(pairs), device=model.lm.device)
    model.eval()
    with torch.no_grad():
        for part, good, bad in differences(order):
            reference[torch.from_numpy(part)] = good - bad
    parameters = [p for _, p in model.policy_parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    steps = optimizer_steps(len(pairs), epochs, batch_pairs)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / steps)
    model.train()
    losses: list[float] = []
    for epoch in range(epochs):
        losses = []
        shuffled = trained[permutation(key("dpo", config.seed, epoch, 1), len(trained))]
        for start in range(0, len(shuffled), batch_pairs):
            chosen = shuffled[start : start + batch_pairs]
            total = 0.0
            for part, good, bad in differences(chosen):
                loss = dpo_loss(good, bad, reference[torch.from_numpy(part)], beta).sum() / len(chosen)
                loss.backward()
                total += float(loss.detach())
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
            losses.append(total)
            on_step(total)
    model.eval()
    before = int((reference[torch.from_numpy(tested)] > 0).sum())
    with torch.no_grad():
        after = sum(int((good > bad).sum()) for _, good, bad in differences(tested))
    return {
        "pairs": len(trained),
        "held_out_pairs": held,
        "loss": float(np.mean(losses)),
        "preferred_share_before": before / held,
        "preferred_share": after / held,
        "preferred_share_ci95": list(wilson(after, held)),
    }


def reply_logprobs(model: ActorCritic, batch: TurnBatch, which: Index, temperature: float) -> Tensor:
    """log pi(reply | prompt) of turns `which`, in that order; tokens without a choice have 0."""
    rows, _ = turn_rows(batch, which)
    logprobs_C, _, _ = model(rows.to(model.lm.device), temperature, values=False)
    turn_K = np.repeat(np.arange(len(which)), batch.reply_lengths_N[which])
    turn_C = torch.from_numpy(turn_K[rows.choice_C.cpu().numpy()]).to(logprobs_C.device)
    return torch.zeros(len(which), device=logprobs_C.device).index_add(0, turn_C, logprobs_C)
