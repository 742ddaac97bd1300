"""Which past turns are shown, and how their replies are kept."""

import sys
import time
from pathlib import Path

import pytest

from agentrl.config import PromptConfig
from agentrl.errors import UserError
from agentrl.memory import PastTurn, Remembered, WindowMemory, make_memory


def turn(n: int, valid: bool = True) -> PastTurn:
    return PastTurn(f"scene {n}", f"THINK: {n}\nACTION: a{n}", f"a{n}", valid)


def filled(history: int, keep: str, turns: int = 5) -> WindowMemory:
    memory = WindowMemory(history, keep)
    for n in range(turns):
        memory.add(turn(n))
    return memory


def replies(memory: WindowMemory) -> list[str]:
    return [past.reply for past in memory.recall()]


def test_the_last_turns_oldest_first() -> None:
    assert [past.scene for past in filled(3, "whole").recall()] == ["scene 2", "scene 3", "scene 4"]
    assert [past.scene for past in filled(3, "whole", turns=2).recall()] == ["scene 0", "scene 1"]
    assert filled(0, "whole").recall() == []


def test_what_is_kept_of_replies() -> None:
    whole = [f"THINK: {n}\nACTION: a{n}" for n in range(5)]
    assert replies(filled(3, "whole")) == whole[2:]
    assert replies(filled(3, "action")) == ["a2", "a3", "a4"]
    assert replies(filled(3, "newest:1")) == ["a2", "a3", whole[4]]
    assert replies(filled(3, "newest:2")) == ["a2", whole[3], whole[4]]
    assert replies(filled(3, "newest:9")) == whole[2:]
    assert replies(filled(3, "newest:2", turns=1)) == whole[:1]


def test_an_invalid_reply_never_passes_for_what_was_done() -> None:
    for keep in ("whole", "newest:1"):
        memory = WindowMemory(2, keep)
        memory.add(PastTurn("scene", "I jump", "go forward", valid=False))
        assert memory.recall() == [Remembered("scene", "I jump", instead="go forward")]
    memory = WindowMemory(2, "action")
    memory.add(PastTurn("scene", "I jump", "go forward", valid=False))
    assert memory.recall() == [Remembered("scene", "go forward")]


def test_reset_forgets() -> None:
    memory = filled(3, "whole")
    memory.reset()
    assert memory.recall() == []


def test_a_turn_costs_no_more_late_in_an_episode() -> None:
    memory = filled(2, "whole", turns=0)

    def cost(turns: int) -> float:
        start = time.process_time()
        for n in range(turns):
            memory.add(turn(n))
            memory.recall()
        return time.process_time() - start

    cost(1000)
    early = min(cost(1000) for _ in range(3))
    cost(50_000)
    assert min(cost(1000) for _ in range(3)) < 5 * early + 0.01


class Longest:
    """A memory of one's own: the turn with the longest reply."""

    def __init__(self, history: int, keep: str) -> None:
        self.made_with = history, keep
        self.best: PastTurn | None = None

    def reset(self) -> None:
        self.best = None

    def add(self, turn: PastTurn) -> None:
        self.best = max(turn, self.best or turn, key=lambda t: len(t.reply))

    def recall(self) -> list[Remembered]:
        return [Remembered(self.best.scene, self.best.reply)] if self.best else []


class Forgetful:
    def __init__(self, history: int, keep: str) -> None: ...

    def reset(self) -> None: ...


class Fussy:
    def __init__(self) -> None: ...


def test_make_memory() -> None:
    memory = make_memory(PromptConfig(history=2, keep="action"))
    memory.add(turn(0))
    assert memory.recall() == [Remembered("scene 0", "a0")]


def test_a_memory_by_dotted_path() -> None:
    memory = make_memory(PromptConfig(history=3, keep="newest:2", memory=f"{__name__}.Longest"))
    assert isinstance(memory, Longest)
    assert memory.made_with == (3, "newest:2")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("Longest", "or a dotted path"),
        ("no_such_package_of_mine.Memory", "no_such_package_of_mine cannot be imported"),
        (f"{__name__}.Longst", "did you mean Longest?"),
        (f"{__name__}.Forgetful", "missing: add, recall"),
        (f"{__name__}.Fussy", "called with (history=..., keep=...)"),
        (f"{__name__}.PromptConfig", "missing: reset, add, recall"),
        (f"{__name__}.__name__", "not callable"),
        ("..Memory", "cannot be imported"),
    ],
)
def test_a_bad_path_is_one_line(path: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        make_memory(PromptConfig(memory=path))
    message = str(caught.value)
    assert says in message
    assert message.startswith(f"prompt.memory = {path!r}: ")
    assert "\n" not in message


def test_a_module_that_breaks_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_memory_module.py").write_text("raise RuntimeError('two\\nlines')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(UserError, match="two lines"):
        make_memory(PromptConfig(memory="broken_memory_module.Memory"))
