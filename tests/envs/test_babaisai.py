"""The game around the rules: levels, words, how episodes end, maps of one's own, the player that plans."""

import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.envs import GameError, babaisai_maps, make
from agentrl.envs.babaisai import _generator
from agentrl.envs.babaisai_levels import TASKS, lay_out
from agentrl.envs.babaisai_maps import parse_map
from agentrl.envs.babaisai_player import solve
from agentrl.envs.babaisai_rules import THINGS, WORDS
from agentrl.envs.babaisai_text import LOST, describe
from agentrl.parsing import parse_action

CORRIDOR = "baba . ball .\nBABA IS YOU .\nBALL IS WIN .\n"


def played(game, *actions, seed=0):
    """The reset's scene, then each step's result, up to the end of the episode."""
    observation, info = game.reset(seed=seed)
    assert info == {}
    results = []
    for action in actions:
        results.append(game.step(action))
        if results[-1][2] or results[-1][3]:
            break
    return observation.scene, results


def own_map(folder, text, **options):
    file = folder / "map.txt"
    file.write_text(text)
    return make("babaisai/map", map=str(file), **options)


class TestLevels:
    def test_there_are_forty(self):
        assert len(TASKS) == len(set(TASKS)) == 40
        assert sum("two_room" in task for task in TASKS) == 30

    @pytest.mark.parametrize("task", TASKS)
    def test_what_every_level_of_a_task_has(self, task):
        for seed in range(15):
            level = lay_out(task, np.random.RandomState(seed))
            world, rules = level.world, [f"{subject} is {word}" for subject, word in level.world.rules]
            items = Counter(item for cell in range(len(world.tops)) for item in world.stack(cell))
            things, words = (
                {known[item]: n for item, n in items.items() if item in known} for known in (THINGS, WORDS)
            )
            assert (world.width, world.height) == ((13, 9) if "two_room" in task else (8, 8))
            assert things.pop("baba") == 1
            assert things.pop("wall", 0) == (7 if "two_room" in task else 0)
            two = "distr_obj" in task or "distr_win" in task or "make_you" in task or "wall_win" in task
            assert sorted(things.values()) == [1] * (1 + two)
            second_rule = "distr_win_rule" in task
            assert words["win"] == 1 + second_rule
            assert words["is"] == 2 + second_rule + ("two_room" in task)
            assert rules.count("baba is you") == 1
            assert ("wall is stop" in rules) == ("break_stop" in task or "make_you" in task or "wall_win" in task)
            *before, goal = level.plan.split(", ")
            winner = goal.removeprefix("goto[").removesuffix("]")
            assert winner in {*things, "wall"}
            assert (f"{winner} is win" in rules) == ("goto_win" in task or task == "env/two_room-make_you")
            if "maybe" in task:
                assert bool(before) == (world.tops.index(next(i for i in items if THINGS.get(i) == winner)) % 13 > 6)
            else:
                names = [
                    name.split("_")[0] for name in task.removeprefix("env/two_room-").removeprefix("env/").split("-")
                ]
                wanted = [name for name in names if name in ("break", "make")]
                wanted = ["break", "make"] if "wall_win" in task else wanted
                assert [step.split("[")[0] for step in before] == wanted

    def test_where_things_may_lie_is_where_they_come_to_lie(self):
        """All of it within a few hundred levels, and nothing else."""
        found = {"baba": set(), "winner": set()}
        for seed in range(400):
            level = lay_out("env/two_room-break_stop-goto_win", np.random.RandomState(seed))
            winner = level.plan.rpartition("[")[2].removesuffix("]")
            for cell, item in enumerate(level.world.tops):
                kind = "winner" if THINGS.get(item) == winner else THINGS.get(item)
                found.setdefault(kind, set()).add((cell % 13, cell // 13))
        assert found["baba"] == {(x, y) for x in range(2, 6) for y in range(3, 6)}
        assert found["winner"] == {(x, y) for x in range(7, 11) for y in range(2, 8)}

    def test_a_seed_of_any_size_is_a_level_of_its_own(self):
        assert _generator(7).randint(1 << 30) == np.random.RandomState(7).randint(1 << 30)
        seeds = [0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 + 1]
        assert len({_generator(seed).randint(1 << 62, dtype=np.int64) for seed in seeds}) == len(seeds)

    def test_a_reset_without_a_seed_goes_on(self):
        one, other = make("babaisai/env/make_win"), make("babaisai/env/make_win")
        scenes = [[game.reset(seed=3)[0].scene, *(game.reset()[0].scene for _ in range(3))] for game in (one, other)]
        assert scenes[0] == scenes[1]
        assert len(set(scenes[0])) == 4
        random = np.random.RandomState(3)
        levels = [lay_out("env/make_win", random) for _ in range(4)]
        assert scenes[0] == [describe(level.world, level.world.you()) for level in levels]


class TestWords:
    def test_places_are_told_from_you_with_the_originals_plural(self):
        world = parse_map(
            """
            KEY  .    .    .    .
            .    .    .    .    .
            .    .    baba .    ball
            BABA IS   YOU  wall .
            .    .    .    .    door
            """
        )
        assert describe(world, world.you()).split("\n") == [
            "Active rules:",
            "baba is you",
            "",
            "Objects on the map:",
            "rule `key` 2 step to the left and 2 step up",
            "ball 2 steps to the right",
            "rule `baba` 2 step to the left and 1 step down",
            "rule `is` 1 step to the left and 1 step down",
            "rule `you` 1 step down",
            "wall 1 step to the right and 1 step down",
            "door 2 steps to the right and 2 steps down",
        ]

    def test_baba_is_never_told_and_what_you_are_is_an_empty_line(self):
        world = parse_map("baba key .\nKEY IS YOU")
        assert describe(world, world.you()).split("\n")[4:] == [
            "",
            "rule `key` 1 step to the left and 1 step down",
            "rule `is` 1 step down",
            "rule `you` 1 step to the right and 1 step down",
        ]

    def test_what_lies_below_is_not_told_nor_what_turns_into_what(self):
        world = parse_map("door>baba key>WIN .\nBABA IS YOU\nBALL IS KEY")
        text = describe(world, world.you())
        assert "rule `win` 1 step to the right" in text
        assert "\ndoor" not in text
        assert "\nkey" not in text
        assert "ball is key" not in text


class TestEnds:
    def test_won(self, tmp_path):
        game = own_map(tmp_path, CORRIDOR)
        _, results = played(game, "right", "idle", "right")
        assert [reward for _, reward, *_ in results] == [0, 0, pytest.approx(1 - 0.9 * 3 / 100)]
        assert results[-1][2:] == (True, False, {"success": True, "progression": 1.0, "ended": "won"})
        assert all(info == {} for *_, info in results[:-1])
        with pytest.raises(ResetNeeded):
            game.step("right")
        assert played(own_map(tmp_path, CORRIDOR, reward="binary"), "right", "right")[1][-1][1] == 1

    @pytest.mark.parametrize("compat", [None, "balrog"])
    def test_where_you_is_lost_the_episode_ends_and_says_so(self, tmp_path, compat):
        game = own_map(tmp_path, ". baba .\nBABA IS YOU\n. . .", compat=compat)
        _, results = played(game, "idle", "down")
        assert results[-1][1:] == (0.0, True, False, {"success": False, "progression": 0.0, "ended": "you_lost"})
        assert results[-1][0].scene == f"Active rules:\n\n\n{LOST}"
        assert "defaultdict" not in results[-1][0].scene

    def test_lose(self, tmp_path):
        _, results = played(own_map(tmp_path, "baba ball .\nBABA IS YOU\nBALL IS LOSE"), "right")
        assert results[-1][1:] == (-1.0, True, False, {"success": False, "progression": 0.0, "ended": "lost"})

    @pytest.mark.parametrize(("compat", "flags"), [(None, (False, True)), ("balrog", (True, False))])
    def test_the_limit_is_a_truncation_but_in_the_original(self, compat, flags):
        game = make("babaisai/env/make_win", compat=compat)
        _, results = played(game, *["idle"] * 200)
        assert len(results) == game.max_turns == 100
        assert results[-1][1:] == (0.0, *flags, {"success": False, "progression": 0.0, "ended": "time_limit"})

    @pytest.mark.parametrize("compat", [None, "balrog"])
    def test_a_win_in_the_last_turn_is_a_win(self, tmp_path, compat):
        game = own_map(tmp_path, CORRIDOR, compat=compat)
        _, results = played(game, "right", *["idle"] * 98, "right")
        assert results[-1][1:4] == (pytest.approx(0.1), True, False)
        assert results[-1][4]["ended"] == "won"

    def test_several_you(self, tmp_path):
        """One of them wins, another only walks: in the original the last to move decides."""
        both = "baba ball . baba .\nBABA IS YOU . .\nBALL IS WIN . ."
        assert played(own_map(tmp_path, both), "right")[1][0][2]
        assert not played(own_map(tmp_path, both, compat="balrog"), "right")[1][0][2]

    def test_the_last_rule_of_you_alone_counts_in_the_original(self, tmp_path):
        """At the edge baba steps onto the key: what the first rule is about is in sight, the last one's is not."""
        text = ". baba key\nBABA IS YOU\nKEY IS YOU"
        kept, ended = (played(own_map(tmp_path, text, compat=way), "right", "left")[1] for way in (None, "balrog"))
        assert [result[2] for result in kept] == [False, False]
        assert [result[4].get("ended") for result in ended] == ["you_lost"]

    def test_an_unknown_action_plays_idle(self, tmp_path):
        game = own_map(tmp_path, CORRIDOR)
        scene, results = played(game, "jump", "")
        assert [observation.scene for observation, *_ in results] == [scene, scene]


def test_a_reply_may_say_it_otherwise():
    game = make("babaisai/env/goto_win")
    assert parse_action("ACTION: Move Up.", game.actions, game.synonyms) == "up"
    assert set(game.synonyms.values()) == set(game.actions)
    assert not set(game.synonyms) & set(game.actions)
    assert make("babaisai/env/goto_win", compat="balrog").synonyms == {}


def test_gymnasiums_own_checks_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make("babaisai/env/two_room-make_you"), skip_render_check=True)


class TestMixed:
    def test_every_task_comes_and_a_seed_says_which(self):
        tasks = ["env/goto_win", "env/two_room-goto_win"]
        game = make("babaisai/mixed", tasks=tasks)
        widths = []
        for seed in range(30):
            scene = game.reset(seed=seed)[0].scene
            widths.append(game.level.world.width)
            assert game.reset(seed=seed)[0].scene == scene
        assert set(widths) == {8, 13}

    def test_one_task_alone_is_that_task(self):
        mixed, plain = make("babaisai/mixed", tasks=["env/make_win"]), make("babaisai/env/make_win")
        assert mixed.reset(seed=5)[0] == plain.reset(seed=5)[0]


class TestOwnMaps:
    def test_stacks_comments_and_blank_lines(self):
        world = parse_map("# a map\n\n. ball>baba KEY # the first row\nBABA IS YOU\n")
        assert (world.width, world.height) == (5, 4)
        assert [world.stack(5 + x) for x in range(1, 4)] == [(), ("ball/green", "baba/white"), ("T:key",)]

    def test_the_map_in_the_docs_can_be_won(self):
        docs = Path(__file__).parents[2] / "docs" / "games.md"
        begin = "BABA  IS   YOU"
        for text, end in ((docs.read_text(), "```"), (babaisai_maps.__doc__, "`.`")):
            example = begin + text.partition(begin)[2].partition(end)[0]
            plan = solve(parse_map(example))
            assert plan is not None
            assert (plan[:3], len(plan)) == (["up", "left", "down"], 8)

    def test_it_is_one_level(self, tmp_path):
        game = own_map(tmp_path, CORRIDOR)
        assert game.one_level
        assert not make("babaisai/env/goto_win").one_level
        first, _ = played(game, "right", seed=1)
        assert game.reset(seed=2)[0].scene == first

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "no cells"),
            ("# only this\n", "no cells"),
            ("baba .\nBABA IS YOU", "line 2: 3 cells, the first row has 2"),
            ("baba . .\nBABA IS YUO", "line 2 = 'YUO': .* did you mean 'YOU'"),
            ("baba> . .\nBABA IS YOU", "line 1 = '': there is no such item"),
            ("ball . .\nBABA IS YOU", "nothing in sight is YOU"),
            ("baba . .\nBALL IS YOU", "nothing in sight is YOU"),
            ("baba>ball . .\nBABA IS YOU", "nothing in sight is YOU"),
            (". " * 31, "31 x 1 cells; at most 30 x 30"),
        ],
    )
    def test_one_that_cannot_be_played_is_told_in_a_line(self, tmp_path, text, words):
        with pytest.raises(GameError, match=words) as caught:
            own_map(tmp_path, text)
        assert "\n" not in str(caught.value)
        assert "map.txt" in str(caught.value)

    def test_no_file(self, tmp_path):
        (tmp_path / "binary").write_bytes(b"\xff\xfe\x00baba")
        for path, words in (
            ("nowhere", "No such file"),
            (".", "directory"),
            ("binary", "UTF-8"),
            ("a\0b", "cannot be read"),
        ):
            with pytest.raises(GameError, match=words):
                make("babaisai/map", map=str(tmp_path / path))

    @settings(max_examples=40, deadline=None)
    @given(st.text())
    def test_no_text_does_more_than_be_refused(self, text):
        with pytest.raises(GameError) as caught:
            parse_map(text)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("task", "options", "words"),
    [
        ("env/goto_wim", {}, "did you mean 'babaisai/env/goto_win'"),
        ("goto_win", {}, "did you mean 'babaisai/env/goto_win'"),
        ("map", {}, "game.options.map is missing"),
        ("map", {"map": 3}, "give the path"),
        ("env/goto_win", {"map": "x.txt"}, "play babaisai/map"),
        ("mixed", {}, "give a list of tasks"),
        ("mixed", {"tasks": "env/goto_win"}, "give a list of tasks"),
        ("mixed", {"tasks": ["env/goto_wim"]}, "did you mean 'env/goto_win'"),
        ("env/goto_win", {"tasks": ["env/goto_win"]}, "only babaisai/mixed"),
        ("env/goto_win", {"reward": "native "}, "did you mean 'native'"),
        ("env/goto_win", {"compat": "Balrog"}, "did you mean 'balrog'"),
        ("env/goto_win", {"size": 3}, "no such option"),
    ],
)
def test_a_users_mistake_is_told_in_a_line(task, options, words):
    with pytest.raises(GameError, match=words) as caught:
        make(f"babaisai/{task}", **options)
    assert "\n" not in str(caught.value)


