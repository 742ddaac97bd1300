"""Held-out episodes: these seeds and no others, each to its end, whoever finishes first; and what is said of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from games import WORDS, Player, make_slot, recipe, right
from hypothesis import given
from hypothesis import strategies as st

from agentrl.agents import RandomAgent, ScriptedAgent
from agentrl.assembly import assemble
from agentrl.episode import Episode, GameSlot
from agentrl.evaluation import evaluate, summarise
from agentrl.seeding import HELD_OUT, held_out_seed, key, training_seed
from agentrl.statistics import bootstrap_mean, wilson
from agentrl.stopping import Interrupted

GUESSES = Player(lambda slot: WORDS[(slot.index + slot.turn) % 3])


class Games:
    """Makes slots as a run does, and counts those that are open. Odd episodes are long, even ones short."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.options = settings.pop("options", {})
        self.slots: list[GameSlot] = []
        self.open = self.most_open = 0

    def __call__(self, index: int, seeds: Callable[[int], int | None], *, evaluation: bool) -> GameSlot:
        assert evaluation
        options = {"turns": 9 if index % 2 else 2} | self.options
        slot = make_slot(index, seeds, options=options, **self.settings)
        close = slot.close

        def counted() -> None:
            self.open -= slot._game is not None
            close()

        slot.close = counted  # type: ignore[method-assign]
        self.slots.append(slot)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        return slot


@given(run_seed=st.integers(0, 2**32), slot=st.integers(0, 2**20), episode=st.integers(0, 2**20))
def test_training_never_sees_a_held_out_seed(run_seed: int, slot: int, episode: int) -> None:
    assert 0 <= training_seed(run_seed, slot, episode) < HELD_OUT <= held_out_seed(episode)
    assert key("imitation", run_seed, episode) % HELD_OUT < HELD_OUT


def test_seeds_are_for_ever() -> None:
    """Checkpoints and published figures hang on them."""
    assert [held_out_seed(i) for i in range(3)] == [2**30, 2**30 + 1, 2**30 + 2]
    seeds = [training_seed(0, 0, 0), training_seed(0, 0, 1), training_seed(0, 1, 0), training_seed(1, 0, 0)]
    assert seeds == [821328062, 96009813, 609976258, 743699524]


@pytest.mark.parametrize("num_envs", [1, 3, 8, 64])
def test_exactly_these_seeds_are_played_each_to_its_end(num_envs: int) -> None:
    games, finished = Games(), []
    episodes = evaluate(GUESSES, games, range(10), num_envs, finished.append)
    assert [e.seed for e in episodes] == [held_out_seed(i) for i in range(10)]
    assert [e.length for e in episodes] == [2, 9] * 5
    assert sorted(e.seed for e in finished) == [held_out_seed(i) for i in range(10)]
    assert games.most_open == min(num_envs, 10)
    assert games.open == 0
    assert len(games.slots) == 10
    assert episodes == evaluate(GUESSES, Games(), range(10), 1)


@pytest.mark.parametrize("num_envs", [3, 8])
def test_how_many_play_at_a_time_does_not_change_the_random_player(num_envs: int) -> None:
    alone = evaluate(RandomAgent(0), Games(), range(12), 1)
    assert evaluate(RandomAgent(0), Games(), range(12), num_envs) == alone
    assert len({e.game_return for e in alone}) > 1


def test_how_many_play_at_a_time_does_not_change_the_models_play(tmp_path: Path) -> None:
    parts = assemble(recipe(tmp_path, game={"options": {"ending": "both"}}), None, torch.device("cpu"))
    outcomes = [
        [
            (e.seed, [turn.reply_ids for turn in e.turns], e.game_return)
            for e in evaluate(parts.agent("evaluation"), Games(keep_turns=True), range(9), num_envs)
        ]
        for num_envs in (1, 3, 8)
    ]
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_numbers_may_be_any_share_of_the_whole() -> None:
    whole = evaluate(GUESSES, Games(), range(8), 3)
    shares = [evaluate(GUESSES, Games(), range(rank, 8, 3), 3) for rank in range(3)]
    assert sorted((e for share in shares for e in share), key=lambda e: e.seed) == whole
    assert evaluate(GUESSES, Games(), range(0), 3) == []


