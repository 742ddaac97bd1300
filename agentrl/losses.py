"""Losses of an optimizer step: pure functions over the reply tokens of one micro-batch.

Shapes: every tensor suffixed R is 1-D over the micro-batch's reply tokens; masks are bool. Each loss is the sum over
masked tokens divided by `denominator`, the count of masked tokens in the whole optimizer minibatch on all ranks, so
that gradients summed over micro-batches and ranks do not depend on how the minibatch was cut. (An averaging all-reduce,
as DDP's, wants the loss times the world size.) Statistics are detached sums over masked tokens, to divide by counts.
Whatever stands outside a mask, NaN and inf included, has no influence and receives gradient 0.
"""

import torch
from torch import Tensor

Stats = dict[str, Tensor]

MAX_LOG_RATIO = 20.0
"""Log ratios are clamped to this size before exp: beyond it exp overflows, and an unselected branch gives 0 * inf."""


def policy_loss(
    logprobs_R: Tensor,
    old_logprobs_R: Tensor,
    advantages_R: Tensor,
    mask_R: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
    denominator: float,
    weights_R: Tensor | None = None,
    turn_R: Tensor | None = None,
    product: bool = False,
) -> tuple[Tensor, Stats]:
    """PPO's clipped surrogate -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), r = exp(logprob - old logprob).

    Clipping: Schulman et al. 2017, arXiv 1707.06347; separate bounds: DAPO, arXiv 2503.14476. Dual clip (Ye et al.
    2020, arXiv 1912.09729) bounds the loss of a negative advantage by dual_clip * |A|, whatever r; None: no bound.
    `weights_R` (see `importance_weights`) multiply each token's loss. With `turn_R`, the number of each
    token's turn, a turn has one ratio for all its tokens (see `turn_log_ratio`).

    Stats: clip_fraction and dual_clip_fraction, tokens whose loss the bound changed; approx_kl, the k3 estimate of
    KL(old, new).
    """
    log_ratio_R = _log_ratio(logprobs_R, old_logprobs_R, mask_R)
    approx_kl = _k3(log_ratio_R.detach()).sum()
    if turn_R is not None:
        log_ratio_R = turn_log_ratio(log_ratio_R, turn_R, mask_R, product=product)
    advantages_R = advantages_R.masked_fill(~mask_R, 0.0)
    ratio_R = log_ratio_R.exp()
    free_R = -advantages_R * ratio_R
    bounded_R = -advantages_R * ratio_R.clamp(1.0 - clip_low, 1.0 + clip_high)
    loss_R = torch.maximum(free_R, bounded_R)
    clipped_R = bounded_R > free_R
    dual_clipped_R = torch.zeros_like(mask_R)
    if dual_clip is not None:
        ceiling_R = -advantages_R * dual_clip
        dual_clipped_R = (advantages_R < 0) & (loss_R > ceiling_R)
        loss_R = torch.where(dual_clipped_R, ceiling_R, loss_R)
    if weights_R is not None:
        loss_R = loss_R * weights_R.masked_fill(~mask_R, 0.0)
    stats = {
        "clip_fraction": clipped_R.sum(),
        "dual_clip_fraction": dual_clipped_R.sum(),
        "approx_kl": approx_kl,
    }
    return _normalised(loss_R, denominator), stats


def cispo_loss(
    logprobs_R: Tensor,
    old_logprobs_R: Tensor,
    advantages_R: Tensor,
    mask_R: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    denominator: float,
    weights_R: Tensor | None = None,
    turn_R: Tensor | None = None,
    product: bool = False,
) -> tuple[Tensor, Stats]:
    """CISPO (MiniMax-M1, arXiv 2506.13585): -clip(r, 1 - clip_low, 1 + clip_high) A logprob, r without gradient.

    REINFORCE with clipped importance weights: unlike PPO's, no token loses its gradient to the clip. Arguments and
    stats as `policy_loss`; clip_fraction are the tokens whose ratio was clipped.
    """
    log_ratio_R = _log_ratio(logprobs_R, old_logprobs_R, mask_R).detach()
    approx_kl = _k3(log_ratio_R).sum()
    if turn_R is not None:
        log_ratio_R = turn_log_ratio(log_ratio_R, turn_R, mask_R, product=product)
    ratio_R = log_ratio_R.exp()
    clipped_R = ratio_R.clamp(1.0 - clip_low, 1.0 + clip_high)
    loss_R = -clipped_R * advantages_R.masked_fill(~mask_R, 0.0) * logprobs_R.masked_fill(~mask_R, 0.0)
    if weights_R is not None:
        loss_R = loss_R * weights_R.masked_fill(~mask_R, 0.0)
    stats = {
        "clip_fraction": (clipped_R != ratio_R).sum(),
        "dual_clip_fraction": torch.zeros_like(clipped_R).sum(),
        "approx_kl": approx_kl,
    }
    return _normalised(loss_R, denominator), stats


