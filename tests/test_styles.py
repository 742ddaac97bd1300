"""What each style says, and mistakes of who writes one."""

from collections.abc import Callable
from pathlib import Path

import pytest
from chat_templates import TOKENIZER, plain
from corridor import LEFT, NOW, STYLES, Corridor, contents, prompter, remembering

from agentrl.config import PromptConfig
from agentrl.envs import Observation
from agentrl.errors import UserError
from agentrl.parsing import parse_action
from agentrl.prompting import Prompter
from agentrl.styles import VARIABLES


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
