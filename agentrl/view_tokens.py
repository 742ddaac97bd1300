"""What single tokens read as: the page shows replies token by token. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

BROKEN = "\ufffd"


def find_tokenizer(run: Path, model: str | None) -> Tokenizer | None:
    """The tokenizer of a run's newest checkpoint, of the model's folder, or of the model downloaded before."""
    steps = sorted(run.glob("checkpoints/step-*/tokenizer.json"), key=lambda path: (len(path.parent.name), str(path)))
    places = steps[-1:]
    if model:
        places += [*sorted(Path(model).glob("checkpoints/step-*/tokenizer.json"))[-1:], Path(model) / "tokenizer.json"]
        if found := _downloaded(model):
            places.append(found)
    for place in places:
        try:
            return Tokenizer.from_file(str(place))
        except Exception:  # tokenizers raises bare Exception for a file that is absent or broken
            continue
    return None


def _downloaded(model: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, "tokenizer.json")
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


class Pieces:
    """The text of each token of a reply, so that the texts in a row are the reply."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # Some tokenizers drop a space at the beginning: every token is decoded behind another.
        self._before = tokenizer.encode("a", add_special_tokens=False).ids[-1:]
        self._skip = len(self._decode([]))
        self._known: dict[int, str] = {}

    def texts(self, ids: Sequence[int]) -> list[str]:
        """A character that several tokens make up is the first one's; the others are empty then."""
        texts = [self._text(token) for token in ids]
        start = 0
        while start < len(ids):
            end = start
            while end < len(ids) and BROKEN in texts[end]:
                end += 1
            if end - start > 1:
                texts[start:end] = [self._decode(ids[start:end])[self._skip :]] + [""] * (end - start - 1)
            start = max(end, start + 1)
        return texts

    def _text(self, token: int) -> str:
        if token not in self._known:
            self._known[token] = self._decode([token])[self._skip :]
        return self._known[token]

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode([*self._before, *ids], skip_special_tokens=False))


def add_pieces(chunk: dict[str, Any], pieces: Pieces | None) -> None:
    """Give an episode's chunk its replies' tokens: `vocabulary`, each text once, and `tokens`, as numbers of it."""
    vocabulary: dict[str, int] = {}
    if pieces is not None:
        chunk["tokens"] = [
            [vocabulary.setdefault(text, len(vocabulary)) for text in pieces.texts(ids)] for ids in chunk["ids"]
        ]
    chunk["vocabulary"] = list(vocabulary)
