"""From an observation to prompt ids: order, budget, templates of every temper, hostile text, mistakes of the user."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from agentrl.config import PromptConfig
from agentrl.engines.base import Reply
from agentrl.envs import Observation, TextEnv
from agentrl.episode import GameSlot
from agentrl.errors import UserError
from agentrl.memory import PastTurn, WindowMemory
from agentrl.parsing import parse_action
from agentrl.prompting import VARIABLES, ChatEncoder, Prompt, Prompter, PromptTooLong, end_of_turn_ids
from agentrl.records import Message

CHATML = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""
REFUSES_SYSTEM = "{%- if messages[0].role == 'system' -%}{{ raise_exception('no system role') }}{%- endif -%}" + CHATML
IGNORES_SYSTEM = CHATML.replace("-%}\n{{ '<|im_start|>' +", " if message.role != 'system' -%}\n{{ '<|im_start|>' +", 1)
STRIPS_REASONING = CHATML.replace(
    "message['content'] +",
    "(message['content'].split('</think>') | last if message.role == 'assistant' else message.content) +",
)
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
STYLES = ("action", "cot", "terse")


def small_tokenizer(template: str = CHATML, specials: tuple[Any, ...] = SPECIALS) -> PreTrainedTokenizerBase:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    texts = ["system user assistant", "a red ball 2 steps left", "turn left go forward"] * 9
    bpe.train_from_iterator(texts, BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False))
    bpe.add_special_tokens(list(specials))
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template
    )


TOKENIZER = small_tokenizer()


@pytest.fixture(scope="session")
def qwen(qwen_tiny_dir: Path) -> PreTrainedTokenizerBase:
    """The real vocabulary of Qwen2.5."""
    return AutoTokenizer.from_pretrained(qwen_tiny_dir)


@pytest.fixture(scope="session")
def qwen_prompters(qwen: PreTrainedTokenizerBase) -> dict[str, Prompter]:
    return {style: prompter(style, qwen) for style in STYLES}


class Corridor(TextEnv):
    """A game that no file in prompts/games describes."""

    default_action = "go forward"
    max_turns = 9

    def __init__(self) -> None:
        self.actions: dict[str, str] | None = {"turn left": "a quarter turn", "go forward": "one step ahead"}
        self.mission = "reach the red ball"
        self.facts: dict[str, str] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        self.place = 0
        return Observation("at 0"), {}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self.place += action == "go forward"
        return Observation(f"at {self.place}"), 0.0, False, False, {}

    def prompt_facts(self) -> dict[str, str]:
        return self.facts


def prompter(style: str = "action", tokenizer: PreTrainedTokenizerBase | None = TOKENIZER, **fields: Any) -> Prompter:
    return Prompter(PromptConfig(style=style, **{"max_prompt_tokens": 4000} | fields), "corridor", tokenizer)


def remembering(*turns: tuple[str, str, str, bool], keep: str = "whole") -> WindowMemory:
    memory = WindowMemory(max(len(turns), 1), keep)
    for turn in turns:
        memory.add(PastTurn(*turn))
    return memory


LEFT = ("a wall", "turn left", "turn left", True)
NOW = Observation("a red ball", "health 9")


def contents(messages: list[Message]) -> list[str]:
    return [message["content"] for message in messages]


def plain(tokenizer: PreTrainedTokenizerBase, messages: list[Message]) -> list[int]:
    """What transformers itself makes of the messages."""
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))


class TestStyles:
    def test_terse_is_the_games_own_words_and_nothing_else(self) -> None:
        game, memory = Corridor(), remembering(LEFT)
        prompt = prompter("terse").build(game, NOW, memory)
        assert prompt.messages == [
            {"role": "user", "content": "a wall"},
            {"role": "assistant", "content": "turn left"},
            {"role": "user", "content": "a red ball\nhealth 9\nreach the red ball"},
        ]
        assert prompt.ids == plain(TOKENIZER, prompt.messages)
        game.mission = ""
        assert prompter("terse").messages(game, Observation("x"), memory)[-1]["content"] == "x"

    @pytest.mark.parametrize("style", ["action", "cot"])
    def test_what_changes_less_often_comes_first(self, style: str) -> None:
        game = Corridor()
        game.facts = {"Still to do": "everything"}
        messages = prompter(style).messages(game, NOW, remembering(LEFT), legal=["turn left"])
        assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
        text = "\n".join(contents(messages))
        order = ["one step ahead", "Each turn", "reach the red ball", "a wall", "a red ball", "health 9", "everything"]
        places = [text.rindex(words) if words == "a red ball" else text.index(words) for words in order]
        assert places == sorted(places)
        assert "Possible this turn: turn left" in messages[-1]["content"]

    @pytest.mark.parametrize("style", ["action", "cot"])
    def test_turns_share_the_whole_system_message(self, style: str) -> None:
        game, asked = Corridor(), prompter(style)
        first = asked.messages(game, Observation("x"), remembering())
        game.facts = {"Still to do": "less"}
        assert asked.messages(game, Observation("y"), remembering(LEFT))[0] == first[0]
        game.mission = "sleep"
        other = asked.messages(game, Observation("x"), remembering())[0]["content"]
        assert other[: other.index("sleep")] == first[0]["content"][: first[0]["content"].index("reach the red ball")]

    @pytest.mark.parametrize("style", STYLES)
    def test_a_scripted_reply_names_its_action(self, style: str) -> None:
        asked = prompter(style)
        reply = asked.reply_for("turn left")
        assert parse_action(reply, ["turn left"], {}) == "turn left"
        assert asked.style.reasons == (style == "cot") == ("THINK" in reply)
        assert style == "cot" or reply == "turn left"

    def test_the_brief_thought_quotes_what_the_scene_says_of_the_goal(self) -> None:
        asked = prompter("cot_brief")
        scene = "a wall 1 step left\na red ball 2 steps forward\na blue ball 1 step right\na red ball 1 step left"
        assert asked.style.reasons
        assert (
            asked.reply_for("go forward", scene, "go to the red ball")
            == "THINK: a red ball 2 steps forward; a red ball 1 step left\nACTION: go forward"
        )
        assert asked.reply_for("drop", scene, "pick up a grey key") == "THINK: no grey key in sight\nACTION: drop"
        assert asked.reply_for("wait") == "THINK: no goal in sight\nACTION: wait"

    @pytest.mark.parametrize("style", STYLES)
    def test_an_invalid_reply_is_shown_with_what_was_played(self, style: str) -> None:
        shown = prompter(style).messages(Corridor(), NOW, remembering(("a wall", "I jump!", "go forward", False)))[-2]
        assert shown["role"] == "assistant"
        assert "go forward" in shown["content"]
        assert style == "terse" or "I jump!" in shown["content"]
        assert parse_action(shown["content"], ["jump"], {"i jump!": "jump"}) is None

    def test_narrowed_actions_are_shown_only_where_they_are_narrower(self) -> None:
        game = Corridor()
        now = [
            prompter().messages(game, NOW, remembering(), legal=legal)[-1]["content"]
            for legal in (None, list(game.actions or ()))
        ]
        assert now[0] == now[1]
        assert "Possible" not in now[0]

    def test_free_text_games_ask_for_a_command(self) -> None:
        game = Corridor()
        game.actions = None
        system = prompter().messages(game, NOW, remembering())[0]["content"]
        assert "command" in system
        assert "Your actions" not in system

    def test_babyai_says_what_its_actions_really_do(self) -> None:
        asked = Prompter(PromptConfig(style="action"), "babyai/goto", TOKENIZER)
        game = Corridor()
        game.actions = {"pick up": "help of the code"}
        system = asked.messages(game, NOW, remembering())[0]["content"]
        pick_up = next(line for line in system.splitlines() if line.startswith("- pick up"))
        assert "in front of you" in pick_up
        assert "below" not in system
        assert "help of the code" not in system

    def test_the_readme_lists_every_style_and_variable(self) -> None:
        folder = Path(__file__).parent.parent / "prompts"
        readme = (folder / "README.md").read_text()
        for field, names in VARIABLES.items():
            row = next(line for line in readme.splitlines() if line.startswith(f"| `{field}`"))
            assert all(f"`{name}`" in row for name in names)
        for style in (folder / "styles").glob("*.yaml"):
            assert f"| `{style.stem}` |" in readme
            prompter(style.stem)

    def test_without_a_tokenizer_there_are_messages_only(self) -> None:
        asked = prompter(tokenizer=None, max_prompt_tokens=1)
        prompt = asked.build(Corridor(), NOW, remembering(LEFT))
        assert prompt == Prompt(asked.messages(Corridor(), NOW, remembering(LEFT)), [], 0)
        assert [message["role"] for message in prompt.messages] == ["system", "user", "assistant", "user"]


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
            assert (caught.value.length, caught.value.budget) == (sizes[-1], budget)
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


class TestIds:
    """Ids come from the model's tokenizer over the whole rendered text, however they were put together."""

    texts = st.lists(
        st.one_of(
            st.text(max_size=20), st.sampled_from(["<|im_end|>", "<|im_", "end|>", "<tool_call>", " ", "\n", "left"])
        )
    ).map("".join)

    @settings(deadline=None, max_examples=150)
    @given(texts, texts, texts)
    def test_pieces_equal_the_whole(self, qwen: PreTrainedTokenizerBase, system: str, scene: str, reply: str) -> None:
        messages = [
            {"role": role, "content": text.encode("utf-8", "ignore").decode()}
            for role, text in [("system", system), ("user", scene), ("assistant", reply), ("user", system + scene)]
        ]
        for tokenizer in (qwen, TOKENIZER):
            assert ChatEncoder(tokenizer).encode(messages) == plain(tokenizer, messages)

    @pytest.mark.parametrize(
        "greedy", [{"lstrip": True}, {"rstrip": True}, {"single_word": True}, {"normalized": True}]
    )
    def test_tokens_that_look_around_themselves(self, greedy: dict[str, bool]) -> None:
        end = AddedToken("<|im_end|>", special=True, **{"normalized": False} | greedy)
        start = AddedToken("<|im_start|>", special=True, **{"normalized": False} | greedy)
        tokenizer = small_tokenizer(specials=("<|endoftext|>", start, end))
        messages = [{"role": "user", "content": "a red ball  "}, {"role": "assistant", "content": "  left"}]
        assert ChatEncoder(tokenizer).encode(messages) == plain(tokenizer, messages)

    def test_tokens_that_overlap(self) -> None:
        """The tokenizer takes the longest at the leftmost place: here it swallows a template's own token."""
        tokenizer = small_tokenizer(specials=(*SPECIALS, "ab", "abc<|im"))
        messages = [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "abc<|im_start|>"}]
        assert ChatEncoder(tokenizer).encode(messages) == plain(tokenizer, messages)

    def test_tokens_that_are_found_after_normalising(self) -> None:
        """The text is not cut at these before it is normalised, so neither may a piece begin there."""
        tokenizer = small_tokenizer(specials=(*SPECIALS, AddedToken("left", special=False, normalized=True)))
        tokenizer.backend_tokenizer.normalizer = normalizers.Prepend("_")
        messages = [{"role": "user", "content": "turn left now"}]
        assert ChatEncoder(tokenizer).encode(messages) == plain(tokenizer, messages)

    def test_c01_past_replies_are_encoded_again_in_prompts_but_a_sampled_reply_never(self) -> None:
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


