"""One game in its slot: what a turn records, who owns the reset, and what happens when the game breaks."""

import json
from typing import Any

import pytest
from games import Echo, make_slot, reply, right

from agentrl import faults
from agentrl.episode import RESET_TRIES, Episode, GameBroken, GameSlot
from agentrl.errors import UserError
from agentrl.memory import PastTurn
from agentrl.records import Turn


@pytest.fixture(autouse=True)
def fresh_log() -> None:
    faults._told.clear()


WRONG = {"red": "green", "green": "blue", "blue": "red"}


def begun(**settings: Any) -> GameSlot:
    slot = make_slot(**settings)
    assert slot.next_episode()
    return slot


def play(slot: GameSlot, says: str | None = None) -> tuple[Turn, Episode | None]:
    """One turn: `says`, or the right word."""
    return slot.play(reply(right(slot) if says is None else says))


def play_out(slot: GameSlot, limit: int = 50) -> tuple[list[Turn], Episode]:
    turns = []
    for _ in range(limit):
        turn, episode = play(slot)
        turns.append(turn)
        if episode is not None:
            return turns, episode
    raise AssertionError("the episode did not end")


def test_a_turn_records_what_was_asked_sampled_done_and_won() -> None:
    slot = begun(index=3, seeds=lambda episode: 11)
    ids, messages, word = slot.prompt.ids, slot.prompt.messages, right(slot)
    turn, episode = play(slot)
    assert episode is None
    assert (turn.slot, turn.episode, turn.turn, turn.seed, turn.game) == (3, 0, 0, 11, "fake/echo")
    assert (turn.prompt_ids, turn.messages) == (ids, messages)
    assert (turn.reply_ids, turn.reply_logprobs, turn.reply_legal) == ([40, 41], [-0.5, 0.0], [(), (41,)])
    assert (turn.reply_text, turn.action, turn.valid, turn.finish_reason) == (word, word, True, "stop")
    assert (turn.reward, turn.terminated, turn.truncated, turn.error) == (1.0, False, False, None)
    second, _ = play(slot)
    assert second.turn == 1
    assert second.prompt_ids != ids


def test_c10_a_terminated_episode_has_no_next_prompt() -> None:
    turns, episode = play_out(begun(options={"ending": "terminated"}))
    assert [(t.terminated, t.truncated) for t in turns] == [(False, False)] * 3 + [(True, False)]
    assert not any(t.next_prompt_ids for t in turns)
    assert (episode.length, episode.game_return, episode.success, episode.progression) == (4, 4.0, True, 1.0)


def test_c11_the_final_observation_of_a_time_limit_reaches_the_bootstrap() -> None:
    slot = begun(options={"ending": "truncated"})
    turns, _ = play_out(slot)
    assert [(t.terminated, t.truncated) for t in turns] == [(False, False)] * 3 + [(False, True)]
    assert [bool(t.next_prompt_ids) for t in turns] == [False] * 3 + [True]
    final = slot.observation.scene
    assert final.startswith("Turn 4.")
    # The prompt that would be the fifth turn's: the final observation, the last turn remembered.
    assert turns[-1].next_prompt_ids == slot.prompter.build(slot.game, slot.observation, slot.memory, slot.legal).ids
    assert slot.memory.recall()[-1].scene == turns[-1].messages[-1]["content"].splitlines()[0]
    slot.next_episode()
    assert slot.prompt.ids != turns[-1].next_prompt_ids


def test_c10_terminated_at_the_time_limit_is_terminated() -> None:
    turns, _ = play_out(begun(options={"ending": "both"}))
    assert (turns[-1].terminated, turns[-1].truncated) == (True, True)
    assert turns[-1].next_prompt_ids == []


def test_a_game_that_forgets_its_time_limit_is_stopped_at_it() -> None:
    turns, episode = play_out(begun(options={"ending": "never", "turns": 3}))
    assert [(t.terminated, t.truncated) for t in turns] == [(False, False)] * 2 + [(False, True)]
    assert turns[-1].next_prompt_ids
    assert (episode.length, episode.success, episode.error) == (3, None, None)


def test_the_next_episode_starts_with_an_empty_memory() -> None:
    slot = begun()
    play_out(slot)
    slot.next_episode()
    assert (slot.episode, slot.turn, slot.memory.recall()) == (1, 0, [])
    again = begun(seeds=lambda episode: 1)
    assert slot.prompt.ids == again.prompt.ids


