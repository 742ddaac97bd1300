"""Records the episodes in this folder anew from our own games: python tests/golden/record.py

Do that only when a change of a game is meant. `agentrl check-golden tests/golden/*.jsonl` says what it changed.
"""

import json
import random
from collections.abc import Collection, Iterable, Iterator
from itertools import cycle, islice
from pathlib import Path

from agentrl.envs.crafter_text import scene
from agentrl.envs.crafter_world import world_seed
from agentrl.golden.babaisai import BabaIsAIReplay
from agentrl.golden.babyai import BabyAIReplay
from agentrl.golden.crafter import CHARACTERS, CrafterReplay, start_of
from agentrl.golden.crafter_states import CREATURES, scene_options
from agentrl.golden.recording import Header, Row
from agentrl.golden.replay import Replay, folded

FOLDER = Path(__file__).parent
WALKING = [f"Move {side}" for side in ("West", "East", "North", "South")]


def planned(replay: Replay, randomness: float) -> Iterator[str]:
    """The game's scripted player, interrupted by random actions and by replies that are none."""
    chance = random.Random(0)
    player = replay.game.scripted_player()
    assert player is not None
    while True:
        action = player()
        yield chance.choice([*(replay.game.actions or ()), "jump"]) if chance.random() < randomness else action


def wandering(replay: Replay) -> Iterator[str]:
    """Crafter at random, with a taste for walking and gathering, and now and then a reply that is no action."""
    chance = random.Random(replay.seed)
    while True:
        kinds = WALKING, ["Do"], list(replay.game.actions or ()), ["Collect Wood", ""]
        yield chance.choice(chance.choices(kinds, (40, 35, 24, 1))[0])


def record(
    name: str, replay: Replay, header: Row, replies: Iterable[str], texts: int = 1, kept: Collection[str] = ()
) -> None:
    """Write the episode of these replies.

    Every `texts`-th row has its text. Of states `kept` is kept, () for all: what gives any other change away.
    """
    rows = list(replay.rows(replies))
    facts = replay.facts()
    end = replay.end(rows)
    state: Row = {}
    for number, row in enumerate(rows):
        before, state = state, {field: row["state"][field] for field in kept or row["state"]}
        row["state"] = folded(state, before)
        if number % texts and number < len(rows) - 1:
            del row["text"]
    write(name, [{"kind": "header", **header, **facts}, *rows, end])


