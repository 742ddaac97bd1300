"""The benchmark's prompts, composed by hand; replies read by each style; the words of others."""

import sys
from pathlib import Path
from textwrap import dedent

import pytest
from games import tokenizer
from hypothesis import given
from hypothesis import strategies as st

from agentrl.balrog_bridge import instructions
from agentrl.bench_agents import NOT_READ, STYLES, AgentStyle, Answer, agent_style, letters_alone
from agentrl.bench_prompts import AgentSpec, BenchMemory, BenchPrompter, bench_player
from agentrl.demonstrations import demonstrations
from agentrl.envs import Observation, make
from agentrl.errors import UserError
from agentrl.memory import PastTurn
from agentrl.prompting import PromptTooLong

LEGAL = ("go", "stop")


def composed(history: int, replies: list[str], style: str = "naive", **spec: object) -> list[str]:
    """Prompt after so many turns as "u: ..." and "a: ...", without the instruction and the suffix."""
    prompter = BenchPrompter(AgentSpec(style, history, **spec), "recall")  # type: ignore[arg-type]
    memory = BenchMemory(history)
    for number, reply in enumerate(replies):
        action = prompter.parse(reply, LEGAL, {})
        memory.add(PastTurn(f"scene {number}", reply, action or "go", action is not None))
    game = make("recall")
    game.reset(seed=0)
    prompt = prompter.build(game, Observation(f"scene {len(replies)}", "status"), memory)
    first, *rest = prompt.messages
    assert first["role"] == "user"
    assert "told a word" in first["content"]
    assert rest[-1]["content"].endswith(f"\n\n{prompter.suffix}")
    rest[-1]["content"] = rest[-1]["content"].removesuffix(f"\n\n{prompter.suffix}")
    return [f"{message['role'][0]}: {message['content']}" for message in rest]


def test_the_first_prompt_is_instruction_and_observation() -> None:
    for history in (0, 1, 16):
        assert composed(history, []) == ["u: Current Observation:\nstatus\nscene 0"]


def test_while_the_buffer_fills_all_is_shown() -> None:
    assert composed(3, ["go", "stop"]) == [
        "u: Observation:\nscene 0",
        "a: go",
        "u: Observation:\nscene 1",
        "a: stop",
        "u: Current Observation:\nstatus\nscene 2",
    ]


def test_a_full_buffer_begins_with_a_reply() -> None:
    assert composed(2, ["go", "stop", "go"]) == [
        "a: stop",
        "u: Observation:\nscene 2",
        "a: go",
        "u: Current Observation:\nstatus\nscene 3",
    ]
    assert composed(1, ["go", "stop"]) == ["a: stop", "u: Current Observation:\nstatus\nscene 2"]
    assert composed(0, ["go", "stop"]) == ["u: Current Observation:\nstatus\nscene 2"]


def test_sixteen_observations_after_many_turns() -> None:
    shown = composed(16, ["go"] * 40)
    assert sum(line.startswith("u: ") for line in shown) == sum(line.startswith("a: ") for line in shown) == 16
    assert shown[0] == "a: go"
    assert shown[1] == "u: Observation:\nscene 25"


def test_an_empty_reply_is_no_event_and_old_observations_keep_their_header() -> None:
    assert composed(2, ["123", "go", "456"], feedback=False) == [
        "u: Observation:",
        "a: go",
        "u: Observation:\nscene 2",
        "u: Current Observation:\nstatus\nscene 3",
    ]
    assert composed(2, ["1", "2", "3"], feedback=False) == [
        "u: Observation:",
        "u: Observation:",
        "u: Observation:\nscene 2",
        "u: Current Observation:\nstatus\nscene 3",
    ]


def test_the_observation_after_an_invalid_reply_says_so() -> None:
    told = "\n\nYour last reply named no possible action, so go was played.\n\nObservation:\n"
    assert composed(3, ["fly", "stop"]) == [
        "u: Observation:\nscene 0",
        "a: fly",
        f"u: Observation:\n{told}scene 1",
        "a: stop",
        "u: Current Observation:\nstatus\nscene 2",
    ]
    assert composed(3, ["fly"])[-1] == f"u: Current Observation:\nstatus\n{told}scene 1"
    assert composed(3, ["fly"], feedback=False)[-1] == "u: Current Observation:\nstatus\nscene 1"


def test_cot_shows_its_newest_plan_and_the_actions_of_older_ones() -> None:
    assert composed(3, ["First. ACTION: go", "Then I wait.\nACTION: stop"], "cot") == [
        "u: Observation:\nscene 0",
        "a: go",
        "u: Observation:\nscene 1",
        "a: Your last plan:\nThen I wait.\nACTION: stop",
        "u: Current Observation:\nstatus\nscene 2",
    ]
    assert composed(3, ["x <|ACTION|>go<|END|>"], "robust_cot")[1] == "a: go"


