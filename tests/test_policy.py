"""The actor-critic on padded rows: what it reads, what it computes and where, and how it is saved."""

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import KINDS, VOCAB, naive_logprobs, relative_difference, tiny_lm, tiny_model, tokenizer
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from agentrl import policy
from agentrl.config import ModelConfig
from agentrl.errors import UserError
from agentrl.policy import (
    ActorCritic,
    Rows,
    ValueHead,
    load_critic,
    load_lm,
    load_tokenizer,
    load_values,
    pad_rows,
    save_policy,
)

Turns = Sequence[tuple[list[int], list[int], list[tuple[int, ...]]]]


def random_replies(count: int, seed: int = 0) -> Turns:
    """(prompt, reply, legal ids of each reply position: free, forced or a handful)."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        prompt = [rng.randrange(VOCAB) for _ in range(rng.randint(1, 12))]
        reply = [rng.randrange(VOCAB) for _ in range(rng.randint(1, 6))]
        legal = [rng.choice([(), (token,), (token, (token + 5) % VOCAB, (token + 9) % VOCAB)]) for token in reply]
        made.append((prompt, reply, legal))
    return made


def rows_of(turns: Turns, fill: int = 0) -> Rows:
    """Rows written out by hand; padding is `fill`."""
    places = [(i, len(p) - 1 + j) for i, (p, reply, _) in enumerate(turns) for j in range(len(reply))]
    replies = [(token, ids) for _, reply, legal in turns for token, ids in zip(reply, legal, strict=True)]
    chosen = [k for k, (_, ids) in enumerate(replies) if len(ids) != 1]
    lists = [replies[k][1] for k in chosen]
    return Rows(
        input_ids_BT=pad_rows([np.array([*p, *reply[:-1]]) for p, reply, _ in turns], fill),
        row_K=torch.tensor([row for row, _ in places]),
        column_K=torch.tensor([column for _, column in places]),
        choice_C=torch.tensor(chosen, dtype=torch.long),
        target_C=torch.tensor([replies[k][0] for k in chosen], dtype=torch.long),
        legal_ids=torch.tensor([i for ids in lists for i in ids], dtype=torch.long),
        legal_offsets=torch.tensor([0, *np.cumsum([len(ids) for ids in lists])], dtype=torch.long),
    )


@contextmanager
def recorded(module: nn.Module) -> Iterator[list[int]]:
    """Rows of the first argument in each call of a module."""
    sizes: list[int] = []
    hook = module.register_forward_hook(lambda m, args, output: sizes.append(len(args[0])))
    try:
        yield sizes
    finally:
        hook.remove()


def total(outputs: Sequence[Tensor]) -> Tensor:
    """A scalar in which every output has another slope."""
    return sum(((i + 1.5) * output.sin().sum() for i, output in enumerate(outputs)), torch.zeros(()))


def gradients(model: ActorCritic, rows: Rows, **asked: bool) -> dict[str, Tensor]:
    model.zero_grad(set_to_none=True)
    total(model(rows, 0.7, **asked)).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", KINDS)
def test_c05_logprobs_and_values_of_a_batch_equal_those_of_each_turn_alone(kind: str) -> None:
    model, turns = tiny_model(kind), random_replies(9)
    for temperature in (0.7, 1.0):
        with torch.no_grad():
            logprobs_C, entropy_C, values_K = model(rows_of(turns), temperature)
        expected_logprobs, expected_values = [], []
        for prompt, reply, legal in turns:
            naive = naive_logprobs(model.lm, prompt, reply, legal, temperature)
            expected_logprobs += [lp for lp, ids in zip(naive, legal, strict=True) if len(ids) != 1]
            with torch.no_grad():
                hidden = model.lm.base_model(torch.tensor([prompt + reply])).last_hidden_state[0]
                expected_values += model.value_head(hidden[len(prompt) - 1 : -1]).tolist()
        np.testing.assert_allclose(logprobs_C, expected_logprobs, atol=1e-5)
        np.testing.assert_allclose(values_K, expected_values, atol=1e-5)
        assert len(entropy_C) == len(logprobs_C)
        assert torch.all(entropy_C >= 0)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_c08_garbage_in_the_padding_changes_no_bit(kind: str, attention: str) -> None:
    model = ActorCritic(tiny_lm(kind, attention=attention), None, 0)
    nn.init.normal_(model.value_head.out.weight)
    rows, turns = rows_of(random_replies(6)), random_replies(6)
    garbage = rows_of(turns)
    rng = torch.Generator().manual_seed(1)
    for row, (prompt, reply, _) in zip(garbage.input_ids_BT, turns, strict=True):
        padding = row[len(prompt) + len(reply) - 1 :]
        padding.copy_(torch.randint(VOCAB, padding.shape, generator=rng))
    assert not torch.equal(rows.input_ids_BT, garbage.input_ids_BT)
    with torch.no_grad():
        for clean, dirty in zip(model(rows, 1.0), model(garbage, 1.0), strict=True):
            assert torch.equal(clean, dirty)
    assert relative_difference(gradients(model, rows), gradients(model, garbage)) < 1e-6


def test_c17_logits_are_made_where_a_reply_token_has_a_choice_and_nowhere_else() -> None:
    model, rows = tiny_model(), rows_of(random_replies(9))
    with torch.no_grad(), recorded(model.lm.get_output_embeddings()) as sizes:
        model(rows, 1.0)
    assert sizes == [len(rows.choice_C)]
    assert len(rows.choice_C) < len(rows.row_K) < rows.input_ids_BT.numel()


@pytest.mark.parametrize("kind", KINDS)
def test_c17_the_values_alone_never_call_the_head(kind: str) -> None:
    model, rows = tiny_model(kind), rows_of(random_replies(5))
    with torch.no_grad(), recorded(model.lm.get_output_embeddings()) as sizes:
        logprobs_C, entropy_C, values_K = model(rows, 1.0, policy=False)
        assert torch.equal(values_K, model(rows, 1.0)[2])
    assert sizes == [len(rows.choice_C)]
    assert len(logprobs_C) == len(entropy_C) == 0


def test_the_logprobs_alone_never_call_the_value_head() -> None:
    model, rows = tiny_model(), rows_of(random_replies(5))
    with torch.no_grad(), recorded(model.value_head) as sizes:
        assert len(model(rows, 1.0, values=False)[2]) == 0
    assert not sizes


@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_c17_logits_in_chunks_give_the_same_numbers_and_gradients(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = tiny_model(), rows_of(random_replies(8))
    choices = len(rows.choice_C)
    whole, whole_gradients = model(rows, 0.7), gradients(model, rows)
    monkeypatch.setattr(policy, "LOGITS_CHUNK", chunk * VOCAB + VOCAB // 2)
    with recorded(model.lm.get_output_embeddings()) as sizes:
        parts = model(rows, 0.7)
    assert sizes == [chunk] * (choices // chunk) + [choices % chunk] * (choices % chunk > 0)
    for one, other in zip(parts, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    with recorded(model.lm.get_output_embeddings()) as sizes:
        part_gradients = gradients(model, rows)
    assert max(sizes) <= chunk  # in the backward pass, too: logits are made again, a chunk at a time
    assert relative_difference(part_gradients, whole_gradients) < 1e-6


def test_a_frozen_policy_gets_no_gradient_and_the_value_head_the_same_one() -> None:
    model, rows = tiny_model(), rows_of(random_replies(5))
    frozen = gradients(model, rows, policy=False, freeze_policy=True)
    assert frozen.keys() == {name for name, _ in model.value_parameters()}
    free = gradients(model, rows, policy=False)
    assert free.keys() > frozen.keys()
    assert all(torch.equal(free[name], gradient) for name, gradient in frozen.items())


def test_a_separate_critic_and_the_policy_share_nothing() -> None:
    model, rows = tiny_model(separate_critic=True), rows_of(random_replies(5))
    assert gradients(model, rows, policy=False).keys() == {name for name, _ in model.value_parameters()}
    policy_gradients = gradients(model, rows, values=False)
    assert policy_gradients.keys() == {name for name, _ in model.policy_parameters()}
    names = [name for name, _ in (*model.policy_parameters(), *model.value_parameters())]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())
    with torch.no_grad(), recorded(model.lm.get_input_embeddings()) as sizes:
        model(rows, 1.0, policy=False)
    assert not sizes


def test_an_untrained_critic_says_0_and_works_in_fp32_under_autocast() -> None:
    head = ValueHead(8)
    assert not head(torch.randn(5, 8)).any()
    nn.init.normal_(head.out.weight)
    hidden = torch.randn(5, 8).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        values = head(hidden)
    assert values.dtype == torch.float32
    assert torch.equal(values, head(hidden.float()))


def test_the_head_is_drawn_from_its_seed_and_disturbs_no_other_draw() -> None:
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    one = ActorCritic(tiny_lm(), None, head_seed=2**64 - 1)
    assert torch.equal(torch.randn(3), expected)
    two, three = ActorCritic(tiny_lm(), None, head_seed=2**64 - 1), ActorCritic(tiny_lm(), None, head_seed=1)
    assert torch.equal(one.value_head.hidden.weight, two.value_head.hidden.weight)
    assert not torch.equal(one.value_head.hidden.weight, three.value_head.hidden.weight)


def test_pad_rows_by_hand() -> None:
    padded = pad_rows([np.array([1, 2, 3]), np.array([4])], pad_id=9)
    assert padded.tolist() == [[1, 2, 3], [4, 9, 9]]
    assert padded.dtype == torch.long


@pytest.mark.parametrize("separate_critic", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_the_model_is_the_same_to_the_bit(kind: str, separate_critic: bool, tmp_path: Path) -> None:
    model, rows = tiny_model(kind, separate_critic=separate_critic, seed=3), rows_of(random_replies(4))
    save_policy(model, tokenizer(), tmp_path)
    config = ModelConfig(critic="separate" if separate_critic else "value_head")
    again = ActorCritic(load_lm(str(tmp_path), config), load_critic(str(tmp_path), config), head_seed=0)
    load_values(again, tmp_path)
    with torch.no_grad():
        for one, other in zip(model(rows, 1.0), again.eval()(rows, 1.0), strict=True):
            assert torch.equal(one, other)
    assert load_tokenizer(str(tmp_path)).get_vocab() == tokenizer().get_vocab()


def test_loading_and_saving_are_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    save_policy(tiny_model(), tokenizer(), tmp_path)
    load_lm(str(tmp_path), ModelConfig())
    load_tokenizer(str(tmp_path))
    assert capfd.readouterr() == ("", "")


def test_c13_a_value_tensor_that_is_missing_or_left_over_is_an_error(tmp_path: Path) -> None:
    model = tiny_model()
    save_policy(model, tokenizer(), tmp_path)
    stored = load_file(tmp_path / "value.safetensors")
    for wrong in (
        {**stored, "value_head.more": torch.zeros(1)},
        {"value_head.out.bias": stored["value_head.out.bias"]},
    ):
        save_file(wrong, tmp_path / "value.safetensors")
        with pytest.raises(UserError, match="does not fit the model"):
            load_values(model, tmp_path)


def test_c13_a_model_with_a_missing_tensor_is_refused_not_completed_at_random(tmp_path: Path) -> None:
    save_policy(tiny_model(), tokenizer(), tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    del stored["model.layers.1.mlp.up_proj.weight"]
    save_file(stored, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"lack 1 of the model's tensors, model.layers.1.mlp.up_proj.weight for one"):
        load_lm(str(tmp_path), ModelConfig())


def test_what_cannot_be_loaded_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    save_policy(tiny_model(), tokenizer(), tmp_path / "torn")
    weights = tmp_path / "torn" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    for name in ("missing", "empty", "torn"):
        with pytest.raises(UserError, match=rf"model.path = .*{name}: no causal language model") as raised:
            load_lm(str(tmp_path / name), ModelConfig())
        assert "\n" not in str(raised.value)
    with pytest.raises(UserError, match="no tokenizer could be loaded"):
        load_tokenizer(str(tmp_path / "empty"))
    with pytest.raises(UserError, match="FlashAttention2"):
        load_lm(str(tmp_path / "torn"), ModelConfig(attention="flash_attention_2"))


def test_a_tokenizer_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    tokenizer().save_pretrained(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match="no chat template; use an instruct model"):
        load_tokenizer(str(tmp_path))


def test_a_tokenizer_that_knows_no_text_is_refused(tmp_path: Path) -> None:
    """Without its tokenizer.json transformers makes an empty one."""
    tiny_lm().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="its tokenizer knows no text"):
        load_tokenizer(str(tmp_path))


def test_no_unit_is_dropped_in_training(tmp_path: Path) -> None:
    """A policy must be trained on the logprobs that it was sampled with, even if its config asks for dropout."""
    shape = {"vocab_size": VOCAB, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    heads = {"num_key_value_heads": 1, "intermediate_size": 16, "initializer_range": 0.5}
    for lm in (
        GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=16, n_layer=1, n_head=2, n_positions=32)),
        Qwen2ForCausalLM(Qwen2Config(**shape, **heads, attention_dropout=0.5)),
    ):
        name = str(tmp_path / type(lm).__name__)
        lm.save_pretrained(name)
        loaded, ids = load_lm(name, ModelConfig()), torch.arange(9)[None]
        assert torch.equal(loaded.train()(ids).logits, loaded.eval()(ids).logits)


def test_a_model_whose_logits_are_more_than_its_head_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As models with soft-capped logits are; here a Llama whose logits are doubled."""
    lm = tiny_lm("llama")
    lm.save_pretrained(tmp_path)
    load_lm(str(tmp_path), ModelConfig())
    forward = type(lm).forward

    def doubled(self: PreTrainedModel, *args: Any, **kwargs: Any) -> Any:
        output = forward(self, *args, **kwargs)
        output.logits = 2 * output.logits
        return output

    monkeypatch.setattr(type(lm), "forward", doubled)
    with pytest.raises(UserError, match="not supported yet"):
        load_lm(str(tmp_path), ModelConfig())


