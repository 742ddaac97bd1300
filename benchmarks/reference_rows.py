"""Play every built-in task at random and by its scripted player; write the reference rows, and their table in the docs.

    python benchmarks/reference_rows.py                          # all of them, and rows of tasks that are no more go
    python benchmarks/reference_rows.py babyai/goto crafter      # these alone are played anew
    python benchmarks/reference_rows.py --table                  # nothing is played

Held-out episodes 0 to 199, each to its end, default options. The random player is that of `agentrl train` at seed 0.
Intervals are 95 %: success by Wilson, means by bootstrap over the episodes.
"""

import argparse
import json
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from agentrl import answers, envs
from agentrl.agents import random_action
from agentrl.envs import TextEnv
from agentrl.envs.babyai_levels import TASKS as BABYAI_TASKS
from agentrl.envs.registry import BUILT_IN
from agentrl.episode import Episode
from agentrl.errors import UserError
from agentrl.evaluation import summarise
from agentrl.reference import FILE, PLAYERS, reference
from agentrl.results import write_json, write_text
from agentrl.seeding import held_out_seed

EPISODES = 200
FIRST = 3
"""Episodes whose length and return are kept, so that a row which has become wrong is noticed."""

DOCS = Path(__file__).parents[1] / "docs" / "games.md"
BEGIN, END = "<!-- reference rows -->\n", "<!-- /reference rows -->"

PACKAGES = {"babyai": "minigrid", "crafter": "crafter"}
"""Game -> the package whose rules are played."""


def tasks() -> list[str]:
    """Ids of all built-in tasks: minigrid's own levels apart, and games whose optional package is not installed."""
    known, found = envs.games(), []
    for name in (entry.name for entry in BUILT_IN if entry.name in known):
        spec = known[name]
        if spec.needs is None or find_spec(spec.needs):
            own = BABYAI_TASKS if name == "babyai" else spec.tasks
            found += [name if task == "default" else f"{name}/{task}" for task in own]
    return found


def play(game: TextEnv, game_id: str, number: int, player: str) -> Episode:
    """Held-out episode `number`, to its end: as `agentrl.evaluation.evaluate` plays it, without prompts and replies."""
    seed = held_out_seed(number)
    _, info = game.reset(seed=seed)
    legal = answers.legal_actions(info, game.actions)
    scripted = game.scripted_player() if player == "scripted" else None
    total, turn = 0.0, 0
    while True:
        action = scripted() if scripted else random_action(legal or (), 0, number, 0, turn)
        _, reward, terminated, truncated, info = game.step(action)
        answer = answers.check(reward, terminated, truncated, info, game.actions, game.achievements)
        legal, total, turn = answer.legal, total + answer.reward, turn + 1
        if answer.terminated or answer.truncated or turn >= game.max_turns:
            return Episode(
                game=game_id,
                seed=seed,
                length=turn,
                game_return=total,
                success=answer.success,
                progression=answer.progression,
                error=None,
                achievements=answer.achievements,
                achievable=game.achievements,
            )


def rows(game_id: str, episodes: int = EPISODES) -> dict[str, dict[str, Any]]:
    """Player -> its figures."""
    found = {}
    with closing(envs.make(game_id)) as game:
        game.reset(seed=0)
        able: dict[str, Callable[[], bool]] = {
            "random": lambda: game.actions is not None,
            "scripted": lambda: game.scripted_player() is not None,
        }
        for player in [player for player in PLAYERS if able[player]()]:
            played = [play(game, game_id, number, player) for number in range(episodes)]
            first = [[episode.length, round(episode.game_return, 6)] for episode in played[:FIRST]]
            figures = summarise(played)
            figures.pop("lengths")
            found[player] = rounded(figures) | {"first_episodes": first}
    return found


def rounded(value: Any) -> Any:
    """Numbers to four digits after the point: more than 200 episodes can tell."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def made(game_id: str) -> dict[str, str]:
    """What the rows of a game were made with: the newest commit of the games, the package of their rules."""
    package = PACKAGES.get(game_id.partition("/")[0])
    newest = ["git", "log", "-1", "--format=%h", "--", "envs"]
    commit = subprocess.run(newest, capture_output=True, text=True, cwd=DOCS.parents[1]).stdout.strip()
    return {"commit": commit or "unknown"} | ({package: version(package)} if package else {})


def table() -> str:
    """The rows as Markdown."""
    lines = [
        "| task | player | success | achievements | progression | return | turns |",
        "|---|---|---|---|---|---|---|",
    ]
    for game_id, players in sorted(reference()["rows"].items()):
        for player, row in players.items():
            cells = [_interval(row, name) for name in ("success", "achievements")]
            cells += [_number(row["progression"]), _interval(row, "return"), f"{row['length']:.1f}"]
            lines.append(f"| `{game_id}` | {player} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(row: dict[str, Any], name: str) -> str:
    if row.get(name) is None:
        return ""
    low, high = row[f"{name}_ci95"]
    return f"{row[name]:.3f} [{low:.3f}, {high:.3f}]"


def write_table() -> None:
    before, _, rest = DOCS.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    write_text(DOCS, before + BEGIN + "\n" + table() + "\n" + END + after)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", nargs="*", metavar="GAME", help="ids as `agentrl games` lists them; all built-in ones")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="tasks played at a time (1)")
    parser.add_argument("--table", action="store_true", help="write the table of the rows that there are")
    options = parser.parse_args(arguments)
    try:
        for game_id in options.games:
            envs.check(game_id)
    except UserError as error:
        parser.exit(2, f"{error}\n")
    chosen = [] if options.table else options.games or tasks()
    everything = not options.games and not options.table
    content = {"episodes": EPISODES, "seeds": [held_out_seed(0), held_out_seed(EPISODES - 1)], "rows": {}, "made": {}}
    if not everything:
        content |= {name: dict(reference()[name]) for name in ("rows", "made")}
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for game_id, found in zip(chosen, pool.map(rows, chosen), strict=True):
            content["rows"][game_id], content["made"][game_id] = found, made(game_id)
            write_json(FILE, content)
            print(json.dumps({"game": game_id} | {p: row["success"] or row["return"] for p, row in found.items()}))
    reference.cache_clear()
    write_table()


if __name__ == "__main__":
    main()
