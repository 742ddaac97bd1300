"""Legal-action decoding: which token ids may come next so that a reply (or what follows ACTION:) is a legal action.

A trie of token ids is used rather than a grammar over characters: a grammar would admit other tokenisations of the same
action, and the sampler's and the trainer's renormalised logprobs would then cover different sets.
"""

from collections.abc import Sequence
from functools import lru_cache

from transformers import PreTrainedTokenizerBase

from agentrl.parsing import marker_ended
from agentrl.records import FREE

Trie = dict[int, "Trie"]


def build_trie(sequences: Sequence[Sequence[int]]) -> Trie:
    """Nested dicts: token id -> what may follow it."""
    root: Trie = {}
    for ids in sequences:
        node = root
        for token in ids:
            node = node.setdefault(token, {})
    return root


class Cursor:
    """Follows one reply; `allowed` are the ids that may come next (`FREE`: all)."""

    def __init__(self, constraint: "ActionConstraint", legal: tuple[str, ...]) -> None:
        self._constraint = constraint
        self._legal = legal
        self._ids: list[int] = []
        self._node: Trie | None = None if constraint.after_marker else constraint.trie(legal)

    @property
    def allowed(self) -> tuple[int, ...]:
        return FREE if self._node is None else tuple(self._node)

    def advance(self, token: int) -> None:
        """Take the sampled id. Inside the trie it must be one of `allowed`."""
        if self._node is not None:
            self._node = self._node[token]
            return
        self._ids.append(token)
        # The whole reply is read, as the parser will read it: a marker inside of <think> counts for neither. Only the
        # token that brings the colon can end a marker.
        decode = self._constraint.tokenizer.decode
        if ":" in decode([token]) and marker_ended(decode(self._ids, skip_special_tokens=True)):
            self._node = self._constraint.trie(self._legal)


class ActionConstraint:
    """Makes cursors. With `after_marker` the reply is free until it says ACTION:, then a legal action must follow."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, end_id: int, after_marker: bool) -> None:
        self.tokenizer = tokenizer
        self.after_marker = after_marker
        self._prefix = " " if after_marker else ""

        @lru_cache(maxsize=4096)
        def trie(legal: tuple[str, ...]) -> Trie:
            return build_trie([[*self._encode(self._prefix + name), end_id] for name in legal])

        self.trie = trie

    def encode(self, reply: str, action: str) -> list[int]:
        """The ids, short of the end, that a sampled reply of this text would have; it ends with the action's name."""
        spelled = self._prefix + action
        return self._encode(reply.removesuffix(spelled)) + self._encode(spelled)

    def cursor(self, legal: tuple[str, ...]) -> Cursor:
        """Follow a new reply, which must name one of `legal`.

        Raises:
            ValueError: `legal` is empty: an empty set of next ids would read as `FREE`.
        """
        if not legal:
            raise ValueError("a turn needs at least one legal action")
        return Cursor(self, legal)

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)
