"""A reward model: a sequence-classification model with one output reads a turn, and its score is the reward.

Trained on pairs of turns by the Bradley-Terry model: P(a over b) = sigmoid(score(a) - score(b)), as in Christiano et
al. 2017 (arXiv 1706.03741) and Stiennon et al. 2020 (arXiv 2009.01325).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from agentrl.chat import ChatEncoder
from agentrl.errors import UserError
from agentrl.policy import load_tokenizer, no_progress_bars, pad_rows
from agentrl.preferences import Pair, held_out, optimizer_steps
from agentrl.records import Turn
from agentrl.seeding import key, permutation
from agentrl.statistics import wilson


class RewardModel:
    """Scores of turns.

    Args:
        max_tokens: of a turn's prompt and reply the last so many are read.

    Raises:
        UserError: `path` holds no sequence-classification model with one output, or no tokenizer with a chat template.
    """

    def __init__(
        self, path: str, max_tokens: int = 1024, batch_size: int = 16, device: torch.device | None = None
    ) -> None:
        self.model, self.tokenizer = load_reward_model(path)
        self.model.to(device or torch.device("cpu")).eval()
        self._read = TurnReader(self.tokenizer, max_tokens)
        self._batch_size = batch_size

    @torch.no_grad()
    def score(self, turns: Sequence[Turn]) -> list[float]:
        found: list[float] = []
        for start in range(0, len(turns), self._batch_size):
            ids = [self._read(turn) for turn in turns[start : start + self._batch_size]]
            found += scores(self.model, ids).tolist()
        return found


class TurnReader:
    """A turn as ids: its messages and the reply, in the reward model's own chat template."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> None:
        self._chat = ChatEncoder(tokenizer)
        self._max_tokens = max_tokens

    def __call__(self, turn: Turn) -> list[int]:
        said = {"role": "assistant", "content": turn.reply_text}
        messages = [
            {"role": message["role"], "content": self._chat.neutralise(message["content"])}
            for message in [*turn.messages, said]
        ]
        return self._chat.encode_text(self._chat.render(messages, generation_prompt=False))[-self._max_tokens :]


def scores(model: PreTrainedModel, ids: Sequence[Sequence[int]]) -> Tensor:
    """One score a sequence, B; padded on the right with what the model knows for padding."""
    lengths = [len(sequence) for sequence in ids]
    input_ids = pad_rows([np.asarray(sequence) for sequence in ids], int(model.config.pad_token_id))
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    device = model.device
    return cast(Tensor, model(input_ids=input_ids.to(device), attention_mask=mask.to(device)).logits[:, 0].float())


def train_reward_model(
    pairs: Sequence[Pair],
    base: str,
    out: Path,
    *,
    epochs: int = 2,
    lr: float = 1e-4,
    batch_pairs: int = 8,
    max_tokens: int = 1024,
    seed: int = 0,
    on_step: Callable[[float], None] = lambda loss: None,
) -> dict[str, Any]:
    """Fit a reward model on pairs, the preferred turn first; it is saved at `out` in Hugging Face format.

    Args:
        base: a causal language model or a reward model; a new score head starts at 0, so that all turns are worth the
            same to it.

    Returns:
        loss of the last epoch; accuracy on held-out pairs with its Wilson interval, before and after.

    Raises:
        UserError: too few pairs; `base` cannot be loaded.
    """
    held = held_out(len(pairs))
    model, tokenizer = load_reward_model(base, new_head=True)
    read = TurnReader(tokenizer, max_tokens)
    encoded = [(read(pair.preferred), read(pair.other)) for pair in pairs]
    order = permutation(key("reward_model", seed), len(encoded)).tolist()
    tested, trained = [encoded[i] for i in order[:held]], [encoded[i] for i in order[held:]]
    before = _agreement(model, tested)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    steps = optimizer_steps(len(pairs), epochs, batch_pairs)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / steps)
    losses: list[float] = []
    for epoch in range(epochs):
        losses = []
        shuffled = permutation(key("reward_model", seed, epoch, 1), len(trained)).tolist()
        for start in range(0, len(shuffled), batch_pairs):
            chosen = [trained[i] for i in shuffled[start : start + batch_pairs]]
            good, bad = scores(model, [a for a, _ in chosen] + [b for _, b in chosen]).chunk(2)
            loss = -torch.nn.functional.logsigmoid(good - bad).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
            losses.append(float(loss.detach()))
            on_step(losses[-1])
    after = _agreement(model, tested)
    with no_progress_bars():
        model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return {
        "pairs": len(trained),
        "held_out_pairs": held,
        "loss": float(np.mean(losses)),
        "accuracy_before": before / held,
        "accuracy": after / held,
        "accuracy_ci95": list(wilson(after, held)),
    }


def load_reward_model(path: str, new_head: bool = False) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A sequence-classification model with one output, and its tokenizer.

    Args:
        new_head: take a causal language model, too, and give it a score head of zeros.

    Raises:
        UserError: it cannot be loaded, has another number of outputs, or has no score head and is given none.
    """
    try:
        tokenizer = load_tokenizer(path)
    except UserError as error:
        raise UserError(str(error).replace(f"model.path = {path}", f"reward model {path}")) from error
    try:
        with no_progress_bars():
            model, report = AutoModelForSequenceClassification.from_pretrained(
                path, num_labels=1, output_loading_info=True, dtype=torch.float32
            )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"reward model {path}: cannot be loaded ({reason})") from error
    missing = [name for name in report["missing_keys"] if name.startswith("score")]
    if len(missing) < len(report["missing_keys"]) or (missing and not new_head):
        lacks = min(report["missing_keys"])
        raise UserError(f"reward model {path}: has no {lacks}; make one with `agentrl train-reward`")
    if missing:
        torch.nn.init.zeros_(cast(Any, model).score.weight)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    return model.eval(), tokenizer


@torch.no_grad()
def _agreement(model: PreTrainedModel, pairs: Sequence[tuple[list[int], list[int]]]) -> int:
    """Pairs whose preferred turn has the higher score; equal scores agree with nobody."""
    return sum(int(scores(model, [good])[0] > scores(model, [bad])[0]) for good, bad in pairs)