def turn_log_ratio(log_ratio_R: Tensor, turn_R: Tensor, mask_R: Tensor, *, product: bool) -> Tensor:
    """The log ratio of each token's whole turn: mean of its tokens' log ratios, or with `product` their sum.

    The mean is the geometric mean of GSPO (arXiv 2507.18071), a reply being the sequence, and of Turn-PPO (arXiv
    2511.20718); the product is the ratio of the turn as one action. Masked tokens do not count and are left at 0.
    """
    _, which_R = turn_R.unique(return_inverse=True)
    turns = int(which_R.max()) + 1 if which_R.numel() else 0
    sums = log_ratio_R.new_zeros(turns).index_add(0, which_R, log_ratio_R)
    if not product:
        sums = sums / log_ratio_R.new_zeros(turns).index_add(0, which_R, mask_R.to(log_ratio_R.dtype)).clamp(min=1.0)
    return sums[which_R].clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).masked_fill(~mask_R, 0.0)


def value_loss(
    values_R: Tensor,
    old_values_R: Tensor,
    returns_R: Tensor,
    mask_R: Tensor,
    first_R: Tensor,
    *,
    clip: float | None,
    first_position_weight: float,
    denominator: float,
) -> tuple[Tensor, Stats]:
    """Clipped value loss 0.5 * max((V - G)^2, (V_clip - G)^2), V_clip within `clip` of the old value; None: unclipped.

    The clipping is that of PPO's first code (Huang et al. 2022, "The 37 Implementation Details of PPO"). `first_R`
    marks each turn's first position, whose value bootstraps the turn before: its loss is multiplied by
    `first_position_weight`, while the denominator stays the count of tokens.

    Stats: value_clip_fraction, tokens whose loss the bound changed.
    """
    error_R = (values_R - returns_R).masked_fill(~mask_R, 0.0)
    square_R = error_R.square()
    clipped_R = torch.zeros_like(mask_R)
    if clip is not None:
        # Not old + clamp(V - old): between these bounds V itself comes back, without a rounding error.
        bounded_R = torch.clamp(values_R, old_values_R - clip, old_values_R + clip)
        bounded_square_R = (bounded_R - returns_R).masked_fill(~mask_R, 0.0).square()
        clipped_R = bounded_square_R > square_R
        square_R = torch.maximum(square_R, bounded_square_R)
    weight_R = torch.where(first_R, first_position_weight, 1.0)
    return _normalised(0.5 * weight_R * square_R, denominator), {"value_clip_fraction": clipped_R.sum()}


def entropy_bonus(entropy_R: Tensor, mask_R: Tensor, denominator: float, weights_R: Tensor | None = None) -> Tensor:
    """Mean entropy of the masked positions, to be subtracted from the loss (Mnih et al. 2016, arXiv 1602.01783)."""
    masked_R = entropy_R.masked_fill(~mask_R, 0.0)
    return _normalised(masked_R if weights_R is None else masked_R * weights_R.masked_fill(~mask_R, 0.0), denominator)


