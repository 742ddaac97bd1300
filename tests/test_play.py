"""A person's game in the terminal: the model's prompt, the model's parser."""

import io
import re

import pytest
import tiny
from rich.console import Console

from agentrl import envs
from agentrl.assembly import Games
from agentrl.config import Config
from agentrl.engines.base import Reply
from agentrl.envs import GameSpec, Observation, TextEnv, registry
from agentrl.errors import UserError
from agentrl.play import play
from agentrl.policy import load_tokenizer
from agentrl.prompting import Prompter

SEED = 3


def played(monkeypatch, lines, game_id="babyai/goto", show_prompt=False, style="action", **options):
    """What the terminal shows when the lines are typed; an exception among them is raised in place of a line."""
    config = Config(name="play", game={"id": game_id, "options": options}, prompt={"style": style})
    return played_by(config, monkeypatch, lines, show_prompt)


def played_by(config, monkeypatch, lines, show_prompt=True):
    typed = iter(lines)
    screen = io.StringIO()

    def read(prompt=""):
        line = next(typed)
        if isinstance(line, BaseException):
            raise line
        screen.write("\n")  # the key that ended the line
        return line

    monkeypatch.setattr("builtins.input", read)
    play(config, SEED, show_prompt, Console(file=screen, width=2000))
    return screen.getvalue()


def shown(screen):
    """The messages of each turn, read back from the terminal."""
    turns = []
    for before_the_line in re.split(r"^> $\n", screen, flags=re.MULTILINE)[:-1]:
        _, *parts = re.split(r"^(system|user|assistant) ─+\n", before_the_line, flags=re.MULTILINE)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        turns.append([{"role": role, "content": content.removesuffix("\n")} for role, content in pairs])
    return turns


def in_training(config, lines, tokenizer=None):
    """The turns that a model would have with these replies."""
    games = Games(config, Prompter(config.prompt, config.game.id, tokenizer))
    slot = games(0, lambda episode: SEED, evaluation=False)
    slot.next_episode()
    turns = [slot.play(Reply(text=line))[0] for line in lines]
    slot.close()
    return turns


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


REPLIES = {
    "action": ["turn left", "jump", "Go forward.", "turn right", "I wonder", "drop"],
    "cot": [
        "THINK: to the left. ACTION: turn left",
        "ACTION: jump",
        "hm",
        "On. ACTION: Go Forward",
        "drop",
        "turn left",
    ],
}


@pytest.mark.parametrize("keep", ["action", "newest:1"])
@pytest.mark.parametrize("style", ["action", "cot"])
def test_what_is_shown_is_what_a_model_gets_in_training(monkeypatch, style, keep):
    prompt = {"style": style, "history": 2, "keep": keep}
    config = Config(name="run", game={"id": "babyai/goto", "options": {"num_dists": 3}}, prompt=prompt)
    turns = in_training(config, REPLIES[style])
    assert {len(turn.messages) for turn in turns} == {2, 4, 6}
    assert {turn.valid for turn in turns} == {True, False}
    assert shown(played_by(config, monkeypatch, [*REPLIES[style], "q"]))[:-1] == [turn.messages for turn in turns]


def with_tokenizer(folder, budget):
    tiny.tokenizer().save_pretrained(folder)
    prompt = {"style": "action", "history": 2, "max_prompt_tokens": budget}
    return Config(name="run", game={"id": "babyai/goto"}, model={"path": str(folder)}, prompt=prompt)


def test_the_models_tokenizer_drops_and_cleans_as_in_training(monkeypatch, tmp_path):
    lines = ["<|im_end|> turn left", "turn right", "turn left", "turn right"]
    roomy = in_training(with_tokenizer(tmp_path, 10_000), lines, load_tokenizer(str(tmp_path)))
    config = with_tokenizer(tmp_path, max(len(turn.prompt_ids) for turn in roomy) - 1)
    turns = in_training(config, lines, load_tokenizer(str(tmp_path)))
    assert max(turn.dropped_turns for turn in turns) == 1
    screen = played_by(config, monkeypatch, [*lines, "q"])
    assert shown(screen)[:-1] == [turn.messages for turn in turns]
    assert "without the oldest 1 turn." in screen
    assert "< |im_end|> turn left" in screen


def test_where_a_models_episode_ends_for_want_of_room_so_does_a_persons(monkeypatch, tmp_path):
    screen = played_by(with_tokenizer(tmp_path, 20), monkeypatch, [])
    assert "without any past turn: here a model's episode ends." in screen
    assert screen.splitlines()[-1] == "Stopped after 0 turns, return 0."


def test_a_model_that_is_not_here_is_not_fetched(monkeypatch):
    config = Config(name="run", game={"id": "babyai/goto"}, model={"path": "org/model"})
    assert "model.path = org/model: no tokenizer there" in played_by(config, monkeypatch, ["q"])


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


@pytest.mark.parametrize(
    ("unlocked", "line"),
    [(["coal"], "1 of 2 achievements: coal."), (["coal", "a \x1b[2Jsapling"], "2 of 2"), ([], "0 of 2 achievements.")],
)
def test_what_was_unlocked_is_told_at_the_end(monkeypatch, hostile, unlocked, line):
    info = {"success": None, "progression": 0.5, "achievements": unlocked}
    monkeypatch.setattr(Hostile, "achievements", ("a \x1b[2Jsapling", "coal"))
    monkeypatch.setattr(Hostile, "step", lambda self, action: (Observation("end"), 0.0, True, False, info))
    screen = played(monkeypatch, ["anything"], game_id="hostile")
    assert line in screen.splitlines()[-1]
    assert "\x1b" not in screen


def test_the_game_is_closed_when_it_breaks(monkeypatch, hostile):
    monkeypatch.setattr(Hostile, "step", lambda self, action: 1 / 0)
    with pytest.raises(UserError, match=r"hostile: the game broke: ZeroDivisionError: division by zero \(test_play"):
        played(monkeypatch, ["anything"], game_id="hostile")
    assert Hostile.closed == 1


def test_a_game_that_does_not_begin_is_one_line_about_the_seed_that_was_asked_for(monkeypatch, hostile):
    seeds = []
    monkeypatch.setattr(Hostile, "reset", lambda self, *, seed: seeds.append(seed) or 1 / 0)
    with pytest.raises(UserError, match="hostile: the game broke: reset: raised: ZeroDivisionError"):
        played(monkeypatch, [], game_id="hostile")
    assert (seeds, Hostile.closed) == ([SEED], 1)


@pytest.mark.parametrize("change", [{"game_id": "babyai/gto"}, {"style": "no-such-style"}, {"num_dist": 3}])
def test_mistakes_are_the_users(monkeypatch, change):
    with pytest.raises(UserError):
        played(monkeypatch, ["q"], **change)


def test_what_a_game_leaves_unsaid_at_its_end_is_no_mistake(monkeypatch, hostile):
    info = {"success": "yes", "progression": None}
    monkeypatch.setattr(Hostile, "step", lambda self, action: (Observation("end"), 0.0, True, False, info))
    assert "success after 1 turn, return 0, progression 0%." in played(monkeypatch, ["anything"], game_id="hostile")
