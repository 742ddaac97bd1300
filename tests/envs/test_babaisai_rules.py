"""What the words on the map do: each rule on a small map by hand, and all of them against a second implementation."""

import pytest
from baba_oracle import NOUNS, STEPS, Oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.envs.babaisai_maps import parse_map
from agentrl.envs.babaisai_rules import PROPERTIES, World


def world_of(text: str, is_you: bool = True) -> World:
    """The map, with a row under it that makes BABA YOU."""
    width = max(len(text.split("\n")[0].split()), 3)
    rows = [line.split() for line in text.strip().split("\n")]
    if is_you:
        rows += [["."] * width, ["BABA", "IS", "YOU"]]
    return parse_map("\n".join(" ".join([*row, *["."] * (width - len(row))]) for row in rows))


def row(world: World, y: int = 1) -> str:
    """A row in the words of a map."""
    cells = []
    for x in range(1, world.width - 1):
        words = [name(item) for item in world.stack(y * world.width + x)]
        cells.append(">".join(words) or ".")
    return " ".join(cells)


def name(item: str) -> str:
    return item[2:].upper() if item.startswith("T:") else item.partition("/")[0]


def after(text: str, *directions: str) -> str:
    world = world_of(text)
    for direction in directions:
        world.step(direction)
    return row(world)


def wins(text: str, *directions: str) -> list[bool]:
    world = world_of(text)
    return [any(landing.win for landing in world.step(direction)) for direction in directions]


class TestReading:
    def test_from_left_to_right_and_from_top_to_bottom_in_reading_order(self):
        world = world_of(
            """
            BABA IS   WALL .    .
            IS   .    .    DOOR .
            YOU  .    KEY  IS   WIN
            .    .    .    STOP .
            BABA IS   YOU  .    baba
            """,
            is_you=False,
        )
        said = [" ".join(rule) for rule in world.rules]
        assert said == ["baba wall", "baba you", "key win", "door stop", "baba you"], "row by row, and twice is twice"

    @pytest.mark.parametrize(
        "words", ["YOU IS BALL", "WIN IS BALL", "BALL IS IS", "IS IS WIN", "BALL WIN IS", "BALL IS ."]
    )
    def test_nothing_else_is_a_rule(self, words):
        world = world_of(f"{words}\nbaba . .")
        assert [tuple(rule) for rule in world.rules] == [("baba", "you")]

    def test_a_word_under_a_thing_or_a_word_is_not_read(self):
        world = world_of("BALL IS>KEY WIN\nKEY IS WIN>door\nbaba . .")
        assert [tuple(rule) for rule in world.rules] == [("baba", "you")]

    def test_a_word_is_read_as_soon_as_it_is_uncovered(self):
        world = world_of("BALL IS WIN>baba .")
        assert ("ball", "win") not in world.rules
        world.step("right")
        assert ("ball", "win") in world.rules


class TestMoving:
    @pytest.mark.parametrize(
        ("before", "then"),
        [
            (". baba . . .", ". . baba . ."),
            (". . . . baba", ". . . . baba"),
            (". baba KEY . .", ". . baba KEY ."),
            (". baba KEY WIN .", ". . baba KEY WIN"),
            (". baba . KEY WIN", ". . baba KEY WIN"),
            ("baba KEY . WIN .", ". baba KEY WIN ."),
            ("baba KEY door . .", ". baba door>KEY . ."),
            ("baba door>KEY . . .", ". door>baba KEY . ."),
            ("baba WIN>KEY . . .", "baba WIN KEY . ."),
            ("baba door key . .", ". door>baba key . ."),
        ],
    )
    def test_to_the_right(self, before, then):
        assert after(before, "right") == then

    def test_a_full_row_of_blocks_does_not_move(self):
        assert after("baba KEY . DOOR WIN", *["right"] * 3) == ". baba KEY DOOR WIN"

    def test_stop_stops_you_and_blocks_and_only_while_it_is_said(self):
        assert after("baba wall . . .\nWALL IS STOP . .", "right") == "baba wall . . ."
        assert after("baba KEY wall . .\nWALL IS STOP . .", "right") == "baba KEY wall . ."
        assert after("baba KEY wall . .\nWALL IS . STOP .", "right") == ". baba wall>KEY . ."

    def test_push(self):
        assert after("baba key key . .\nKEY IS PUSH . .", "right") == ". baba key key ."
        assert after("baba key wall . .\nKEY IS PUSH WALL .", "right") == ". baba wall>key . ."
        assert after("baba . key\nKEY IS PUSH", "right", "right") == ". . key>baba", "what has no room is walked onto"

    def test_each_of_you_moves_once_in_reading_order_and_a_buried_one_does_not(self):
        assert after("baba baba baba .", "right") == ". baba>baba . baba"
        assert after("baba baba baba .", "left") == "baba>baba baba . ."