class TestPlayer:
    @pytest.mark.parametrize("task", TASKS)
    def test_it_wins_a_level_of_every_task(self, task):
        game = make(f"babaisai/{task}")
        game.reset(seed=2)
        player = game.scripted_player()
        while True:
            *_, terminated, truncated, info = game.step(player())
            if terminated or truncated:
                break
        assert info["success"]
        assert game.turn <= 50

    def test_it_plans_anew_where_something_else_was_played(self):
        game = make("babaisai/env/make_win")
        game.reset(seed=1)
        player, actions = game.scripted_player(), iter(["up", "left", "idle", "down"] * 3)
        info, turn = {}, 0
        while not info:
            planned = player()
            turn += 1
            *_, info = game.step(next(actions, planned) if turn % 3 == 0 else planned)
        assert info["success"]

    @pytest.mark.parametrize(
        ("text", "length"),
        [
            (CORRIDOR, 2),
            ("ball baba . .\nBABA IS YOU .\nBALL IS WIN .", 1),
            (". baba . . .\n. BALL . . ball\n. . IS WIN .\nBABA IS YOU . .", 4),
            ("baba WALL . wall ball\n. IS . wall .\n. STOP . wall .\nBABA IS YOU . .\nBALL IS WIN . .", 6),
        ],
        ids=["go", "at hand", "make the rule", "break the rule"],
    )
    def test_maps_whose_shortest_plan_is_seen_at_a_glance(self, text, length):
        plan = solve(parse_map(text))
        assert plan is not None
        assert len(plan) == length

    def test_it_idles_where_nothing_can_be_done_and_does_not_think_twice(self, tmp_path, monkeypatch):
        game = own_map(tmp_path, "baba . ball\nBABA IS YOU")
        game.reset(seed=0)
        asked = []
        monkeypatch.setattr("agentrl.envs.babaisai_player.solve", lambda world: asked.append(world) or None)
        player = game.scripted_player()
        for _ in range(5):
            assert player() == "idle"
            game.step("idle")
        assert len(asked) == 1

    def test_where_a_walk_is_more_than_a_walk_it_searches_step_by_step(self):
        """Two babas, of which one has a wall on its way."""
        world = parse_map("baba wall . ball\n. wall . .\nbaba . . .\nBABA IS YOU .\nWALL IS STOP .\nBALL IS WIN .")
        plan = solve(world)
        assert plan is not None
        landings = [world.step(direction) for direction in plan]
        assert any(landing.win for landing in landings[-1])
        assert not any(landing.win for step in landings[:-1] for landing in step)
