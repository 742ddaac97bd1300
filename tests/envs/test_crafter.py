"""Crafter as a game: seeds, processes, pictures, ends, rewards, sleep, options, and the spellings of its actions."""

import random
import warnings

import crafter
import numpy as np
import pytest
from crafter import constants, engine
from fresh_python import told
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from agentrl.config import PromptConfig
from agentrl.envs import GameError, make
from agentrl.envs.crafter import ACHIEVEMENTS, Crafter
from agentrl.envs.crafter_actions import ACTIONS, SYNONYMS
from agentrl.envs.crafter_world import NIGHT_NOISE, OrderedWorld, Simulation
from agentrl.memory import make_memory
from agentrl.parsing import parse_action
from agentrl.prompting import Prompter


def play(game, seed, replies):
    """Everything that came of an episode, until it ends or the replies do."""
    told = [game.reset(seed=seed)]
    for reply in replies:
        told.append(game.step(reply))
        if told[-1][2] or told[-1][3]:
            break
    return told


def randomly(seed, turns=10_000):
    chance = random.Random(seed)
    return (chance.choice(list(Crafter.actions)) for _ in range(turns))


def started(seed=0, **options):
    game = make("crafter", **options)
    game.reset(seed=seed)
    return game, game.simulation.player


def give(player, **things):
    player.inventory.update(things)


def test_gymnasiums_own_checks_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make("crafter", render_mode="rgb_array", max_turns=50), skip_render_check=True)


def test_seventeen_actions_in_the_order_of_the_package():
    assert [native for native, _ in ACTIONS.values()] == constants.actions
    assert list(Crafter.actions) == list(ACTIONS)
    assert sorted(ACHIEVEMENTS) == constants.achievements
    assert len(set(ACHIEVEMENTS)) == 22


def test_a_seed_fixes_the_episode_whatever_was_played_before():
    fresh, used = make("crafter"), make("crafter")
    play(used, 3, randomly(1, 40))
    used.reset()
    assert play(fresh, 5, randomly(0)) == play(used, 5, randomly(0))


SCRIPT = """
import random, sys, zlib
import numpy as np
from agentrl.envs import make
pictures = sys.argv[1] == "pictures"
for options in ({}, {"night_rng": "balrog"}, {"sleep": "skip", "unique_items": False}):
    game = make("crafter", render_mode="rgb_array" if pictures else None, **options)
    text = str(game.reset(seed=4))
    chance, actions = random.Random(8), list(game.actions)
    for turn in range(230):
        np.random.seed(turn if pictures else 0)
        answer = game.step(chance.choice(actions))
        text += str(answer)
        if pictures and turn % 10 == 0:
            game.render()
        if answer[2]:
            break
    print(zlib.crc32(text.encode()), turn, text[-300:])
"""


def test_a_seed_fixes_the_episode_in_any_process_with_and_without_pictures():
    texts = [
        told(SCRIPT, pictures, PYTHONHASHSEED=hashing)
        for hashing, pictures in (("1", "pictures"), ("2", "none"), ("3", "none"))
    ]
    assert texts[0] == texts[1] == texts[2]
    assert len(set(texts[0].splitlines())) > 1


def test_compiled_noise_is_the_noise_of_plain_python():
    """numba compiles what worlds are made of, and not one bit may differ."""
    script = (
        "from agentrl.envs.crafter_terrain import _layer; import numpy as np, opensimplex; import hashlib;"
        "s = opensimplex.OpenSimplex(7); x = np.linspace(-9, 9, 40);"
        "print(hashlib.md5(_layer(x, x / 3, 5.0, s._perm, s._perm_grad_index3).tobytes()).hexdigest())"
    )
    digests = {told(script, NUMBA_DISABLE_JIT=disabled) for disabled in ("0", "1")}
    assert len(digests) == 1


def test_worlds_are_those_of_the_package():
    """To the last creature, and to the next random number."""
    package = crafter.Env(seed=11)
    simulation = Simulation()
    for episode in range(1, 9):
        package.reset()
        simulation.begin(11, episode)
        ours, theirs = simulation.world, package._world
        assert np.array_equal(ours._mat_map, theirs._mat_map)
        assert np.array_equal(ours._obj_map, theirs._obj_map)
        assert [type(thing) for thing in ours.objects] == [type(thing) for thing in theirs.objects]
        assert ours.random.random_sample() == theirs.random.random_sample()


def test_seeds_matter_and_without_one_the_next_world_comes():
    game, twin = make("crafter"), make("crafter")
    assert len({str(game.reset(seed=seed)) + str(game.simulation.world._mat_map.tobytes()) for seed in range(4)}) == 4
    game.reset(seed=1)
    twin.reset(seed=1)
    first = game.simulation.world._mat_map.copy()
    game.reset()
    twin.reset()
    assert np.array_equal(game.simulation.world._mat_map, twin.simulation.world._mat_map)
    assert not np.array_equal(game.simulation.world._mat_map, first)


