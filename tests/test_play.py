"""A person's game in the terminal: the model's prompt, the model's parser."""

import io

import pytest
from rich.console import Console

from agentrl import envs
from agentrl.config import PromptConfig
from agentrl.envs import GameSpec, Observation, TextEnv, registry
from agentrl.errors import UserError
from agentrl.memory import PastTurn, WindowMemory
from agentrl.play import play
from agentrl.prompting import Prompter

SEED = 3


def played(monkeypatch, lines, game_id="babyai/goto", show_prompt=False, style="action", **options):
    """What the terminal shows when the lines are typed; an exception among them is raised in place of a line."""
    typed = iter(lines)
    screen = io.StringIO()

    def read(prompt=""):
        line = next(typed)
        if isinstance(line, BaseException):
            raise line
        screen.write("\n")  # the key that ended the line
        return line

    monkeypatch.setattr("builtins.input", read)
    play(game_id, options, SEED, style, show_prompt, Console(file=screen, width=2000))
    return screen.getvalue()


def solution(task="goto"):
    game = envs.make(f"babyai/{task}")
    game.reset(seed=SEED)
    player, actions = game.scripted_player(), []
    while True:
        actions.append(player())
        if game.step(actions[-1])[2]:
            return actions


class Hostile(TextEnv):
    """Free text, one turn, a scene that would like to be more than text."""

    actions = None
    default_action = "nothing"
    max_turns = 1
    closed = 0
    heard: list[str] = []

    def __init__(self, task):
        pass

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return Observation("[bold]not bold[/bold] [/nonsense] \x1b[2Jgone \x07"), {}

    def step(self, action):
        Hostile.heard.append(action)
        return Observation(""), -0.5, False, True, {"success": None, "progression": 0.25}

    def close(self):
        Hostile.closed += 1


@pytest.fixture
def hostile(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {"hostile": GameSpec("hostile", "", Hostile)})
    Hostile.closed, Hostile.heard = 0, []


def test_a_solved_game_ends_with_reward_success_and_progression(monkeypatch):
    plan = solution()
    screen = played(monkeypatch, plan)
    reward = 1 - 0.9 * len(plan) / 64
    assert f"Reward {reward:+g}" in screen
    assert screen.splitlines()[-1] == f"success after {len(plan)} turns, return {reward:g}, progression 100%."


def test_the_time_limit_ends_it_too(monkeypatch):
    screen = played(monkeypatch, ["drop"] * 64)
    assert screen.splitlines()[-1] == "no success after 64 turns, return 0, progression 0%."


def test_a_game_that_forgets_its_limit_ends_where_a_models_would(monkeypatch, hostile):
    monkeypatch.setattr(Hostile, "step", lambda self, action: (Observation(""), 0.0, False, False, {}))
    assert "over after 1 turn, return 0" in played(monkeypatch, ["anything"], game_id="hostile")


def test_the_whole_prompt_is_what_a_model_gets(monkeypatch):
    game = envs.make("babyai/goto")
    prompter, memory = Prompter(PromptConfig(style="cot"), "babyai/goto", None), WindowMemory(1, "whole")
    first, _ = game.reset(seed=SEED)
    wanted = prompter.messages(game, first, memory)
    reply = "I turn. ACTION: turn left"
    memory.add(PastTurn(first.scene, reply, "turn left", True))
    wanted += prompter.messages(game, game.step("turn left")[0], memory)
    screen = played(monkeypatch, [reply, "q"], show_prompt=True, style="cot")
    shown = "\n".join(line for line in screen.splitlines() if "──" not in line and line != "> ")
    assert "\n".join(message["content"] for message in wanted) in shown


def test_the_instruction_comes_once_unless_the_whole_prompt_is_asked_for(monkeypatch):
    lines = ["turn left", "turn left", "q"]
    rules = "Your actions:"
    assert played(monkeypatch, lines).count(rules) == 1
    assert played(monkeypatch, lines, show_prompt=True).count(rules) == 3


def test_a_reply_is_read_as_a_models_reply(monkeypatch):
    spoken = played(monkeypatch, ["I think so. ACTION: Turn Left.", "q"])
    plain = played(monkeypatch, ["turn left", "q"])
    assert spoken == plain


def test_a_reply_without_an_action_plays_the_default_and_says_so(monkeypatch):
    jumped, went = played(monkeypatch, ["jump", "q"]), played(monkeypatch, ["go forward", "q"])
    assert "go forward is played" in jumped
    assert [line for line in jumped.splitlines() if "is played" not in line] == went.splitlines()


def test_help_and_blank_lines_cost_no_turn(monkeypatch):
    screen = played(monkeypatch, ["?", "", "  ", "q"])
    assert all(f"\n{name}: " in screen for name in ("turn right", "toggle"))
    assert "Stopped after 0 turns" in screen


@pytest.mark.parametrize("ending", ["q", EOFError(), KeyboardInterrupt()])
def test_leaving_is_clean_and_closes_the_game(monkeypatch, hostile, ending):
    screen = played(monkeypatch, [ending], game_id="hostile")
    assert screen.splitlines()[-1] == "Stopped after 0 turns, return 0."
    assert Hostile.closed == 1


def test_a_games_text_is_shown_as_text(monkeypatch, hostile):
    screen = played(monkeypatch, ["say [red]hello[/red]"], game_id="hostile")
    assert "[bold]not bold[/bold] [/nonsense]" in screen
    assert "\x1b" not in screen
    assert "\x07" not in screen
    assert Hostile.heard == ["say [red]hello[/red]"]
    assert "over after 1 turn, return -0.5, progression 25%." in screen
    assert Hostile.closed == 1


def test_the_game_is_closed_when_it_breaks(monkeypatch, hostile):
    monkeypatch.setattr(Hostile, "step", lambda self, action: 1 / 0)
    with pytest.raises(UserError, match=r"hostile: the game broke: ZeroDivisionError: division by zero \(test_play"):
        played(monkeypatch, ["anything"], game_id="hostile")
    assert Hostile.closed == 1


@pytest.mark.parametrize("change", [{"game_id": "babyai/gto"}, {"style": "no-such-style"}, {"num_dist": 3}])
def test_mistakes_are_the_users(monkeypatch, change):
    with pytest.raises(UserError):
        played(monkeypatch, ["q"], **change)


def test_what_a_game_leaves_unsaid_at_its_end_is_no_mistake(monkeypatch, hostile):
    info = {"success": "yes", "progression": None}
    monkeypatch.setattr(Hostile, "step", lambda self, action: (Observation("end"), 0.0, True, False, info))
    assert "success after 1 turn, return 0, progression 0%." in played(monkeypatch, ["anything"], game_id="hostile")
