"""The embedded engine against one-row forward passes without a cache, and against itself in other company."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import ACTIONS, KINDS, VOCAB, naive_logprobs, tiny_lm, tokenizer
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentrl.constrain import ActionConstraint
from agentrl.engines.base import Reply, Request, Sampling
from agentrl.engines.transformers import TransformersEngine
from agentrl.errors import UserError
from agentrl.parsing import parse_action
from agentrl.records import FREE

END = tokenizer().eos_token_id
ALWAYS_LEGAL = ActionConstraint(tokenizer(), END, after_marker=False)


def lm(kind: str = "qwen2", attention: str = "sdpa") -> Any:
    return _cached_lm(kind, attention)


@cache
def _cached_lm(kind: str, attention: str) -> Any:
    return tiny_lm(kind, attention=attention)


def engine(kind: str = "qwen2", attention: str = "sdpa", **options: Any) -> TransformersEngine:
    return TransformersEngine(lm(kind, attention), tokenizer(), [END], **options)


def requests(count: int, sampling: Sampling, legal: Sequence[str] | None = None, seed: int = 0) -> list[Request]:
    """Prompts of 1 to 30 random ids; where `legal` is given, each turn allows another part of it."""
    rng = random.Random(seed)
    made = []
    for i in range(count):
        prompt = [rng.randrange(3, VOCAB) for _ in range(rng.randint(1, 30))]
        part = None if legal is None else tuple(rng.sample(list(legal), rng.randint(1, len(legal))))
        made.append(Request([], prompt, sampling, part, seed=1000 * seed + i))
    return made


def check_logprobs(model: Any, asked: Sequence[Request], replies: Sequence[Reply]) -> None:
    for request, reply in zip(asked, replies, strict=True):
        assert request.prompt_ids is not None
        expected = naive_logprobs(model, request.prompt_ids, reply.ids, reply.legal, request.sampling.temperature)
        np.testing.assert_allclose(reply.logprobs, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_c04_logprobs_of_free_replies_equal_a_plain_forward_pass(kind: str, attention: str) -> None:
    """Ragged prompts in one batch, with a cache, against each row alone, without."""
    for temperature in (0.3, 1.0, 1.7):
        asked = requests(9, Sampling(temperature, max_tokens=8), seed=3)
        replies = engine(kind, attention).generate(asked)
        assert all(legal == FREE for reply in replies for legal in reply.legal)
        check_logprobs(lm(kind, attention), asked, replies)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_c04_logprobs_of_legal_actions_are_renormalised_over_the_legal_ids(kind: str, attention: str) -> None:
    """Rows advance by different numbers of ids a pass, so the cache has holes; the logprobs do not know it."""
    for temperature in (0.7, 1.0):
        asked = requests(12, Sampling(temperature, max_tokens=8), ACTIONS, seed=4)
        replies = engine(kind, attention, constraint=ALWAYS_LEGAL).generate(asked)
        check_logprobs(lm(kind, attention), asked, replies)
        for request, reply in zip(asked, replies, strict=True):
            cursor = ALWAYS_LEGAL.cursor(request.legal or ())
            for token, legal in zip(reply.ids, reply.legal, strict=True):
                assert legal == cursor.allowed
                cursor.advance(token)


@pytest.mark.parametrize("constraint", [None, ALWAYS_LEGAL])
def test_a_reply_does_not_depend_on_its_company(constraint: ActionConstraint | None) -> None:
    """Alone, in any order, in batches of any size, whoever leaves early: the same ids, keyed by the request's seed."""
    asked = requests(10, Sampling(1.0, max_tokens=10), ACTIONS, seed=5)
    asked[3].sampling = Sampling(1.0, max_tokens=2)
    asked[7].sampling = Sampling(1.0, max_tokens=40)
    together = engine(constraint=constraint).generate(asked)
    assert len({len(reply.ids) for reply in together}) > 2
    for request, reply in zip(asked, together, strict=True):
        (alone,) = engine(constraint=constraint).generate([request])
        assert (alone.ids, alone.legal, alone.finish_reason) == (reply.ids, reply.legal, reply.finish_reason)
        np.testing.assert_allclose(alone.logprobs, reply.logprobs, atol=1e-5)
    order = random.Random(0).sample(range(10), 10)
    for batch_size in (1, 3, 4):
        shuffled = engine(constraint=constraint, batch_size=batch_size).generate([asked[i] for i in order])
        assert [reply.ids for reply in shuffled] == [together[i].ids for i in order]


