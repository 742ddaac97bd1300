"""Notes that the model writes, and scenes by what changed; what prompts make of both."""

import time

import pytest
from games import tokenizer
from hypothesis import given
from hypothesis import strategies as st

from agentrl.config import PromptConfig
from agentrl.envs import Observation, make
from agentrl.errors import UserError
from agentrl.memory import PastTurn, Remembered, make_memory
from agentrl.memory_kinds import LONGEST_NOTES, NOTED, DiffMemory, SummaryMemory, changed, written_notes
from agentrl.prompting import Prompter


def past(scene: str, reply: str, action: str = "go on") -> PastTurn:
    return PastTurn(scene, reply, action, True)


@pytest.mark.parametrize(
    ("reply", "notes"),
    [
        ("MEMORY: blue\nACTION: go on", "blue"),
        ("**Memory:** blue door, 2 keys\n**ACTION:** go on", "** blue door, 2 keys"),
        ("MEMORY: one\ntwo\nTHINK: so\nACTION: go on", "one\ntwo"),
        ("THINK: x\nMEMORY: one line ACTION: go on", "one line"),
        ("MEMORY: old\nMEMORY: new\nACTION: go on", "new"),
        ("MEMORY: kept\nMEMORY:\nACTION: go on", "kept"),
        ("in my memory: nothing", ""),
        ("go on", ""),
        ("", ""),
    ],
)
def test_what_a_reply_notes(reply: str, notes: str) -> None:
    assert written_notes(reply) == notes


def test_notes_are_carried_replaced_and_forgotten_with_the_episode() -> None:
    memory = SummaryMemory(1, "action")
    memory.add(past("The word is coral.", "MEMORY: coral\nACTION: go on"))
    memory.add(past("Not yet.", "ACTION: go on"))
    memory.add(past("Not yet again.", "no form at all"))
    assert memory.recall() == [Remembered("Not yet again.", "go on"), Remembered(NOTED, "MEMORY: coral")]
    memory.add(past("x", "MEMORY: " + "y" * 9999 + "\nACTION: go on"))
    assert memory.notes == "y" * LONGEST_NOTES
    memory.reset()
    assert memory.recall() == []


@given(st.text(max_size=300))
def test_any_reply_is_survived(reply: str) -> None:
    assert len(written_notes(reply)) <= LONGEST_NOTES


@pytest.mark.parametrize("hostile", ["\n" * 100_000, " " * 100_000, "MEMORY: " * 12_000, "MEMORY:" + "\n*" * 50_000])
def test_hostile_replies_take_no_time(hostile: str) -> None:
    started = time.process_time()
    written_notes(hostile)
    assert time.process_time() - started < 2


def test_scenes_by_what_changed() -> None:
    assert changed(None, "a\nb") == "a\nb"
    assert changed("a\nb", "b\nc") == "- a\n+ c"
    assert changed("a\na", "a") == "- a"
    assert changed("b\na", "a\nb") == "(As before.)"


def test_the_oldest_scene_that_is_shown_is_whole() -> None:
    memory = DiffMemory(3, "action")
    for scene in ("a\nb", "a\nc", "a\nc", "a\nd"):
        memory.add(past(scene, "go on"))
    assert memory.recall() == [
        Remembered("a\nc", "go on", first="a\nc"),
        Remembered("(As before.)", "go on", first="a\nc"),
        Remembered("- c\n+ d", "go on", first="a\nd"),
    ]
    game = make("recall")
    game.reset(seed=0)
    prompter = Prompter(PromptConfig(style="terse"), "recall", None)
    shown = [
        [message["content"] for message in prompter.messages(game, Observation("a\nd"), memory, drop=drop)[::2]]
        for drop in (0, 1, 2, 3)
    ]
    assert shown == [
        ["a\nc", "(As before.)", "- c\n+ d", "a\nd"],
        ["a\nc", "- c\n+ d", "a\nd"],
        ["a\nd", "a\nd"],
        ["a\nd"],
    ]


def test_a_tight_budget_drops_the_notes_last() -> None:
    game = make("recall")
    game.reset(seed=0)
    config = PromptConfig(style="terse", memory="summary", history=4, max_prompt_tokens=2000)
    memory = make_memory(config)
    for number in range(4):
        memory.add(past(f"scene {number} " * 20, "MEMORY: coral\nACTION: go on"))
    whole = Prompter(config, "recall", tokenizer()).build(game, Observation("now"), memory)
    tight = PromptConfig(style="terse", memory="summary", history=4, max_prompt_tokens=len(whole.ids) // 3)
    prompt = Prompter(tight, "recall", tokenizer()).build(game, Observation("now"), memory)
    assert whole.dropped_turns == 0
    assert prompt.dropped_turns > 1
    assert prompt.messages[-2:] == [
        {"role": "assistant", "content": "MEMORY: coral"},
        {"role": "user", "content": "now"},
    ]


def test_the_names_of_memories() -> None:
    assert isinstance(make_memory(PromptConfig(memory="summary")), SummaryMemory)
    assert isinstance(make_memory(PromptConfig(memory="diff")), DiffMemory)
    with pytest.raises(UserError, match=r"prompt.memory = 'sumary': expected one of summary, diff, or a dotted path"):
        make_memory(PromptConfig(memory="sumary"))
