"""Memory: which past turns the next prompt shows, and what it shows of each reply.

`prompt.memory` chooses another kind (`agentrl.memory_kinds`), or one of one's own by its dotted path: a class with
`reset`, `add` and `recall`, made with (history=..., keep=...).
"""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from agentrl.config import PromptConfig
from agentrl.dotted import imported
from agentrl.errors import UserError

KINDS = {"summary": "agentrl.memory_kinds.SummaryMemory", "diff": "agentrl.memory_kinds.DiffMemory"}
"""What `prompt.memory` may name beside a dotted path."""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A played turn. `action` is what was executed: the game's default one if the reply was not `valid`."""

    scene: str
    reply: str
    action: str
    valid: bool


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a prompt shows of a past turn: the scene, then `reply` as the assistant's message.

    `instead` is set where the reply held no legal action: the action that was played in its place. The prompt's style
    words it, so that no reply passes for a deed that never was. `first` is the scene as it is shown where nothing comes
    before it, if that is another one.
    """

    scene: str
    reply: str
    instead: str | None = None
    first: str | None = None


class Memory(Protocol):
    """One game's memory. The trainer resets it with each episode."""

    def reset(self) -> None: ...

    def add(self, turn: PastTurn) -> None: ...

    def recall(self) -> list[Remembered]:
        """Oldest first."""
        ...


class WindowMemory:
    """The last `history` turns; the `keep` policy of `PromptConfig` decides which replies stay whole."""

    def __init__(self, history: int, keep: str) -> None:
        self._turns: deque[PastTurn] = deque(maxlen=history)
        newest = {"whole": history, "action": 0}
        self._whole = newest[keep] if keep in newest else int(keep.removeprefix("newest:"))

    def reset(self) -> None:
        self._turns.clear()

    def add(self, turn: PastTurn) -> None:
        self._turns.append(turn)

    def recall(self) -> list[Remembered]:
        first_whole = len(self._turns) - self._whole
        return [
            Remembered(turn.scene, turn.reply, None if turn.valid else turn.action)
            if number >= first_whole
            else Remembered(turn.scene, turn.action)
            for number, turn in enumerate(self._turns)
        ]


def make_memory(config: PromptConfig) -> Memory:
    """The memory that `prompt.memory` names, `WindowMemory` by default.

    Raises:
        UserError: the path leads to no class, or to one that cannot be used.
    """
    if config.memory is None:
        return WindowMemory(config.history, config.keep)
    field = f"prompt.memory = {config.memory!r}"
    make = imported(KINDS.get(config.memory, config.memory), field, f"one of {', '.join(KINDS)}, or ")
    try:
        memory = make(history=config.history, keep=config.keep)
    except Exception as error:
        raise UserError(f"{field}: called with (history=..., keep=...): {error}") from error
    missing = [name for name in ("reset", "add", "recall") if not callable(getattr(memory, name, None))]
    if missing:
        raise UserError(f"{field}: a memory needs the methods reset, add, recall; missing: {', '.join(missing)}")
    return memory
