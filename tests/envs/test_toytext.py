"""gymnasium's toy-text games in words: the rules are gymnasium's, the words say what its state says."""

import re
import warnings
from collections import deque

import gymnasium
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env as gymnasiums_check
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.check_env import FAILED, check_env
from agentrl.config import PromptConfig
from agentrl.envs import GameError, make
from agentrl.envs.toytext_player import best_actions
from agentrl.memory import make_memory
from agentrl.parsing import parse_action
from agentrl.prompting import Prompter

TASKS = ("frozenlake", "taxi", "blackjack", "cliffwalking")
THEIRS = {"frozenlake": "FrozenLake-v1", "taxi": "Taxi", "blackjack": "Blackjack-v1", "cliffwalking": "CliffWalking"}


def play(game, seed, actions):
    """[scene, reward, terminated, truncated, info] of each turn, the reset first, until the end or the last action."""
    observation, info = game.reset(seed=seed)
    told = [(observation.scene, 0.0, False, False, info)]
    for action in actions:
        observation, *rest = game.step(action)
        told.append((observation.scene, *rest))
        if rest[1] or rest[2]:
            break
    return told


def scripted(game, seed):
    """As `play`, by the scripted player."""
    observation, info = game.reset(seed=seed)
    told, player, over = [(observation.scene, 0.0, False, False, info)], game.scripted_player(), False
    while not over:
        observation, *rest = game.step(player())
        told.append((observation.scene, *rest))
        over = rest[1] or rest[2]
    return told


@pytest.mark.filterwarnings("ignore:.*latest versioned environment")
@settings(deadline=None)
@given(task=st.sampled_from(TASKS), seed=st.integers(0, 2**31 - 1), draws=st.lists(st.integers(0, 5), max_size=30))
def test_a_seed_and_its_actions_are_gymnasiums_own_episode(task, seed, draws):
    """The oracle is the environment that `gymnasium.make` gives, played by numbers."""
    game, theirs = make(f"toytext/{task}"), gymnasium.make(THEIRS[task], max_episode_steps=1000)
    actions = [list(game.actions)[draw % len(game.actions)] for draw in draws]
    told = play(game, seed, actions)
    theirs.reset(seed=seed)
    for action, (_, reward, terminated, truncated, _) in zip(actions, told[1:], strict=False):
        expected = theirs.step(game.numbers[action])
        assert (reward, terminated) == expected[1:3]
        assert not truncated or len(told) > game.max_turns


def test_numbers_mean_what_gymnasium_means_by_them():
    for task, options in (("frozenlake", {"slippery": False}), ("cliffwalking", {}), ("taxi", {})):
        game = make(f"toytext/{task}", **options)
        ways = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
        moved = set()
        for seed in range(20):
            for way, step in ways.items():
                one, other = (place(turn[0]) for turn in play(game, seed, [f"go {way}"])[:2])
                if one and other and one != other:
                    assert (other[0] - one[0], other[1] - one[1]) == step
                    moved.add(way)
        assert len(moved) >= (2 if task == "frozenlake" else 1)
    assert moved == set(ways)


def place(scene):
    found = re.search(r"at row (\d+), column (\d+)", scene)
    return (int(found[1]), int(found[2])) if found else None


def test_frozen_lake_in_words():
    game = make("toytext/frozenlake", slippery=False)
    told = play(game, 0, ["go south", "go west", "go south", "go east", "go east", "go south", "go east"])
    assert told[0][0] == (
        "You stand at row 1, column 1. The far shore is 3 steps south and 3 steps east.\n"
        "North: the edge, east: ice, south: ice, west: the edge."
    )
    assert told[1][0].endswith("North: the near shore, east: a hole, south: ice, west: the edge.")
    assert told[2][0] == told[1][0]
    assert told[6][0].startswith("You stand at row 4, column 3. The far shore is 1 step east.")
    assert told[7] == ("You stand on the far shore.", 1.0, True, False, {"success": True, "progression": 1.0})
    assert play(game, 0, ["go south", "go east"])[-1] == (
        "You fell into a hole at row 2, column 2.",
        0.0,
        True,
        False,
        {"success": False, "progression": 0.0},
    )


def test_frozen_lake_has_two_maps_and_slips_where_it_says_so():
    big = make("toytext/frozenlake", map="8x8")
    assert (big.max_turns, make("toytext/frozenlake").max_turns) == (200, 100)
    assert "7 steps south and 7 steps east" in play(big, 0, [])[0][0]
    ends = {play(make("toytext/frozenlake"), seed, ["go south"])[1][0] for seed in range(20)}
    assert len(ends) == 3
    assert "may slip" in big.mission
    assert "never slip" in make("toytext/frozenlake", slippery=False).mission
    assert not big.one_level


