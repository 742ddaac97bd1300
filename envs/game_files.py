"""Objects in Python files that the user named: how a game is loaded that belongs to no installed package."""

import hashlib
import sys
from difflib import get_close_matches
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from agentrl.envs.errors import GameError
from agentrl.errors import did_you_mean, in_short


def load(file: Path, name: str) -> Any:
    """The object `name` of a Python file. The file is run once a process.

    Files beside it can be imported by it, after everything that is installed.

    Raises:
        GameError: there is no such file or no such object, or the file fails.
    """
    if not file.is_file():
        near = get_close_matches(file.name, _python_files(file.parent), n=1)
        hint = f"; did you mean {file.parent / near[0]}?" if near else ""
        raise GameError(f"game.id: {file}: no such file{hint}")
    if not name:
        raise GameError(f"game.id = {str(file)!r}: name the game in it too, {file.name}:CLASS")
    module = _module(file.resolve())
    if not hasattr(module, name):
        own = [key for key in vars(module) if not key.startswith("_")]
        raise GameError(f"game.id: {file} has no {name!r}{did_you_mean(name, own)}")
    return getattr(module, name)


@cache
def _module(file: Path) -> ModuleType:
    # Two files of the same name are two modules; the name is the same in every process.
    name = f"agentrl_game_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise GameError(f"game.id: {file} cannot be loaded: {in_short(error)}") from error
    return module


def _python_files(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.py")] if folder.is_dir() else []
