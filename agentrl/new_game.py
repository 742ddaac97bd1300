"""`agentrl new-game`: the skeleton of a package with a game in it, which can be installed, tested and trained on."""

import re
import shutil
import sys
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from agentrl.envs.registry import names
from agentrl.errors import UserError

FORM = r"[a-z][a-z0-9]*([_-][a-z0-9]+)*"


def create(name: str, directory: Path) -> Path:
    """Write the package DIRECTORY/NAME, whole or not at all; its path.

    Raises:
        UserError: the name cannot be a game's or is taken, the folder exists, or nothing can be written there.
    """
    module = name.replace("-", "_")
    _check_name(name, module)
    target = directory / name
    if target.exists() or target.is_symlink():
        raise UserError(f"{target} exists already: give another name or --dir, or remove it")
    unfinished = directory / f".{name}.unfinished"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir()
        try:
            for path, text in _files(name, module).items():
                (unfinished / path).parent.mkdir(exist_ok=True)
                (unfinished / path).write_text(text, encoding="utf-8")
            unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror} ({error.filename})") from error
    return target


def _check_name(name: str, module: str) -> None:
    if not re.fullmatch(FORM, name):
        raise UserError(f"NAME = {name!r}: use small letters and digits, words joined by '_' or '-', such as my_game")
    if name in names():
        raise UserError(f"NAME = {name!r}: a game of this name exists already; choose another")
    if iskeyword(module) or module in sys.stdlib_module_names or find_spec(module) is not None:
        raise UserError(f"NAME = {name!r}: a Python module or keyword {module} exists already; choose another")


def _files(name: str, module: str) -> dict[str, str]:
    """Path in the package -> text."""
    kind = "".join(word.capitalize() for word in module.split("_"))
    templates = files("agentrl") / "templates" / "new_game"
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)

    def text(file: str) -> str:
        source = (templates / f"{file}.j2").read_text(encoding="utf-8")
        return environment.from_string(source).render(name=name, module=module, kind=kind)

    return {
        "pyproject.toml": text("pyproject.toml"),
        "quickstart.yaml": text("quickstart.yaml"),
        f"{module}/__init__.py": "",
        f"{module}/game.py": text("game.py"),
        f"{module}/texts.yaml": text("texts.yaml"),
        "tests/test_game.py": text("test_game.py"),
    }
