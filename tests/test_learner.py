"""The optimizer's steps: gradients against a loss written out turn by turn, and what must stay untouched."""

import copy
import math
from dataclasses import fields, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from tiny import ACTIONS, KINDS, random_turns, relative_difference, tiny_config, tiny_model, tokenizer
from torch import Tensor

from agentrl.config import OptimizerConfig
from agentrl.constrain import ActionConstraint
from agentrl.engines.base import Request, Sampling
from agentrl.engines.transformers import TransformersEngine
from agentrl.learner import Learner, learning_rate_factors
from agentrl.policy import ActorCritic
from agentrl.records import Turn, TurnBatch
from agentrl.targets import Targets

TEMPERATURE = 0.7
OPTIMIZER = {"lr": 0.01, "value_lr": 0.02, "weight_decay": 0.1}
WHOLE_LOSS = {"minibatches": 1, "entropy_coef": 0.03, "kl_coef": 0.2, "kl_kind": "loss", "value_coef": 0.7}


@cache
def accelerator() -> Accelerator:
    return Accelerator(cpu=True)


def make_learner(
    model: ActorCritic | None = None, *, algorithm: Any = (), optimizer: Any = (), reference: bool = False, **more: Any
) -> Learner:
    config = tiny_config(
        engine={"temperature": TEMPERATURE},
        algorithm=dict(algorithm),
        optimizer={**OPTIMIZER, **dict(optimizer)},
        **more,
    )
    learner = Learner(config, tiny_model() if model is None else model, accelerator())
    if reference:
        learner.reference = tiny_model(seed=5).requires_grad_(False)
    return learner


def noisy_targets(batch: TurnBatch, learner: Learner, seed: int = 0, spread: float = 0.4) -> Targets:
    """Targets as of another policy: ratios and value changes on both sides of every clip bound."""
    targets, rng = learner.targets(batch)[0], np.random.default_rng(seed)

    def noise(scale: float) -> Any:
        return rng.normal(size=len(batch.reply_ids_R)) * scale

    return replace(
        targets,
        old_logprobs_R=targets.old_logprobs_R + noise(spread),
        values_R=targets.values_R + noise(spread),
        policy_advantages_R=noise(1.0),
        returns_R=targets.values_R + noise(1.0),
    )


def captured(learner: Learner, batch: TurnBatch, targets: Targets, **options: Any) -> list[dict[str, Tensor]]:
    """The gradients of each optimizer step of an update, which is not taken."""
    steps = []

    def capture(critic_only: bool) -> dict[str, float]:
        steps.append({n: p.grad.clone() for n, p in learner.model.named_parameters() if p.grad is not None})
        learner.optimizer.zero_grad(set_to_none=True)
        return {"steps": 1.0, "skipped_steps": 0.0}

    learner._apply_gradients = capture  # type: ignore[method-assign]
    learner.update(batch, targets, 0, **options)
    return steps


