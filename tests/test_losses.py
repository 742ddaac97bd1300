"""Losses: hand-computed numbers, autograd of a formula as it reads, and what must not matter."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from agentrl.losses import (
    MAX_LOG_RATIO,
    cispo_loss,
    entropy_bonus,
    importance_weights,
    kl_loss,
    mismatch_stats,
    policy_loss,
    turn_log_ratio,
    value_loss,
)

CLIP: dict[str, Any] = {"clip_low": 0.2, "clip_high": 0.3, "dual_clip": 3.0}
VALUE: dict[str, Any] = {"clip": 0.5, "first_position_weight": 3.0}


def numbers(seed: int, size: int) -> dict[str, Tensor]:
    """Random tokens in float64: ratios on both sides of every bound, of both signs of advantage, some masked."""
    generator = torch.Generator().manual_seed(seed)

    def normal(scale: float) -> Tensor:
        return scale * torch.randn(size, generator=generator, dtype=torch.float64)

    logprobs = -normal(2.0).abs()
    values = normal(1.0)
    return {
        "logprobs_R": logprobs,
        "old_logprobs_R": logprobs + normal(0.7),
        "reference_R": logprobs + normal(0.7),
        "advantages_R": normal(1.0),
        "weights_R": normal(1.0).abs(),
        "values_R": values,
        "old_values_R": values + normal(0.7),
        "returns_R": normal(1.0),
        "entropy_R": normal(1.0).abs(),
        "mask_R": torch.rand(size, generator=generator) < 0.7,
        "first_R": torch.rand(size, generator=generator) < 0.3,
        "turn_R": torch.arange(size) // 4,
    }


def policy_of(n: dict[str, Tensor], denominator: float, **options: Any) -> tuple[Tensor, dict[str, Tensor]]:
    args = n["logprobs_R"], n["old_logprobs_R"], n["advantages_R"], n["mask_R"]
    return policy_loss(*args, **(CLIP | options), denominator=denominator, weights_R=n.get("weights_R"))


def turns_of(n: dict[str, Tensor], denominator: float, product: bool) -> Tensor:
    """PPO with one ratio a turn."""
    args = n["logprobs_R"], n["old_logprobs_R"], n["advantages_R"], n["mask_R"]
    return policy_loss(*args, **CLIP, denominator=denominator, turn_R=n["turn_R"], product=product)[0]


def cispo_of(n: dict[str, Tensor], denominator: float) -> Tensor:
    args = n["logprobs_R"], n["old_logprobs_R"], n["advantages_R"], n["mask_R"]
    clip = {name: CLIP[name] for name in ("clip_low", "clip_high")}
    return cispo_loss(*args, **clip, denominator=denominator, weights_R=n["weights_R"])[0]


def value_of(n: dict[str, Tensor], denominator: float, **options: Any) -> tuple[Tensor, dict[str, Tensor]]:
    args = n["values_R"], n["old_values_R"], n["returns_R"], n["mask_R"], n["first_R"]
    return value_loss(*args, **(VALUE | options), denominator=denominator)


# Each loss as a function of one learned tensor: (that tensor's name, the loss).
LOSSES: dict[str, tuple[str, Callable[[dict[str, Tensor], float], Tensor]]] = {
    "policy": ("logprobs_R", lambda n, d: policy_of(n, d)[0]),
    "value": ("values_R", lambda n, d: value_of(n, d)[0]),
    "entropy": ("entropy_R", lambda n, d: entropy_bonus(n["entropy_R"], n["mask_R"], d)),
    "kl": ("logprobs_R", lambda n, d: kl_loss(n["logprobs_R"], n["reference_R"], n["mask_R"], d)),
    "k2": ("logprobs_R", lambda n, d: kl_loss(n["logprobs_R"], n["reference_R"], n["mask_R"], d, estimator="k2")),
    "turn": ("logprobs_R", lambda n, d: turns_of(n, d, product=False)),
    "turn_product": ("logprobs_R", lambda n, d: turns_of(n, d, product=True)),
    "cispo": ("logprobs_R", cispo_of),
}
each_loss = pytest.mark.parametrize("name", LOSSES)


def gradient(name: str, n: dict[str, Tensor], denominator: float) -> tuple[Tensor, Tensor]:
    """(loss, its gradient with respect to the learned tensor)."""
    learned, loss_of = LOSSES[name]
    leaf = n[learned].clone().requires_grad_()
    loss = loss_of(n | {learned: leaf}, denominator)
    loss.backward()
    assert leaf.grad is not None
    return loss.detach(), leaf.grad


def naive(name: str, n: dict[str, Tensor], denominator: float) -> Tensor:
    """The formulas as papers print them, one token after another, over masked tokens only."""
    total = torch.zeros((), dtype=torch.float64)
    for i in torch.nonzero(n["mask_R"]).flatten().tolist():
        if name == "policy":
            advantage, ratio = n["advantages_R"][i], torch.exp(n["logprobs_R"][i] - n["old_logprobs_R"][i])
            surrogate = torch.min(ratio * advantage, torch.clip(ratio, 0.8, 1.3) * advantage)
            if advantage < 0:
                surrogate = torch.max(surrogate, 3.0 * advantage)
            total = total - surrogate * n["weights_R"][i]
        elif name == "value":
            value, old, target = n["values_R"][i], n["old_values_R"][i], n["returns_R"][i]
            clipped = torch.clip(value, old - 0.5, old + 0.5)
            total = total + 0.5 * max((value - target) ** 2, (clipped - target) ** 2) * (
                3.0 if n["first_R"][i] else 1.0
            )
        elif name == "entropy":
            total = total + n["entropy_R"][i]
        elif name == "k2":
            total = total + (n["logprobs_R"][i] - n["reference_R"][i]) ** 2 / 2
        elif name == "cispo":
            ratio = torch.exp(n["logprobs_R"][i] - n["old_logprobs_R"][i]).detach()
            weight = torch.clip(ratio, 0.8, 1.3) * n["weights_R"][i]
            total = total - weight * n["advantages_R"][i] * n["logprobs_R"][i]
        elif name.startswith("turn"):
            mates = [j for j in range(len(n["turn_R"])) if n["turn_R"][j] == n["turn_R"][i] and n["mask_R"][j]]
            log_ratio = sum(n["logprobs_R"][j] - n["old_logprobs_R"][j] for j in mates)
            ratio = torch.exp(log_ratio / (1 if name == "turn_product" else len(mates)))
            advantage = n["advantages_R"][i]
            surrogate = torch.min(ratio * advantage, torch.clip(ratio, 0.8, 1.3) * advantage)
            total = total - (torch.max(surrogate, 3.0 * advantage) if advantage < 0 else surrogate)
        else:
            ratio = torch.exp(n["reference_R"][i] - n["logprobs_R"][i])
            total = total + (ratio - 1) - torch.log(ratio)
    return total / denominator


@each_loss
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 40))
def test_value_and_gradient_of_the_naive_formula(name: str, seed: int, size: int) -> None:
    n = numbers(seed, size)
    learned = LOSSES[name][0]
    loss, grad = gradient(name, n, 7)
    leaf = n[learned].clone().requires_grad_()
    expected = naive(name, n | {learned: leaf}, 7)
    torch.testing.assert_close(loss, expected.detach())
    expected_grad = torch.zeros_like(grad)
    if expected.requires_grad:
        (expected_grad,) = torch.autograd.grad(expected, leaf)
    torch.testing.assert_close(grad, expected_grad)


@each_loss
@pytest.mark.parametrize("micro_batch", [1, 2, 4])
def test_c16_same_gradient_for_every_micro_batch(name: str, micro_batch: int) -> None:
    """Micro-batches of whole turns, also those without a masked token, add up to the loss of the whole minibatch."""
    n = numbers(5, 16)
    n["turn_R"] = torch.arange(16) // micro_batch
    n["mask_R"][4:6] = False
    denominator = int(n["mask_R"].sum())
    whole_loss, whole_grad = gradient(name, n, denominator)
    cuts = range(0, 16, micro_batch)
    parts = [gradient(name, {key: x[at : at + micro_batch] for key, x in n.items()}, denominator) for at in cuts]
    torch.testing.assert_close(sum(loss for loss, _ in parts), whole_loss)
    torch.testing.assert_close(torch.cat([grad for _, grad in parts]), whole_grad)
    assert whole_grad.any()


@each_loss
def test_c16_denominator_is_the_given_count(name: str) -> None:
    """Twice the tokens in the whole minibatch, half of each token's gradient; without tokens 0, not 0 / 0."""
    n = numbers(5, 16)
    torch.testing.assert_close(gradient(name, n, 40)[1] * 2, gradient(name, n, 20)[1])
    loss, grad = gradient(name, n | {"mask_R": torch.zeros(16, dtype=torch.bool)}, 0)
    assert loss == 0
    assert not grad.any()


