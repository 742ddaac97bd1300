"""How long `agentrl view` takes for a large benchmark's turns, and how large what a browser loads is.

    python benchmarks/view_speed.py --episodes 2000 --turns 400

Turns are made up: scenes of 600 characters, all different, the last four in each prompt, replies of 12 tokens. The file
is written to a temporary folder, as is the page. Seconds are those of the wall; `peak` is the process's own memory.
The last line is JSON.
"""

import argparse
import json
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agentrl.results import machine
from agentrl.turn_files import SCHEMA
from agentrl.view import View

HISTORY = 4
WORDS = ("tree", "stone", "water", "grass", "cow", "zombie", "iron", "coal", "table", "sand")


def write_file(path: Path, episodes: int, turns: int) -> None:
    """A file of turns, episode by episode."""
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for number in range(episodes):
            writer.write_table(pa.Table.from_pylist(_episode(number, turns), schema=SCHEMA))


def _episode(number: int, turns: int) -> list[dict[str, Any]]:
    draw = random.Random(number)
    scenes = [
        f"turn {turn} of {number}: " + " ".join(f"{draw.choice(WORDS)} {draw.randrange(9)} steps" for _ in range(38))
        for turn in range(turns)
    ]
    rows = []
    for turn in range(turns):
        messages = [{"role": "system", "content": "The rules of the game. " * 40}]
        for past in range(max(0, turn - HISTORY), turn):
            messages.append({"role": "user", "content": scenes[past]})
            messages.append({"role": "assistant", "content": "move east"})
        messages.append({"role": "user", "content": scenes[turn]})
        rows.append(
            {
                "game": "made/up",
                "slot": number,
                "episode": 0,
                "turn": turn,
                "seed": number,
                "prompt_ids": list(range(600)),
                "reply_ids": list(range(12)),
                "reply_logprobs": [-draw.random() for _ in range(12)],
                "reply_legal": [[]] * 12,
                "policy_version": 0,
                "action": "move east",
                "valid": True,
                "finish_reason": "stop",
                "reward": draw.random(),
                "terminated": turn + 1 == turns,
                "truncated": False,
                "error": None,
                "next_prompt_ids": [],
                "messages": messages,
                "reply_text": "move east",
                "dropped_turns": 0,
                "value": draw.random(),
                "advantage": draw.random(),
                "reward_parts": [],
                "notes": [],
            }
        )
    return rows


def measure(folder: Path, episodes: int, turns: int) -> dict[str, Any]:
    """Build the page of such a file: seconds and sizes."""
    source = folder / "result"
    source.mkdir()
    write_file(source / "turns.parquet", episodes, turns)
    began = time.monotonic()
    view = View([source], folder / "page", frames=0)
    view.refresh()
    seconds = time.monotonic() - began
    data = folder / "page" / "data"
    chunks = [path.stat().st_size for path in data.glob("0/0/*.js")]
    return {
        "episodes": episodes,
        "turns": episodes * turns,
        "file_bytes": (source / "turns.parquet").stat().st_size,
        "seconds": round(seconds, 1),
        "turns_per_second": round(episodes * turns / seconds),
        "list_bytes": (data / "0.js").stat().st_size,
        "episode_bytes": sum(chunks) // len(chunks),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "machine": machine(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--keep", type=Path, help="folder for the file and the page, which stay there")
    args = parser.parse_args()
    if args.keep:
        args.keep.mkdir(parents=True)
        figures = measure(args.keep, args.episodes, args.turns)
    else:
        with tempfile.TemporaryDirectory() as folder:
            figures = measure(Path(folder), args.episodes, args.turns)
    for name, value in figures.items():
        print(f"{name:18} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