def test_the_format_penalty_is_subtracted_from_the_reward_that_was_won() -> None:
    slot = begun(format_penalty=0.25, seeds=lambda episode: next(s for s in range(99) if first_word(s) == "red"))
    turn, _ = play(slot, "I would rather not")
    assert (turn.valid, turn.action) == (False, "red")  # the default action, which happens to be right
    assert turn.reward == pytest.approx(1.0 - 0.25)
    play(slot)
    play(slot)
    _, episode = play(slot)
    assert episode is not None
    assert episode.game_return == 4.0  # the game's own, without penalties
    assert episode.invalid_turns == 1


def first_word(seed: int) -> str:
    return right(begun(seeds=lambda episode: seed))


def test_c22_a_reply_cut_by_the_length_limit_is_not_invalid() -> None:
    slot = begun(format_penalty=0.25)
    turn, _ = slot.play(reply(right(slot), finish_reason="length"))
    assert (turn.finish_reason, turn.valid, turn.reward) == ("length", True, 1.0)
    turn, _ = slot.play(reply("hm", finish_reason="length"))
    assert (turn.finish_reason, turn.valid) == ("length", False)


def test_a_synonym_is_executed_under_its_own_name() -> None:
    turn, _ = play(begun(), "crimson")
    assert (turn.action, turn.valid, turn.reply_text) == ("red", True, "crimson")


def test_actions_that_a_turn_leaves_out_are_illegal() -> None:
    slot = begun(options={"narrow": True})
    word = right(slot)
    assert slot.legal == (word, WRONG[word])
    turn, _ = play(slot, WRONG[WRONG[word]])
    assert (turn.valid, turn.action) == (False, "red")


def test_free_text_is_judged_by_the_game() -> None:
    slot = begun(options={"free_text": True})
    assert slot.legal is None
    turn, _ = play(slot, "ACTION: say something else")
    assert (turn.valid, turn.action, turn.reward) == (True, "say something else", 0.0)


def test_c22_a_prompt_over_budget_is_an_error_turn(caplog: pytest.LogCaptureFixture) -> None:
    slot = begun(options={"growth": 40}, prompt={"max_prompt_tokens": 100})
    turn, episode = play(slot)
    assert (turn.error, slot.overflow) == (None, True)
    assert episode is None
    turn, episode = slot.prompt_too_long()
    assert (turn.error, turn.finish_reason, turn.turn, turn.reward) == ("prompt_too_long", "error", 1, 0.0)
    assert "over prompt.max_prompt_tokens = 100: raise it" in caplog.text
    assert turn.reply_ids == []
    assert len(turn.prompt_ids) == 100  # its tail: good for a value
    assert episode is not None
    assert (episode.error, episode.length, episode.game_return, episode.success) == ("prompt_too_long", 2, 1.0, None)
    slot.next_episode()
    assert (slot.overflow, slot.turn, slot.episode) == (False, 0, 1)


def test_c22_a_final_observation_over_budget_bootstraps_from_its_tail() -> None:
    slot = begun(options={"turns": 1, "ending": "truncated", "growth": 80}, prompt={"max_prompt_tokens": 100})
    turn, episode = play(slot)
    assert (turn.truncated, turn.error, len(turn.next_prompt_ids)) == (True, None, 100)
    assert episode is not None
    assert episode.error is None
    slot.next_episode()
    assert not slot.overflow


def test_dropped_turns_are_counted() -> None:
    slot = begun(options={"growth": 1, "turns": 9}, prompt={"max_prompt_tokens": 150, "history": 3})
    turns = [play(slot)[0] for _ in range(5)]
    assert [t.dropped_turns for t in turns] == sorted(t.dropped_turns for t in turns)
    assert turns[0].dropped_turns == 0
    assert turns[-1].dropped_turns > 0
    assert all(len(t.prompt_ids) <= 150 for t in turns)
    assert not any(t.error for t in turns)


BREAKS = {
    "step": "raised: RuntimeError: the table fell over and the chair (games.py:",
    "exit": "raised: SystemExit: 3 (games.py:",
    "nan": "raised: ValueError: reward = nan",
    "huge": "raised: ValueError: reward = 1e+308",
    "legal": "raised: ValueError: no action is legal",
    "legal text": "raised: TypeError: legal_actions = 'red': a list of actions is expected",
    "legal numbers": "raised: TypeError: legal_actions = [1, 2]: a list of actions is expected",
    "facts": "raised: KeyError: 'achievement' (games.py:",
    "observation": "raised: TypeError: the observation is a str, not an Observation",
}