@each_loss
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 1e30, -1e30])
@pytest.mark.parametrize("spoilt", ["learned", "others", "all"])
def test_c08_garbage_outside_the_mask(name: str, garbage: float, spoilt: str) -> None:
    n = numbers(11, 32)
    learned, outside = LOSSES[name][0], ~n["mask_R"]
    bad = dict(n)
    for key, x in n.items():
        if x.dtype.is_floating_point and (spoilt == "all" or (key == learned) == (spoilt == "learned")):
            bad[key] = torch.where(outside, garbage, x)
    (loss, grad), (bad_loss, bad_grad) = gradient(name, n, 20), gradient(name, bad, 20)
    assert torch.equal(bad_loss, loss)
    assert torch.equal(bad_grad, grad)
    assert not bad_grad[outside].any()
    assert outside.any()


def test_c08_garbage_outside_the_mask_is_in_no_statistic() -> None:
    n = numbers(11, 32)
    bad = {k: torch.where(n["mask_R"], x, math.nan) if x.dtype.is_floating_point else x for k, x in n.items()}
    for stats_of in (policy_of, value_of):
        for key, value in stats_of(n, 20)[1].items():
            assert torch.equal(stats_of(bad, 20)[1][key], value)
    args = n["logprobs_R"], n["old_logprobs_R"], n["mask_R"]
    assert mismatch_stats(bad["logprobs_R"], bad["old_logprobs_R"], n["mask_R"]) == mismatch_stats(*args)