def test_a_first_reset_without_a_seed_is_random_and_leaves_numpys_generator_alone():
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    game, twin = make("crafter"), make("crafter")
    game.reset()
    twin.reset()
    assert not np.array_equal(game.simulation.world._mat_map, twin.simulation.world._mat_map)
    assert np.array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize(("night_rng", "pictures"), [(None, 0), ("isolated", 0), ("balrog", 2)])
def test_what_a_night_costs(night_rng, pictures):
    """In random numbers, over a step in which nothing else draws any."""
    simulation = (game := started(night_rng=night_rng)[0]).simulation
    for creature in simulation.world.objects[1:]:
        simulation.world.remove(creature)
    for step, dark in ((20, False), (147, True), (210, True)):
        simulation._step = step
        expected = np.random.RandomState()
        expected.set_state(simulation.world.random.get_state())
        game.step("Noop")
        assert (simulation.world.daylight < 0.5) == dark
        expected.random_sample(pictures * NIGHT_NOISE * dark)
        assert expected.random_sample() == simulation.world.random.random_sample()


def test_every_step_is_the_packages_own_with_two_pictures_by_day_and_night():
    """Map, creatures, rewards and random numbers, from dusk into the night."""
    package = crafter.Env(size=(256, 256), seed=7)
    package._world.__class__ = OrderedWorld
    simulation = Simulation(night_pictures=2)
    package.reset()
    simulation.begin(7)
    package._step = simulation._step = 130
    dark = 0
    for reply in randomly(7, 40):
        native, _ = ACTIONS[reply]
        reward, dead = simulation.step(native)
        _, theirs, over, _ = package.step(constants.actions.index(native))  # draws one
        package.render()
        assert (reward, dead) == (pytest.approx(theirs), over)
        dark += simulation.world.daylight < 0.5
        assert np.array_equal(simulation.world._mat_map, package._world._mat_map)
        assert np.array_equal(simulation.world._obj_map, package._world._obj_map)
        assert simulation.player.inventory == package._player.inventory
        ours, numbers = (world.random.get_state()[1:3] for world in (simulation.world, package._world))
        assert np.array_equal(ours[0], numbers[0])
        assert ours[1] == numbers[1]
    assert 10 < dark < 30


def test_a_picture_changes_nothing_by_day_and_night():
    game, _ = started(render_mode="rgb_array", night_rng="balrog")
    for step in (20, 210):
        game.simulation._step = step
        game.step("Noop")
        before = game.simulation.world.random.get_state()
        first, second = game.render(), game.render()
        assert first.shape == (256, 256, 3)
        assert first.dtype == np.uint8
        assert first.std() > 10
        assert np.array_equal(first, second)
        assert np.array_equal(before[1], game.simulation.world.random.get_state()[1])
    assert started()[0].render() is None


@pytest.mark.parametrize("mode", [None, "rgb_array"])
def test_no_step_draws_a_picture_or_loads_what_pictures_are_made_of(monkeypatch, mode):
    drawn = []
    monkeypatch.setattr(engine, "Textures", lambda folder: drawn.append(folder))
    monkeypatch.setattr(engine.LocalView, "__call__", lambda *args: drawn.append(args))
    game, _ = started(render_mode=mode, night_rng="balrog")
    game.simulation._step = 210
    for _ in range(10):
        game.step("Noop")
    assert game.simulation.world.daylight < 0.5
    assert drawn == []


def test_reset_is_followed_by_a_step_of_nothing():
    game, player = started()
    assert game.simulation._step == 1
    assert player._hunger == 1


def test_the_limit_is_a_truncation_and_the_end_is_refused_a_step():
    game, player = started(max_turns=12)
    give(player, sapling=1)
    told = [game.step(reply) for reply in ("Place Plant", *randomly(0, 11))]
    assert [answer[3] for answer in told] == [False] * 11 + [True]
    assert not any(answer[2] for answer in told)
    assert told[-1][4] == {"success": None, "progression": 1 / 22, "achievements": ["place_plant"]}
    assert [answer[4] for answer in told[:-1]] == [{"achievements": ["place_plant"]}] * 11
    with pytest.raises(ResetNeeded):
        game.step("Noop")
    with pytest.raises(ResetNeeded):
        make("crafter").step("Noop")


@pytest.mark.parametrize("limit", [2000, 1])
def test_death_is_a_termination_at_the_limit_too(limit):
    game, player = started(max_turns=limit)
    x, y = player.pos
    game.simulation.world[x + 1, y] = "lava"
    for creature in game.simulation.world.objects[1:]:
        game.simulation.world.remove(creature)
    observation, reward, terminated, truncated, info = game.step("Move East")
    assert (terminated, truncated) == (True, False)
    assert reward == pytest.approx(-0.9)
    assert observation.scene.startswith("You died.\n")
    assert info == {"success": None, "progression": 0.0, "achievements": []}


