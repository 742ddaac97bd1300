"""Rewards as parts: each term by hand, shaping's promise, and what slots, batches and resumed runs make of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from games import make_slot
from hypothesis import given
from hypothesis import strategies as st

from agentrl.configfile import make_config
from agentrl.engines.base import Reply
from agentrl.envs import Observation
from agentrl.errors import UserError
from agentrl.rewards import TurnFacts, TurnTerms, overlong, potential_difference

HERE = "reward_functions"

TURN = TurnFacts(
    before=Observation("abc"),
    after=Observation("abcde"),
    reply="please go",
    reply_tokens=6,
    action="go",
    valid=True,
    reward=0.5,
    terminated=False,
    truncated=False,
)


def terms(**given: dict[str, Any]) -> TurnTerms:
    config = make_config({"name": "t", "game": {"id": "babyai/goto"}, "rewards": given})
    return TurnTerms(config.rewards, 0.9)


def test_overlong_falls_from_the_free_tokens_to_the_most() -> None:
    assert [overlong(tokens, 4, 8) for tokens in (0, 4, 5, 6, 8, 100)] == [0.0, 0.0, -0.25, -0.5, -1.0, -1.0]


def test_a_potential_by_hand() -> None:
    assert potential_difference(3.0, 5.0, 0.9, terminated=False) == pytest.approx(1.5)
    assert potential_difference(3.0, 5.0, 0.9, terminated=True) == -3.0


@given(
    st.lists(st.floats(-10, 10), min_size=2, max_size=30),
    st.floats(0, 1),
    st.booleans(),
)
def test_shaping_adds_the_same_to_every_return_from_a_state(
    potentials: list[float], gamma: float, terminated: bool
) -> None:
    """Whatever happens in between: -Phi(s_0), and what a time limit cuts, gamma^T Phi(s_T), the value there has too."""
    last = len(potentials) - 2
    added = [
        potential_difference(potentials[t], potentials[t + 1], gamma, terminated and t == last) for t in range(last + 1)
    ]
    total = sum(gamma**t * f for t, f in enumerate(added))
    cut = 0.0 if terminated else gamma ** (last + 1) * potentials[-1]
    assert total == pytest.approx(cut - potentials[0], abs=1e-9)


def test_each_kind_of_term_by_hand() -> None:
    scored = terms(
        short={"kind": "length", "free_tokens": 4, "most_tokens": 8, "weight": 0.2},
        polite={"kind": "rule", "rule": f"{HERE}.says_please", "weight": 2},
        towards={"kind": "shaping", "potential": f"{HERE}.length_of_scene", "weight": 0.1},
        wordy={"kind": "rule", "rule": f"{HERE}.mean_reply_tokens", "scope": "episode"},
    ).score([replace(TURN, reply_tokens=2), TURN])
    assert scored == pytest.approx({"short": -0.1, "polite": 2.0, "towards": 0.1 * (0.9 * 5 - 3), "wordy": 0.0})
    for end in ({"terminated": True}, {"truncated": True}):
        rule = terms(wordy={"kind": "rule", "rule": f"{HERE}.mean_reply_tokens", "scope": "episode"})
        assert rule.score([replace(TURN, reply_tokens=2), replace(TURN, **end)]) == {"wordy": 4.0}


@pytest.mark.parametrize(
    ("term", "told"),
    [
        ({"kind": "rule", "rule": "reward_functions.say_please"}, "rewards.mine.rule.*did you mean says_please"),
        ({"kind": "rule", "rule": "nowhere.f"}, "rewards.mine.rule.*cannot be imported"),
        ({"kind": "rule", "rule": f"{HERE}.NO_FUNCTION"}, "rewards.mine.rule.*is no function"),
        ({"kind": "shaping", "potential": "f"}, "rewards.mine.potential.*dotted path"),
    ],
)
def test_a_path_that_leads_nowhere_is_told_before_a_game_is_played(term: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        terms(mine=term)


@pytest.mark.parametrize(("function", "told"), [("breaks", "KeyError: .no such fact"), ("infinite", "returned inf")])
def test_a_function_that_fails_is_the_users_to_repair(function: str, told: str) -> None:
    broken = terms(mine={"kind": "rule", "rule": f"{HERE}.{function}"})
    with pytest.raises(UserError, match=f"rewards.mine.rule = 'reward_functions.{function}': .*{told}"):
        broken.score([TURN])


def test_a_slots_turn_is_paid_the_sum_of_its_parts() -> None:
    paid = terms(polite={"kind": "rule", "rule": f"{HERE}.says_please", "weight": 0.25})
    slot = make_slot(0, lambda episode: episode, False, format_penalty=0.1, terms=paid)
    slot.next_episode()
    turn, _ = slot.play(Reply("please, nothing legal", ids=[1, 2, 3]))
    assert not turn.valid
    assert turn.reward_parts == {"game": pytest.approx(turn.reward - 0.15), "format": -0.1, "polite": 0.25}
    assert turn.reward == sum(turn.reward_parts.values())
    plain = make_slot(0, lambda episode: episode, False, format_penalty=0.1)
    plain.next_episode()
    same, _ = plain.play(Reply("please, nothing legal", ids=[1, 2, 3]))
    assert same.reward_parts == {"game": turn.reward_parts["game"], "format": -0.1}


def test_an_episodes_rule_knows_the_turns_before_a_resume() -> None:
    """The same parts as in an episode that was played in one go."""

    def slot() -> Any:
        paid = terms(wordy={"kind": "rule", "rule": f"{HERE}.mean_reply_tokens", "scope": "episode"})
        return make_slot(0, lambda episode: episode, False, terms=paid)

    whole, resumed = slot(), slot()
    whole.next_episode()
    rng, parts, over, state = np.random.default_rng(0), [], False, None
    while not over:
        reply = Reply("x", ids=[1] * int(rng.integers(1, 9)))
        if len(parts) == 2:
            state = whole.state()
        turn, episode = whole.play(reply)
        parts.append((reply, turn.reward_parts))
        over = episode is not None
    assert parts[-1][1]["wordy"] == pytest.approx(np.mean([len(reply.ids) for reply, _ in parts]))
    assert len(parts) == 4
    assert state is not None
    assert resumed.restore(state)
    assert [resumed.play(reply)[0].reward_parts for reply, _ in parts[2:]] == [part for _, part in parts[2:]]