@pytest.mark.parametrize(
    ("style", "reply", "action"),
    [
        ("naive", "Turn left!", "Turn left"),
        ("naive", " go\n", "go"),
        ("naive", "a-b_c1", "abc"),
        ("cot", "I think.\nACTION: go forward.", "go forward"),
        ("cot", "ACTION: go\nACTION: stop", "stop"),
        ("cot", "no marker", "no marker"),
        ("robust_naive", "<|ACTION|> go <|END|> <|ACTION|>stop<|END|>", "go"),
        ("robust_naive", " go forward! ", "go forward!"),
        ("robust_cot", "so\n<|ACTION|>go\n<|END|>", "go"),
        ("robust_cot", "go", NOT_READ),
        ("plan", "PLAN: x\naction: go", "go"),
        ("plan", "go", ""),
    ],
)
def test_what_a_style_reads(style: str, reply: str, action: str) -> None:
    assert STYLES[style].read(reply).action == action


def test_strict_is_to_the_letter_and_tolerant_is_not() -> None:
    legal, synonyms = ("turn left", "go forward"), {"left": "turn left"}

    def parsed(parsing: str, reply: str, style: str = "naive") -> str | None:
        return BenchPrompter(AgentSpec(style, parsing=parsing), "recall").parse(reply, legal, synonyms)  # type: ignore[arg-type]

    for reply, tolerant in (("Turn left", "turn left"), ("left", "turn left"), ("**go forward**", "go forward")):
        assert parsed("strict", reply) == (None if reply != "**go forward**" else "go forward")
        assert parsed("tolerant", reply) == tolerant
    assert parsed("tolerant", "so: <|ACTION|>Go Forward<|END|>", "robust_cot") == "go forward"
    assert parsed("strict", "so: <|ACTION|>Go Forward<|END|>", "robust_cot") is None
    assert parsed("strict", "turn left") == "turn left"


@pytest.mark.parametrize("style", sorted(STYLES))
@given(reply=st.text(max_size=200))
def test_any_reply_is_read(style: str, reply: str) -> None:
    assert isinstance(STYLES[style].read(reply), Answer)


@pytest.mark.parametrize("style", sorted(STYLES))
def test_a_players_reply_is_read_back(style: str) -> None:
    for name in ("go forward", "Place Stone", "idle"):
        assert STYLES[style].read(STYLES[style].wrap(name)).action == name


def test_letters_alone() -> None:
    assert letters_alone("Do: it, now (2)!\té") == "Do: it now \t"


def test_a_style_of_ones_own_and_styles_that_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my_styles.py").write_text(
        "from agentrl.bench_agents import AgentStyle, Answer\n"
        "SHOUT = AgentStyle('shout', lambda reply: Answer(reply.lower()), str.upper, suffix='Shout!')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    style = agent_style("my_styles.SHOUT")
    assert style.read(style.wrap("go")).action == "go"
    assert BenchPrompter(AgentSpec("my_styles.SHOUT"), "recall").suffix == "Shout!"
    with pytest.raises(UserError, match=r"--agent robust_cott: one of .*did you mean robust_cot\?"):
        agent_style("robust_cott")
    with pytest.raises(UserError, match=r"it must be an agentrl.bench_agents.AgentStyle"):
        agent_style("os.path")
    with pytest.raises(UserError, match="no such_thing in my_styles"):
        agent_style("my_styles.such_thing")
    monkeypatch.setitem(STYLES, "shout", AgentStyle("shout", Answer))
    with pytest.raises(UserError, match="suffixes: no shout"):
        BenchPrompter(AgentSpec("shout"), "recall")


def test_the_oldest_events_are_dropped_under_a_budget() -> None:
    spec = AgentSpec(history=8)
    game, memory = make("recall"), BenchMemory(8)
    game.reset(seed=0)
    for number in range(7):
        memory.add(PastTurn(f"scene {number} " * 10, "go on", "go on", True))
    whole = BenchPrompter(spec, "recall", tokenizer()).build(game, Observation("now"), memory)
    budget = len(whole.ids) - 1
    cut = BenchPrompter(spec, "recall", tokenizer(), budget).build(game, Observation("now"), memory)
    assert len(cut.ids) <= budget
    assert cut.dropped_turns > 0
    assert cut.messages[0] == whole.messages[0]
    assert cut.messages[1:] == whole.messages[1 + cut.dropped_turns :]
    with pytest.raises(PromptTooLong):
        BenchPrompter(spec, "recall", tokenizer(), 20).build(game, Observation("now"), memory)


