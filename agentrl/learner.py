"""PPO over minibatches of whole rows: the optimizer, and the losses brought together.

Every sum is divided by the token count of the whole optimizer minibatch on all ranks, so that the gradient depends
neither on the micro-batch size nor on the number of processes. Processes add their gradients up once a step; each may
run the model as often as its own turns ask for, and a warm start may train it, without the others knowing of it.
"""

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn

from agentrl.config import Config, OptimizerConfig
from agentrl.losses import (
    cispo_loss,
    entropy_bonus,
    importance_weights,
    kl_loss,
    policy_loss,
    value_loss,
)
from agentrl.policy import ActorCritic, Rows
from agentrl.ranks import Ranks
from agentrl.records import TurnBatch
from agentrl.rows import micro_batches, ragged_indices, turn_rows
from agentrl.seeding import key, permutation
from agentrl.targets import Scores, Targets, make_targets, score

Index = NDArray[np.int64]


def learning_rate_factors(
    policy_step: int, value_step: int, total: int, config: OptimizerConfig
) -> tuple[float, float]:
    """Factors of the policy's and the value's learning rates.

    A linear rise over `warmup_steps` of their own steps, times a decay over the policy's `total` steps.
    """
    done = min(1.0, policy_step / max(1, total))
    decay = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}[config.schedule]

    def rise(step: int) -> float:
        return min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0

    return rise(policy_step) * decay, rise(value_step) * decay