def write(name: str, rows: Iterable[Row]) -> None:
    lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in rows]
    (FOLDER / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def babyai(name: str, task: str, seed: int, randomness: float, **options: object) -> None:
    header = {"env": "babyai", "task": task, "seed": seed, "options": options}
    replay = BabyAIReplay(Header(**header))
    record(name, replay, header, planned(replay, randomness))


def babaisai(name: str, task: str, seed: int, randomness: float, **options: object) -> None:
    header = {"env": "babaisai", "task": f"env/{task}", "seed": seed, "options": options}
    replay = BabaIsAIReplay(Header(**header))
    record(name, replay, header, planned(replay, randomness))


def babaisai_limit(name: str, task: str, seed: int) -> None:
    """Back and forth up to the limit."""
    header: Row = {"env": "babaisai", "task": f"env/{task}", "seed": seed, "options": {}}
    record(name, BabaIsAIReplay(Header(**header)), header, cycle(("left", "wait", "right")), 20, ("rules", "agent_pos"))


def babaisai_lost(name: str, seed: int, originals_form: bool) -> None:
    """The rule of YOU is broken from above; the original goes on in a new level, whose state its row has."""
    header: Row = {"env": "babaisai", "task": "env/two_room-make_you", "seed": seed}
    header |= {"config": {"add_ruleset": True}} if originals_form else {"options": {}}
    replay = BabaIsAIReplay(Header(**header))
    rows = list(replay.rows(("left", *["down"] * 4)))
    facts, end = replay.facts(), replay.end(rows)
    if originals_form:
        rows[-1] |= {"terminated": False, "env_reset_quirk": True, "state": replay.next_level()}
    write(name, [{"kind": "header", **header, **facts}, *rows, end])


def crafter(name: str, seed: int, most: int, texts: int, **options: object) -> None:
    header = {"env": "crafter", "task": "default", "seed": seed, "options": options}
    replay = CrafterReplay(Header(**header))
    record(name, replay, header, islice(wandering(replay), most), texts, ("pos", "rng"))


def crafter_in_the_originals_form(name: str, seed: int, most: int, ordered: bool, config: Row) -> None:
    """As if it were the original's: with its random state, or, if not `ordered`, with what texts follow from."""
    header: Row = {"env": "crafter", "task": "default", "seed": seed, "config": config, "max_steps": 2000}
    header["initial"] = start_of(world_seed(seed)) | ({} if ordered else {"rng_state": None})
    replay = CrafterReplay(Header(**header))
    kept = () if ordered else ("pos", "facing", "sleeping", "inv", "ach", "obj", "map")
    record(name, replay, header, islice(wandering(replay), most), 1, kept)


def crafter_cases(name: str, seeds: Iterable[int]) -> None:
    """The window after a hundred steps of each seed, told in two ways."""
    options = {"default": {}, "precise": {"precise_location": True, "unique_items": False, "skip_items": ["grass"]}}
    rows: list[Row] = [{"kind": "header", "env": "crafter", "options": options}]
    for seed in seeds:
        replay = CrafterReplay(Header(env="crafter", seed=seed, options={"compat": "balrog"}))
        *_, last = replay.rows(islice(wandering(replay), 100))
        player, world = replay.game.simulation.player, replay.game.simulation.world
        x, y = player.pos.tolist()
        letters = {name: letter for letter, name in CREATURES.items()}
        window = [
            "".join(
                letters.get(type(thing).__name__, "@") if thing else CHARACTERS[material]
                for material, thing in (world[i, j] for i in range(x - 4, x + 5))
            )
            for j in range(y - 3, y + 4)
        ]
        told = {name: scene(world, player, scene_options(given)) for name, given in options.items()}
        case = {"pos": [x, y], "facing": list(player.facing), "inv": player.inventory, "sleeping": player.sleeping}
        case |= {"dead": player.health <= 0, "x0": x - 4, "y0": y - 3, "map": window}
        rows.append({"kind": "case", **case, "short": last["text"]["short_term_context"], "long": told})
    write(name, rows)


if __name__ == "__main__":
    babyai("babyai_goto_random", "goto", 9, randomness=1)
    babyai("babyai_pickup_crowded", "pickup", 3, randomness=0.3, num_dists=8)
    babyai("babyai_open_binary", "open", 4, randomness=0.2, reward="binary")
    babyai("babyai_putnext_crowded", "putnext", 5, randomness=0.2, num_dists=8, compat="balrog")
    babyai("babyai_sequence", "pick_up_seq_go_to", 1, randomness=0.2)
    babyai("babyai_minigrid_level", "BabyAI-UnlockLocal-v0", 2, randomness=0.3)
    babaisai("babaisai_make_win", "two_room-break_stop-make_win", 3, randomness=0.2)
    babaisai_limit("babaisai_limit", "make_win-distr_obj_rule", 1)
    babaisai_lost("babaisai_lost", 1, originals_form=False)
    babaisai_lost("babaisai_quirk", 1, originals_form=True)
    crafter("crafter_night_and_death", 2, 2000, texts=25)
    crafter("crafter_night_as_balrog", 2, 160, texts=25, compat="balrog")
    crafter("crafter_sleep_skipped", 37, 120, texts=10, sleep="skip", max_turns=120)
    precise = {"precise_location": True, "unique_items": False, "edge_only_items": ["water"], "skip_items": ["grass"]}
    crafter("crafter_precise", 6, 25, texts=1, max_turns=25, **precise)
    crafter_in_the_originals_form("crafter_ordered", 11, 12, True, {"seed": 11, "skip_items": ["grass"]})
    crafter_in_the_originals_form("crafter_stock", 6, 30, False, {"seed": None, "precise_location": True})
    crafter_cases("crafter_cases", range(20, 26))