def test_dtype_and_gradient_checkpointing_are_as_configured(tmp_path: Path) -> None:
    model, rows = tiny_model(), rows_of(random_replies(4))
    save_policy(model, tokenizer(), tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "qwen2"
    half = load_lm(str(tmp_path), ModelConfig(dtype="bfloat16"))
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    assert all(out.dtype == torch.float32 for out in ActorCritic(half, None, 0)(rows, 1.0))
    plain = gradients(ActorCritic(load_lm(str(tmp_path), ModelConfig()), None, 0).train(), rows)
    frugal = ActorCritic(load_lm(str(tmp_path), ModelConfig(gradient_checkpointing=True)), None, 0).train()
    with recorded(frugal.lm.base_model.layers[0].input_layernorm) as calls:
        assert relative_difference(gradients(frugal, rows), plain) < 1e-6
    assert len(calls) == 2  # once more in the backward pass
    plain_head = gradients(
        ActorCritic(load_lm(str(tmp_path), ModelConfig()), None, 0), rows, freeze_policy=True, policy=False
    )
    assert relative_difference(gradients(frugal, rows, freeze_policy=True, policy=False), plain_head) < 1e-6


def test_a_model_with_positions_of_its_own_is_read_right_too() -> None:
    """GPT-2 adds learned positions to the embeddings: rows padded on the right need no position ids."""
    config = GPT2Config(vocab_size=VOCAB, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=None)
    model, turns = ActorCritic(GPT2LMHeadModel(config).eval(), None, 0), random_replies(5)
    with torch.no_grad():
        logprobs_C, _, _ = model(rows_of(turns), 1.0)
    naive = [
        logprob
        for prompt, reply, legal in turns
        for logprob, ids in zip(naive_logprobs(model.lm, prompt, reply, legal, 1.0), legal, strict=True)
        if len(ids) != 1
    ]
    np.testing.assert_allclose(logprobs_C, naive, atol=1e-5)
