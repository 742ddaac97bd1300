"""Logprobs: hand-computed numbers, a softmax over each legal list alone, and gradients that stay finite."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from agentrl.logprobs import legal_logits, masked_logprobs

NO_IDS = torch.zeros(0, dtype=torch.long)


def free(rows: int) -> tuple[Tensor, Tensor]:
    """Legal lists of `rows` positions without a restriction."""
    return NO_IDS, torch.zeros(rows + 1, dtype=torch.long)


def lists(*legal: list[int]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([0] + [len(ids) for ids in legal])
    return torch.tensor([i for ids in legal for i in ids], dtype=torch.long), lengths.cumsum(0)


def test_masked_logprobs_by_hand() -> None:
    """exp(logits / 2) = 1, 2, 3, 4. Free: of 10. Ids 1 and 3: of 6. Id 2 alone: forced."""
    logits = (2 * torch.tensor([1.0, 2.0, 3.0, 4.0]).log()).repeat(3, 1)
    logprobs, entropy = masked_logprobs(logits, torch.tensor([3, 3, 2]), *lists([], [3, 1], [2]), temperature=2.0)
    torch.testing.assert_close(logprobs, torch.tensor([math.log(0.4), math.log(4 / 6), 0.0]))
    # -(.1 log .1 + .2 log .2 + .3 log .3 + .4 log .4); -(1/3 log 1/3 + 2/3 log 2/3); exactly 0
    torch.testing.assert_close(entropy, torch.tensor([1.27985423, 0.63651417, 0.0]))
    assert logprobs[2] == entropy[2] == 0


def test_c05_logprobs_are_those_at_the_temperature() -> None:
    logits = torch.randn(6, 11, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(6)
    for temperature in (0.3, 1.0, 2.5):
        logprobs, entropy = masked_logprobs(logits, targets, *free(6), temperature=temperature)
        expected = torch.distributions.Categorical(logits=logits / temperature)
        torch.testing.assert_close(logprobs, expected.log_prob(targets))
        torch.testing.assert_close(entropy, expected.entropy())


def test_c05_sampling_from_legal_logits_follows_masked_logprobs() -> None:
    """Frequencies of 20,000 samples against the probabilities: within 5 standard errors, nothing illegal."""
    generator = torch.Generator().manual_seed(0)
    logits, legal = torch.randn(2, 5, generator=generator), lists([], [0, 4])
    probabilities = legal_logits(logits, *legal, temperature=0.7).softmax(-1)
    samples = torch.multinomial(probabilities, 20_000, replacement=True, generator=generator)
    for row, ids in enumerate([[0, 1, 2, 3, 4], [0, 4]]):
        assert set(samples[row].tolist()) == set(ids)
        for target in ids:
            logprobs, _ = masked_logprobs(logits, torch.tensor([target, target]), *legal, temperature=0.7)
            p = logprobs[row].exp().item()
            assert abs((samples[row] == target).double().mean().item() - p) < 5 * math.sqrt(p * (1 - p) / 20_000)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sets(st.integers(0, 8)), min_size=1, max_size=6), st.floats(0.2, 3), st.integers(0, 2**32 - 1))
def test_masked_logprobs_equal_a_softmax_over_the_list(legal: list[set[int]], temperature: float, seed: int) -> None:
    """Each row alone, over the logits of its legal ids only: value and gradient, of logprob and entropy."""
    rows = len(legal)
    generator = torch.Generator().manual_seed(seed)
    logits = (3 * torch.randn(rows, 9, generator=generator, dtype=torch.float64)).requires_grad_()
    weight = torch.randn(2, rows, generator=generator, dtype=torch.float64)
    choices = [sorted(ids) or list(range(9)) for ids in legal]
    targets = [ids[seed % len(ids)] for ids in choices]

    logprobs, entropy = masked_logprobs(logits, torch.tensor(targets), *lists(*map(list, legal)), temperature)
    (grad,) = torch.autograd.grad((weight * torch.stack([logprobs, entropy])).sum(), logits)
    expected = torch.zeros((), dtype=torch.float64)
    for row, ids in enumerate(choices):
        alone = torch.distributions.Categorical(logits=logits[row, ids] / temperature)
        log_prob = alone.log_prob(torch.tensor(ids.index(targets[row])))
        torch.testing.assert_close(logprobs[row], log_prob)
        torch.testing.assert_close(entropy[row], alone.entropy())
        expected = expected + weight[0, row] * log_prob + weight[1, row] * alone.entropy()
    (expected_grad,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(grad, expected_grad)


def test_gradients_at_extreme_and_forbidden_logits_are_finite() -> None:
    """Probabilities that underflow to 0, logits that a model itself set to -inf, a forced position; a steep loss."""
    logits = torch.tensor([[300.0, -300.0, 0.0], [1.0, -math.inf, 2.0], [5.0, 6.0, 7.0]], requires_grad=True)
    logprobs, entropy = masked_logprobs(logits, torch.tensor([0, 2, 1]), *lists([], [], [1]), temperature=1.0)
    (grad,) = torch.autograd.grad(logprobs.sum() + 1000 * entropy.sum(), logits)
    assert torch.isfinite(logprobs).all()
    assert torch.isfinite(entropy).all()
    assert torch.isfinite(grad).all()
    assert torch.equal(grad[2], torch.zeros(3))
    assert masked_logprobs(logits, torch.tensor([0, 2, 0]), *lists([], [], [1]), 1.0)[0][2] == -math.inf


def test_logits_are_widened_not_written_to() -> None:
    """bf16 logits are divided and normalised in float32; the caller's tensor is untouched, also at temperature 1."""
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0)).bfloat16()
    before, legal = logits.clone(), lists([1, 2], [], [], [3])
    logprobs, entropy = masked_logprobs(logits, torch.tensor([1, 5, 6, 3]), *legal, temperature=1.0)
    assert logprobs.dtype == entropy.dtype == torch.float32
    torch.testing.assert_close(logprobs[1], logits[1].float().log_softmax(-1)[5], rtol=0, atol=0)
    wide = logits.float()
    legal_logits(wide, *legal, temperature=1.0)
    assert torch.equal(wide, before.float())
    assert torch.equal(logits, before)


def test_no_positions_at_all() -> None:
    logprobs, entropy = masked_logprobs(torch.zeros(0, 7), NO_IDS, *free(0), temperature=1.0)
    assert logprobs.shape == entropy.shape == (0,)