def weights(model: ActorCritic) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def moments(learner: Learner, names: set[str]) -> dict[str, Tensor]:
    parameters = dict(learner.model.named_parameters())
    return {
        f"{name}/{part}": tensor.clone()
        for name in names
        for part, tensor in learner.optimizer.state.get(parameters[name], {}).items()
    }


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def written_out_loss(learner: Learner, turns: list[Turn], targets: Targets) -> Tensor:
    """The whole loss of one minibatch, position by position, from each turn's own unpadded forward pass."""
    algorithm, model = learner.config.algorithm, learner.model
    policy, value, entropy, kl = [], [], [], []
    k = 0
    assert targets.reference_R is not None
    for turn in turns:
        if turn.error:
            continue
        output = model.lm(torch.tensor([turn.prompt_ids + turn.reply_ids]), use_cache=False, output_hidden_states=True)
        for j, (token, legal) in enumerate(zip(turn.reply_ids, turn.reply_legal, strict=True)):
            position = len(turn.prompt_ids) - 1 + j
            predicted = model.value_head(output.hidden_states[-1][0, position][None])[0]
            old, target = float(targets.values_R[k]), float(targets.returns_R[k])
            near = min(max(predicted, old - algorithm.value_clip), old + algorithm.value_clip)
            weight = algorithm.first_position_weight if j == 0 else 1.0
            value.append(0.5 * weight * max((predicted - target) ** 2, (near - target) ** 2))
            if len(legal) != 1:
                among = list(legal) or list(range(output.logits.shape[-1]))
                distribution = torch.distributions.Categorical(
                    logits=output.logits[0, position][among] / TEMPERATURE, validate_args=False
                )
                logprob = distribution.log_prob(torch.tensor(among.index(token)))
                advantage = float(targets.policy_advantages_R[k])
                ratio = (logprob - targets.old_logprobs_R[k]).exp()
                clipped = min(max(ratio, 1 - algorithm.clip_low), 1 + algorithm.clip_high)
                gain = min(ratio * advantage, clipped * advantage)
                policy.append(-(max(gain, algorithm.dual_clip * advantage) if advantage < 0 else gain))
                entropy.append(distribution.entropy())
                log_ratio = targets.reference_R[k] - logprob
                kl.append(log_ratio.exp() - 1 - log_ratio)
            k += 1
    means = [torch.stack([torch.as_tensor(x) for x in xs]).mean() for xs in (policy, value, entropy, kl)]
    return means[0] + algorithm.value_coef * means[1] - algorithm.entropy_coef * means[2] + algorithm.kl_coef * means[3]


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_loss_written_out(kind: str) -> None:
    turns = random_turns(1, errors=[5])
    batch = TurnBatch.from_turns(turns)
    algorithm = {**WHOLE_LOSS, "clip_low": 0.1, "clip_high": 0.3, "dual_clip": 1.2}
    learner = make_learner(tiny_model(kind), algorithm=algorithm, reference=True, optimizer={"micro_batch_turns": 5})
    targets = noisy_targets(batch, learner)
    written_out_loss(learner, turns, targets).backward()
    expected = {n: p.grad.clone() for n, p in learner.model.named_parameters() if p.grad is not None}
    learner.model.zero_grad(set_to_none=True)
    (found,) = captured(learner, batch, targets)
    assert relative_difference(found, expected) < 1e-5


def test_c16_the_gradient_does_not_depend_on_the_micro_batch() -> None:
    batch = TurnBatch.from_turns(random_turns(2, errors=[3]))
    found = {}
    for size in (1, 2, 4, 12):
        learner = make_learner(algorithm=WHOLE_LOSS, reference=True, optimizer={"micro_batch_turns": size})
        (found[size],) = captured(learner, batch, noisy_targets(batch, make_learner(reference=True)))
    assert all(relative_difference(found[size], found[12]) < 1e-6 for size in (1, 2, 4))


def test_minibatches_of_one_epoch_are_a_partition_of_the_turns() -> None:
    """Each step divides by its own minibatch's counts: weighted with them, the steps add up to the whole batch."""
    batch = TurnBatch.from_turns(random_turns(3))
    learner = make_learner(algorithm={"minibatches": 3, "epochs": 2})
    seen: list[Any] = []
    step = learner._step
    learner._step = lambda b, t, which, *rest: seen.append(which) or step(b, t, which, *rest)  # type: ignore[method-assign, func-returns-value]
    learner.update(batch, learner.targets(batch)[0], 4)
    assert sorted(np.concatenate(seen[:3])) == sorted(np.concatenate(seen[3:])) == list(range(12))
    assert not np.array_equal(np.concatenate(seen[:3]), np.concatenate(seen[3:]))
    again: list[Any] = []
    learner._step = lambda b, t, which, *rest: again.append(which) or {"steps": 1.0, "skipped_steps": 0.0}  # type: ignore[assignment, method-assign, func-returns-value]
    learner.update(batch, learner.targets(batch)[0], 4)
    assert all(np.array_equal(one, other) for one, other in zip(seen, again, strict=True))