class TestWinning:
    def test_by_a_step_onto_it(self):
        assert wins("baba . ball\nBALL IS WIN", "right", "right") == [False, True]

    def test_not_by_the_push_that_makes_the_rule(self):
        """The step ends on the ball, and its push completes BALL IS WIN: one must leave, and come back."""
        assert wins("baba ball>BALL . .\n. . IS .\n. . WIN .", *["right", "left", "right"]) == [False, False, True]

    def test_by_the_rule_that_the_same_push_breaks(self):
        world = world_of(". . . BALL .\n. . . IS .\n. . baba ball>WIN .")
        assert ("ball", "win") in world.rules
        (landing,) = world.step("right")
        assert landing.win
        assert ("ball", "win") not in world.rules

    def test_what_is_hidden_does_not_count(self):
        assert wins("baba ball>key .\nBALL IS WIN", "right") == [False]

    def test_bumping_wins_while_one_is_win_oneself(self):
        assert wins("baba . KEY\nBABA IS WIN", "left", "right", "right") == [True, False, True]

    def test_lose(self):
        world = world_of("baba ball .\nBALL IS LOSE")
        (landing,) = world.step("right")
        assert (landing.win, landing.lose) == (False, True)


def test_break_stop_works_from_the_next_step_on():
    world = world_of(". baba . .\nWALL IS STOP wall\n. . . .")
    assert ("wall", "stop") in world.rules
    world.step("down")
    assert [row(world, 2), row(world, 3)] == ["WALL baba STOP wall", ". IS . ."]
    assert [tuple(rule) for rule in world.rules] == [("baba", "you")]
    world.step("right")
    assert row(world, 2) == "WALL . baba wall>STOP"
    world.step("right")
    assert row(world, 2) == "WALL . baba wall>STOP", "a block at the edge has no room"


def test_things_turn_into_others_at_every_step_and_the_old_ones_stay_below():
    world = world_of("ball . baba\nBALL IS KEY\nKEY IS BALL")
    world.step("left")
    assert row(world) == "ball>key>ball baba ."
    world.step("right")
    assert row(world) == "ball>key>ball>key>ball . baba"


def test_you_is_the_last_rule_that_has_any_in_sight():
    world = world_of("baba . key\nKEY IS YOU\nDOOR IS YOU\nBABA IS YOU", is_you=False)
    at = {(x, 1): world.width + x for x in range(1, 4)}
    assert world.you() == at[1, 1]
    world.step("right")
    assert row(world) == ". baba key"
    hidden = world_of("key>ball . baba\nBABA IS YOU\nKEY IS YOU", is_you=False)
    assert hidden.you() == hidden.width + 3
    assert hidden.you(of_last_rule=True) is None


def test_a_copy_goes_its_own_way():
    world = world_of("baba KEY ball .")
    twin = world.copy()
    before = world.state()
    twin.step("right")
    assert world.state() == before != twin.state()
    assert world.step("right") == [(world.width + 2, False, False)]
    assert world.state() == twin.state()


WORDS = [*(noun.upper() for noun in NOUNS), *(word.upper() for word in PROPERTIES), "IS", "IS", "IS", "YOU", "PUSH"]
CELL = st.one_of(
    st.just([]),
    st.lists(st.sampled_from([*WORDS, *NOUNS, "baba"]), min_size=1, max_size=1),
    st.lists(st.sampled_from([*WORDS, *NOUNS]), min_size=2, max_size=3),
)
RULES = st.lists(st.tuples(st.sampled_from(NOUNS), st.sampled_from([*PROPERTIES, *NOUNS])), max_size=4)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(3, 6).flatmap(lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=1, max_size=5)),
    RULES,
    st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=15),
)
def test_any_map_moves_as_the_second_implementation_says(cells, rules, directions):
    """Several YOU, PUSH, stacks, things that turn into others: far beyond the 40 tasks."""
    width = len(cells[0])
    lines = [("BABA", "IS", "YOU"), *((subject.upper(), "IS", what.upper()) for subject, what in rules)]
    cells = [*cells, *([[*([word] for word in line), *[[]] * (width - 3)] for line in lines])]
    cells[0][0] = [*cells[0][0], "baba"]
    world = parse_map("\n".join(" ".join(">".join(words) or "." for words in row) for row in cells))
    oracle = Oracle(cells)
    for direction in directions:
        expected = [((y + 1) * world.width + x + 1, win, lose) for (x, y), win, lose in oracle.step(direction)]
        assert world.step(direction) == expected
        assert list(world.rules) == oracle.rules
        for (x, y), pieces in oracle.cells.items():
            ours = [name(item) for item in world.stack((y + 1) * world.width + x + 1)]
            assert ours == [piece.name.upper() if piece.text else piece.name for piece in pieces]
        if world.you() is None:
            break