def test_the_seed_alone_decides_between_equal_requests() -> None:
    one, two = requests(1, Sampling(1.0, 12), seed=1) * 2
    two = replace(two, seed=two.seed + 1)
    first, second, again = engine().generate([one, two, one])
    assert first.ids == again.ids != second.ids


def test_a_longer_limit_only_adds_to_a_reply() -> None:
    asked = requests(6, Sampling(1.0, 4), seed=2)
    longer = [replace(request, sampling=Sampling(1.0, 12)) for request in asked]
    for short, long in zip(engine().generate(asked), engine().generate(longer), strict=True):
        assert long.ids[: len(short.ids)] == short.ids


def test_greedy_is_the_most_likely_token_and_reports_its_logprob_at_temperature_1() -> None:
    for constraint in (None, ALWAYS_LEGAL):
        asked = requests(6, Sampling(0.0, 6), ACTIONS, seed=6)
        for request, reply in zip(asked, engine(constraint=constraint).generate(asked), strict=True):
            assert request.prompt_ids is not None
            logits = lm()(torch.tensor([request.prompt_ids + reply.ids])).logits[0, len(request.prompt_ids) - 1 : -1]
            for logits_V, token, legal in zip(logits, reply.ids, reply.legal, strict=True):
                among = list(legal) or list(range(VOCAB))
                assert token == among[int(logits_V[among].argmax())]
            expected = naive_logprobs(lm(), request.prompt_ids, reply.ids, reply.legal, 1.0)
            np.testing.assert_allclose(reply.logprobs, expected, atol=1e-5)


def test_a_reply_stops_at_any_end_id_and_is_cut_at_the_limit() -> None:
    ends = [END, 40, 41, 42, 43, 44, 45, 46, 47]
    free = TransformersEngine(lm(), tokenizer(), ends)
    limit = 30
    replies = free.generate(requests(40, Sampling(2.0, limit), seed=7))
    assert {reply.finish_reason for reply in replies} == {"stop", "length"}
    assert len({reply.ids[-1] for reply in replies if reply.finish_reason == "stop"}) > 3
    for reply in replies:
        assert not set(reply.ids[:-1]) & set(ends)
        assert (reply.ids[-1] in ends) == (reply.finish_reason == "stop")
        assert len(reply.ids) == limit or reply.finish_reason == "stop"
        assert len(reply.ids) == len(reply.logprobs) == len(reply.legal)
        assert reply.text == tokenizer().decode(reply.ids, skip_special_tokens=True)


def test_a_limit_inside_of_a_forced_stretch_cuts_there() -> None:
    """ "drop it" is four ids with its end; two fit, and no pass is made for what does not."""
    whole = tokenizer().encode("drop it", add_special_tokens=False)
    assert len(whole) >= 2
    (reply,) = engine(constraint=ALWAYS_LEGAL).generate([Request([], [5, 6], Sampling(1.0, 2), ("drop it",))])
    assert (reply.ids, reply.logprobs, reply.finish_reason) == (whole[:2], [0.0, 0.0], "length")


