"""Legal-action decoding: whichever allowed id is taken, the reply ends as a legal action."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import ACTIONS, tokenizer

from agentrl.constrain import ActionConstraint, Cursor, build_trie
from agentrl.parsing import parse_action
from agentrl.records import FREE

subsets = st.lists(st.sampled_from(ACTIONS), min_size=1, unique=True).map(tuple)


def end_id() -> int:
    return tokenizer().eos_token_id


def encode(text: str) -> list[int]:
    return tokenizer().encode(text, add_special_tokens=False)


def say(cursor: Cursor, ids: Sequence[int]) -> Cursor:
    for token in ids:
        assert cursor.allowed == FREE or token in cursor.allowed
        cursor.advance(token)
    return cursor


def finish(cursor: Cursor, rng: random.Random) -> list[int]:
    """Take random allowed ids up to the end of the turn."""
    ids: list[int] = []
    while not ids or ids[-1] != end_id():
        assert cursor.allowed != FREE
        ids.append(rng.choice(cursor.allowed))
        cursor.advance(ids[-1])
    return ids


def test_trie_by_hand() -> None:
    assert build_trie([[1, 2, 9], [1, 3, 9], [1, 9]]) == {1: {2: {9: {}}, 3: {9: {}}, 9: {}}}
    assert build_trie([]) == {}


@given(legal=subsets, seed=st.integers(0, 1000))
def test_every_path_is_a_legal_action(legal: tuple[str, ...], seed: int) -> None:
    """ "go" is a beginning of "go forward": it may still be said alone."""
    ids = finish(ActionConstraint(tokenizer(), end_id(), after_marker=False).cursor(legal), random.Random(seed))
    assert tokenizer().decode(ids, skip_special_tokens=True) in legal


@given(legal=subsets)
def test_every_legal_action_can_be_said_and_nothing_else(legal: tuple[str, ...]) -> None:
    """The ids allowed after each beginning are those of the actions' own tokens, whichever way the set was ordered."""
    constraint = ActionConstraint(tokenizer(), end_id(), after_marker=False)
    sequences = [[*encode(name), end_id()] for name in legal]
    for ids in sequences:
        cursor = constraint.cursor(legal)
        for j, token in enumerate(ids):
            assert set(cursor.allowed) == {s[j] for s in sequences if s[:j] == ids[:j] and len(s) > j}
            cursor.advance(token)


def test_an_illegal_id_is_refused() -> None:
    cursor = ActionConstraint(tokenizer(), end_id(), after_marker=False).cursor(("go",))
    with pytest.raises(KeyError):
        cursor.advance(encode("drop")[0])


def test_no_legal_action_is_an_error_not_free_text() -> None:
    for after_marker in (False, True):
        with pytest.raises(ValueError, match="at least one legal action"):
            ActionConstraint(tokenizer(), end_id(), after_marker).cursor(())


REASONED = [
    "ACTION:",
    "THINK: it is ahead.\nACTION:",
    "THINK: it is ahead. ACTION:",
    "so\n**Action:**",
    "<think>perhaps ACTION: go back?</think>\nACTION:",
    "long " * 40 + "\naction:",
]


@pytest.mark.parametrize("text", REASONED)
@pytest.mark.parametrize("whole_tokens", [True, False])
@settings(max_examples=20, deadline=None)
@given(legal=subsets, seed=st.integers(0, 1000))
def test_a_marker_is_found_however_it_is_cut_into_tokens(
    text: str, whole_tokens: bool, legal: tuple[str, ...], seed: int
) -> None:
    """Free up to the marker and not one id longer; then a legal action. Byte by byte, the marker spans seven ids."""
    ids = encode(text) if whole_tokens else [encode(character)[0] for character in text]
    colon = max(j for j, token in enumerate(ids) if ":" in tokenizer().decode([token]))
    cursor = ActionConstraint(tokenizer(), end_id(), after_marker=True).cursor(legal)
    for token in ids[: colon + 1]:
        assert cursor.allowed == FREE
        cursor.advance(token)
    reply = ids[: colon + 1] + finish(cursor, random.Random(seed))
    assert parse_action(tokenizer().decode(reply, skip_special_tokens=True), legal, {}) in legal


def test_a_colon_that_ends_no_marker_changes_nothing() -> None:
    constraint = ActionConstraint(tokenizer(), end_id(), after_marker=True)
    for text in ("THINK: the action: go", "ACTIONS:", "ACTION", "reaction:", "ACTION is this:"):
        assert say(constraint.cursor(ACTIONS), encode(text)).allowed == FREE


def test_a_marker_inside_of_think_is_not_the_action_however_long_the_reasoning() -> None:
    """What the parser will not read as an action must not be constrained to one: the reply would end unanswered."""
    constraint = ActionConstraint(tokenizer(), end_id(), after_marker=True)
    cursor = say(constraint.cursor(ACTIONS), encode("<think>" + "it is ahead. " * 20 + "\nACTION:"))
    assert cursor.allowed == FREE
    assert say(cursor, encode(" go back</think>\nACTION:")).allowed != FREE


def test_cursors_of_one_constraint_do_not_disturb_each_other() -> None:
    constraint = ActionConstraint(tokenizer(), end_id(), after_marker=False)
    first, second = constraint.cursor(ACTIONS), constraint.cursor(ACTIONS)
    before = second.allowed
    say(first, encode("go back"))
    assert second.allowed == before
    assert constraint.trie(("go",)) is constraint.trie(("go",))