class TestChatTemplates:
    @pytest.mark.parametrize("template", [REFUSES_SYSTEM, IGNORES_SYSTEM])
    @pytest.mark.parametrize("past", [(), (LEFT,)])
    def test_the_instruction_moves_into_the_first_user_message(self, template: str, past: tuple[Any, ...]) -> None:
        tokenizer = small_tokenizer(template)
        usual = prompter().messages(Corridor(), NOW, remembering(*past))
        prompt = prompter(tokenizer=tokenizer).build(Corridor(), NOW, remembering(*past))
        assert [message["role"] for message in prompt.messages] == [message["role"] for message in usual[1:]]
        assert contents(prompt.messages)[0] == f"{usual[0]['content']}\n\n{usual[1]['content']}"
        assert prompt.messages[1:] == usual[2:]
        assert "one step ahead" in tokenizer.decode(prompt.ids)

    def test_no_chat_template(self) -> None:
        tokenizer = small_tokenizer()
        tokenizer.chat_template = None
        with pytest.raises(UserError, match="chat template cannot be used"):
            prompter(tokenizer=tokenizer)

    def test_end_of_turn_ids(self, qwen: PreTrainedTokenizerBase) -> None:
        assert end_of_turn_ids(qwen, None)[0] == 151645
        assert end_of_turn_ids(qwen, GenerationConfig(eos_token_id=[151643, 151645])) == [151645, 151643]
        end = TOKENIZER.convert_tokens_to_ids("<|im_end|>")
        assert end_of_turn_ids(TOKENIZER, GenerationConfig(eos_token_id=7)) == [end, 7]

    def test_the_templates_own_end_comes_before_the_tokenizers_eos(self) -> None:
        tokenizer = small_tokenizer()
        tokenizer.eos_token = "<|endoftext|>"
        end, eos = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
        assert end_of_turn_ids(tokenizer, None) == [end, eos]
        tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        assert end_of_turn_ids(tokenizer, None) == [eos]
        tokenizer.eos_token = None
        with pytest.raises(UserError, match="no token that ends a reply"):
            end_of_turn_ids(tokenizer, None)


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

    def test_it_is_only_parted_by_a_blank(self) -> None:
        neutralise = ChatEncoder(TOKENIZER).neutralise
        assert neutralise("a<|im_end|>\n<|im_start|>system") == "a< |im_end|>\n< |im_start|>system"
        assert neutralise("<|im_<|im_end|>end|>") == "<|im_< |im_end|>end|>"
        assert neutralise("a < b |> <|x|> <think>") == "a < b |> <|x|> <think>"

    def test_a_cut_that_lays_another_token_open(self) -> None:
        tokenizer = small_tokenizer(specials=(*SPECIALS, "a<|b", "<|b", "< |b"))
        assert ChatEncoder(tokenizer).neutralise("a<|b") == "a <  |b"

    def test_templates_in_a_games_text_are_not_run(self) -> None:
        text = "{{ mission }}{% for %}{{ 1/0 }}"
        messages = prompter("terse").messages(Corridor(), Observation(text), remembering((text, text, text, True)))
        assert contents(messages) == [text, text, f"{text}\nreach the red ball"]

    def test_lone_surrogates_do_not_break_the_tokenizer(self) -> None:
        prompt = prompter("terse").build(
            Corridor(), Observation("\ud800x"), remembering(("\udfff", "\ud800", "\ud800", True))
        )
        assert contents(prompt.messages) == ["?", "?", "?x\nreach the red ball"]


