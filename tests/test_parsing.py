"""From a reply to an action: what counts, what does not, and that nothing makes it raise or crawl."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrl.parsing import MARKER, marker_ended, parse_action

BABYAI = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")
BABAISAI = ("idle", "up", "right", "down", "left")
CRAFTER = ("Noop", "Move West", "Move East", "Move North", "Move South", "Do", "Sleep", "Place Stone")
FORWARD = {"move forward": "go forward", "forward": "go forward"}
CRAFT = {
    **{f"collect {thing}": "Do" for thing in ("wood", "coal", "iron", "stone", "sapling", "diamond")},
    **{f"mine {thing}": "Do" for thing in ("coal", "iron", "stone", "diamond")},
    **dict.fromkeys(("drink", "drink water", "attack", "attack zombie", "eat cow", "eat plant"), "Do"),
    **{f"move west {n} steps": "Move West" for n in range(2, 10)},
}


class TestTheReferencesFailures:
    """The table of what the reference accepted, invalid rows included: each must come out sensibly here."""

    @pytest.mark.parametrize("names", [BABYAI, BABAISAI, CRAFTER])
    @pytest.mark.parametrize("form", ["ACTION: {}", "ACTION: {}.", "Action: {}", "Action: {}."])
    def test_marker_with_and_without_full_stop(self, names: tuple[str, ...], form: str) -> None:
        for name in names:
            assert parse_action(form.format(name), names, {}) == name

    def test_a_stated_synonym(self) -> None:
        assert parse_action("ACTION: move forward", BABYAI, FORWARD) == "go forward"
        assert parse_action("ACTION: move forward", BABYAI, {}) is None

    @pytest.mark.parametrize(
        "said",
        [
            "Collect Wood",
            "Collect Coal",
            "Collect Iron",
            "Collect Stone",
            "Collect Sapling",
            "Drink",
            "Attack",
            "Eat Cow",
            "Collect Diamond",
            "Mine Iron",
            "Drink Water",
            "Attack Zombie",
            "Eat Plant",
        ],
    )
    def test_crafters_other_names_for_do(self, said: str) -> None:
        assert parse_action(f"ACTION: {said}", CRAFTER, CRAFT) == "Do"

    def test_several_steps_are_one_action_where_the_game_says_so(self) -> None:
        assert parse_action("ACTION: Move West 2 steps", CRAFTER, CRAFT) == "Move West"
        assert parse_action("ACTION: Move East 2 steps", CRAFTER, CRAFT) is None

    def test_a_diagonal_is_no_action_rather_than_a_coin_toss(self) -> None:
        assert parse_action("ACTION: Move North-West", CRAFTER, CRAFT) is None


@pytest.mark.parametrize(
    "reply",
    [
        "go forward",
        "  Go   Forward!\n",
        "**go forward**",
        "`go forward`.",
        '"go forward."',
        "\u2018go forward\u2019",
        "[go forward]",
        "THINK: the ball is ahead.\nACTION: go forward",
        "THINK: the ball is ahead. ACTION: go forward",
        "**ACTION:** go forward",
        "**ACTION: go forward**",
        "**Action**: `go forward`",
        "### Action: go forward",
        "> action : go forward",
        "- *action*: go forward.",
        "ACTION:go forward",
        "ACTION:\n\n  go forward\n",
        "ACTION:\n```\ngo forward\n```",
        "action: <go forward>\nsome words behind it",
        "ACTION: turn left\nNo, better:\nACTION: go forward",
        "<think>ACTION: turn left</think>\ngo forward",
        "the chat template opened the tag</think>\n\nACTION: go forward",
    ],
)
def test_accepted(reply: str) -> None:
    assert parse_action(reply, BABYAI, {}) == "go forward"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        " \n\t",
        "ACTION:",
        "ACTION: **",
        "ACTION: jump",
        "I will go forward",
        "go forward, then turn left",
        "go forward\nturn left",
        "ACTION: go forward or turn left",
        "ACTION: go forward\nACTION:",
        "ACTION: go forward\nACTION: jump",
        "THINK: the ball is ahead of me, so I should go forward",
        "THINK: the best action: go forward",
        "THINK: I could\ngo forward\nbut the wall",
        "TRANSACTION: go forward",
        "transaction: go forward",
        "<think>I could say ACTION: go forward",
        "<think>\nACTION: go forward",
        "ACTIONS: go forward",
    ],
)
def test_refused(reply: str) -> None:
    assert parse_action(reply, BABYAI, FORWARD) is None


def test_only_a_legal_action_comes_out() -> None:
    assert parse_action("drop", ["turn left"], {"drop": "drop"}) is None
    assert parse_action("fall", ["turn left", "drop"], {"fall": "drop"}) == "drop"
    assert parse_action("drop", [], {}) is None


def test_a_name_comes_before_a_synonym() -> None:
    assert parse_action("left", ["left", "turn left"], {"left": "turn left"}) == "left"


def test_names_that_differ_in_case_or_marks_alone_must_be_exact() -> None:
    keys = ["n", "N", "<", ">", "."]
    assert [parse_action(f"ACTION: {key}", keys, {}) for key in keys] == keys
    assert parse_action("ACTION: n.", keys, {}) is None
    assert parse_action("ACTION: ?", keys, {"?": "."}) == "."


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("  open the blue door.\n", "open the blue door."),
        ("THINK: it is locked.\nACTION: unlock door with key\nand then", "unlock door with key"),
        ("**ACTION: open door**", "open door"),
        ('ACTION: "open door"', "open door"),
        ('ACTION: say "hello"', 'say "hello"'),
        ('say "hello"', 'say "hello"'),
        ("ACTION:\n", None),
        ("", None),
        (" \n ", None),
        ('""', None),
    ],
)
def test_free_text(reply: str, command: str | None) -> None:
    assert parse_action(reply, None, {}) == command


@pytest.mark.parametrize(
    "text",
    [
        "ACTION:",
        "ACTION: ",
        "ACTION:\n",
        "**ACTION:**",
        "**ACTION:** `",
        "THINK: ahead.\naction:",
        "THINK: ahead. ACTION:",
        'ACTION: "',
    ],
)
def test_marker_ended(text: str) -> None:
    assert marker_ended(text)
    for action in BABYAI:
        assert parse_action(f"{text} {action}", BABYAI, {}) == action


@pytest.mark.parametrize(
    "text",
    ["", "ACTION", "ACTION: g", "best action:", "TRANSACTION:", "THINK:", "ACTION: turn left\nx:", "<think>ACTION:"],
)
def test_marker_not_ended(text: str) -> None:
    assert not marker_ended(text)


pieces = st.sampled_from(
    [
        *BABYAI,
        MARKER,
        "action:",
        "Action",
        "**",
        "`",
        '"',
        "“",
        "\n",
        " ",
        ".",
        "THINK:",
        "<think>",
        "</think>",
        "forward",
    ]
)
replies = st.one_of(st.text(), st.lists(pieces).map("".join), st.lists(pieces).map(" ".join))


@given(replies, st.sampled_from([BABYAI, BABAISAI, CRAFTER, (), None]), st.sampled_from([{}, FORWARD, CRAFT]))
@example("\u2028", BABYAI, {})
@example("ACTION:\u2028go", BABYAI, {})
@example("\ud800 ACTION: \x00", BABYAI, {})
def test_never_raises_and_is_legal(reply: str, legal: tuple[str, ...] | None, synonyms: dict[str, str]) -> None:
    action = parse_action(reply, legal, synonyms)
    assert action is None or (action in legal if legal is not None else action.strip() == action != "")
    assert parse_action(reply, legal, synonyms) == action
    marker_ended(reply)


@given(replies)
def test_what_is_written_behind_an_ended_marker_is_the_action(text: str) -> None:
    """Legal-action decoding begins where `marker_ended` says so: the parser must then agree."""
    if marker_ended(text):
        assert [parse_action(f"{text} {name}", BABYAI, {}) for name in BABYAI] == list(BABYAI)


@pytest.mark.parametrize(
    "unit",
    ["ACTION:", "ACTION", "*", "_", "`", " ", "\n", "ACTION *", "ACTION: go forward\n", '"', "<think>", "A", "\n> "],
)
def test_hostile_length_costs_linear_time(unit: str) -> None:
    """A quadratic parser would need minutes for 300,000 characters."""
    text = unit * (300_000 // len(unit))
    for reply in (text, f"ACTION: {text}", f"{text}:"):
        start = time.process_time()
        parse_action(reply, BABYAI, FORWARD)
        parse_action(reply, None, {})
        marker_ended(reply)
        assert time.process_time() - start < 2
