"""Fixed-turn batches: exactly so many turns, games that live on, cuts that know the next prompt; and the players."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from games import WORDS, Player, make_slot, reply, right, tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.agents import ModelAgent, RandomAgent, ScriptedAgent
from agentrl.collected_metrics import collected_metrics
from agentrl.collector import Collected, Collector
from agentrl.engines.base import Reply, Request, Sampling
from agentrl.episode import Episode, GameBroken, GameSlot
from agentrl.errors import UserError
from agentrl.ranks import Ranks
from agentrl.records import Turn, TurnBatch
from agentrl.seeding import training_seed
from agentrl.stopping import Interrupted

GUESSES = Player(lambda slot: WORDS[(slot.index + slot.turn) % 3])


def make_slots(count: int, **settings: Any) -> list[GameSlot]:
    return [make_slot(i, lambda episode, i=i: training_seed(0, i, episode), **settings) for i in range(count)]


def collector(count: int = 3, agent: Any = GUESSES, **settings: Any) -> Collector:
    return Collector(make_slots(count, **settings), agent)


@given(
    envs=st.integers(1, 4),
    turns_per_env=st.integers(1, 6),
    options=st.fixed_dictionaries(
        {"turns": st.integers(1, 7), "ending": st.sampled_from(["terminated", "truncated", "both"])},
        optional={
            "breaks": st.sampled_from(["step", "nan", "facts"]),
            "break_turn": st.integers(1, 3),
            "break_every": st.integers(1, 3),
            "growth": st.sampled_from([3, 9]),
        },
    ),
)
@settings(max_examples=25, deadline=None)
def test_batches_have_a_fixed_number_of_turns_and_games_live_on(
    envs: int, turns_per_env: int, options: dict[str, Any]
) -> None:
    games = collector(envs, options=options, prompt={"max_prompt_tokens": 200})
    batches = [games.collect(turns_per_env) for _ in range(3)]
    by_slot: dict[int, list[Turn]] = {i: [] for i in range(envs)}
    for batch in batches:
        assert [turn.slot for turn in batch.turns] == [i for i in range(envs) for _ in range(turns_per_env)]
        for turn in batch.turns:
            by_slot[turn.slot].append(turn)
        assert len(TurnBatch.from_turns(batch.turns)) == envs * turns_per_env
    for turns in by_slot.values():
        for before, after in pairwise(turns):
            ended = bool(before.terminated or before.truncated or before.error)
            following = (before.episode + 1, 0) if ended else (before.episode, before.turn + 1)
            assert (after.episode, after.turn) == following
    for batch, later in pairwise(batches):
        for i in range(envs):
            last, first = batch.turns[(i + 1) * turns_per_env - 1], later.turns[i * turns_per_env]
            if last.terminated or last.error:
                assert last.next_prompt_ids == []
            elif last.truncated:
                assert last.next_prompt_ids != []
                assert last.next_prompt_ids != first.prompt_ids
            else:
                assert last.next_prompt_ids == first.prompt_ids
    for batch in batches:
        for i, turn in enumerate(batch.turns):
            cut = (i + 1) % turns_per_env == 0 and not turn.error
            assert bool(turn.next_prompt_ids) == (not turn.terminated and (cut or turn.truncated))


def test_c11_the_batch_cut_bootstraps_from_the_next_batchs_first_prompt() -> None:
    games = collector(2, options={"turns": 50})
    first, second = games.collect(3), games.collect(3)
    assert [bool(turn.next_prompt_ids) for turn in first.turns] == [False, False, True] * 2
    for i in range(2):
        assert first.turns[3 * i + 2].next_prompt_ids == second.turns[3 * i].prompt_ids
        assert [turn.turn for turn in second.turns[3 * i : 3 * i + 3]] == [3, 4, 5]


def test_c11_a_time_limit_inside_a_batch_bootstraps_from_the_final_scene_not_from_the_next_episodes() -> None:
    turns = collector(2, options={"turns": 2, "ending": "truncated"}).collect(5).turns
    assert [turn.truncated for turn in turns] == [False, True, False, True, False] * 2
    for turn in filter(lambda turn: turn.truncated, turns):
        assert "Turn 2." in tokenizer().decode(turn.next_prompt_ids)
        assert "Turn 0." not in tokenizer().decode(turn.next_prompt_ids)


def test_episodes_are_reported_in_the_batch_they_end_in() -> None:
    games = collector(2, Player(right), options={"turns": 4})
    assert [len(games.collect(3).episodes) for _ in range(4)] == [0, 2, 2, 2]


def test_c18_one_game_breaks_and_the_others_play_on() -> None:
    slots = [make_slot(i, options={"breaks": "step"} if i == 1 else {"turns": 9}) for i in range(3)]
    batch = Collector(slots, Player(right)).collect(8)
    errors = [(turn.slot, turn.turn) for turn in batch.turns if turn.error]
    assert errors == [(1, 1)] * 4
    assert len(batch.turns) == 24
    assert len([e for e in batch.episodes if e.error]) == 4
    flat = TurnBatch.from_turns(batch.turns)
    assert flat.error_N.sum() == 4
    assert (flat.reply_lengths_N[flat.error_N] == 0).all()


def test_c18_resets_that_failed_are_among_the_episodes() -> None:
    options = {"breaks": "reset", "break_turn": 0, "break_every": 2, "turns": 2}
    batch = Collector([make_slot(options=options)], Player(right)).collect(4)
    assert [(e.seed, e.error is None) for e in batch.episodes] == [(1, True), (2, False), (3, True), (4, False)]


def test_c18_a_game_that_never_starts_stops_the_collection() -> None:
    with pytest.raises(GameBroken, match="3 times in a row"):
        collector(1, options={"breaks": "reset", "break_turn": 0})


def test_c22_an_overlong_prompt_is_not_sent_to_the_player() -> None:
    asked: list[int] = []

    def says(slot: GameSlot) -> str:
        asked.append(len(slot.prompt.ids))
        assert not slot.overflow
        return right(slot)

    games = collector(2, Player(says), options={"growth": 40}, prompt={"max_prompt_tokens": 100})
    batch = games.collect(4)
    assert [turn.error for turn in batch.turns] == [None, "prompt_too_long"] * 4
    assert [turn.episode for turn in batch.turns] == [0, 0, 1, 1] * 2
    assert len(asked) == 4
    # The turn before the broken one is no cut: its bootstrap is the value of the broken turn's own prompt.
    assert not any(turn.next_prompt_ids for turn in batch.turns)
    assert all(turn.prompt_ids for turn in batch.turns)


def test_a_stop_between_two_rounds_leaves_the_boundary_where_it_was() -> None:
    games = collector(3, options={"turns": 50})
    games.collect(2)
    games.mark_boundary()
    expected = [slot.prompt.ids for slot in games.slots]
    stops = iter([False, False, True])
    with pytest.raises(Interrupted):
        games.collect(5, lambda: next(stops))
    resumed = Collector(make_slots(3, options={"turns": 50}), GUESSES, games.boundary)
    assert resumed.inexact == []
    assert [slot.prompt.ids for slot in resumed.slots] == expected
    assert [slot.turn for slot in resumed.slots] == [2, 2, 2]


def test_c25_a_resumed_collection_goes_on_turn_by_turn_as_the_first_would_have() -> None:
    settings: dict[str, Any] = {"options": {"turns": 5, "breaks": "step", "break_every": 3}, "prompt": {"history": 2}}
    games = collector(4, **settings)
    games.collect(7)
    games.mark_boundary()
    resumed = Collector(make_slots(4, **settings), GUESSES, games.boundary)
    assert resumed.collect(9).turns == games.collect(9).turns


def test_a_game_of_chance_is_named_when_it_does_not_replay() -> None:
    options = {"chance": True, "turns": 50}
    games = collector(2, options=options)
    games.collect(3)
    games.mark_boundary()
    assert Collector(make_slots(2, options=options), GUESSES, games.boundary).inexact == ["fake/echo"]


def test_metrics_of_a_batch() -> None:
    def turn(**fields: Any) -> Turn:
        return Turn("fake/echo", 0, 0, 0, 0, prompt_ids=[1] * 10, reply_ids=[1, 2, 1, 1], **fields)

    def episode(game_return: float, length: int, success: bool | None, error: str | None = None) -> Episode:
        return Episode(
            "fake/echo",
            0,
            length,
            game_return,
            success,
            progression=0.5 if error is None else None,
            error=error,
            achievements=("red", "blue")[: length // 4],
        )

    turns = [
        *(turn(), turn(valid=False), turn(finish_reason="length"), turn(error="hung: it broke", dropped_turns=3)),
        *(turn(), turn(), turn(), turn(error="prompt_too_long")),
    ]
    ended = [episode(2.0, 4, True), episode(1.0, 8, False), episode(9.0, 99, None, "hung: it broke")]
    metrics = collected_metrics(Collected(turns, ended, {}), Ranks())
    assert metrics == {
        "turns/invalid_fraction": 0.125,
        "turns/length_stop_fraction": 0.125,
        "turns/error_fraction": 0.25,
        "turns/prompt_too_long_fraction": 0.125,
        "turns/dropped_fraction": 0.125,
        "turns/prompt_tokens": 10.0,
        "turns/reply_tokens": 4.0,
        "turns/repetition": 0.5,
        "turns/error_raised_fraction": 0.0,
        "turns/error_crashed_fraction": 0.0,
        "turns/error_hung_fraction": 0.125,
        "turns/error_memory_fraction": 0.0,
        "episode/count": 2.0,
        "episode/errors": 1.0,
        "episode/return": 1.5,
        "episode/length": 6.0,
        "episode/success": 0.5,
        "episode/progression": 0.5,
        "episode/achievements": 1.5,
    }


def test_metrics_leave_out_what_no_episode_said() -> None:
    turns = [Turn("fake/echo", 0, 0, 0, 0, prompt_ids=[1], reply_ids=[1])]
    assert "episode/return" not in collected_metrics(Collected(turns, [], {}), Ranks())
    silent = Episode("fake/echo", 0, 1, 3.0, None, None, None)
    metrics = collected_metrics(Collected(turns, [silent], {}), Ranks())
    assert metrics["episode/return"] == 3.0
    assert "episode/success" not in metrics
    assert "episode/progression" not in metrics
    assert "episode/achievements" not in metrics


def begun(count: int = 1, **settings: Any) -> list[GameSlot]:
    slots = make_slots(count, **settings)
    for slot in slots:
        slot.next_episode()
    return slots


def test_the_random_player_draws_each_legal_action_as_often() -> None:
    agent, counts = RandomAgent(seed=0), Counter[str]()
    (slot,) = begun(options={"turns": 900})
    for _ in range(900):
        (answer,) = agent.act([slot])
        counts[answer.text] += 1
        slot.play(answer)
    assert set(counts) == set(WORDS)
    assert all(abs(n - 300) < 60 for n in counts.values())  # 4 standard deviations of 14.1


def test_the_random_player_keeps_to_what_is_legal_and_to_its_key() -> None:
    slots = begun(8, options={"narrow": True})
    together = [answer.text for answer in RandomAgent(seed=1).act(slots)]
    assert all(text in (slot.legal or ()) for text, slot in zip(together, slots, strict=True))
    assert [RandomAgent(seed=1).act([slot])[0].text for slot in slots] == together
    assert any(RandomAgent(seed=2).act([slot])[0].text != text for slot, text in zip(slots, together, strict=True))


def test_free_text_has_no_random_player() -> None:
    with pytest.raises(UserError, match=r"evaluation\.random: false"):
        RandomAgent(0).act(begun(options={"free_text": True}))


def test_the_scripted_player_wins_each_episode_anew() -> None:
    agent = ScriptedAgent()
    batch = Collector(make_slots(2), agent).collect(12)
    assert [e.success for e in batch.episodes] == [True] * 6
    # A second set of slots of the same numbers: the players of the first games must not answer for them.
    batch = Collector(make_slots(2), agent).collect(4)
    assert [e.success for e in batch.episodes] == [True] * 2


def test_a_game_without_scripted_player_is_named() -> None:
    with pytest.raises(UserError, match=r"game\.id = fake/echo: this game has no scripted player"):
        ScriptedAgent().act(begun(options={"player": False}))


class Requests:
    """An engine that keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        self.requests += requests
        return [reply("red") for _ in requests]