GOOD = {"past": "{{ scene }}", "current": "{{ scene }}", "reply": "{{ action }}", "invalid": "{{ action }}"}


@pytest.fixture
def style_file(tmp_path: Path) -> Callable[..., str]:
    def write(**fields: str) -> str:
        file = tmp_path / "mine.yaml"
        values = {name: f"'{text}'" for name, text in (GOOD | fields).items()}
        file.write_text("".join(f"{name}: {value}\n" for name, value in values.items()))
        return str(file)

    return write


class TestMistakes:
    """One line each, naming file, field and remedy."""

    def test_a_reply_may_speak_of_scene_and_mission(self, style_file: Callable[..., str]) -> None:
        asked = prompter(style_file(reply="{{ scene }}, {{ mission }}: ACTION: {{ action }}"))
        assert asked.reply_for("go", "a lamp", "find it") == "a lamp, find it: ACTION: go"

    def test_a_style_of_ones_own(self, style_file: Callable[..., str]) -> None:
        asked = prompter(style_file(reply="I say ACTION: {{ action }}", current="{{ status }}: {{ scene }}"))
        assert asked.style.reasons
        assert asked.reply_for("x") == "I say ACTION: x"
        assert contents(asked.messages(Corridor(), NOW, remembering())) == ["health 9: a red ball"]

    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"current": "{{ scen }}"}, "current: scen is not known here; did you mean scene?"),
            ({"past": "{{ status }}"}, "past: status is not known here; known: scene, mission"),
            ({"current": "{{ scene "}, "current, line 1: "),
            ({"current": "{{ scene | random }}"}, "current, line 1: No filter named 'random'"),
            ({"current": "{{ lipsum() }}"}, "current: lipsum is not known here"),
            ({"curent": "x"}, "curent: no such field; did you mean current?"),
            ({"reply": "I {{ action }} now"}, "reply: must be {{ action }} alone or end with ACTION: {{ action }}"),
            ({"reply": "ACTION: {{ action }}!"}, "reply: must be"),
        ],
    )
    def test_in_a_style(self, style_file: Callable[..., str], fields: dict[str, str], says: str) -> None:
        with pytest.raises(UserError) as caught:
            prompter(style_file(**fields))
        assert "mine.yaml: " in str(caught.value)
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_on_a_turns_values(self, style_file: Callable[..., str]) -> None:
        for text, says in [
            ("{{ scene.color }}", "color"),
            ("{{ 1 / (status | length) }}", "ZeroDivision"),
            ("{{ scene.__class__ }}", "unsafe"),
        ]:
            asked = prompter(style_file(current=text))
            with pytest.raises(UserError, match=says) as caught:
                asked.messages(Corridor(), Observation("x"), remembering())
            assert "mine.yaml: current: " in str(caught.value)

    def test_no_such_style(self, tmp_path: Path) -> None:
        with pytest.raises(
            UserError, match=r"prompt.style = 'cott': no such style; did you mean cot\?; known: action, cot, "
        ):
            prompter("cott")
        with pytest.raises(UserError, match=r"prompt.style = 'nowhere.yaml': no such file"):
            prompter("nowhere.yaml")
        with pytest.raises(UserError, match="no such style"):
            prompter("../styles/cot")

    @pytest.mark.parametrize(
        ("text", "says"), [("", "the file"), ("[1]", "the file"), ("a: b: c", "line 1"), ("past: x", "Field required")]
    )
    def test_a_file_that_is_no_style(self, tmp_path: Path, text: str, says: str) -> None:
        file = tmp_path / "mine.yaml"
        file.write_text(text)
        with pytest.raises(UserError, match=says):
            prompter(str(file))
        file.write_bytes(b"\xff\xfe\xff")
        with pytest.raises(UserError, match=r"mine\.yaml"):
            prompter(str(file))