def one_token(ratio: float, advantage: float, **options: Any) -> tuple[float, float, dict[str, float]]:
    """(loss, its derivative in the logprob, stats) of a single token; the derivative of r is r."""
    logprob = torch.tensor([math.log(ratio)], dtype=torch.float64, requires_grad=True)
    old, mask = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.bool)
    loss, stats = policy_loss(
        logprob, old, torch.tensor([advantage], dtype=torch.float64), mask, **(CLIP | options), denominator=1
    )
    loss.backward()
    assert logprob.grad is not None
    assert not any(x.requires_grad for x in stats.values())
    return loss.item(), logprob.grad.item(), {key: x.item() for key, x in stats.items()}


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "derivative", "clipped", "dual_clipped"),
    [
        (1.1, 2.0, -2.2, -2.2, 0, 0),  # between the bounds: -r A
        (1.5, 2.0, -2.6, 0.0, 1, 0),  # above 1.3: -1.3 * 2, no gradient
        (0.5, 2.0, -1.0, -1.0, 0, 0),  # below, but the bound would promise more: free
        (1.25, 2.0, -2.5, -2.5, 0, 0),  # over 1 + clip_low, under 1 + clip_high
        (0.5, -2.0, 1.6, 0.0, 1, 0),  # below .8: -.8 * -2, no gradient
        (0.75, -2.0, 1.6, 0.0, 1, 0),  # under 1 - clip_low, over 1 - clip_high
        (1.5, -2.0, 3.0, 3.0, 0, 0),  # above: free, the loss grows with r ...
        (2.9, -2.0, 5.8, 5.8, 0, 0),
        (3.5, -2.0, 6.0, 0.0, 0, 1),  # ... until dual_clip: -3 * -2, no gradient
        (1e6, -2.0, 6.0, 0.0, 0, 1),
        (3.5, 2.0, -2.6, 0.0, 1, 0),  # dual clip is for negative advantages alone
    ],
)
def test_policy_loss_of_one_token(
    ratio: float, advantage: float, loss: float, derivative: float, clipped: int, dual_clipped: int
) -> None:
    actual_loss, actual_derivative, stats = one_token(ratio, advantage)
    assert actual_loss == pytest.approx(loss)
    assert actual_derivative == pytest.approx(derivative)
    assert (stats["clip_fraction"], stats["dual_clip_fraction"]) == (clipped, dual_clipped)
    assert stats["approx_kl"] == pytest.approx(ratio - 1 - math.log(ratio))  # k3


