"""Prompt lengths and what prompts share, counted by hand for a tokenizer of single characters."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl import envs
from agentrl.envs import GameSpec, Observation, TextEnv, registry
from agentrl.errors import UserError
from agentrl.game_list import print_tokens
from agentrl.prompt_tokens import measure, shared


class Letters:
    """A tokenizer: a character is a token; a message ends with a full stop, and a colon opens the reply."""

    added_tokens_decoder: dict = {}
    is_fast = True

    def apply_chat_template(self, messages, tokenize, add_generation_prompt):
        return "".join(message["content"] + "." for message in messages) + ":" * add_generation_prompt

    def encode(self, text, add_special_tokens):
        return [ord(character) for character in text]


class Corridor(TextEnv):
    """Three turns; the scene says how far it is, the mission where the seed began."""

    actions = {"on": ""}
    default_action = "on"
    max_turns = 9

    def reset(self, *, seed=None, options=None):
        self.turn, self.mission = 0, f"m{seed}"
        return Observation("at0"), {}

    def step(self, action):
        self.turn += 1
        return Observation(f"at{self.turn}"), 0.0, self.turn == 3, False, {"success": True, "progression": 1.0}


@pytest.fixture
def corridor(monkeypatch):
    lost = GameSpec("lost", "", lambda task: 1 / 0)
    monkeypatch.setattr(
        registry, "_registered", {"corridor": GameSpec("corridor", "", lambda task: Corridor()), "lost": lost}
    )


def test_counted_by_hand(corridor):
    """In style terse: `at0 m0.:`, then `at0.on.at1 m0.:`, then `at1.on.at2 m0.:`, the blank being a line break."""
    found = measure("corridor", "terse", Letters())
    assert (found.prompts, found.longest, found.problem) == (9, 15, "")
    assert found.mean == pytest.approx((8 + 15 + 15) / 3)
    assert found.shared_by_turns == pytest.approx((3 + 2) / 2)  # "at0", then "at"
    assert found.shared_by_episodes == 5  # "at0", the line break, "m"


def test_a_game_that_cannot_be_made_has_its_problem_told(corridor):
    found = measure("lost", "terse", Letters())
    assert "ZeroDivisionError" in found.problem
    assert found.prompts == 0
    with pytest.raises(UserError, match="no such style"):
        measure("corridor", "tersest", Letters())


def test_the_real_qwen_tokenizer(qwen):
    """Its prompts begin alike: the rules are most of them."""
    found = measure("babyai/goto", "action", qwen)
    assert 400 < found.mean <= found.longest < 500
    assert 0.8 < found.shared_by_turns / found.mean < 1
    assert found.shared_by_episodes < found.shared_by_turns
    assert measure("babyai/goto", "cot", qwen).mean > found.mean


def test_the_table_and_its_json(corridor, monkeypatch, capsys, qwen_tiny_dir):
    monkeypatch.setattr(registry, "BUILT_IN", ())
    registry._entries.cache_clear()
    try:
        print_tokens(str(qwen_tiny_dir), "terse", as_json=True)
        rows = {row["game"]: row for row in json.loads(capsys.readouterr().out)}
        assert set(rows) == {f"{name}/{task}" for name, spec in envs.games().items() for task in spec.tasks}
        assert rows["corridor/default"]["prompts"] == 9
        assert "ZeroDivisionError" in rows["lost/default"]["problem"]
        print_tokens(str(qwen_tiny_dir), "terse", as_json=False)
        table = capsys.readouterr().out
        assert "corridor/default" in table
        assert "lost/default: ZeroDivisionError" in table
    finally:
        registry._entries.cache_clear()


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_what_two_share_is_their_longest_common_beginning(one, other):
    length = shared(one, other)
    assert one[:length] == other[:length]
    assert one[length : length + 1] != other[length : length + 1] or length == len(one) == len(other)
