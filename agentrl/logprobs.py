"""Logprobs of sampled tokens: the one place where temperature and legal ids meet the logits.

Sampler and trainer both call this, so that they speak of the same distribution.
Shapes: K positions, V vocabulary, K1 = K + 1 offsets: the legal ids of position k are those of the flat `legal_ids`
from legal_offsets_K1[k] to legal_offsets_K1[k + 1]; none means the whole vocabulary is free. All tensors on one device.
"""

import torch
from torch import Tensor


def legal_logits(logits_KV: Tensor, legal_ids: Tensor, legal_offsets_K1: Tensor, temperature: float) -> Tensor:
    """Logits over the temperature, -inf at ids that are not legal: (K, V), in float32 or the wider dtype given.

    Softmax of a row is the distribution that is sampled and trained.
    """
    wide = torch.promote_types(logits_KV.dtype, torch.float32)
    scaled_KV = logits_KV.to(wide) / temperature
    if not legal_ids.numel():
        return scaled_KV
    count_K = legal_offsets_K1.diff()
    row_of_id = torch.arange(len(count_K), device=count_K.device).repeat_interleave(
        count_K, output_size=legal_ids.numel()
    )
    illegal_KV = (count_K > 0).unsqueeze(1).repeat(1, logits_KV.shape[1])
    illegal_KV[row_of_id, legal_ids] = False
    # In place on the fresh quotient: a third (K, V) float copy would be the largest tensor of the whole step.
    return scaled_KV.masked_fill_(illegal_KV, float("-inf"))


def masked_logprobs(
    logits_KV: Tensor, targets_K: Tensor, legal_ids: Tensor, legal_offsets_K1: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """(logprobs_K of the targets, entropy_K), both of softmax(`legal_logits`), renormalised over the legal ids.

    A position with one legal id has logprob 0 and entropy 0. A target that is not legal has logprob -inf.
    """
    log_softmax_KV = legal_logits(logits_KV, legal_ids, legal_offsets_K1, temperature).log_softmax(dim=-1)
    logprobs_K = log_softmax_KV.gather(1, targets_K.unsqueeze(1)).squeeze(1)
    # p log p -> 0 as p -> 0, but 0 * -inf is NaN. Below -1e4 p is exactly 0 in every dtype: that bound changes neither
    # value nor gradient. (The lowest float would: a gradient scale above 1 makes it -inf again.)
    finite_KV = log_softmax_KV.clamp(min=-1e4)
    entropy_K = -(log_softmax_KV.exp() * finite_KV).sum(dim=-1)
    return logprobs_K, entropy_K