def test_policy_loss_without_dual_clip() -> None:
    loss, derivative, stats = one_token(3.5, -2.0, dual_clip=None)
    assert (loss, derivative) == (pytest.approx(7.0), pytest.approx(7.0))
    assert stats["dual_clip_fraction"] == 0


def test_policy_loss_of_a_minibatch_by_hand() -> None:
    """Three rows of the table above and a masked one, alone and with the weights .5, 2 and 1."""
    ratio = torch.tensor([1.1, 1.5, 3.5, 9.0], dtype=torch.float64)
    advantages = torch.tensor([2.0, 2.0, -2.0, 5.0], dtype=torch.float64)
    mask = torch.tensor([True, True, True, False])
    args = ratio.log(), torch.zeros(4, dtype=torch.float64), advantages, mask
    loss, stats = policy_loss(*args, **CLIP, denominator=3)
    assert loss.item() == pytest.approx((-2.2 - 2.6 + 6.0) / 3)
    assert (stats["clip_fraction"], stats["dual_clip_fraction"]) == (1, 1)
    weighted, _ = policy_loss(*args, **CLIP, denominator=3, weights_R=torch.tensor([0.5, 2.0, 1.0, math.nan]))
    assert weighted.item() == pytest.approx((-1.1 - 5.2 + 6.0) / 3)


def test_policy_loss_of_a_huge_ratio_is_finite() -> None:
    """exp(200) overflows float32; 0 * inf in an unselected branch would turn its gradient into NaN."""
    logprobs = torch.tensor([200.0, -200.0, 200.0, -200.0], requires_grad=True)
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0])
    loss, stats = policy_loss(
        logprobs, torch.zeros(4), advantages, torch.ones(4, dtype=torch.bool), **CLIP, denominator=1
    )
    (grad,) = torch.autograd.grad(loss, logprobs)
    # -1.3, -exp(-20), 3 (dual clip), .8: all at a bound, no gradient but the second one's, clamped too
    assert loss.item() == pytest.approx(-1.3 - math.exp(-MAX_LOG_RATIO) + 3 + 0.8)
    assert torch.equal(grad, torch.zeros(4))
    assert all(torch.isfinite(x) for x in stats.values())


def test_a_nan_under_the_mask_is_seen() -> None:
    """It must reach the loss, where it stops the step; no bound may swallow it."""
    for name, (learned, loss_of) in LOSSES.items():
        n = numbers(0, 8)
        n["mask_R"][3] = True
        n[learned][3] = math.nan
        assert loss_of(n, 8).isnan(), name