def test_nobody_is_stopped_at_the_packages_own_limit():
    game, _ = started(max_turns=10_000)
    game.simulation._step = 10_050
    assert game.step("Noop")[2:4] == (False, False)


def test_achievements_pay_one_a_step_and_health_a_tenth():
    game, player = started()
    world = game.simulation.world
    for creature in world.objects[1:]:
        world.remove(creature)
    give(player, wood=9, stone=9, sapling=1)
    player.facing = (0, 1)
    assert game.step("Place Table")[1] == 1.0
    assert game.step("Make Wood Pickaxe")[1] == 1.0
    assert game.step("Make Wood Pickaxe")[1] == 0.0
    player.facing = (1, 0)
    player.health -= 2
    assert game.step("Place Plant")[1] == pytest.approx(0.8)
    assert (player.inventory["wood"], player.inventory["wood_pickaxe"]) == (9 - 2 - 1 - 1, 2)
    assert game.prompt_facts()["Still to do"].split(", ") == [
        name.replace("_", " ")
        for name in ACHIEVEMENTS
        if name not in ("place_table", "make_wood_pickaxe", "place_plant")
    ]


def test_facts_end_with_the_last_achievement():
    game, player = started()
    assert len(game.prompt_facts()["Still to do"].split(", ")) == 22
    player.achievements.update(dict.fromkeys(ACHIEVEMENTS, 1))
    assert game.step("Noop")[1] == 1.0
    assert game.prompt_facts() == {}


def prompt_of(game, observation, style):
    config = PromptConfig(style=style)
    return [
        message["content"]
        for message in Prompter(config, "crafter", None).messages(game, observation, make_memory(config))
    ]


def test_what_is_still_to_do_may_end_the_system_text_and_changes_nothing_before_it():
    game, player = started()
    give(player, sapling=1)
    first, second = (game.step(reply)[0] for reply in ("Noop", "Place Plant"))
    again, _ = started()
    (before, _), (after, last) = prompt_of(again, first, "cot_open"), prompt_of(game, second, "cot_open")
    assert "place plant" in before.rpartition("\n\n")[2]
    assert after.rpartition("\n\n")[2] == "Still to do: " + game.prompt_facts()["Still to do"]
    assert "place plant" not in after.rpartition("\n\n")[2]
    assert before.rpartition("\n\n")[0] == after.rpartition("\n\n")[0]
    assert "Still to do" not in last
    for style in ("cot", "action"):
        (before, _), (after, last) = prompt_of(again, first, style), prompt_of(game, second, style)
        assert before == after
        assert game.prompt_facts()["Still to do"] in last


def test_the_prompt_describes_every_action_and_its_costs_are_the_packages():
    texts = Prompter(PromptConfig(), "crafter", None).texts
    assert list(texts.actions) == list(Crafter.actions)
    for name, (native, _) in ACTIONS.items():
        kind, _, thing = native.partition("_")
        if kind in ("make", "place"):
            recipe = getattr(constants, kind)[thing]
            assert all(f"{count} {item}" in texts.actions[name] for item, count in recipe["uses"].items())
            assert all(util in texts.actions[name] for util in (*recipe.get("nearby", ()), *recipe.get("where", ())))


def asleep_in_peace(**options):
    """One energy short of awake, in a world without creatures."""
    game, player = started(**options)
    for creature in game.simulation.world.objects[1:]:
        game.simulation.world.remove(creature)
    give(player, energy=8)
    return game, player


def test_asleep_a_turn_is_a_step_and_other_actions_are_not_carried_out():
    game, player = asleep_in_peace()
    here = player.pos.tolist()
    assert game.step("Sleep")[0].scene.startswith("You are sleeping")
    turns = 1
    while player.sleeping:
        assert player.pos.tolist() == here
        game.step("Move East")
        turns += 1
    assert turns == 13, "eleven of sleep until energy is full, and the one that wakes"
    assert "wake_up" in game.simulation.unlocked
    assert player.pos.tolist() != here, "the waking step carries its action out"


def test_asleep_a_turn_may_skip_to_the_morning_with_every_reward():
    (slow, _), (quick, player) = asleep_in_peace(), asleep_in_peace(sleep="skip")
    rewards, answer = 0.0, slow.step("Sleep")
    while True:
        rewards += answer[1]
        if not slow.simulation.player.sleeping:
            break
        answer = slow.step("Noop")
    skipped = quick.step("Sleep")
    assert skipped[1] == pytest.approx(rewards) == pytest.approx(1.0)
    assert skipped[0] == answer[0]
    assert quick.simulation._step == slow.simulation._step
    assert not player.sleeping