def test_few_shot_shows_the_scripted_player_and_of_babaisai_other_tasks() -> None:
    prompter = bench_player(AgentSpec("few_shot", demonstrations=2), "recall")
    game = make("recall")
    game.reset(seed=0)
    messages = prompter.build(game, Observation("now"), BenchMemory(4)).messages
    contents = [message["content"] for message in messages]
    assert contents[1] == "--- Example 1 begins ---"
    assert contents[2].startswith("Observation:\nThe word is ")
    assert contents[-2].startswith("That was the last example.")
    assert messages[3] == {"role": "assistant", "content": "go on"}
    assert demonstrations("recall", {}, 1) == demonstrations("recall", {}, 1)


def test_a_demonstration_of_babaisai_is_of_another_task(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[str] = []
    monkeypatch.setattr("agentrl.demonstrations._episode", lambda game_id, options, seed: played.append(game_id) or [])
    demonstrations("babaisai/env/goto_win", {}, 20)
    assert len(set(played)) > 10
    assert "babaisai/env/goto_win" not in played


def test_a_game_without_a_scripted_player_demonstrates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrl.envs.recall.Recall.scripted_player", lambda game: None)
    with pytest.raises(UserError, match="--agent few_shot: recall has no scripted player"):
        demonstrations("recall", {}, 1)


def test_a_folder_of_words_takes_the_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "instruction.yaml").write_text("instruction: 'You have {{ max_turns }}.'")
    game = make("recall", length=5)
    game.reset(seed=0)
    prompter = BenchPrompter(AgentSpec(prompts=str(tmp_path)), "recall")
    assert prompter.build(game, Observation("x"), BenchMemory(1)).messages[0]["content"] == "You have 5."
    assert prompter.sha256() != BenchPrompter(AgentSpec(), "recall").sha256()
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / "recall.yaml").write_text("rules: mine")
    (tmp_path / "instruction.yaml").write_text("instruction: '{{ rules }} {{ colour }}'")
    with pytest.raises(UserError, match=r"instruction.yaml: instruction: colour is not known here"):
        BenchPrompter(AgentSpec(prompts=str(tmp_path)), "recall")
    (tmp_path / "instruction.yaml").write_text("instruction: '{{ rules }}'\nmore: x")
    with pytest.raises(UserError, match=r"instruction.yaml: more: no such field"):
        BenchPrompter(AgentSpec(prompts=str(tmp_path)), "recall")
    (tmp_path / "instruction.yaml").write_text("instruction: '{{ rules }}'")
    assert BenchPrompter(AgentSpec(prompts=str(tmp_path)), "recall").texts.rules == "mine"
    with pytest.raises(UserError, match=r"--prompts .*no such folder"):
        BenchPrompter(AgentSpec(prompts=str(tmp_path / "none")), "recall")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A stand-in for the real BALROG package, with its interface; the package itself is not there to be tested with."""
    package = tmp_path / "balrog"
    (package / "environments").mkdir(parents=True)
    (package / "config").mkdir()
    (package / "config" / "config.yaml").write_text("envs: {}\n")
    (package / "__init__.py").write_text("")
    (package / "environments" / "__init__.py").write_text(
        dedent("""
        class Wrapped:
            def __init__(self, name, task, config):
                self.name, self.task = name, task

            def get_instruction_prompt(self, instructions=None):
                return f"Their words on {self.name} {self.task}: {instructions}"


        def make_env(env_name, task, config, render_mode=None):
            if env_name == "crafter":
                raise RuntimeError("no display")
            return Wrapped(env_name, task, config)
        """)
    )
    (tmp_path / "omegaconf.py").write_text(
        "class OmegaConf:\n    load = staticmethod(lambda path: open(path).read())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] in ("balrog", "omegaconf")]:
        monkeypatch.delitem(sys.modules, name)
    yield package  # type: ignore[misc]
    for name in [name for name in sys.modules if name.split(".")[0] in ("balrog", "omegaconf")]:
        del sys.modules[name]


def test_the_instruction_of_an_installed_package_is_taken(stand_in: Path) -> None:
    game = make("babyai/goto")
    observation, _ = game.reset(seed=1)
    prompter = bench_player(AgentSpec(prompts="balrog"), "babyai/goto")
    first = prompter.build(game, observation, BenchMemory(1)).messages[0]["content"]
    assert first == f"Their words on babyai BabyAI-MixedTrainLocal-v0/goto: {game.mission}"
    with pytest.raises(UserError, match="cannot make crafter default: RuntimeError: no display"):
        instructions("crafter")


def test_a_missing_package_and_the_other_one_are_told_apart(stand_in: Path) -> None:
    (stand_in / "environments" / "__init__.py").unlink()
    (stand_in / "environments").rmdir()
    with pytest.raises(UserError, match=r"another program of that name.*pip install git"):
        instructions("babyai/goto")


def test_no_package_is_one_line_with_the_remedy() -> None:
    with pytest.raises(UserError, match=r"no package balrog.*pip install git"):
        instructions("babyai/goto")