@pytest.mark.parametrize("constrain", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_c04_c05_the_learner_finds_the_samplers_logprobs_again(kind: str, constrain: bool) -> None:
    """At a temperature of 0.7, in fp32, free and among legal ids."""
    model, end = tiny_model(kind), tokenizer().eos_token_id
    constraint = ActionConstraint(tokenizer(), end, after_marker=False) if constrain else None
    engine = TransformersEngine(model.lm, tokenizer(), [end], constraint)
    asked = [Request([], [5 + i] * (1 + i % 7), Sampling(TEMPERATURE, 9), ACTIONS[i % 4 :], seed=i) for i in range(12)]
    turns = [
        Turn("tiny", 0, 0, i, 0, asked[i].prompt_ids or [], reply.ids, reply.logprobs, reply.legal, terminated=True)
        for i, reply in enumerate(engine.generate(asked))
    ]
    batch = TurnBatch.from_turns(turns)
    learner = make_learner(model, optimizer={"micro_batch_turns": 5})
    scores = learner.scores(batch)
    assert batch.policy_mask_R.all() != constrain
    np.testing.assert_allclose(scores.logprobs_R, batch.logprobs_R, atol=1e-5, rtol=0)
    _, metrics = learner.targets(batch)
    assert metrics["logprob_diff/max"] < 1e-5
    assert metrics["effective_sample_size"] > 1 - 1e-9
    other = learner.config.model_copy(update={"engine": learner.config.engine.model_copy(update={"temperature": 1.0})})
    learner.config = other
    assert learner.targets(batch)[1]["logprob_diff/max"] > 0.05


def test_an_update_raises_what_was_good_and_lowers_what_was_bad() -> None:
    batch = TurnBatch.from_turns(random_turns(4))
    learner = make_learner(algorithm={"minibatches": 1})
    targets, _ = learner.targets(batch)
    odd_R = np.repeat(np.arange(len(batch)) % 2 == 1, batch.reply_lengths_N)
    targets.policy_advantages_R[:] = np.where(odd_R, 1.0, -1.0)
    learner.update(batch, targets, 0)
    change = (learner.scores(batch).logprobs_R - targets.old_logprobs_R)[batch.policy_mask_R]
    good = odd_R[batch.policy_mask_R]
    assert change[good].mean() > 0 > change[~good].mean()


@pytest.mark.parametrize("separate_critic", [False, True])
def test_critic_pre_training_leaves_the_policy_and_its_moments_untouched(separate_critic: bool) -> None:
    batch = TurnBatch.from_turns(random_turns(5, errors=[2]))
    model = tiny_model(separate_critic=separate_critic)
    learner = make_learner(model, algorithm={"minibatches": 2}, critic_warmup={"epochs": 2})
    policy = {name for name, _ in model.policy_parameters()}
    for trained_before in (False, True):
        if trained_before:
            learner.update(batch, learner.targets(batch)[0], 0)
        before, before_moments = weights(model), moments(learner, policy)
        assert bool(before_moments) == trained_before
        targets, _ = learner.targets(batch, critic_only=True)
        assert np.array_equal(targets.old_logprobs_R, batch.logprobs_R)
        metrics = learner.update(batch, targets, 1, critic_only=True)
        after = weights(model)
        assert all(torch.equal(after[name], before[name]) == (name in policy) for name in before)
        assert equal(moments(learner, policy), before_moments)
        assert "losses/policy" not in metrics
        assert metrics["losses/value"] > 0
    assert (learner.policy_steps, learner.value_steps) == (2, 10)


def test_the_policy_stays_untouched_even_if_something_left_it_gradients() -> None:
    """Weight decay would move it: a gradient of zeros is a gradient."""
    batch, model = TurnBatch.from_turns(random_turns(5)), tiny_model()
    learner = make_learner(model)
    before = weights(model)
    for _, parameter in model.policy_parameters():
        parameter.grad = torch.zeros_like(parameter)
    learner.update(batch, learner.targets(batch, critic_only=True)[0], 0, critic_only=True)
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.policy_parameters())