def test_who_is_hurt_or_killed_in_a_skipped_sleep_is_not_lost():
    from crafter import objects

    for health, dead in ((9, False), (7, True)):
        game, player = asleep_in_peace(sleep="skip")
        give(player, health=health)
        world, (x, y) = game.simulation.world, player.pos.tolist()
        game.simulation._last_health = player._last_health = health
        world.add(objects.Zombie(world, (x + 1, y), player))
        _, reward, terminated, _, _ = game.step("Sleep")
        assert terminated == dead
        assert reward == pytest.approx(-0.7)
        assert not game._over or dead


def test_a_skipped_night_counts_as_one_turn():
    game, _ = asleep_in_peace(sleep="skip", max_turns=2)
    assert game.step("Sleep")[3] is False
    assert game.step("Noop")[3] is True


@pytest.mark.parametrize("reply", ["", "jump", "do", "Collect Wood", "\x00\x1b[2J", "é" * 1000])
def test_a_reply_that_is_no_action_plays_the_default(reply):
    game, twin = started(9)[0], started(9)[0]
    assert game.step(reply) == twin.step("Noop")


SPELLINGS = {
    "Do": "Collect Wood, Collect Stone, Collect Coal, Collect Iron, Collect Diamond, Collect Sapling, Drink, Attack, "
    "Drink Water, Attack Zombie, attack the skeleton, Eat Cow, Eat Plant, Mine Iron, chop down a tree, ACTION: Do.",
    "Move West": "move west, Move West 2 steps, west, go west, move left, move_left",
    "Move North": "go north 1 step, move up",
    "Place Table": "place table, build a table, Place Crafting Table",
    "Place Plant": "Plant Sapling, place sapling, place_plant",
    "Make Wood Pickaxe": "craft wooden pickaxe, make a wood pickaxe",
    "Make Iron Sword": "craft an iron sword",
    "Noop": "NOOP, wait, no-op",
    "Sleep": "sleep, go to sleep",
}


@pytest.mark.parametrize("action", SPELLINGS)
def test_other_spellings(action):
    for reply in SPELLINGS[action].split(", "):
        assert parse_action(reply, list(Crafter.actions), Crafter.synonyms) == action


@pytest.mark.parametrize(
    "reply", ["left", "north-west", "move north-west", "rest", "plant", "stone", "make pickaxe", "place"]
)
def test_what_could_mean_two_things_is_none(reply):
    assert parse_action(reply, list(Crafter.actions), Crafter.synonyms) is None


def test_synonyms_are_lower_case_lead_to_actions_and_hide_none():
    own = {name.lower() for name in Crafter.actions}
    for spelling, name in SYNONYMS.items():
        assert spelling == spelling.lower().strip()
        assert "  " not in spelling
        assert name in Crafter.actions
        assert spelling not in own


def test_compat_is_the_original_to_the_letter():
    game, player = started(compat="balrog")
    assert game.synonyms == {}
    assert game.max_turns == 2000
    game.simulation.world.move(player, (2, 32))
    assert game.step("Noop")[0].scene.startswith("You see nothing away from you.")
    assert make("crafter", compat="balrog").simulation._night_numbers == 2 * NIGHT_NOISE
    assert make("crafter", compat="balrog", night_rng="isolated").simulation._night_numbers == 0
    assert Crafter.synonyms == SYNONYMS


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_turns": 0}, ["game.options.max_turns", "0", "1 to 10000"]),
        ({"max_turns": 10_001}, ["game.options.max_turns", "10001"]),
        ({"max_turns": True}, ["game.options.max_turns", "True"]),
        ({"max_turns": "9"}, ["game.options.max_turns", "'9'"]),
        ({"night_rng": "balrok"}, ["game.options.night_rng", "did you mean 'balrog'"]),
        ({"sleep": "skipp"}, ["game.options.sleep", "did you mean 'skip'"]),
        ({"compat": "verlog"}, ["game.options.compat", "'verlog'", "balrog"]),
        ({"compat": True}, ["game.options.compat", "'True'"]),
        ({"render_mode": "human"}, ["game.options.render_mode", "rgb_array"]),
        ({"unique_items": "yes"}, ["game.options.unique_items", "'yes'", "true or false"]),
        ({"precise_location": 1}, ["game.options.precise_location", "1"]),
        ({"skip_items": ["gras"]}, ["game.options.skip_items", "did you mean 'grass'"]),
        ({"skip_items": "grass"}, ["game.options.skip_items", "'grass'", "a list"]),
        ({"edge_only_items": [["water"]]}, ["game.options.edge_only_items", "water"]),
        ({"edge_only": []}, ["game.options", "'edge_only'", "did you mean 'edge_only_items'"]),
    ],
)
def test_a_mistake_in_an_option_is_one_line(options, words):
    with pytest.raises(GameError) as caught:
        make("crafter", **options)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words)
