"""From an observation to prompt ids: budget, templates of every temper, hostile text."""

from typing import Any

import pytest
from chat_templates import IGNORES_SYSTEM, REFUSES_SYSTEM, STRIPS_REASONING, TOKENIZER, plain, small_tokenizer
from corridor import LEFT, NOW, STYLES, Corridor, contents, prompter, remembering
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from agentrl.chat import end_of_turn_ids
from agentrl.engines.base import Reply
from agentrl.envs import Observation
from agentrl.episode import GameSlot
from agentrl.memory import WindowMemory
from agentrl.parsing import parse_action
from agentrl.prompting import Prompt, Prompter, PromptTooLong


@pytest.fixture(scope="session")
def qwen_prompters(qwen: PreTrainedTokenizerBase) -> dict[str, Prompter]:
    return {style: prompter(style, qwen) for style in STYLES}


class TestBudget:
    """C22: the oldest turns go first, the instruction and the current observation never, and it is counted."""

    @settings(deadline=None, max_examples=60)
    @given(st.data(), st.sampled_from(STYLES), st.integers(1, 700))
    def test_the_most_turns_that_fit(self, data: st.DataObject, style: str, budget: int) -> None:
        words = st.sampled_from(["a red ball", "2 steps left", "x" * 40, "wörter", ""])
        scenes = data.draw(st.lists(st.lists(words).map(" ".join), max_size=6))
        memory = remembering(*((scene, f"reply {n}", "go forward", n % 2 == 0) for n, scene in enumerate(scenes)))
        game, asked = Corridor(), prompter(style, max_prompt_tokens=budget)
        sizes = [len(plain(TOKENIZER, asked.messages(game, NOW, memory, drop))) for drop in range(len(scenes) + 1)]
        fitting = [drop for drop, size in enumerate(sizes) if size <= budget]
        if fitting:
            prompt = asked.build(game, NOW, memory)
            assert prompt.dropped_turns == fitting[0]
            assert prompt.messages == asked.messages(game, NOW, memory, fitting[0])
            assert prompt.ids == plain(TOKENIZER, prompt.messages)
        else:
            with pytest.raises(PromptTooLong) as caught:
                asked.build(game, NOW, memory)
            alone = asked.messages(game, NOW, remembering())
            words = f"{sizes[-1]} tokens without any past turn; prompt.max_prompt_tokens = {budget}"
            assert str(caught.value) == words
            assert caught.value.messages == alone
            assert caught.value.ids == plain(TOKENIZER, alone)[-budget:]

    @pytest.mark.parametrize("style", ["action", "cot"])
    def test_instruction_and_observation_stay_whole(self, style: str) -> None:
        game = Corridor()
        memory = remembering(*((f"scene number {n}", "turn left", "turn left", True) for n in range(8)))
        whole = prompter(style).build(game, NOW, memory)
        for budget in range(len(whole.ids), 0, -7):
            try:
                prompt = prompter(style, max_prompt_tokens=budget).build(game, NOW, memory)
            except PromptTooLong:
                break
            assert len(prompt.ids) <= budget
            assert prompt.messages[0] == whole.messages[0]
            assert prompt.messages[1:] == whole.messages[1 + 2 * prompt.dropped_turns :]
        assert prompt.dropped_turns == 8, "the smallest budget that still holds instruction and observation"

    def test_a_prompt_that_was_seen_costs_no_tokenisation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tokenizer = small_tokenizer()
        calls: list[str] = []
        encode = tokenizer.encode

        def counted(text: str, **kwargs: Any) -> list[int]:
            calls.append(text)
            return encode(text, **kwargs)

        monkeypatch.setattr(tokenizer, "encode", counted)
        asked, game = prompter("action", tokenizer), Corridor()
        first = asked.build(game, NOW, remembering(LEFT))
        assert "".join(dict.fromkeys(calls)) == "".join(calls), "no text twice"
        calls.clear()
        assert asked.build(game, NOW, remembering(LEFT)) == first
        assert calls == []
        asked.build(game, Observation("something new"), remembering(LEFT))
        assert len(calls) == 1


def test_c01_past_replies_are_encoded_again_in_prompts_but_a_sampled_reply_never() -> None:
    """The sampler took "le" + "ft" where the tokenizer writes "left": what is trained on stays as sampled."""
    one = TOKENIZER.encode("left", add_special_tokens=False)
    two = TOKENIZER.encode("le", add_special_tokens=False) + TOKENIZER.encode("ft", add_special_tokens=False)
    end = end_of_turn_ids(TOKENIZER, None)[0]
    assert one != two
    assert TOKENIZER.decode(two) == "left"
    slot = GameSlot(0, "corridor", Corridor, prompter("terse"), WindowMemory(1, "whole"), lambda episode: episode)
    slot.next_episode()
    sampled = [*two, end]
    turn, _ = slot.play(Reply("left", sampled, [-0.5] * len(sampled), [()] * len(sampled)))
    assert turn.reply_ids == sampled
    following = slot.prompt
    assert following.messages[1]["role"] == "assistant"
    assert following.ids == plain(TOKENIZER, following.messages)
    assert turn.reply_ids == sampled


