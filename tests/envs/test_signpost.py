"""The delayed reward: who earns it, when it comes, and what is told on the way."""

import warnings

import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from agentrl.config import PromptConfig
from agentrl.envs import GameError, make
from agentrl.envs.signpost import PLACES, Signpost
from agentrl.memory import make_memory
from agentrl.prompting import Prompter


def walk(game, seed, first, then=("walk on",)):
    """(scenes, rewards, last info) of an episode that begins with `first(scene)` and goes on with `then` in turn."""
    observation, info = game.reset(seed=seed)
    scenes, rewards, action = [observation.scene], [], first(observation.scene)
    assert info["legal_actions"] == [f"{place} road" for place in PLACES[: len(game.actions) - 2]]
    while True:
        observation, reward, terminated, truncated, info = game.step(action)
        scenes.append(observation.scene)
        rewards.append(reward)
        assert not truncated
        if terminated:
            return scenes, rewards, info
        assert info == {"legal_actions": ["walk on"] if len(rewards) % game.bench else ["walk on", "rest"]}
        action = then[len(rewards) % len(then)]


def right_road(scene):
    return scene.removeprefix("Letter for the ").partition(".")[0] + " road"


def test_gymnasiums_own_checks_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*not have.*render_modes.*")
        check_env(Signpost(length=5), skip_render_check=True)


@given(
    seed=st.integers(0, 2**31),
    length=st.integers(2, 40),
    choices=st.integers(2, 6),
    reminder=st.booleans(),
    bench=st.integers(1, 9),
)
def test_the_right_road_is_paid_at_the_last_turn_whatever_is_done_between(seed, **options):
    game, length = make("signpost", **options), options["length"]
    _, rewards, info = walk(game, seed, right_road, ("rest", "walk on", "mill road", "sing"))
    assert rewards == [0.0] * (length - 1) + [1.0]
    assert info == {"success": True, "progression": 1.0}
    assert game.max_turns == length


@pytest.mark.parametrize("reminder", [False, True])
def test_every_other_road_and_whatever_is_no_road_is_not_paid(reminder):
    game = make("signpost", length=3, choices=3, reminder=reminder)
    for wrong in ("walk on", "rest", "abbey road", ""):
        assert walk(game, 7, lambda scene, wrong=wrong: wrong)[1:] == (
            [0.0] * 3,
            {"success": False, "progression": 0.0},
        )
    roads = [f"{place} road" for place in PLACES[:3]]
    paid = [walk(game, 7, lambda scene, road=road: road)[1][-1] for road in roads]
    assert sorted(paid) == [0.0, 0.0, 1.0]


def test_without_a_reminder_the_walk_looks_the_same_whatever_was_chosen_and_asked():
    game = make("signpost", length=50)
    walks = {
        tuple(walk(game, seed, lambda scene, place=place: f"{place} road")[0][1:-1])
        for seed in range(8)
        for place in PLACES
    }
    assert walks == {tuple(f"Mile {turn}." + " A bench." * (turn % 10 == 0) for turn in range(1, 50))}


def test_with_a_reminder_every_scene_tells_what_the_choice_was_worth():
    game = make("signpost", length=6, reminder=True)
    for first, road in ((right_road, "the right"), (lambda scene: "walk on", "a wrong")):
        scenes, _, _ = walk(game, 0, first)
        assert scenes[1:-1] == [f"Mile {turn}. This is {road} road." for turn in range(1, 6)]


def test_a_seed_fixes_the_letter_and_all_letters_come():
    one, other = Signpost(), Signpost()
    for _ in range(3):
        other.reset(seed=99)
    cues = [one.reset(seed=seed)[0].scene for seed in range(60)]
    assert cues == [other.reset(seed=seed)[0].scene for seed in range(60)]
    assert {right_road(cue) for cue in cues} == {f"{place} road" for place in PLACES[:3]}


def test_the_scripted_player_is_right():
    for seed in range(10):
        game = Signpost(length=4, choices=6)
        game.reset(seed=seed)
        player = game.scripted_player()
        rewards = [game.step(player())[1] for _ in range(4)]
        assert rewards == [0.0, 0.0, 0.0, 1.0]


def test_a_finished_episode_takes_no_further_step():
    game = Signpost(length=2)
    with pytest.raises(ResetNeeded):
        game.step("walk on")
    walk(game, 0, right_road)
    with pytest.raises(ResetNeeded):
        game.step("walk on")


@pytest.mark.parametrize(
    "option",
    [{"length": 1}, {"length": 2.0}, {"choices": 7}, {"choices": 1}, {"choices": True}, {"bench": 0}, {"reminder": 1}],
)
def test_options_that_are_none_are_named(option):
    (name,) = option
    with pytest.raises(GameError, match=rf"game\.options\.{name} = "):
        make("signpost", **option)


def test_every_style_words_it():
    game = make("signpost")
    observation, info = game.reset(seed=0)
    for style in ("action", "cot", "terse"):
        config = PromptConfig(style=style)
        prompter = Prompter(config, "signpost", None)
        messages = prompter.messages(game, observation, make_memory(config), legal=info["legal_actions"])
        assert observation.scene in messages[-1]["content"]
        assert (style == "terse") == ("mile after mile" not in messages[0]["content"])