def test_the_model_is_asked_for_a_draw_of_its_own_each_turn() -> None:
    engine = Requests()
    sampling = Sampling(0.7, 5)
    games = Collector(make_slots(3, options={"narrow": True}), ModelAgent(engine, sampling, seed=4))
    batch = games.collect(9)
    by_round = [batch.turns[i * 9 + t] for t in range(9) for i in range(3)]
    assert [r.prompt_ids for r in engine.requests] == [t.prompt_ids for t in by_round]
    assert all(r.sampling is sampling and len(r.legal or ()) == 2 for r in engine.requests)
    assert len({r.seed for r in engine.requests}) == 27
    seeds = {r.seed for r in engine.requests}
    for other in (ModelAgent(engine, sampling, seed=5), ModelAgent(engine, sampling, seed=4, stream="evaluation")):
        engine.requests.clear()
        Collector(make_slots(3), other).collect(9)
        assert not seeds & {r.seed for r in engine.requests}


@given(envs=st.integers(1, 4), turns=st.integers(1, 5), breaks=st.sampled_from(["", "step"]))
@settings(max_examples=20, deadline=None)
def test_whole_episodes_each_game_one(envs: int, turns: int, breaks: str) -> None:
    options = {"turns": turns, "breaks": breaks, "break_turn": 2, "break_every": 2}
    games = collector(envs, options=options)
    for number in range(3):
        batch = games.collect_episodes()
        assert [(turn.slot, turn.turn) for turn in batch.turns] == sorted((t.slot, t.turn) for t in batch.turns)
        assert {(turn.slot, turn.episode) for turn in batch.turns} == {(i, number) for i in range(envs)}
        assert len(batch.episodes) == envs
        ends = [turn for turn in batch.turns if turn.terminated or turn.error]
        assert [turn.slot for turn in ends] == list(range(envs))
        assert {slot.turn for slot in games.slots} == {0}


def test_games_of_a_group_stay_together_where_one_could_not_be_reset() -> None:
    """Slot 1 fails to reset once; then all go on with the episode that it got."""
    games = collector(3)
    games.collect_episodes()
    slot, begin, failed = games.slots[1], games.slots[1]._begin, []

    def fail_once(seed: int) -> None:
        if not failed:
            failed.append(seed)
            raise OSError("no display")
        begin(seed)

    slot._begin = fail_once  # type: ignore[method-assign]
    batch = games.collect_episodes()
    (error,) = [episode.error for episode in batch.episodes if episode.error]
    assert error.startswith("reset: raised: OSError: no display")
    assert {slot.episode for slot in games.slots} == {3}


def test_stopped_in_whole_episodes() -> None:
    with pytest.raises(Interrupted):
        collector().collect_episodes(lambda: True)