def test_c04_equal_logprobs_change_nothing_to_the_bit() -> None:
    """Ratio and weights are exactly 1: loss -sum(A) / count, gradient -A / count, with every correction on or off.

    A power of two as count, so that dividing rounds nothing.
    """
    generator = torch.Generator().manual_seed(0)
    trained = -torch.rand(1000, generator=generator) * 10
    advantages = torch.randn(1000, generator=generator)
    mask = torch.rand(1000, generator=generator) < 0.8
    results = []
    for weights in (None, importance_weights(trained, trained.clone(), cap=2.0, bounds=(0.5, 2.0))):
        for dual_clip in (None, 3.0):
            leaf = trained.clone().requires_grad_()
            args = leaf, trained, advantages, mask
            loss, stats = policy_loss(
                *args, clip_low=0.2, clip_high=0.2, dual_clip=dual_clip, denominator=1024, weights_R=weights
            )
            results.append((loss.detach(), torch.autograd.grad(loss, leaf)[0]))
            assert all(x == 0 for x in stats.values())
    for loss, grad in results:
        assert torch.equal(loss, (-advantages * mask).sum() / 1024)
        assert torch.equal(grad, -advantages * mask / 1024)
    assert kl_loss(trained, trained.clone(), mask, 1024) == 0


def test_c04_truncated_weights() -> None:
    trainer = torch.tensor([-1.0, -1.0, -1.0, 0.0], requires_grad=True)
    sampler = torch.tensor([-1.0, -1.5, -0.5, -500.0])
    weights = importance_weights(trainer, sampler, cap=1.5)
    # exp(0), min(exp(.5) = 1.6487, 1.5), exp(-.5), min(exp(500), 1.5)
    torch.testing.assert_close(weights, torch.tensor([1.0, 1.5, 0.60653066, 1.5]))
    assert weights[0] == 1
    assert not weights.requires_grad


def test_c04_mismatch_stats() -> None:
    """Differences .1, -.3 and a masked 5; the k3 of .1 is .00517092, of -.3 it is .04081822."""
    trainer, sampler = torch.tensor([-1.0, -2.0, 0.0]), torch.tensor([-1.1, -1.7, -5.0])
    stats = mismatch_stats(trainer, sampler, torch.tensor([True, True, False]))
    assert stats["logprob_diff/mean"] == pytest.approx(0.2, abs=1e-6)
    assert stats["logprob_diff/max"] == pytest.approx(0.3, abs=1e-6)
    assert stats["logprob_diff/k3"] == pytest.approx((0.00517092 + 0.04081822) / 2, abs=1e-6)
    # weights 1.10517092 and .74081822: 1.84598914^2 / (2 * (1.22140276 + .54881164)) = 3.40767591 / 3.5404288
    assert stats["effective_sample_size"] == pytest.approx(0.96250373, abs=1e-6)


def test_c04_mismatch_stats_at_the_ends() -> None:
    logprobs, mask = torch.linspace(-9, 0, 7), torch.ones(7, dtype=torch.bool)
    nothing = {"logprob_diff/mean": 0, "logprob_diff/max": 0, "logprob_diff/k3": 0, "effective_sample_size": 1}
    assert mismatch_stats(logprobs, logprobs.clone(), mask) == nothing
    assert mismatch_stats(logprobs, logprobs + 1, ~mask) == nothing
    one_carries_all = mismatch_stats(torch.tensor([0.0, -900.0]), torch.tensor([-900.0, 0.0]), mask[:2])
    assert one_carries_all["effective_sample_size"] == pytest.approx(1 / 2)
    assert math.isfinite(one_carries_all["logprob_diff/k3"])


@settings(deadline=None)
@given(st.floats(-32, 32, width=32) | st.floats(-(2**-10), 2**-10, width=32))
def test_c05_k3_is_never_negative(difference: float) -> None:
    logprobs, reference = torch.tensor([0.0]), torch.tensor([difference])
    mask = torch.ones(1, dtype=torch.bool)
    assert kl_loss(logprobs, reference, mask, 1) >= 0
    assert mismatch_stats(logprobs, reference, mask)["logprob_diff/k3"] >= 0
    assert policy_loss(reference, logprobs, logprobs, mask, **CLIP, denominator=1)[1]["approx_kl"] >= 0


def test_k3_of_a_small_difference_is_exact() -> None:
    """d^2 / 2 + d^3 / 6 for d = 1e-4; exp(d) - 1 - d in float32 keeps no digit of it."""
    mask = torch.ones(1, dtype=torch.bool)
    loss = kl_loss(torch.tensor([0.0]), torch.tensor([1e-4]), mask, 1)
    assert loss.item() == pytest.approx(5.00017e-9, rel=1e-3)


