"""What the token-level tests share: tiny models with lively logits, a tokenizer, and turns made of random ids."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from agentrl.config import Config
from agentrl.new_model import train_tokenizer
from agentrl.policy import ActorCritic
from agentrl.records import FREE, Turn

ACTIONS = ("go forward", "go", "go back", "turn left", "turn right", "pick up", "toggle", "drop it")
KINDS = ("qwen2", "qwen2-untied", "llama")
VOCAB = 304


@cache
def tokenizer() -> PreTrainedTokenizerBase:
    """Byte-level BPE that knows the actions' words; its end-of-turn token is `eos_token_id`."""
    return train_tokenizer(["\n".join((*ACTIONS, "THINK: it is ahead.", "ACTION: go forward"))] * 20, 300)


def tiny_lm(kind: str = "qwen2", *, attention: str = "sdpa", seed: int = 0) -> PreTrainedModel:
    """Two layers of 32 numbers, fp32; wide initial weights, so that logits differ by units rather than hundredths."""
    config, model = (LlamaConfig, LlamaForCausalLM) if kind == "llama" else (Qwen2Config, Qwen2ForCausalLM)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        lm = model(
            config(
                vocab_size=VOCAB,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                intermediate_size=48,
                max_position_embeddings=128,
                tie_word_embeddings=kind == "qwen2",
                initializer_range=0.2,
                attn_implementation=attention,
                bos_token_id=None,
                eos_token_id=None,
                pad_token_id=None,
            )
        )
    return lm.eval()


def tiny_model(kind: str = "qwen2", *, separate_critic: bool = False, seed: int = 0) -> ActorCritic:
    """An actor-critic whose values are not 0: its value head's last layer is drawn too."""
    critic = tiny_lm(kind, seed=seed + 1).base_model if separate_critic else None
    model = ActorCritic(tiny_lm(kind, seed=seed), critic, head_seed=seed)
    with torch.no_grad():
        model.value_head.out.weight.normal_(generator=torch.Generator().manual_seed(seed))
    return model.eval()


def tiny_config(**sections: Any) -> Config:
    return Config(name="test", game={"id": "babyai/goto"}, **sections)


@torch.no_grad()
def naive_logprobs(
    lm: PreTrainedModel,
    prompt: Sequence[int],
    reply: Sequence[int],
    legal: Sequence[Sequence[int]],
    temperature: float,
) -> list[float]:
    """Logprobs of a reply by the book: one row without padding, no cache, softmax over each position's own list."""
    logits = lm(torch.tensor([[*prompt, *reply]]), use_cache=False).logits[0, len(prompt) - 1 : -1].double()
    result = []
    for logits_V, token, ids in zip(logits, reply, legal, strict=True):
        among = list(ids) or list(range(len(logits_V)))
        result.append(float((logits_V[among] / temperature).log_softmax(0)[among.index(token)]))
    return result


def relative_difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """The largest |one - other| / |other| among named tensors, in Euclidean norm."""
    assert one.keys() == other.keys()
    return max(float((one[name] - tensor).norm() / tensor.norm().clamp(min=1e-12)) for name, tensor in other.items())


def random_turns(seed: int = 0, slots: int = 3, length: int = 4, errors: Sequence[int] = ()) -> list[Turn]:
    """`slots` games of `length` turns each, of random ids, rewards and legal sets; the turns numbered `errors` broke.

    Slot 0 is cut by the batch's end, slot 1 ends in a terminated turn, slot 2 has a time limit after its second turn.
    """
    rng = np.random.default_rng(seed)

    def ids(low: int, high: int) -> list[int]:
        return rng.integers(3, VOCAB, rng.integers(low, high)).tolist()

    turns = []
    for slot in range(slots):
        for number in range(length):
            turn = Turn("tiny", slot, 0, number, seed=0, prompt_ids=ids(2, 12), reward=float(rng.normal()))
            turn.reply_ids = ids(1, 6)
            turn.reply_logprobs = (-rng.exponential(size=len(turn.reply_ids))).tolist()
            for token in turn.reply_ids:
                others = tuple(rng.choice(range(3, VOCAB), size=4, replace=False).tolist())
                turn.reply_legal.append([FREE, (token,), tuple(sorted({token, *others}))][rng.integers(3)])
            turn.terminated = slot == 1 and number == length - 1
            turn.truncated = slot == 2 and number == 1
            if turn.truncated or (number == length - 1 and not turn.terminated):
                turn.next_prompt_ids = ids(2, 12)
            if len(turns) in errors:
                turn.error, turn.finish_reason, turn.next_prompt_ids = "raised: it broke", "error", []
                turn.terminated = turn.truncated = False
            turns.append(turn)
    return turns
