"""The embedded engine: samples from the very model that is trained, with a KV cache, on CPU or GPU.

Rows are padded on the right, as in training: a prompt's hidden states do not depend on its padding. Ids that the
legal-action trie forces cost no forward pass of their own, and finished rows leave the batch.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from agentrl.constrain import ActionConstraint, Cursor
from agentrl.engines.base import Reply, Request
from agentrl.errors import UserError
from agentrl.logprobs import legal_logits
from agentrl.records import FREE
from agentrl.seeding import uniforms


class _Row:
    """One reply while it grows. `pending` are ids not yet in the cache."""

    def __init__(self, request: Request, constraint: ActionConstraint | None) -> None:
        if not request.prompt_ids:
            raise ValueError("the transformers engine needs prompt_ids")
        self.request = request
        self.pending: list[int] = list(request.prompt_ids)
        self.length = 0
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.legal: list[tuple[int, ...]] = []
        self.draws = uniforms(request.seed, request.sampling.max_tokens)
        self.cursor: Cursor | None = None
        if constraint is not None and request.legal is not None:
            self.cursor = constraint.cursor(request.legal)

    @property
    def allowed(self) -> tuple[int, ...]:
        return FREE if self.cursor is None else self.cursor.allowed

    def take(self, token: int, logprob: float) -> None:
        self.legal.append(self.allowed)
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.pending.append(token)
        if self.cursor is not None:
            self.cursor.advance(token)


class TransformersEngine:
    """Batched sampling from `lm`.

    Args:
        lm: the causal language model; shared with the trainer, so there are no weights to sync.
        end_ids: ids that end a reply.
        constraint: legal-action decoding, or None for free replies.
        batch_size: most prompts in one forward pass.
        autocast: makes the context of a forward pass (Accelerate's autocast).
    """

    in_process = True

    def __init__(
        self,
        lm: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        end_ids: Sequence[int],
        constraint: ActionConstraint | None = None,
        batch_size: int = 256,
        autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.lm = lm
        self.tokenizer = tokenizer
        self.end_ids = frozenset(end_ids)
        self.constraint = constraint
        self.batch_size = batch_size
        self.autocast = autocast
        self.policy_version = 0
        # transformers 5.24 renamed the argument; the old name goes in 5.40.
        accepted = inspect.signature(lm.base_model.forward).parameters
        self._cache_argument = "cache" if "cache" in accepted else "past_key_values"
        # A sliding window counts the cache's columns, padding included: within it the model is exact, beyond it is not.
        layers = DynamicCache(config=lm.config).layers
        self.window: int | None = min((layer.sliding_window for layer in layers if layer.is_sliding), default=None)

    def generate(self, requests: list[Request]) -> list[Reply]:
        """Answer each request; order is kept, batches are made of prompts of similar length.

        Raises:
            ValueError: the requests of one call differ in temperature, or one has no prompt ids.
            UserError: prompts and replies are longer than the model's sliding attention window.
        """
        if len({r.sampling.temperature for r in requests}) > 1:
            raise ValueError("one call takes one temperature")
        order = sorted(range(len(requests)), key=lambda i: len(requests[i].prompt_ids or ()))
        replies: dict[int, Reply] = {}
        for start in range(0, len(order), self.batch_size):
            chunk = order[start : start + self.batch_size]
            replies.update(zip(chunk, self._generate([requests[i] for i in chunk]), strict=True))
        return [replies[i] for i in range(len(requests))]

    @torch.no_grad()
    def _generate(self, requests: list[Request]) -> list[Reply]:
        was_training = self.lm.training
        self.lm.eval()
        rows = [_Row(request, self.constraint) for request in requests]
        for row in rows:
            self._take_forced(row)
        active = [row for row in rows if not self._finished(row)]
        cache = DynamicCache(config=self.lm.config)
        mask_BT = torch.zeros((len(active), 0), dtype=torch.long, device=self.lm.device)
        # One context for all passes: autocast keeps its copies of the weights until it ends (not in inference mode).
        with self.autocast():
            while active:
                hidden_BH, mask_BT = self._forward(active, cache, mask_BT)
                self._sample(active, hidden_BH)
                for row in active:
                    self._take_forced(row)
                keep = [i for i, row in enumerate(active) if not self._finished(row)]
                if keep and len(keep) < len(active):
                    index = torch.tensor(keep, device=self.lm.device)
                    cache.batch_select_indices(index)
                    mask_BT = mask_BT[index]
                active = [active[i] for i in keep]
        self.lm.train(was_training)
        return [self._reply(row) for row in rows]

    def _forward(self, rows: list[_Row], cache: DynamicCache, mask_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Feed every row's pending ids; returns the hidden state at each row's last real id, and the mask grown."""
        device = self.lm.device
        lengths = [len(row.pending) for row in rows]
        width = max(lengths)
        ids = np.zeros((len(rows), width), dtype=np.int64)
        for i, row in enumerate(rows):
            ids[i, : lengths[i]] = row.pending
        lengths_B = torch.tensor(lengths, device=device)
        columns = torch.arange(width, device=device)
        new_mask = (columns[None, :] < lengths_B[:, None]).long()
        prefill = mask_BT.shape[1] == 0
        mask_BT = torch.cat([mask_BT, new_mask], dim=1)
        if self.window is not None and mask_BT.shape[1] > self.window:
            raise UserError(
                f"prompt.max_prompt_tokens: the model's attention slides over {self.window} tokens, which prompt and "
                f"reply must fit into; {mask_BT.shape[1]} were needed"
            )
        # Prompts are padded on the right: a causal model needs no mask to keep padding out of them.
        where: dict[str, Tensor | DynamicCache] = {self._cache_argument: cache}
        if not prefill:
            starts_B = torch.tensor([row.length for row in rows], device=device)
            where |= {"attention_mask": mask_BT, "position_ids": starts_B[:, None] + columns[None, :]}
        hidden_BTH = self.lm.base_model(
            input_ids=torch.from_numpy(ids).to(device), use_cache=True, **where
        ).last_hidden_state
        for row in rows:
            row.length += len(row.pending)
            row.pending = []
        return hidden_BTH[torch.arange(len(rows), device=device), lengths_B - 1], mask_BT

    def _sample(self, rows: list[_Row], hidden_BH: Tensor) -> None:
        """Draw one id a row by inverting the distribution function at the row's own uniform number.

        Raises:
            UserError: a logprob is NaN.
        """
        logits_BV = self.lm.get_output_embeddings()(hidden_BH)
        allowed = [row.allowed for row in rows]
        device = logits_BV.device
        legal_ids = torch.tensor([i for ids in allowed for i in ids], dtype=torch.long, device=device)
        offsets = torch.tensor([0, *accumulate(len(ids) for ids in allowed)], dtype=torch.long, device=device)
        # Greedy replies report the logprob of their choice at temperature 1.
        temperature = rows[0].request.sampling.temperature
        logprobs_BV = legal_logits(logits_BV, legal_ids, offsets, temperature or 1.0).log_softmax(-1)
        if temperature == 0:
            chosen_B = logprobs_BV.argmax(-1)
        else:
            exact = torch.device("cpu") if device.type == "mps" else device  # Apple's GPUs have no float64
            draws = torch.tensor([row.draws[len(row.ids)] for row in rows], dtype=torch.float64, device=exact)
            cdf_BV = logprobs_BV.to(exact).double().exp().cumsum(-1)
            chosen_B = torch.searchsorted(cdf_BV, draws[:, None] * cdf_BV[:, -1:], right=True)[:, 0].to(device)
            chosen_B = chosen_B.clamp(max=logprobs_BV.shape[1] - 1)  # NaN sorts behind the last id
        chosen = logprobs_BV.gather(1, chosen_B[:, None])[:, 0].tolist()
        if not all(map(math.isfinite, chosen)):
            raise UserError(
                "the model's logits are not finite numbers: its weights have diverged; train with a "
                "lower optimizer.lr or imitation.lr"
            )
        for row, token, logprob in zip(rows, chosen_B.tolist(), chosen, strict=True):
            row.take(token, logprob)

    def _take_forced(self, row: _Row) -> None:
        """Append ids without an alternative: their probability is 1."""
        while not self._finished(row) and len(row.allowed) == 1:
            row.take(row.allowed[0], 0.0)

    def _finished(self, row: _Row) -> bool:
        return len(row.ids) >= row.request.sampling.max_tokens or (bool(row.ids) and row.ids[-1] in self.end_ids)

    def _reply(self, row: _Row) -> Reply:
        stopped = row.ids[-1] in self.end_ids
        return Reply(
            text=self.tokenizer.decode(row.ids, skip_special_tokens=True),
            ids=row.ids,
            logprobs=row.logprobs,
            legal=row.legal,
            finish_reason="stop" if stopped else "length",
            policy_version=self.policy_version,
            prompt_tokens=len(row.request.prompt_ids or ()),
            reply_tokens=len(row.ids),
        )