@pytest.mark.parametrize("errors", [(), (0, 4, 9), range(11), range(12)])
def test_the_number_of_steps_is_constant_whatever_the_data(errors: Any) -> None:
    """Also where every turn of a minibatch, or of the whole batch, broke."""
    batch = TurnBatch.from_turns(random_turns(6, errors=errors))
    learner = make_learner(algorithm={"minibatches": 4, "epochs": 2})
    taken = []
    learner.optimizer.register_step_post_hook(lambda *_: taken.append(1))
    for critic_only in (False, True):
        targets, _ = learner.targets(batch, critic_only)
        metrics = learner.update(batch, targets, 0, critic_only)
        assert metrics["optimizer/skipped_steps"] == 0
        assert all(math.isfinite(value) for value in metrics.values())
    assert len(taken) == 8 + 4
    assert (learner.policy_steps, learner.value_steps) == (8, 12)
    assert all(p.isfinite().all() for p in learner.model.parameters())


def test_more_minibatches_than_turns_still_count_as_steps() -> None:
    """As on one of many processes, whose share of a batch may be smaller than the number of minibatches."""
    batch, learner = TurnBatch.from_turns(random_turns(6)[4:6]), make_learner(algorithm={"minibatches": 4})
    metrics = learner.update(batch, learner.targets(batch)[0], 0)
    assert learner.policy_steps == 4
    assert all(math.isfinite(value) for value in metrics.values())


def test_a_turn_that_broke_enters_no_loss_and_no_count() -> None:
    """The gradient and the metrics are those of the batch without it, whatever its prompt."""
    turns = random_turns(7, errors=[4])
    batch = TurnBatch.from_turns(turns)
    turns[4].prompt_ids = [9] * 90
    changed = TurnBatch.from_turns(turns)
    without = TurnBatch.from_turns([turn for turn in turns if not turn.error])
    learner = make_learner(algorithm=WHOLE_LOSS, reference=True)
    targets = noisy_targets(batch, learner)
    gradients = [captured(learner, each, targets)[0] for each in (batch, changed, without)]
    assert relative_difference(gradients[0], gradients[2]) < 1e-6
    assert relative_difference(gradients[1], gradients[2]) < 1e-6


@pytest.mark.parametrize("field", ["returns_R", "policy_advantages_R"])
def test_c14_a_gradient_that_is_not_finite_skips_the_step_and_is_counted(field: str) -> None:
    batch = TurnBatch.from_turns(random_turns(8))
    learner = make_learner(algorithm={"minibatches": 3})
    targets, _ = learner.targets(batch)
    where = np.flatnonzero(batch.policy_mask_R)[0]
    getattr(targets, field)[where] = float("nan")
    poisoned = int(np.searchsorted(batch.reply_offsets, where, side="right")) - 1
    before = weights(learner.model)
    step, skipped = learner._step, []

    def observed(b: Any, t: Any, which: Any, *rest: Any) -> dict[str, float]:
        sums = step(b, t, which, *rest)
        after = weights(learner.model)
        assert equal(after, before) == (poisoned in which) == bool(sums["skipped_steps"])
        before.update(after)
        skipped.append(sums["skipped_steps"])
        return sums

    learner._step = observed  # type: ignore[method-assign]
    metrics = learner.update(batch, targets, 0)
    assert metrics["optimizer/skipped_steps"] == sum(skipped) == 1
    assert math.isfinite(metrics["grad_norm/policy"])
    assert math.isfinite(metrics["grad_norm/value"])
    assert (learner.policy_steps, learner.value_steps) == (3, 3)
    assert all(p.isfinite().all() for p in learner.model.parameters())