@pytest.mark.parametrize("how", BREAKS)
def test_c18_a_game_that_breaks_is_contained(how: str) -> None:
    slot = begun(options={"breaks": how, "break_every": 2}, format_penalty=0.25)
    game = slot.game
    assert isinstance(game, Echo)
    first, none = play(slot)
    assert (first.error, none) == (None, None)
    turn, episode = play(slot, "nonsense")
    assert turn.error is not None
    assert turn.error.startswith(BREAKS[how])
    assert "\n" not in turn.error
    assert (turn.finish_reason, turn.reward, turn.terminated, turn.truncated) == ("error", 0.0, False, False)
    assert turn.next_prompt_ids == []
    assert episode is not None
    assert (episode.error, episode.length, episode.success, episode.progression) == (turn.error, 2, None, None)
    assert game.closed == 1
    slot.next_episode()  # seed 1 does not break
    assert slot.game is not game
    turns, episode = play_out(slot)
    assert episode.error is None
    assert [t.turn for t in turns] == [0, 1, 2, 3]


def test_c18_a_progression_that_is_no_number_is_an_error() -> None:
    slot = begun(options={"breaks": "progression", "turns": 2})
    _, episode = play_out(slot)
    assert episode.error == "raised: ValueError: progression = inf"


@pytest.mark.parametrize("told", ["end", "every turn"])
def test_achievements_are_the_games_word_at_its_end(told: str) -> None:
    slot = begun(options={"achieving": told, "turns": 9})
    words = [right(slot)]
    play(slot, WRONG[words[0]])
    turns, episode = play_out(slot)
    assert episode.achievable == ("red", "green", "blue")
    assert set(episode.achievements or ()) == {turn.action for turn in turns}
    assert episode.achievements == tuple(word for word in episode.achievable if word in (episode.achievements or ()))
    slot.next_episode()
    for _ in range(8):
        play(slot, "no such word" if right(slot) != "red" else "blue")
    _, episode = play(slot, "blue" if right(slot) == "red" else "red")
    assert episode is not None
    assert episode.achievements == ()  # those of the episode before are gone


def test_a_game_without_achievements_has_none() -> None:
    _, episode = play_out(begun())
    assert (episode.achievements, episode.achievable) == (None, ())
    slot = begun(options={"breaks": "unlocked mauve"})  # what it says of them unasked is no error
    assert play_out(slot)[1].error is None


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("unlocked", "raised: TypeError: achievements = None: a list of names is expected"),
        ("unlocked counts", "raised: TypeError: achievements = {'red': 0}: a list of names is expected"),
        ("unlocked mauve", "raised: ValueError: achievements = ['mauve']: the game has none of that name"),
    ],
)
@pytest.mark.parametrize("turns", [2, 9], ids=["at the end", "on the way"])
def test_c18_achievements_that_are_none_are_an_error(how: str, error: str, turns: int) -> None:
    slot = begun(options={"breaks": how, "turns": turns, "achieving": "end"})
    _, episode = play_out(slot)
    assert (episode.error, episode.length, episode.success) == (error, 2, None)


def test_an_end_without_a_word_of_achievements_is_an_error() -> None:
    slot = begun(options={"achieving": "every turn", "turns": 2})
    slot.game.step = lambda action, step=slot.game.step: (*step(action)[:4], {})  # type: ignore[method-assign,misc]
    _, episode = play_out(slot)
    assert episode.error == "raised: TypeError: achievements = None: a list of names is expected"


@pytest.mark.parametrize(
    "options", [{"breaks": "step"}, {"ending": "never", "turns": 2}], ids=["broken", "stopped at its limit"]
)
def test_an_episode_without_an_end_keeps_the_achievements_known_by_then(options: dict[str, Any]) -> None:
    for told in ("every turn", "end"):
        slot = begun(options={"achieving": told, **options})
        turns, episode = play_out(slot)
        assert len(turns) == 2
        known = {turn.action for turn in turns if not turn.error}
        assert set(episode.achievements or ()) == (known if told == "every turn" else set())
        assert episode.achievable == ("red", "green", "blue")


def test_an_episode_that_breaks_at_once_has_none_of_the_one_before() -> None:
    options = {"achieving": "every turn", "breaks": "step", "break_turn": 1, "break_every": 2}
    slot = begun(options=options, seeds=lambda episode: episode + 1)
    assert play_out(slot)[1].achievements
    slot.next_episode()
    turns, episode = play_out(slot)
    assert (len(turns), episode.achievements) == (1, ())


def test_a_restored_slot_knows_what_was_unlocked_before() -> None:
    options = {"achieving": "every turn", "breaks": "step", "break_turn": 3}
    slot = begun(options=options)
    word = right(slot)
    play(slot)
    play(slot, "nonsense" if right(slot) != "red" else "blue")
    twin = make_slot(options=options)
    assert twin.restore(slot.state())
    _, episode = play(twin)
    assert episode is not None
    assert episode.achievements == (word,)


def test_c18_a_game_whose_close_fails_is_replaced_all_the_same() -> None:
    slot = begun(options={"breaks": "close"})
    slot.close()
    slot.close()
    assert slot.next_episode()


