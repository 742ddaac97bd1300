"""BabyAI episodes as JSON lines: header, reset, steps, end. Recorded from our games here, from the original elsewhere.

`python tests/envs/recordings.py` records the fixtures anew: do that only when a change of the game is meant.
"""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agentrl.envs.babyai import BabyAI

FIXTURES = Path(__file__).parent / "fixtures"
ORIGINAL = Path(__file__).parents[3] / "shared" / "golden" / "babyai"

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def state(game: BabyAI) -> Row:
    level = game.level
    carried = level.carrying
    things = []
    for y in range(level.height):
        for x in range(level.width):
            cell = level.grid.get(x, y)
            if cell is None or cell.type == "wall":
                continue
            door = ["open" if cell.is_open else "locked" if cell.is_locked else "closed"] if cell.type == "door" else []
            things.append([x, y, cell.type, cell.color, *door])
    return {
        "agent_pos": [int(i) for i in level.agent_pos],
        "agent_dir": int(level.agent_dir),
        "carrying": None if carried is None else [carried.type, carried.color],
        "objects": things,
        "step_count": level.step_count,
    }


def rows_of(game: BabyAI, seed: int, replies: Iterable[str]) -> Iterator[Row]:
    """The reset's row, then one for each reply, until the episode ends."""
    observation, _ = game.reset(seed=seed)
    yield {"kind": "reset", "text": _text(observation), "state": state(game)}
    for reply in replies:
        observation, reward, terminated, truncated, info = game.step(reply)
        yield {
            "kind": "step",
            "action": reply if reply in game.actions else game.default_action,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "progression": info.get("progression", 0.0),
            "text": _text(observation),
            "state": state(game),
        }
        if terminated or truncated:
            return


def difference(recording: list[Row]) -> str | None:
    """Replay a recording from its seed; None, or the first field that came out otherwise."""
    header, *wanted = (row for row in recording if row["kind"] != "end")
    task = header["task"].removeprefix("BabyAI-MixedTrainLocal-v0/")
    game = BabyAI(task, **header["config"])
    got = list(rows_of(game, header["seed"], (row.get("candidate", row["action"]) for row in wanted[1:])))
    for field, value in (("mission", game.mission), ("max_steps", game.max_turns)):
        if value != header[field]:
            return f"{field}: {value!r}, recorded {header[field]!r}"
    for number, (ours, theirs) in enumerate(zip(got, wanted, strict=False)):
        for field, value in ours.items():
            if value != theirs[field]:
                return f"row {number}, {field}: {value!r}, recorded {theirs[field]!r}"
    return None if len(got) == len(wanted) else f"{len(got)} rows, recorded {len(wanted)}"


def _text(observation: dict[str, str]) -> Row:
    return {"long_term_context": observation["scene"], "short_term_context": observation["status"]}


def _replies(game: BabyAI, randomness: float) -> Iterator[str]:
    """The scripted player, interrupted by random actions and by replies that are none."""
    chance = random.Random(0)
    player = game.scripted_player()
    while True:
        planned = player()
        yield chance.choice([*game.actions, "jump"]) if chance.random() < randomness else planned


def _record(name: str, task: str, seed: int, randomness: float, **config: Any) -> None:
    game = BabyAI(task, **config)
    game.reset(seed=seed)
    header = {
        "kind": "header",
        "task": task,
        "seed": seed,
        "config": config,
        "mission": game.mission,
        "max_steps": game.max_turns,
    }
    rows = [header, *rows_of(game, seed, _replies(game, randomness))]
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    (FIXTURES / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _record("goto_random", "goto", 9, randomness=1)
    _record("pickup_crowded", "pickup", 3, randomness=0.3, num_dists=8)
    _record("open_binary", "open", 4, randomness=0.2, reward="binary")
    _record("putnext_crowded", "putnext", 5, randomness=0.2, num_dists=8)
    _record("sequence", "pick_up_seq_go_to", 1, randomness=0.2)
    _record("minigrid_level", "BabyAI-UnlockLocal-v0", 2, randomness=0.3)