def test_kl_loss_by_hand() -> None:
    """log(reference / policy) = -.5 and 1: (exp(-.5) - .5) and (exp(1) - 2); its gradient is 1 - reference / policy."""
    logprobs = torch.tensor([-1.0, -2.0, -1.0], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([-1.5, -1.0, -9.0], dtype=torch.float64)
    loss = kl_loss(logprobs, reference, torch.tensor([True, True, False]), 2)
    loss.backward()
    assert loss.item() == pytest.approx((0.10653066 + 0.71828183) / 2)
    expected = torch.tensor([1 - 0.60653066, 1 - 2.71828183, 0], dtype=torch.float64) / 2
    torch.testing.assert_close(logprobs.grad, expected, rtol=0, atol=1e-8)


def test_value_loss_by_hand() -> None:
    """Clip .5, first positions times 3, the fourth token masked.

    V 1, old 1, G 2:     in range, .5 * 1 = .5, first: 1.5;             gradient 3 * (1 - 2) = -3
    V 2, old 1, G 2:     clipped to 1.5, .5 * max(0, .25) = .125;       gradient 0: the bound is a constant
    V 2, old 1, G -1:    clipped 1.5 is nearer, .5 * max(9, 6.25) = 4.5; gradient 2 + 1 = 3
    """
    values = torch.tensor([1.0, 2.0, 2.0, 7.0], requires_grad=True)
    old, returns = torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor([2.0, 2.0, -1.0, 0.0])
    mask, first = torch.tensor([True, True, True, False]), torch.tensor([True, False, False, True])
    loss, stats = value_loss(values, old, returns, mask, first, **VALUE, denominator=3)
    loss.backward()
    assert loss.item() == pytest.approx((1.5 + 0.125 + 4.5) / 3)
    torch.testing.assert_close(values.grad, torch.tensor([-3.0, 0.0, 3.0, 0.0]) / 3)
    assert stats["value_clip_fraction"] == 1


def test_value_loss_without_clip() -> None:
    n = numbers(2, 20) | {"first_R": torch.zeros(20, dtype=torch.bool)}
    loss, stats = value_of(n, 20, clip=None)
    torch.testing.assert_close(loss, (0.5 * (n["values_R"] - n["returns_R"]) ** 2)[n["mask_R"]].sum() / 20)
    assert stats["value_clip_fraction"] == 0


def test_value_clip_fraction_counts_no_rounding_error() -> None:
    """Within the bound nothing is clipped: .1 + (V - .1) is not V in float32, and must not be counted."""
    values = torch.linspace(-0.39, 0.59, 1000)
    ones = torch.ones(1000, dtype=torch.bool)
    _, stats = value_loss(values, torch.full((1000,), 0.1), torch.zeros(1000), ones, ones, **VALUE, denominator=1)
    assert stats["value_clip_fraction"] == 0


def test_the_ratio_of_a_turn_by_hand() -> None:
    """Turn 7 has log ratios .2 and -.4 beside a masked one, turn 9 a single .3."""
    log_ratio, turn = torch.tensor([0.2, 0.3, -0.4, 0.0]), torch.tensor([7, 9, 7, 7])
    mask = torch.tensor([True, True, True, False])
    torch.testing.assert_close(
        turn_log_ratio(log_ratio, turn, mask, product=False), torch.tensor([-0.1, 0.3, -0.1, 0.0])
    )
    torch.testing.assert_close(
        turn_log_ratio(log_ratio, turn, mask, product=True), torch.tensor([-0.2, 0.3, -0.2, 0.0])
    )


@pytest.mark.parametrize("product", [False, True])
def test_equal_logprobs_make_every_ratio_the_same_loss_to_the_bit(product: bool) -> None:
    n = numbers(3, 24)
    args = n["logprobs_R"], n["logprobs_R"].clone(), n["advantages_R"], n["mask_R"]
    by_token, _ = policy_loss(*args, **CLIP, denominator=9)
    by_turn, _ = policy_loss(*args, **CLIP, denominator=9, turn_R=n["turn_R"], product=product)
    assert by_token == by_turn


def test_cispo_keeps_the_gradient_that_ppo_clips() -> None:
    """Ratio 1.5, advantage 2: PPO's gradient is 0, CISPO's 1.3 * 2."""
    logprob = torch.tensor([math.log(1.5)], requires_grad=True)
    args = torch.zeros(1), torch.tensor([2.0]), torch.tensor([True])
    loss, stats = cispo_loss(logprob, *args, clip_low=0.2, clip_high=0.3, denominator=1)
    (grad,) = torch.autograd.grad(loss, logprob)
    assert grad.item() == pytest.approx(-2.6)
    assert (stats["clip_fraction"], stats["dual_clip_fraction"]) == (1, 0)
    assert stats["approx_kl"].item() == pytest.approx(0.5 - math.log(1.5))


@pytest.mark.parametrize("loss", [entropy_bonus, lambda x, mask, d, w: kl_loss(x, torch.zeros_like(x), mask, d, w)])
def test_weights_of_other_means(loss: Callable[..., Tensor]) -> None:
    """A token of weight 2 counts as two; what is masked counts nothing, whatever its weight."""
    x = torch.tensor([0.3, -0.2, 5.0], dtype=torch.float64)
    mask, weights = torch.tensor([True, True, False]), torch.tensor([2.0, 1.0, math.nan], dtype=torch.float64)
    twice = loss(torch.tensor([0.3, 0.3, -0.2], dtype=torch.float64), torch.ones(3, dtype=torch.bool), 3.0, None)
    torch.testing.assert_close(loss(x, mask, 3.0, weights), twice)


def test_importance_weights_by_hand() -> None:
    """Weights 2, 1/2 and 4 of tokens, the first two of one turn: its product is 1."""
    trainer, sampler = torch.tensor([2.0, 0.5, 4.0]).log(), torch.zeros(3)
    turn = torch.tensor([3, 3, 8])
    of_tokens = {"bounds": (0.5, 2.0)}, {"cap": 3.0}, {"bounds": (0.6, 5.0), "cap": 3.0}
    for options, expected in zip(of_tokens, ([2, 0.5, 0], [2, 0.5, 3], [2, 0, 3]), strict=True):
        torch.testing.assert_close(importance_weights(trainer, sampler, **options), torch.tensor(expected).float())
    of_turns = importance_weights(trainer, sampler, bounds=(0.6, 5.0), turn_R=turn)
    torch.testing.assert_close(of_turns, torch.tensor([1.0, 1.0, 4.0]))


@pytest.mark.parametrize("turn", [None, torch.arange(24) // 4])
def test_with_equal_logprobs_every_weight_is_1_to_the_bit(turn: Tensor | None) -> None:
    logprobs = numbers(7, 24)["logprobs_R"].float()
    weights = importance_weights(logprobs, logprobs.clone(), cap=1.0, bounds=(1.0, 1.0), turn_R=turn)
    assert weights.tolist() == [1.0] * 24


def test_gradient_of_k2_is_that_of_the_kl() -> None:
    """Over all tokens of a softmax, weighted by their probability, the gradient of k2 is the KL's; that of k1 is 0."""
    logits = torch.tensor([0.3, -1.0, 0.5], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([0.1, 0.4, -0.2], dtype=torch.float64).log_softmax(0)
    logprobs = logits.log_softmax(0)
    (exact,) = torch.autograd.grad((logprobs.exp() * (logprobs - reference)).sum(), logits, retain_graph=True)
    mask, weights = torch.ones(3, dtype=torch.bool), logprobs.detach().exp()
    k2 = kl_loss(logprobs, reference, mask, 1.0, weights, "k2")
    torch.testing.assert_close(torch.autograd.grad(k2, logits, retain_graph=True)[0], exact)
    k1 = (weights * (logprobs - reference)).sum()
    torch.testing.assert_close(torch.autograd.grad(k1, logits)[0], torch.zeros_like(exact))