def test_gradients_are_clipped_apart_and_their_norms_reported_before_that() -> None:
    batch = TurnBatch.from_turns(random_turns(9))
    learner = make_learner(algorithm={"minibatches": 1}, optimizer={"max_grad_norm": 1e-3})
    targets, _ = learner.targets(batch)
    targets.returns_R += 100.0
    (gradients,) = captured(make_learner(algorithm={"minibatches": 1}), batch, targets)
    clipped: dict[str, Tensor] = {}
    learner.optimizer.register_step_pre_hook(
        lambda *_: clipped.update({n: p.grad.clone() for n, p in learner.model.named_parameters()})
    )
    metrics = learner.update(batch, targets, 0)
    for prefix, name in (("lm.", "policy"), ("value_head.", "value")):
        norm = torch.cat([g.flatten() for n, g in gradients.items() if n.startswith(prefix)]).norm()
        assert metrics[f"grad_norm/{name}"] == pytest.approx(float(norm), rel=1e-5)
        assert float(torch.cat([g.flatten() for n, g in clipped.items() if n.startswith(prefix)]).norm()) <= 1.001e-3


def test_no_gradient_is_left_for_the_next_step() -> None:
    """At a learning rate of 0 every epoch of one minibatch has the gradient of the first."""
    batch = TurnBatch.from_turns(random_turns(9))
    learner = make_learner(algorithm={"minibatches": 1, "epochs": 3}, optimizer={"lr": 0.0, "value_lr": 0.0})
    steps: list[dict[str, Tensor]] = []
    learner.optimizer.register_step_pre_hook(
        lambda *_: steps.append({n: p.grad.clone() for n, p in learner.model.named_parameters()})
    )
    learner.update(batch, learner.targets(batch)[0], 0)
    assert len(steps) == 3
    assert all(relative_difference(step, steps[0]) < 1e-5 for step in steps)
    assert all(p.grad is None for p in learner.model.parameters())


def factors(policy_step: int, value_step: int, total: int, **optimizer: Any) -> tuple[float, float]:
    return learning_rate_factors(policy_step, value_step, total, OptimizerConfig(**optimizer))


def test_learning_rate_factors_by_hand() -> None:
    assert factors(7, 7, 10) == (1.0, 1.0)
    assert factors(0, 0, 10, schedule="linear") == (1.0, 1.0)
    assert factors(5, 9, 10, schedule="linear") == (0.5, 0.5)
    assert factors(9, 9, 10, schedule="linear") == pytest.approx((0.1, 0.1))
    assert factors(12, 12, 10, schedule="linear") == (0.0, 0.0)
    assert factors(5, 5, 10, schedule="cosine") == pytest.approx((0.5, 0.5))
    assert factors(2, 2, 8, schedule="cosine") == pytest.approx((0.5 + math.sqrt(0.125),) * 2)
    assert factors(0, 0, 10, warmup_steps=4) == (0.25, 0.25)
    # After critic pre-training the value's rate has risen while the policy's begins to.
    assert factors(0, 20, 10, warmup_steps=4) == (0.25, 1.0)
    assert factors(2, 3, 4, warmup_steps=4, schedule="linear") == (0.75 * 0.5, 0.5)
    assert factors(0, 0, 0, schedule="cosine") == (1.0, 1.0)


def test_rates_are_set_before_each_step() -> None:
    batch = TurnBatch.from_turns(random_turns(1))
    sections: Any = {"algorithm": {"minibatches": 2}, "optimizer": {"warmup_steps": 4}}
    learner = make_learner(**sections)
    rates: list[tuple[float, float]] = []
    learner.optimizer.register_step_pre_hook(
        lambda optimizer, *_: rates.append(tuple(group["lr"] for group in optimizer.param_groups))
    )
    learner.update(batch, learner.targets(batch, critic_only=True)[0], 0, critic_only=True)
    metrics = learner.update(batch, learner.targets(batch)[0], 1)
    assert [value for _, value in rates] == [0.005, 0.01, 0.015, 0.02]
    assert [policy for policy, _ in rates[2:]] == [0.0025, 0.005]
    assert (metrics["lr/policy"], metrics["lr/value"]) == (0.005, 0.02)