class Passes:
    """Records the shape of every pass through the trunk."""

    def __init__(self, model: Any) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self._hook = model.base_model.register_forward_hook(self._record, with_kwargs=True)

    def _record(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        self.shapes.append(tuple(kwargs["input_ids"].shape))

    def __enter__(self) -> "Passes":
        return self

    def __exit__(self, *exception: object) -> None:
        self._hook.remove()


def test_forced_ids_have_logprob_0_and_no_pass_of_their_own() -> None:
    for request in requests(10, Sampling(1.0, 10), ACTIONS, seed=8):
        with Passes(lm()) as passes:
            (reply,) = engine(constraint=ALWAYS_LEGAL).generate([request])
        choices = [len(legal) for legal in reply.legal]
        assert len(passes.shapes) == sum(count != 1 for count in choices)
        assert all((logprob == 0.0) == (count == 1) for logprob, count in zip(reply.logprobs, choices, strict=True))
    with Passes(lm()) as passes:
        engine(constraint=ALWAYS_LEGAL).generate([Request([], [5], Sampling(1.0, 10), ("pick up",))])
    assert not passes.shapes


def test_finished_rows_leave_the_batch() -> None:
    with Passes(lm()) as passes:
        replies = engine().generate(
            [replace(r, sampling=Sampling(1.0, 1 + i)) for i, r in enumerate(requests(5, Sampling(), seed=9))]
        )
    lengths = [len(reply.ids) for reply in replies]
    assert [rows for rows, _ in passes.shapes] == [sum(n > t for n in lengths) for t in range(max(lengths))]
    assert all(width == 1 for _, width in passes.shapes[1:])


def test_frequencies_are_the_probabilities() -> None:
    """Pearson's chi-square over 4000 seeds. With k cells its mean is k - 1 and its deviation sqrt(2 (k - 1))."""
    prompt, temperature = [17, 200, 33], 0.5
    asked = [Request([], prompt, Sampling(temperature, 1), seed=seed) for seed in range(4000)]
    drawn = np.bincount([reply.ids[0] for reply in engine(batch_size=1000).generate(asked)], minlength=VOCAB)
    with torch.no_grad():
        expected = (lm()(torch.tensor([prompt])).logits[0, -1].double() / temperature).softmax(-1).numpy() * len(asked)
    often = expected > 5
    counted = np.append(drawn[often], drawn[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum())
    assert len(wanted) > 20
    freedom = len(wanted) - 1
    assert abs(((counted - wanted) ** 2 / wanted).sum() - freedom) < 4 * np.sqrt(2 * freedom)


@settings(max_examples=25, deadline=None)
@given(
    legal=st.lists(st.sampled_from(ACTIONS), min_size=1, unique=True).map(tuple),
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.0, 0.5, 1.0, 5.0]),
)
def test_constrained_replies_are_always_legal_actions(legal: tuple[str, ...], seed: int, temperature: float) -> None:
    asked = [Request([], [7, 8, 9 + i], Sampling(temperature, 12), legal, seed=seed + i) for i in range(3)]
    for reply in engine(constraint=ALWAYS_LEGAL).generate(asked):
        assert reply.text in legal
        assert reply.finish_reason == "stop"


