"""Reference rows: what a uniformly random player and a game's scripted player score on held-out episodes.

Made by `benchmarks/reference_rows.py`, packaged, read here; to be shown beside a model's figures.
"""

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

FILE = Path(str(files("agentrl"))) / "reference_rows.json"

PLAYERS = ("random", "scripted")


def reference_rows(game_id: str) -> dict[str, dict[str, Any]]:
    """Player -> its figures, as `agentrl.evaluation.summarise` makes them, for a game of default options.

    Empty for a game without rows; `random` is missing where a game takes free text, `scripted` where it has no player.
    NAME and NAME/default mean the same game.
    """
    return reference()["rows"].get(game_id.removesuffix("/default"), {})


@cache
def reference() -> dict[str, Any]:
    """The whole file.

    {"episodes": N, "seeds": [first, last], "rows": {game: {player: figures}}, "made": {game: {"commit": ..., ...}}}
    """
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {"rows": {}, "made": {}}