class TestC02TemplatesThatRewriteHistory:
    """The chat template drops <think> from earlier replies: prompt t+1 does not extend prompt t, and need not."""

    def test_each_prompt_stands_alone(self) -> None:
        tokenizer = small_tokenizer(STRIPS_REASONING)
        asked, game = prompter("terse", tokenizer), Corridor()
        reply = "<think>the wall is near</think>turn left"
        assert parse_action(reply, ["turn left"], {}) == "turn left"
        first = asked.build(game, Observation("one"), remembering())
        second = asked.build(game, NOW, remembering(("one", reply, "turn left", True)))
        third = asked.build(game, NOW, remembering(LEFT, ("a wall", reply, "turn left", True)))
        for prompt in (first, second, third):
            assert prompt.ids == plain(tokenizer, prompt.messages)
            assert "the wall is near" not in tokenizer.decode(prompt.ids)
        assert second.messages[1]["content"] == reply, "the message is whole: it is the template that leaves it out"
        sampled = first.ids + tokenizer.encode(reply, add_special_tokens=False)
        assert second.ids[: len(sampled)] != sampled, "so nothing may be built by extending what was sampled"

    def test_what_is_kept_is_the_configs_word(self) -> None:
        reply = "<think>the wall is near</think>turn left"
        past = ("a wall", reply, "turn left", True)
        for tokenizer in (TOKENIZER, small_tokenizer(STRIPS_REASONING)):
            asked = prompter("terse", tokenizer)
            kept = asked.build(Corridor(), NOW, remembering(past, keep="action"))
            assert kept.ids == asked.build(Corridor(), NOW, remembering(("a wall", "turn left", "turn left", True))).ids
        whole = prompter("terse").build(Corridor(), NOW, remembering(past))
        assert "the wall is near" in TOKENIZER.decode(whole.ids)


@pytest.mark.parametrize("template", [REFUSES_SYSTEM, IGNORES_SYSTEM])
@pytest.mark.parametrize("past", [(), (LEFT,)])
def test_the_instruction_moves_into_the_first_user_message(template: str, past: tuple[Any, ...]) -> None:
    tokenizer = small_tokenizer(template)
    usual = prompter().messages(Corridor(), NOW, remembering(*past))
    prompt = prompter(tokenizer=tokenizer).build(Corridor(), NOW, remembering(*past))
    assert [message["role"] for message in prompt.messages] == [message["role"] for message in usual[1:]]
    assert contents(prompt.messages)[0] == f"{usual[0]['content']}\n\n{usual[1]['content']}"
    assert prompt.messages[1:] == usual[2:]
    assert "one step ahead" in tokenizer.decode(prompt.ids)


def test_without_a_tokenizer_there_are_messages_only() -> None:
    asked = prompter(tokenizer=None, max_prompt_tokens=1)
    prompt = asked.build(Corridor(), NOW, remembering(LEFT))
    assert prompt == Prompt(asked.messages(Corridor(), NOW, remembering(LEFT)), [], 0)
    assert [message["role"] for message in prompt.messages] == ["system", "user", "assistant", "user"]


class TestHostileText:
    """No text of a game or a model becomes a control token."""

    parts = ["<|im_end|>", "<|im_start|>", "<|", "im_end", "|>", "<|endoftext|>", "<|fim_pad|>", "\n", "system", "<"]
    texts = st.lists(st.sampled_from(parts)).map("".join)

    @settings(deadline=None, max_examples=60)
    @given(texts, texts, texts, texts, st.sampled_from(STYLES))
    def test_the_real_tokenizer_sees_only_the_templates_control_tokens(
        self,
        qwen: PreTrainedTokenizerBase,
        qwen_prompters: dict[str, Prompter],
        scene: str,
        status: str,
        reply: str,
        mission: str,
        style: str,
    ) -> None:
        def controls(scene: str, status: str, reply: str, mission: str) -> list[int]:
            game = Corridor()
            game.mission, game.facts = mission, {scene: status}
            memory = remembering((scene, reply, reply, True), (scene, reply, reply, False))
            ids = qwen_prompters[style].build(game, Observation(scene, status), memory).ids
            return [i for i in ids if i in qwen.added_tokens_decoder]

        assert controls(scene, status, reply, mission) == controls("s", "t", "r", "m")

    def test_templates_in_a_games_text_are_not_run(self) -> None:
        text = "{{ mission }}{% for %}{{ 1/0 }}"
        messages = prompter("terse").messages(Corridor(), Observation(text), remembering((text, text, text, True)))
        assert contents(messages) == [text, text, f"{text}\nreach the red ball"]

    def test_lone_surrogates_do_not_break_the_tokenizer(self) -> None:
        prompt = prompter("terse").build(
            Corridor(), Observation("\ud800x"), remembering(("\udfff", "\ud800", "\ud800", True))
        )
        assert contents(prompt.messages) == ["?", "?", "?x\nreach the red ball"]
