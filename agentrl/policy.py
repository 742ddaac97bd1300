"""The trained model: a causal language model with a value for every reply position.

One forward pass yields, at the positions where reply tokens are predicted and nowhere else, logprobs, entropy and
values. Positions are read from right-padded rows, so that nothing depends on what stands in the padding.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import EmptyTqdm, set_tqdm_hook

from agentrl.config import ModelConfig
from agentrl.errors import UserError
from agentrl.logprobs import masked_logprobs

# Full-vocabulary logits are made for this many numbers at a time (256 MB in fp32), not for all positions at once.
LOGITS_CHUNK = 2**26


@dataclass(slots=True)
class Rows:
    """A micro-batch of B padded rows with K positions to read, C of which have a choice of token.

    Attributes:
        input_ids_BT: token ids, padded on the right.
        row_K, column_K: where the hidden state is read; position (row, column) predicts the next token.
        choice_C: indices into K of the positions that get a logprob.
        target_C: the token that was sampled there.
        legal_ids, legal_offsets: flat legal ids of each of the C positions (none: whole vocabulary); offsets C + 1.
    """

    input_ids_BT: Tensor
    row_K: Tensor
    column_K: Tensor
    choice_C: Tensor
    target_C: Tensor
    legal_ids: Tensor
    legal_offsets: Tensor

    def to(self, device: torch.device) -> "Rows":
        return Rows(*(getattr(self, name).to(device) for name in self.__slots__))


def pad_rows(sequences: Sequence[np.ndarray], pad_id: int = 0) -> Tensor:
    """Stack ragged id sequences into B x T, padded on the right."""
    padded = np.full((len(sequences), max(len(s) for s in sequences)), pad_id, dtype=np.int64)
    for row, ids in zip(padded, sequences, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)


class ValueHead(nn.Module):
    """Linear-tanh-Linear in fp32; the last layer starts at zero, so that an untrained critic says 0 everywhere."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, hidden_KH: Tensor) -> Tensor:
        with torch.autocast(hidden_KH.device.type, enabled=False):
            return cast(Tensor, self.out(torch.tanh(self.hidden(hidden_KH.float()))))[:, 0]