def test_errors_are_counted_not_left_out() -> None:
    games = Games(options={"breaks": "step", "break_every": 2})
    episodes = evaluate(Player(right), games, range(6), 4)
    assert [e.error is not None for e in episodes] == [True, False] * 3
    assert games.open == 0
    summary = summarise(episodes)
    assert (summary["episodes"], summary["errors"]) == (6, 3)
    assert summary["success"] == 0.5
    assert summary["progression"] == 0.5
    assert summary["length"] == (3 * 2 + 3 * 9) / 6


def test_a_reset_that_fails_is_an_episode_with_an_error() -> None:
    """No other seed takes its place."""
    games = Games(options={"breaks": "reset", "break_turn": 0, "break_every": 2})
    episodes = evaluate(Player(right), games, range(4), 2)
    assert [e.seed for e in episodes] == [held_out_seed(i) for i in range(4)]
    assert [(e.error or "").partition(":")[0] for e in episodes] == ["reset", "", "reset", ""]
    assert games.open == 0


@pytest.mark.parametrize("rounds", [0, 3])
def test_a_stop_closes_the_games(rounds: int) -> None:
    games, stops = Games(), iter([False] * rounds + [True])
    with pytest.raises(Interrupted):
        evaluate(GUESSES, games, range(10), 4, stop=lambda: next(stops))
    assert games.open == 0


def test_kept_episodes_hold_their_turns() -> None:
    episodes = evaluate(Player(right), Games(keep_turns=True), range(2), 2)
    assert [[turn.turn for turn in e.turns] for e in episodes] == [[0, 1], list(range(9))]


def test_the_scripted_player_wins() -> None:
    assert summarise(evaluate(ScriptedAgent(), Games(), range(5), 2))["success"] == 1.0


def episode(game_return: float, success: bool | None, progression: float | None = None, **fields: Any) -> Episode:
    return Episode(
        "fake/echo", 0, fields.pop("length", 10), game_return, success, progression, **{"error": None, **fields}
    )


def test_figures_of_episodes() -> None:
    returns = [1.0, 0.0, 4.0, 0.5]
    episodes = [
        episode(1.0, True, 1.0, invalid_turns=2),
        episode(0.0, False, 0.25),
        episode(4.0, True, 1.0, length=30),
        episode(0.5, None, error="raised: it broke"),
    ]
    assert summarise(episodes) == {
        "episodes": 4,
        "success": 0.5,
        "success_ci95": list(wilson(2, 4)),
        "return": 1.375,
        "return_ci95": list(bootstrap_mean(returns)),
        "progression": 0.5625,
        "length": 15.0,
        "lengths": [10, 10, 30, 10],
        "invalid_fraction": 2 / 60,
        "errors": 1,
    }


def test_achievements_of_episodes() -> None:
    """Rates 3/4, 1/4 and 0: of three, a mean of 1; those that broke count, with what they had or with nothing."""

    def achieved(*names: str, **fields: Any) -> Episode:
        return episode(0.0, None, achievements=names, achievable=("red", "green", "blue"), **fields)

    episodes = [
        achieved("red"),
        achieved("red", "green"),
        achieved("red", error="raised: it broke"),
        episode(0.0, None, error="reset: raised: it broke"),
    ]
    summary = summarise(episodes)
    assert summary["achievement_rates"] == {"red": 0.75, "green": 0.25, "blue": 0.0}
    assert summary["achievements"] == 1.0
    assert summary["achievements_ci95"] == list(bootstrap_mean([1, 2, 1, 0]))
    assert summary["score"] == pytest.approx((76 * 26 * 1) ** (1 / 3) - 1)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_a_played_game_has_its_achievements_summarised() -> None:
    summary = summarise(evaluate(Player(right), Games(options={"achieving": "end", "turns": 1}), range(6), 2))
    assert summary["achievements"] == 1.0  # each shows one word, and it is repeated
    assert sum(summary["achievement_rates"].values()) == pytest.approx(1.0)  # type: ignore[attr-defined]


def test_a_game_without_achievements_has_no_figures_of_them() -> None:
    summary = summarise([episode(1.0, None)])
    assert not {"achievements", "achievements_ci95", "achievement_rates", "score"} & summary.keys()


def test_a_game_without_success_or_progression_has_null() -> None:
    summary = summarise([episode(1.0, None), episode(2.0, None, error="raised: it broke")])
    assert (summary["success"], summary["success_ci95"], summary["progression"]) == (None, None, None)
    assert summary["return"] == 1.5


def test_figures_survive_json() -> None:
    summary = summarise(evaluate(GUESSES, Games(options={"success": False}), range(3), 2))
    assert summary["success"] is None
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