def test_cliff_walking_in_words():
    game = make("toytext/cliffwalking")
    told = play(game, 5, ["go east", "go north"])
    start = "You stand at row 4, column 1. The flag is 11 steps east."
    assert told[0][0] == f"{start}\nNorth: ground, east: the cliff, south: the edge, west: the edge."
    assert told[1][:2] == (f"You fell, and are back at the start. {told[0][0]}", -100.0)
    assert told[2][:2] == (
        "You stand at row 3, column 1. The flag is 1 step south and 11 steps east.\n"
        "North: ground, east: ground, south: ground, west: the edge.",
        -1.0,
    )
    told = play(game, 5, ["go north", *["go east"] * 11, "go south"])
    assert told[-1] == ("You stand at the flag.", -1.0, True, False, {"success": True, "progression": 1.0})
    assert "east: the edge, south: the flag" in told[-2][0]


def test_taxi_in_words():
    game = make("toytext/taxi")
    for seed in range(40):
        told = scripted(game, seed)
        goal = game.mission.removeprefix("Bring the passenger to ").removesuffix(".")
        assert goal in game.stands
        assert told[-1][0] == f"The passenger gets out at {goal}, as wanted."
        assert told[-1][1:] == (20.0, True, False, {"success": True, "progression": 1.0})
        riding = [f"The passenger rides with you. {goal} is " in turn[0] for turn in told[:-1]]
        assert riding == sorted(riding)
        assert "waits at" in told[0][0]
        fetched = told[riding.index(True) - 1][0]
        assert "right here" in fetched
    refused = play(game, 0, ["drop off"])[1]
    assert refused[0].startswith("That was no place for it. Your taxi")
    assert refused[1] == -10


def test_taxi_is_half_done_while_the_passenger_rides():
    game = make("toytext/taxi")
    game.reset(seed=0)
    player = game.scripted_player()
    while (action := player()) != "drop off":
        game.step(action)
    while True:
        _, _, terminated, truncated, info = game.step("go north")
        if truncated:
            break
    assert (terminated, info) == (False, {"success": False, "progression": 0.5})


def test_taxis_walls_are_where_its_map_has_them():
    game = make("toytext/taxi")
    seen = {}
    for seed in range(300):
        scene = play(game, seed, [])[0][0]
        seen[place(scene)] = re.search(r"North: (\w+), east: (\w+), south: (\w+), west: (\w+)", scene).groups()
    assert len(seen) == 25
    assert seen[1, 2] == ("wall", "wall", "road", "road")
    assert seen[3, 3] == ("road", "road", "road", "road")
    assert seen[5, 1] == ("road", "wall", "wall", "wall")


def test_blackjack_in_words():
    game, results = make("toytext/blackjack"), set()
    for seed in range(60):
        told = scripted(game, seed)
        scene, reward, terminated, _, info = told[-1]
        begun = re.match(
            r"Your cards: (\w+), (\w+)\. They count (\d+)(.*)\. The dealer shows an? [\w ]+\.$", told[0][0]
        )
        values = [11 if card == "ace" else int(card) for card in begun.groups()[:2]]
        assert int(begun[3]) == (12 if values == [11, 11] else sum(values))
        assert bool(begun[4]) == ("ace" in begun.groups()[:2])
        assert terminated
        result = next(word for word in ("you lose", "You lose", "You win", "a draw") if word in scene)
        assert reward == {"you lose": -1, "You lose": -1, "You win": 1, "a draw": 0}[result]
        assert info == {"success": reward == 1, "progression": (reward + 1) / 2}
        results.add(result)
    assert len(results) == 4


def test_blackjack_is_over_by_its_limit_however_it_is_played():
    game = make("toytext/blackjack")
    game.reset(seed=0)
    game._inner.player, turns, terminated = [1, 1], 0, False
    while not terminated:
        game._inner.np_random = Aces()
        _, _, terminated, truncated, _ = game.step("hit")
        turns += 1
        assert not truncated
    assert turns == game.max_turns


class Aces:
    """Draws nothing but aces."""

    def choice(self, deck):
        return 1


@pytest.mark.parametrize(("task", "limit"), [("frozenlake", 100), ("taxi", 200), ("cliffwalking", 200)])
def test_time_is_up_as_truncated_and_a_finished_episode_takes_no_further_step(task, limit):
    game = make(f"toytext/{task}", **({"slippery": False} if task == "frozenlake" else {}))
    with pytest.raises(ResetNeeded):
        game.step("go west")
    told = play(game, 0, ["go west"] * 300)
    assert len(told) == limit + 1 == game.max_turns + 1
    assert told[-1][2:] == (False, True, {"success": False, "progression": 0.0})
    with pytest.raises(ResetNeeded):
        game.step("go west")


