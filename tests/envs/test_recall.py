"""The recall game: what is told, asked and paid, turn by turn."""

import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env as gymnasiums_check

from agentrl.check_env import FAILED, check_env
from agentrl.envs import GameError, make
from agentrl.envs.recall import WORDS


def test_an_episode_to_the_letter():
    game = make("recall", length=4, words=2)
    observation, info = game.reset(seed=1)
    word = observation.scene.removeprefix("The word is ").removesuffix(".")
    assert word in WORDS[:2]
    assert info == {"legal_actions": ["go on"]}
    assert [game.step("go on")[0].scene for _ in range(2)] == ["Not yet.", "Not yet."]
    observation, reward, terminated, truncated, info = game.step("go on")
    assert (observation.scene, info["legal_actions"]) == ("Which word was it?", list(WORDS[:2]))
    assert (reward, terminated, truncated) == (0.0, False, False)
    observation, reward, terminated, truncated, info = game.step(word)
    assert (observation.scene, reward, terminated, truncated) == ("Right.", 1.0, True, False)
    assert info == {"success": True, "progression": 1.0}
    with pytest.raises(ResetNeeded):
        game.step(word)


def test_the_wrong_word_is_told_the_right_one():
    game = make("recall", length=2)
    word = game.reset(seed=0)[0].scene.split()[-1].rstrip(".")
    assert game.step("go on")[0].scene == "Which word was it?"
    wrong = next(other for other in WORDS[:4] if other != word)
    observation, reward, terminated, _, info = game.step(wrong)
    assert (observation.scene, reward, terminated, info["success"]) == (f"No: {word}.", 0.0, True, False)


def test_every_word_comes_up_and_the_scripted_player_knows_it():
    game, told = make("recall", length=3), set()
    for seed in range(40):
        told.add(game.reset(seed=seed)[0].scene)
        player, over = game.scripted_player(), False
        while not over:
            _, reward, over, _, _ = game.step(player())
        assert reward == 1.0
    assert len(told) == 4


@pytest.mark.parametrize("options", [{"length": 1}, {"words": 1}, {"words": 9}, {"length": "4"}])
def test_options_out_of_range(options):
    with pytest.raises(GameError, match=next(iter(options))):
        make("recall", **options)


@pytest.mark.filterwarnings("ignore")
def test_gymnasium_and_check_env_find_nothing():
    gymnasiums_check(make("recall"), skip_render_check=True)
    found = check_env("recall")
    assert [row for row in found if row.state == FAILED] == []