class Learner:
    """Trains `model`, the same on all processes. `reference` is the frozen policy that the KL is measured against."""

    def __init__(self, config: Config, model: ActorCritic, accelerator: Accelerator) -> None:
        self.config = config
        self.accelerator = accelerator
        self.ranks = Ranks(accelerator)
        self.model = model
        self.ranks.broadcast(model.parameters())
        self.policy_parameters = [p for _, p in model.policy_parameters()]
        self.value_parameters = [p for _, p in model.value_parameters()]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": self.policy_parameters, "lr": config.optimizer.lr},
                {"params": self.value_parameters, "lr": config.optimizer.value_lr},
            ],
            betas=config.optimizer.betas,
            eps=config.optimizer.eps,
            weight_decay=config.optimizer.weight_decay,
        )
        self.reference: ActorCritic | None = None
        self.kl_coef = config.algorithm.kl_coef
        self.policy_steps = 0
        self.value_steps = 0

    def scores(self, batch: TurnBatch, policy: bool = True) -> Scores:
        """Values, and the model's and the reference's logprobs, as they are now."""
        self.model.eval()
        reference = None if self.reference is None else partial(self._run, self.reference)
        return score(
            batch,
            partial(self._run, self.model),
            reference,
            self.config.optimizer.micro_batch_turns,
            policy,
            self.config.algorithm.has_critic,
        )

    def targets(self, batch: TurnBatch, critic_only: bool = False) -> tuple[Targets, dict[str, float]]:
        """What the update holds fixed, with the metrics known before its first step."""
        scores = self.scores(batch, not critic_only)
        return make_targets(batch, scores, self.config.algorithm, self.ranks, self.kl_coef)

    def adapt_kl(self, measured: float) -> None:
        """Move the KL's coefficient by at most a tenth towards `kl_target` (Ziegler et al. 2019, arXiv 1909.08593)."""
        target = self.config.algorithm.kl_target
        if target is not None:
            self.kl_coef *= 1.0 + 0.5 * min(0.2, max(-0.2, measured / target - 1.0))

    def update(self, batch: TurnBatch, targets: Targets, update: int, critic_only: bool = False) -> dict[str, float]:
        """One update: epochs x minibatches optimizer steps, always the same number of them.

        `critic_only` trains the value parameters alone and leaves the policy's weights untouched, to the bit.
        """
        self.model.train()
        sums: dict[str, float] = {}
        epochs = self.config.critic_warmup.epochs if critic_only else self.config.algorithm.epochs
        for epoch in range(epochs):
            stream = key("minibatch", self.config.seed, update, epoch, self.ranks.index)
            order = permutation(stream, len(batch.row_turns_P))
            for which in np.array_split(order, self.config.algorithm.minibatches):
                for name, value in self._step(batch, targets, which, critic_only).items():
                    sums[name] = sums.get(name, 0.0) + value
        self.model.eval()
        return self._averages(sums)

    def _step(self, batch: TurnBatch, targets: Targets, which: Index, critic_only: bool) -> dict[str, float]:
        """One optimizer step on rows `which`; returns sums over this rank's tokens, with their counts."""
        tokens_K = ragged_indices(batch.reply_offsets, ragged_indices(batch.row_offsets, which))
        tokens, choices = float(len(tokens_K)), float(batch.policy_mask_R[tokens_K].sum())
        all_tokens, all_weights = self.ranks.sum(np.array([tokens, targets.weights_R[tokens_K].sum()]))
        sums = {"tokens": tokens, "choices": choices}
        micro_batch_turns = self.config.optimizer.micro_batch_turns
        for part in micro_batches(which, batch.row_lengths_P, batch.row_turns_P, micro_batch_turns):
            loss, part_sums = self._loss(batch, targets, part, critic_only, all_weights, all_tokens)
            loss.backward()
            for name, value in part_sums.items():
                sums[name] = sums.get(name, 0.0) + float(value)
        self.ranks.sum_gradients(self.value_parameters if critic_only else list(self.model.parameters()))
        sums |= self._apply_gradients(critic_only)
        return sums

    def _loss(
        self, batch: TurnBatch, targets: Targets, part: Index, critic_only: bool, weights: float, tokens: float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a micro-batch, over the minibatch's global sums of weights (policy) and tokens (value)."""
        algorithm = self.config.algorithm
        rows, tokens_K = turn_rows(batch, part)
        chosen_C = tokens_K[rows.choice_C.numpy()]
        logprobs_C, entropy_C, values_K = self._run(
            self.model, rows, policy=not critic_only, values=algorithm.has_critic, freeze_policy=critic_only
        )
        loss, stats = torch.zeros((), device=logprobs_C.device), dict[str, Tensor]()
        if algorithm.has_critic:
            old_values_K, returns_K = self._tensors(targets.values_R[tokens_K], targets.returns_R[tokens_K])
            critic_loss, stats = value_loss(
                values_K,
                old_values_K,
                returns_K,
                torch.ones_like(values_K, dtype=torch.bool),
                torch.from_numpy(batch.first_token_R[tokens_K]).to(values_K.device),
                clip=algorithm.value_clip,
                first_position_weight=algorithm.first_position_weight,
                denominator=tokens,
            )
            stats["losses/value"] = critic_loss.detach()
            if critic_only:
                return critic_loss, stats
            loss = algorithm.value_coef * critic_loss
        old_C, sampler_C, advantages_C, weights_C = self._tensors(
            targets.old_logprobs_R[chosen_C],
            batch.logprobs_R[chosen_C],
            targets.policy_advantages_R[chosen_C],
            targets.weights_R[chosen_C],
        )
        everywhere_C = torch.ones_like(logprobs_C, dtype=torch.bool)
        turn_C = torch.from_numpy(np.searchsorted(batch.reply_offsets, chosen_C, side="right")).to(logprobs_C.device)
        corrected_C, cap, bounds = weights_C, algorithm.is_correction_cap, algorithm.is_correction_mask
        if cap is not None or bounds is not None:
            of_turn = turn_C if algorithm.is_correction_level == "turn" else None
            corrected_C = weights_C * importance_weights(old_C, sampler_C, cap=cap, bounds=bounds, turn_R=of_turn)
        options: dict[str, Any] = {
            "clip_low": algorithm.clip_low,
            "clip_high": algorithm.clip_high,
            "denominator": weights,
            "weights_R": corrected_C,
            "turn_R": None if algorithm.ratio == "token" else turn_C,
            "product": algorithm.ratio == "turn_product",
        }
        if algorithm.policy_loss == "ppo":
            options["dual_clip"] = algorithm.dual_clip
        surrogate_loss = policy_loss if algorithm.policy_loss == "ppo" else cispo_loss
        surrogate, policy_stats = surrogate_loss(logprobs_C, old_C, advantages_C, everywhere_C, **options)
        entropy = entropy_bonus(entropy_C, everywhere_C, weights, weights_C)
        stats |= policy_stats | {"losses/policy": surrogate.detach(), "entropy": entropy.detach()}
        loss = surrogate + loss - algorithm.entropy_coef * entropy
        if targets.reference_R is not None and algorithm.kl_kind == "loss":
            (reference_C,) = self._tensors(targets.reference_R[chosen_C])
            kl = kl_loss(logprobs_C, reference_C, everywhere_C, weights, weights_C, algorithm.kl)
            stats["losses/kl"] = kl.detach()
            loss = loss + self.kl_coef * kl
        return loss, stats

    def _apply_gradients(self, critic_only: bool) -> dict[str, float]:
        """Clip policy and value gradients apart, and step; a gradient that is not finite is left out and counted."""
        factors = learning_rate_factors(
            self.policy_steps, self.value_steps, self.config.policy_steps, self.config.optimizer
        )
        rates = (self.config.optimizer.lr, self.config.optimizer.value_lr)
        for group, rate, factor in zip(self.optimizer.param_groups, rates, factors, strict=True):
            group["lr"] = rate * factor
        limit = self.config.optimizer.max_grad_norm
        norms = {"grad_norm/value": float(nn.utils.clip_grad_norm_(self.value_parameters, limit))}
        if critic_only:
            for parameter in self.policy_parameters:
                parameter.grad = None  # a gradient of zeros would still decay the weights
        else:
            norms["grad_norm/policy"] = float(nn.utils.clip_grad_norm_(self.policy_parameters, limit))
        finite = all(math.isfinite(norm) for norm in norms.values())
        if finite:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.value_steps += 1
        self.policy_steps += not critic_only
        return {**(norms if finite else {}), "steps": 1.0, "skipped_steps": float(not finite)}

    def _averages(self, sums: dict[str, float]) -> dict[str, float]:
        """Per-token fractions over all ranks' tokens; losses and norms over steps."""
        names = sorted(sums)
        totals = dict(zip(names, self.ranks.sum(np.array([sums[name] for name in names])), strict=True))
        steps = sums["steps"]
        taken = max(1.0, steps - sums["skipped_steps"])
        averages = {"optimizer/skipped_steps": sums["skipped_steps"]}
        for name, total in totals.items():
            if name in ("clip_fraction", "dual_clip_fraction", "approx_kl"):
                averages[name] = total / max(1.0, totals["choices"])
            elif name == "value_clip_fraction":
                averages[name] = total / max(1.0, totals["tokens"])
            elif name.startswith("losses/") or name == "entropy":
                averages[name] = total / steps
            elif name.startswith("grad_norm/"):
                averages[name] = sums[name] / taken
        for name, group in zip(("lr/policy", "lr/value"), self.optimizer.param_groups, strict=True):
            averages[name] = group["lr"]
        return averages

    def _run(self, model: nn.Module, rows: Rows, **asked: bool) -> tuple[Tensor, Tensor, Tensor]:
        with self.accelerator.autocast():
            output: tuple[Tensor, Tensor, Tensor] = model(
                rows.to(self.accelerator.device), self.config.engine.temperature, **asked
            )
        return output

    def _tensors(self, *arrays: NDArray[Any]) -> list[Tensor]:
        return [torch.tensor(array, dtype=torch.float32, device=self.accelerator.device) for array in arrays]