def test_an_arrival_in_the_last_turn_is_no_time_limit():
    game = make("toytext/cliffwalking")
    way = [*["go west"] * 187, "go north", *["go east"] * 11, "go south"]
    assert play(game, 0, way)[200][2:] == (True, False, {"success": True, "progression": 1.0})


def shortest(table, start, worst):
    """Turns to an end from `start`, by breadth-first search, through transitions that pay more than `worst`."""
    queue, seen = deque([(start, 0)]), {start}
    while queue:
        state, turns = queue.popleft()
        for ((_, then, reward, over),) in table[state].values():
            if over:
                return turns + 1
            if then not in seen and reward > worst:
                seen.add(then)
                queue.append((then, turns + 1))
    raise AssertionError("no end can be reached")


@pytest.mark.parametrize(("task", "worst"), [("taxi", -10), ("cliffwalking", -100)])
def test_the_scripted_player_takes_the_shortest_way(task, worst):
    game = make(f"toytext/{task}")
    for seed in range(5):
        game.reset(seed=seed)
        least = shortest(game._inner.P, int(game._inner.s), worst)
        assert len(scripted(game, seed)) - 1 == least


def test_the_scripted_player_crosses_the_slippery_lake_as_often_as_can_be():
    """0.82 is known of the small map without a time limit; 100 turns leave some 0.73."""
    game = make("toytext/frozenlake")
    won = sum(scripted(game, seed)[-1][4]["success"] for seed in range(300))
    assert 0.66 < won / 300 < 0.82


def test_values_weigh_chance_and_time():
    """A sure 1 now against 3 at even odds, and against 1.2 a turn later at discount 0.5: computed by hand."""
    over = [(1.0, 1, 0.0, True)]
    sure, even = [(1.0, 1, 1.0, True)], [(0.5, 1, 3.0, True), (0.5, 1, 0.0, True)]
    later = [(1.0, 2, 0.0, False)]
    table = {0: {0: sure, 1: even, 2: later}, 1: {0: over, 1: over, 2: over}}
    table[2] = {0: [(1.0, 1, 1.2, True)], 1: over, 2: over}
    assert best_actions(table, 0.5).tolist() == [1, 0, 0]
    table[0][1] = [(0.25, 1, 3.0, True), (0.75, 1, 0.0, True)]
    assert best_actions(table, 0.5)[0] == 0
    assert best_actions(table, 1.0)[0] == 2


@pytest.mark.parametrize(
    ("task", "reply", "action"),
    [
        ("frozenlake", "ACTION: Right.", "go east"),
        ("frozenlake", "move up", "go north"),
        ("cliffwalking", "SOUTH", "go south"),
        ("taxi", "pickup", "pick up"),
        ("taxi", "Drop off passenger", "drop off"),
        ("blackjack", "stand", "stick"),
        ("blackjack", "Hit me!", "hit"),
        ("blackjack", "go east", None),
    ],
)
def test_replies_in_other_words(task, reply, action):
    game = make(f"toytext/{task}")
    assert parse_action(reply, list(game.actions), game.synonyms) == action


@pytest.mark.parametrize("task", TASKS)
def test_each_task_has_words_of_its_own(task):
    config = PromptConfig(style="action")
    game = make(f"toytext/{task}")
    observation, _ = game.reset(seed=0)
    system = Prompter(config, f"toytext/{task}", None).messages(game, observation, make_memory(config))[0]["content"]
    word = {"frozenlake": "frozen lake", "taxi": "taxi", "blackjack": "the dealer", "cliffwalking": "cliff"}[task]
    assert word in system
    assert game.mission in system


@pytest.mark.parametrize(
    ("task", "option", "message"),
    [
        ("taxi", {"slippery": True}, "toytext/taxi has no such option"),
        ("frozenlake", {"map": "9x9"}, "no such choice"),
        ("frozenlake", {"slippery": 1}, "give true or false"),
    ],
)
def test_options_that_are_none_are_named(task, option, message):
    with pytest.raises(GameError, match=rf"game\.options\.{next(iter(option))} = .*{message}"):
        make(f"toytext/{task}", **option)


@pytest.mark.parametrize("task", TASKS)
def test_gymnasiums_own_checks_pass(task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*not have.*render_modes.*")
        gymnasiums_check(make(f"toytext/{task}"), skip_render_check=True)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "options"), [*((task, {}) for task in TASKS), ("frozenlake", {"slippery": False})])
def test_check_env_finds_no_fault(task, options):
    assert [result for result in check_env(f"toytext/{task}", options) if result.state == FAILED] == []