class ActorCritic(nn.Module):
    """Policy and value. The value head reads the policy's trunk, or a second trunk (`critic`) where there is one."""

    def __init__(self, lm: PreTrainedModel, critic: PreTrainedModel | None, head_seed: int) -> None:
        super().__init__()
        self.lm = lm
        self.critic = critic
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(head_seed)
            self.value_head = ValueHead(lm.config.get_text_config().hidden_size)

    def forward(
        self, rows: Rows, temperature: float, *, freeze_policy: bool = False, policy: bool = True, values: bool = True
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logprobs (C), entropies (C) and values (K) of a micro-batch, in fp32.

        `freeze_policy` keeps gradients out of the language model (critic pre-training). What is not asked for comes
        back empty.
        """
        empty = torch.zeros(0, device=rows.input_ids_BT.device)
        logprobs_C, entropy_C, values_K = empty, empty, empty
        shared = self.critic is None
        if policy or shared:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not freeze_policy):
                hidden_KH = self._read(self.lm.base_model, rows)
                if policy:
                    logprobs_C, entropy_C = self._logprobs(hidden_KH[rows.choice_C], rows, temperature)
        if values:
            values_K = self.value_head(hidden_KH if shared else self._read(cast(nn.Module, self.critic), rows))
        return logprobs_C, entropy_C, values_K

    def policy_parameters(self) -> list[tuple[str, nn.Parameter]]:
        return [(name, p) for name, p in self.named_parameters() if name.startswith("lm.")]

    def value_parameters(self) -> list[tuple[str, nn.Parameter]]:
        return [(name, p) for name, p in self.named_parameters() if not name.startswith("lm.")]

    @staticmethod
    def _read(trunk: nn.Module, rows: Rows) -> Tensor:
        hidden_BTH = trunk(input_ids=rows.input_ids_BT, use_cache=False).last_hidden_state
        return cast(Tensor, hidden_BTH[rows.row_K, rows.column_K])

    def _logprobs(self, hidden_CH: Tensor, rows: Rows, temperature: float) -> tuple[Tensor, Tensor]:
        head = self.lm.get_output_embeddings()

        def part(hidden: Tensor, target: Tensor, legal_ids: Tensor, legal_offsets: Tensor) -> tuple[Tensor, Tensor]:
            return masked_logprobs(head(hidden), target, legal_ids, legal_offsets, temperature)

        size = max(1, LOGITS_CHUNK // head.weight.shape[0])
        if len(hidden_CH) <= size:
            return part(hidden_CH, rows.target_C, rows.legal_ids, rows.legal_offsets)
        parts = []
        for start in range(0, len(hidden_CH), size):
            offsets = rows.legal_offsets[start : start + size + 1]
            legal = rows.legal_ids[int(offsets[0]) : int(offsets[-1])]
            arguments = (
                hidden_CH[start : start + size],
                rows.target_C[start : start + size],
                legal,
                offsets - offsets[0],
            )
            parts.append(checkpoint(part, *arguments, use_reentrant=False))
        logprobs, entropies = zip(*parts, strict=True)
        return torch.cat(logprobs), torch.cat(entropies)


def load_lm(path: str, config: ModelConfig) -> PreTrainedModel:
    """A causal language model from a Hugging Face name or folder.

    Raises:
        UserError: it cannot be loaded whole, or its logits are not its output embedding applied to its trunk.
    """
    try:
        with no_progress_bars():
            lm, report = AutoModelForCausalLM.from_pretrained(
                path,
                dtype=getattr(torch, config.dtype),
                attn_implementation=config.attention,
                trust_remote_code=config.trust_remote_code,
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        raise UserError(
            f"model.path = {path}: no causal language model could be loaded ({_first_line(error)})"
        ) from error
    if report["missing_keys"]:
        raise UserError(
            f"model.path = {path}: its files lack {len(report['missing_keys'])} of the model's tensors, "
            f"{min(report['missing_keys'])} for one; they would be random"
        )
    _check_head(lm)
    _switch_off_dropout(lm)
    # torch keeps the padding token's row from learning. Many models pad with the token that ends a reply, which must
    # learn; what stands in the padding here reaches no loss, so no row needs to be kept.
    cast(nn.Embedding, lm.get_input_embeddings()).padding_idx = None
    if config.gradient_checkpointing:
        # transformers 5.24 renamed the method; the old name goes in 6.
        enable = getattr(lm, "activation_checkpointing_enable", lm.gradient_checkpointing_enable)
        enable({"use_reentrant": False})
    return cast(PreTrainedModel, lm)


def load_tokenizer(path: str, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer of a model; it must have a chat template.

    Raises:
        UserError: there is none, or it has no chat template or vocabulary.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise UserError(f"model.path = {path}: no tokenizer could be loaded ({_first_line(error)})") from error
    if tokenizer.chat_template is None:
        raise UserError(f"model.path = {path}: its tokenizer has no chat template; use an instruct model")
    if not tokenizer.encode("a", add_special_tokens=False):  # transformers makes one without a word, of no files
        raise UserError(f"model.path = {path}: its tokenizer knows no text; are tokenizer.json and the like there?")
    return cast(PreTrainedTokenizerBase, tokenizer)


def load_critic(path: str, config: ModelConfig) -> PreTrainedModel | None:
    """The trunk of a separate critic, from the policy's own start; None where the value head shares the policy's."""
    return cast(PreTrainedModel, load_lm(path, config).base_model) if config.critic == "separate" else None


def save_policy(model: ActorCritic, tokenizer: PreTrainedTokenizerBase, directory: Path) -> None:
    """A Hugging Face folder, with value head and critic beside it in value.safetensors."""
    with no_progress_bars():
        model.lm.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    save_file({name: p.detach().contiguous() for name, p in model.value_parameters()}, directory / "value.safetensors")


def load_values(model: ActorCritic, directory: Path) -> None:
    """Value head and critic of a checkpoint.

    Raises:
        UserError: a tensor is missing or left over: a value head is never started anew in silence.
    """
    stored = load_file(directory / "value.safetensors")
    own = dict(model.value_parameters())
    if stored.keys() != own.keys():
        raise UserError(
            f"{directory}/value.safetensors does not fit the model: {sorted(stored.keys() ^ own.keys())[:3]}"
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(stored[name])


def _switch_off_dropout(lm: PreTrainedModel) -> None:
    """A policy that drops units would be trained on other logprobs than it was sampled with."""
    for module in lm.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0


def _check_head(lm: PreTrainedModel) -> None:
    """Logits are computed here from trunk and output embedding; a model that does more (soft caps) is refused."""
    ids = torch.arange(4, device=lm.device)[None]
    with torch.inference_mode():
        direct = lm(input_ids=ids, use_cache=False).logits
        composed = lm.get_output_embeddings()(lm.base_model(input_ids=ids, use_cache=False).last_hidden_state)
    if not torch.allclose(direct.float(), composed.float(), atol=1e-3, rtol=1e-3):
        raise UserError(
            f"model.path = {lm.name_or_path}: its logits are more than its output embedding; not supported yet"
        )


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """transformers draws a bar for every load and save, on top of the run's own; downloads keep theirs."""
    before = set_tqdm_hook(lambda factory, args, kwargs: EmptyTqdm(*args, **kwargs))
    try:
        yield
    finally:
        set_tqdm_hook(before)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
