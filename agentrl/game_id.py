"""What a game's id says: NAME/TASK of a game that has a name, or FILE.py:OBJECT of one that lies in a file.

Text only: a recipe is read without importing a game.
"""

import os.path
import re
from pathlib import Path
from typing import NamedTuple

_IN_FILE = re.compile(r"(?P<file>.+?\.py):(?P<name>[^/]*)(?:/(?P<task>.*))?", re.DOTALL)


class FileGame(NamedTuple):
    """`OBJECT` is a class or a GameSpec; only the latter may have tasks. `task`: None where none is named."""

    file: Path
    name: str
    task: str | None


def in_file(game_id: str) -> FileGame | None:
    """The parts of FILE.py:OBJECT or FILE.py:OBJECT/TASK; None if the id names no file."""
    if game_id.endswith(".py"):
        return FileGame(Path(game_id).expanduser(), "", None)
    found = _IN_FILE.fullmatch(game_id)
    return FileGame(Path(found["file"]).expanduser(), found["name"], found["task"]) if found else None


def absolute(game_id: str, folder: Path) -> str:
    """The id with the path of its file, if it has one, made absolute; a relative path starts at `folder`."""
    found = in_file(game_id)
    if found is None:
        return game_id
    file = os.path.abspath(folder / found.file)  # symbolic links stay: they may be what is meant to last
    name = f":{found.name}" if found.name else ""
    return f"{file}{name}" if found.task is None else f"{file}{name}/{found.task}"