@pytest.mark.parametrize("cap", [1.0, 2.0])
def test_c04_with_equal_logprobs_the_correction_changes_no_bit(cap: float) -> None:
    batch = TurnBatch.from_turns(random_turns(2))
    plain, corrected = make_learner(), make_learner(algorithm={"is_correction_cap": cap})
    batch.logprobs_R = plain.scores(batch).logprobs_R.astype(np.float32)
    targets, metrics = plain.targets(batch)
    assert metrics["logprob_diff/max"] == 0
    for one, other in zip(captured(plain, batch, targets), captured(corrected, batch, targets), strict=True):
        assert equal(one, other)
    plain, corrected = make_learner(), make_learner(algorithm={"is_correction_cap": cap})
    assert plain.update(batch, targets, 0) == corrected.update(batch, targets, 0)
    assert equal(weights(plain.model), weights(corrected.model))


def test_c04_a_capped_weight_multiplies_the_policys_gradient_alone() -> None:
    """Sampler's probabilities twice the trainer's: weight 1/2. A tenth of them: weight 10, capped to 2."""
    batch = TurnBatch.from_turns(random_turns(2))
    algorithm = {"minibatches": 1, "value_coef": 0.0}
    targets, _ = make_learner().targets(batch)
    (plain,) = captured(make_learner(algorithm=algorithm), batch, targets)
    for factor, weight in ((2.0, 0.5), (0.1, 2.0)):
        batch.logprobs_R = (targets.old_logprobs_R + math.log(factor)).astype(np.float32)
        (found,) = captured(make_learner(algorithm={**algorithm, "is_correction_cap": 2.0}), batch, targets)
        for name, gradient in plain.items():
            torch.testing.assert_close(found[name], weight * gradient, rtol=1e-4, atol=1e-6)


def test_the_kl_is_in_the_reward_or_in_the_loss_and_the_reference_stays() -> None:
    batch = TurnBatch.from_turns(random_turns(3))
    before = weights(tiny_model(seed=5))
    without, _ = make_learner().targets(batch)
    for kind in ("reward", "loss"):
        algorithm = {"minibatches": 1, "kl_coef": 0.5, "kl_kind": kind, "whiten_advantages": False}
        learner = make_learner(algorithm=algorithm, reference=True)
        targets, metrics = learner.targets(batch)
        assert np.array_equal(targets.advantages_R, without.advantages_R) == (kind == "loss")
        assert targets.reference_R is not None
        mask = batch.policy_mask_R
        assert metrics["reference_kl"] == pytest.approx((targets.old_logprobs_R - targets.reference_R)[mask].mean())
        metrics = learner.update(batch, targets, 0)
        log_ratio = (targets.reference_R - targets.old_logprobs_R)[mask]
        if kind == "loss":
            assert metrics["losses/kl"] == pytest.approx((np.expm1(log_ratio) - log_ratio).mean(), rel=1e-5)
        else:
            assert "losses/kl" not in metrics
        assert learner.reference is not None
        assert equal(weights(learner.reference), before)
        assert all(parameter.grad is None for parameter in learner.reference.parameters())


