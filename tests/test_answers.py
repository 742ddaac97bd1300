"""What a game may answer, and what it may not."""

from typing import Any

import numpy as np
import pytest

from agentrl.answers import LARGEST, Answer, check, legal_actions

ACTIONS = {"left": "", "right": ""}
NAMES = ("coal", "iron", "wood")


def checked(*, reward: Any = 0.0, ends: str = "", achievable: tuple[str, ...] = (), **info: Any) -> Answer:
    return check(reward, ends == "terminated", ends == "truncated", info, ACTIONS, achievable)


def test_an_answer_is_plain_python() -> None:
    found = check(np.float32(0.5), np.True_, np.False_, {"success": np.True_, "progression": np.int64(1)}, None, ())  # type: ignore[arg-type]
    assert found == Answer(0.5, True, False, True, 1.0, None, None)
    assert [type(value) for value in (found.reward, found.terminated, found.success)] == [float, bool, bool]
    assert checked() == Answer(0.0, False, False, None, None, ("left", "right"), None)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -LARGEST, 1e308])
def test_numbers_that_training_could_not_bear(value: float) -> None:
    assert checked(reward=0.99 * LARGEST).reward == 0.99 * LARGEST
    with pytest.raises(ValueError, match="reward = "):
        checked(reward=value)
    with pytest.raises(ValueError, match="progression = "):
        checked(progression=value)


def test_legal_actions_are_the_games_own_unless_it_narrows_them() -> None:
    assert legal_actions({}, ACTIONS) == legal_actions({"legal_actions": None}, ACTIONS) == ("left", "right")
    assert legal_actions({"legal_actions": ["right"]}, ACTIONS) == ("right",)
    assert legal_actions({}, None) is None
    assert legal_actions({"legal_actions": ["say so"]}, None) == ("say so",)
    for nothing in ([], ()):
        with pytest.raises(ValueError, match="no action is legal"):
            legal_actions({"legal_actions": nothing}, ACTIONS)
    with pytest.raises(ValueError, match="no action is legal"):
        legal_actions({}, {})
    for odd in ("left", [1, 2]):
        with pytest.raises(TypeError, match="a list of actions is expected"):
            legal_actions({"legal_actions": odd}, ACTIONS)


def test_achievements_are_read_where_they_are_told() -> None:
    assert checked(achievable=NAMES).achievements is None
    assert checked(achievable=NAMES, achievements=["wood", "coal"]).achievements == ("coal", "wood")
    assert checked(achievable=NAMES, achievements=set(), ends="terminated").achievements == ()
    assert checked(achievements={"coal": 1}).achievements is None  # of a game that has none, nothing is asked


@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_at_the_end_achievements_must_be_told(ends: str) -> None:
    with pytest.raises(TypeError, match="achievements = None: a list of names is expected"):
        checked(achievable=NAMES, ends=ends)


@pytest.mark.parametrize("odd", [{"coal": 0}, "coal", [1], 3])
def test_achievements_that_are_no_list_of_names(odd: Any) -> None:
    with pytest.raises(TypeError, match="a list of names is expected"):
        checked(achievable=NAMES, achievements=odd)
    with pytest.raises(ValueError, match=r"achievements = \['gold', 'tin'\]: the game has none of that name"):
        checked(achievable=NAMES, achievements=["tin", "coal", "gold"])