@pytest.mark.parametrize("draw", [0.0, 1 - 2**-53])
def test_the_outermost_draws_are_legal_ids_too(draw: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 must not fall on an illegal id 0, nor the largest number below 1 behind the last id that has a probability."""
    monkeypatch.setattr("agentrl.engines.transformers.uniforms", lambda seed, count: np.full(count, draw))
    asked = requests(20, Sampling(1.0, 12), ACTIONS, seed=2)
    for request, reply in zip(asked, engine(constraint=ALWAYS_LEGAL).generate(asked), strict=True):
        assert reply.text in (request.legal or ())
        pick = min if draw == 0 else max
        assert all(token == pick(legal) for token, legal in zip(reply.ids, reply.legal, strict=True))


class Parrot(torch.nn.Module):
    """An output embedding that makes one id the likely next one: the n-th of `script` in the n-th pass of a row."""

    def __init__(self, script: Sequence[int]) -> None:
        super().__init__()
        self.script = list(script)

    def forward(self, hidden_BH: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(len(hidden_BH), VOCAB)
        if self.script:
            logits[:, self.script.pop(0)] = 50.0
        return logits


@pytest.mark.parametrize("whole_tokens", [True, False])
def test_after_the_marker_a_legal_action_follows(whole_tokens: bool) -> None:
    """The free part is what the model says; the marker's seven characters may come as seven ids."""
    marker = "THINK: ahead.\nACTION:"
    ids = (
        tokenizer().encode(marker, add_special_tokens=False)
        if whole_tokens
        else [tokenizer().encode(c, add_special_tokens=False)[0] for c in marker]
    )
    reasoning = ActionConstraint(tokenizer(), END, after_marker=True)
    for seed in range(8):
        model = tiny_lm("qwen2-untied")
        model.set_output_embeddings(Parrot(ids))
        parrot = TransformersEngine(model, tokenizer(), [END], reasoning)
        legal = ("go back", "turn left", "drop it")
        (reply,) = parrot.generate([Request([], [5, 6], Sampling(1.0, 40), legal, seed=seed)])
        assert reply.ids[: len(ids)] == ids
        assert [entry == FREE for entry in reply.legal] == [j < len(ids) for j in range(len(reply.ids))]
        assert reply.text.removeprefix(f"{marker} ") in legal
        assert parse_action(reply.text, legal, {}) in legal
        assert reply.finish_reason == "stop"


def test_a_constraint_leaves_free_text_games_alone() -> None:
    """`legal` None: the game judges the text itself."""
    asked = requests(3, Sampling(1.0, 6), None, seed=1)
    constrained = engine(constraint=ALWAYS_LEGAL).generate(asked)
    assert [reply.ids for reply in constrained] == [reply.ids for reply in engine().generate(asked)]


def test_no_requests_no_replies() -> None:
    assert engine().generate([]) == []


def test_mixed_temperatures_and_missing_ids_are_refused() -> None:
    one, two = requests(2, Sampling(1.0))
    with pytest.raises(ValueError, match="one temperature"):
        engine().generate([one, replace(two, sampling=Sampling(0.5))])
    with pytest.raises(ValueError, match="prompt_ids"):
        engine().generate([replace(one, prompt_ids=None)])


def test_a_sliding_window_is_exact_within_and_refused_beyond() -> None:
    """It counts the cache's columns, also those that are another row's padding."""
    sliding = {"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1}
    model = Qwen2ForCausalLM(Qwen2Config(**{**lm().config.to_dict(), **sliding, "layer_types": None})).eval()
    assert model.config.layer_types == ["full_attention", "sliding_attention"]
    narrow = TransformersEngine(model, tokenizer(), [END])
    short = [request for request in requests(30, Sampling(1.0, 4)) if len(request.prompt_ids or ()) <= 20]
    check_logprobs(model, short, narrow.generate(short))
    with pytest.raises(UserError, match=r"slides over 24 tokens, which prompt and reply must fit into; 25 were needed"):
        narrow.generate([short[0], Request([], [5] * 22, Sampling(1.0, 12), seed=1)])
    assert engine().window is None


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_c14_logits_that_are_not_finite_are_named(temperature: float) -> None:
    model = tiny_lm()
    with torch.no_grad():
        model.base_model.norm.weight[3] = float("nan")
    with pytest.raises(UserError, match=r"diverged; .*lower optimizer\.lr"):
        TransformersEngine(model, tokenizer(), [END]).generate(requests(2, Sampling(temperature)))


def test_the_model_is_left_as_it_was_and_the_version_is_stamped() -> None:
    model = tiny_lm()
    sampler = TransformersEngine(model, tokenizer(), [END])
    sampler.policy_version = 7
    for training in (True, False):
        model.train(training)
        (reply,) = sampler.generate(requests(1, Sampling()))
        assert model.training is training
        assert reply.policy_version == 7
    assert all(parameter.grad is None for parameter in model.parameters())


def test_autocast_is_what_the_replies_are_sampled_under() -> None:
    """bf16 moves the logprobs by hundredths; within one call the ids and the trained distribution stay one."""
    asked = requests(4, Sampling(1.0, 4), seed=3)
    half = engine(autocast=lambda: torch.autocast("cpu", torch.bfloat16)).generate(asked)
    for request, reply in zip(asked, half, strict=True):
        assert request.prompt_ids is not None
        difference = np.abs(
            np.subtract(reply.logprobs, naive_logprobs(lm(), request.prompt_ids, reply.ids, reply.legal, 1.0))
        )
        assert 1e-5 < difference.max() < 0.2