def test_under_autocast_policy_and_reference_compute_alike() -> None:
    """An unchanged policy has a KL of exactly 0 in bf16 too; the sampler's logprobs are found to that grain."""
    half = SimpleNamespace(
        device=torch.device("cpu"),
        process_index=0,
        num_processes=1,
        autocast=lambda: torch.autocast("cpu", torch.bfloat16),
    )
    model = tiny_model()
    learner = Learner(tiny_config(), model, half)  # type: ignore[arg-type]
    learner.reference = ActorCritic(copy.deepcopy(model.lm), None, 0)
    engine = TransformersEngine(model.lm, tokenizer(), [0], autocast=half.autocast)
    asked = [Request([], [5 + i, 6, 7], Sampling(1.0, 6), seed=i) for i in range(8)]
    batch = TurnBatch.from_turns(
        [
            Turn("tiny", 0, 0, i, 0, asked[i].prompt_ids or [], reply.ids, reply.logprobs, reply.legal, terminated=True)
            for i, reply in enumerate(engine.generate(asked))
        ]
    )
    _, metrics = learner.targets(batch)
    assert metrics["reference_kl"] == 0.0
    assert metrics["logprob_diff/mean"] < 0.01
    exact = make_learner(model).scores(batch)
    assert np.abs(exact.logprobs_R - learner.scores(batch).logprobs_R).max() > 0.001


def test_losses_and_fractions_are_means_over_tokens() -> None:
    """On the first step of a batch every ratio is 1: the loss is minus the mean advantage, and nothing is clipped."""
    batch = TurnBatch.from_turns(random_turns(4, errors=[7]))
    learner = make_learner(algorithm={"minibatches": 1, "whiten_advantages": False}, optimizer={"micro_batch_turns": 5})
    targets, _ = learner.targets(batch)
    metrics = learner.update(batch, targets, 0)
    mask, first = batch.policy_mask_R, batch.first_token_R
    assert metrics["losses/policy"] == pytest.approx(-targets.policy_advantages_R[mask].mean(), rel=1e-5)
    square = (targets.values_R - targets.returns_R) ** 2 * np.where(first, 3.0, 1.0)
    assert metrics["losses/value"] == pytest.approx(0.5 * square.mean(), rel=1e-5)
    assert metrics["clip_fraction"] == metrics["dual_clip_fraction"] == metrics["value_clip_fraction"] == 0
    assert metrics["approx_kl"] == pytest.approx(0, abs=1e-9)
    assert metrics["entropy"] > 0
    targets.old_logprobs_R[mask] -= 1.0  # every ratio is e: what has a positive advantage is clipped
    targets.policy_advantages_R[:] = np.where(np.arange(len(mask)) % 3, 1.0, -1.0)
    learner = make_learner(algorithm={"minibatches": 1}, optimizer={"micro_batch_turns": 5})
    metrics = learner.update(batch, targets, 0)
    assert metrics["clip_fraction"] == pytest.approx((targets.policy_advantages_R[mask] > 0).mean())
    assert metrics["approx_kl"] == pytest.approx(math.e - 2, rel=1e-4)


def test_scores_are_the_same_twice_and_leave_the_model_as_it_is() -> None:
    """Old logprobs must not see dropout: a model in training mode is scored in evaluation mode."""
    batch, learner = TurnBatch.from_turns(random_turns(5)), make_learner(reference=True)
    before = weights(learner.model)
    learner.model.train()
    one, other = learner.scores(batch), learner.scores(batch)
    for field in fields(one):
        assert np.array_equal(getattr(one, field.name), getattr(other, field.name))
    assert not learner.model.lm.training
    assert equal(weights(learner.model), before)
    assert all(parameter.grad is None for parameter in learner.model.parameters())


def test_two_equal_learners_make_equal_updates_to_the_bit() -> None:
    batch = TurnBatch.from_turns(random_turns(6, errors=[1]))
    learners = [make_learner(copy.deepcopy(tiny_model()), algorithm={"epochs": 2}) for _ in range(2)]
    metrics = [learner.update(batch, learner.targets(batch)[0], 3) for learner in learners]
    assert metrics[0] == metrics[1]
    assert equal(*(weights(learner.model) for learner in learners))