def test_c18_a_failed_reset_takes_the_next_seed() -> None:
    slot = make_slot(options={"breaks": "reset", "break_turn": 0, "break_every": 2})
    assert slot.next_episode()
    assert (slot.episode, slot.seed) == (1, 1)
    (failed,) = slot.failed_resets
    assert (failed.seed, failed.length, failed.success) == (0, 0, None)
    assert failed.error is not None
    assert failed.error.startswith("reset: raised: RuntimeError: the cards are missing (games.py:")
    play_out(slot)
    assert slot.next_episode()
    assert (slot.seed, len(slot.failed_resets)) == (3, 1)


@pytest.mark.parametrize(("how", "reason"), [("reset", "the cards are missing"), ("make", "no display")])
def test_c18_a_game_that_never_starts_is_given_up(how: str, reason: str) -> None:
    slot = make_slot(options={"breaks": how, "break_turn": 0})
    with pytest.raises(GameBroken, match=f"fake/echo failed to reset 3 times in a row: .*{reason}") as caught:
        slot.next_episode()
    assert slot.episode == RESET_TRIES - 1
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, UserError)  # one line on the command line


def test_a_mistake_of_the_user_is_not_the_games_fault() -> None:
    slot = begun()

    def build(*arguments: Any) -> None:
        raise UserError("style.yaml: past: no such thing")

    slot.prompter.build = build  # type: ignore[method-assign, assignment]
    with pytest.raises(UserError, match="no such thing"):
        play(slot)


def test_no_seed_no_episode() -> None:
    slot = make_slot(seeds=lambda episode: None if episode else 5)
    assert slot.next_episode()
    assert not slot.next_episode()


def test_whole_episodes_are_handed_over_on_request() -> None:
    slot = begun(keep_turns=True)
    turns, episode = play_out(slot)
    assert episode.turns == turns
    _, bare = play_out(begun())
    assert bare.turns == []


def test_c25_a_restored_slot_asks_the_same_next_prompt() -> None:
    options, prompt = {"turns": 9}, {"history": 3, "keep": "whole"}
    slot = begun(index=1, options=options, prompt=prompt)
    play_out(slot)
    slot.next_episode()
    for says in ("red", "nonsense", "blue"):
        play(slot, says)
    state = json.loads(json.dumps(slot.state()))
    twin = make_slot(index=1, options=options, prompt=prompt)
    assert twin.restore(state)
    assert (twin.prompt.ids, twin.episode, twin.turn, twin.seed) == (slot.prompt.ids, 1, 3, 1)
    assert play_out(twin) == play_out(slot)  # return and invalid turns of before the restart included
    slot.next_episode()
    twin.next_episode()
    assert twin.prompt.ids == slot.prompt.ids


def test_c25_a_slot_restored_on_an_overlong_prompt_is_overlong() -> None:
    settings: dict[str, Any] = {"options": {"growth": 40}, "prompt": {"max_prompt_tokens": 100}}
    slot = begun(**settings)
    play(slot)
    assert slot.overflow
    twin = make_slot(**settings)
    assert twin.restore(slot.state())
    assert twin.overflow


def test_a_game_of_chance_does_not_restore() -> None:
    slot = begun(options={"chance": True})
    play(slot)
    twin = make_slot(options={"chance": True})
    assert not twin.restore(slot.state())
    assert twin.turn == 1


@pytest.mark.parametrize(
    "options", [{"turns": 2}, {"breaks": "step"}, {"breaks": "reset", "break_turn": 0, "break_every": 2}]
)
def test_a_replay_that_ends_or_breaks_goes_on_with_the_next_episode(options: dict[str, Any]) -> None:
    slot = begun()
    play(slot)
    play(slot)
    twin = make_slot(options=options)
    assert not twin.restore(slot.state())
    assert (twin.episode, twin.turn) == (1, 0)
    play(twin)


class Custom:
    """A memory of one's own: it is reset with each episode and sees every turn."""

    def __init__(self) -> None:
        self.seen: list[PastTurn | None] = []

    def reset(self) -> None:
        self.seen.append(None)

    def add(self, turn: PastTurn) -> None:
        self.seen.append(turn)

    def recall(self) -> list[Any]:
        return []


def test_a_memory_sees_each_turn_once() -> None:
    slot = make_slot()
    slot.memory = memory = Custom()
    slot.next_episode()
    scene, word = slot.observation.scene, right(slot)
    play(slot, f"well, {word}")
    play(slot, word.upper())
    play_out(slot)
    slot.next_episode()
    assert memory.seen[:2] == [None, PastTurn(scene, f"well, {word}", "red", False)]
    assert [turn is None for turn in memory.seen] == [True, False, False, False, False, True]