def kl_loss(
    logprobs_R: Tensor,
    reference_R: Tensor,
    mask_R: Tensor,
    denominator: float,
    weights_R: Tensor | None = None,
    estimator: str = "k3",
) -> Tensor:
    """Mean estimate of KL(policy, reference), never negative.

    k3, as GRPO adds it to the loss (arXiv 2402.03300); or k2, half the square of the log ratio, whose gradient is that
    of the KL itself on average (joschu.net/blog/kl-approx.html). k1's would be 0.
    """
    log_ratio_R = _log_ratio(reference_R, logprobs_R, mask_R)
    kl_R = _k3(log_ratio_R) if estimator == "k3" else log_ratio_R.square() / 2
    return _normalised(kl_R if weights_R is None else kl_R * weights_R.masked_fill(~mask_R, 0.0), denominator)


def importance_weights(
    trainer_logprobs_R: Tensor,
    sampler_logprobs_R: Tensor,
    *,
    cap: float | None = None,
    bounds: tuple[float, float] | None = None,
    turn_R: Tensor | None = None,
) -> Tensor:
    """Weights trainer / sampler of each token, detached, that correct for a sampler which was another policy.

    With PPO's ratio, trainer now over trainer then, this is decoupled PPO (AReaL, arXiv 2505.24298): the sampler is the
    behaviour policy, the trainer before the first step the proximal one. `cap` truncates (Ionides 2008); `bounds` set
    weights outside of them to 0 (IcePop). With `turn_R`, the number of each token's turn, a turn's weight is the
    product of its tokens'. Equal logprobs give exactly 1, and a loss times 1 is the same to the bit.
    """
    everywhere_R = torch.ones_like(trainer_logprobs_R, dtype=torch.bool)
    log_ratio_R = _log_ratio(trainer_logprobs_R, sampler_logprobs_R, everywhere_R).detach()
    if turn_R is not None:
        log_ratio_R = turn_log_ratio(log_ratio_R, turn_R, everywhere_R, product=True)
    weights_R = log_ratio_R.exp()
    if bounds is not None:
        weights_R = weights_R.masked_fill((weights_R < bounds[0]) | (weights_R > bounds[1]), 0.0)
    return weights_R if cap is None else weights_R.clamp(max=cap)


def mismatch_stats(trainer_logprobs_R: Tensor, sampler_logprobs_R: Tensor, mask_R: Tensor) -> dict[str, float]:
    """How far the trainer's logprobs are from the sampler's, over the masked tokens.

    logprob_diff/mean and /max of the absolute difference, logprob_diff/k3 the k3 estimate of KL(sampler, trainer), and
    effective_sample_size (sum w)^2 / (R sum w^2) of the weights w = trainer / sampler: 1 if all are equal, 1/R if one
    token carries all the weight. Without a masked token: no difference.
    """
    diff_M = (trainer_logprobs_R - sampler_logprobs_R).detach()[mask_R].double()
    if not diff_M.numel():
        return {"logprob_diff/mean": 0.0, "logprob_diff/max": 0.0, "logprob_diff/k3": 0.0, "effective_sample_size": 1.0}
    weight_M = (diff_M - diff_M.max()).exp()  # a common factor cancels, and nothing overflows
    return {
        "logprob_diff/mean": diff_M.abs().mean().item(),
        "logprob_diff/max": diff_M.abs().max().item(),
        "logprob_diff/k3": _k3(diff_M.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)).mean().item(),
        "effective_sample_size": (weight_M.sum().square() / (weight_M.square().sum() * len(weight_M))).item(),
    }


def _log_ratio(logprobs_R: Tensor, base_R: Tensor, mask_R: Tensor) -> Tensor:
    """logprobs - base, clamped, and 0 outside the mask: filled before exp, so that no gradient is 0 * inf."""
    return (logprobs_R - base_R).masked_fill(~mask_R, 0.0).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def _k3(log_ratio_R: Tensor) -> Tensor:
    """(r - 1) - log r, an estimate of KL(q, p) from samples of q, r = p / q (joschu.net/blog/kl-approx.html).

    expm1 keeps small ratios exact. Not every device rounds its last bit correctly, hence the clamp: never negative.
    """
    return (log_ratio_R.expm1() - log_ratio_R).clamp(min=0.0)


def _normalised(loss_R: Tensor, denominator: float) -> Tensor:
    """Sum over the denominator. A minibatch without one masked token sums to 0 and stays 0, not 0 / 0."""
    return loss_R.sum() / max(denominator, 1)
