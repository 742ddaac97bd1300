"""results.json: a run's figures for machines, with what one needs to know to compare them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentrl.config import Config
    from agentrl.envs import TextEnv
    from agentrl.prompting import Prompter

PACKAGES = ("agentrl", "torch", "transformers", "accelerate", "numpy", "gymnasium", "minigrid", "crafter")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a result."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """Processor, cores and accelerator in one line."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    accelerators = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return ", ".join([f"{_processor()}, {cores} cores", *accelerators])


def settings(config: Config, game: TextEnv, prompter: Prompter) -> dict[str, Any]:
    """What moves a score beside the model, flat, under the names of recipes: `{"prompt.history": 1, ...}`.

    `after_greedy` alone is played at temperature 0 instead. `game.*` has what a game sets itself, too. `prompt.sha256`
    changes with any word of the style's templates, of the game's rules, hints and helps of actions.
    """
    sections = {"rows", "game", "model", "prompt", "engine"}
    words = [prompter.style.model_dump(), prompter.texts.model_dump(), game.actions]
    return {
        **dict(_flat("", config.model_dump(mode="json", include=sections, exclude={"model": {"new"}}))),
        "game.max_turns": game.max_turns,
        "game.default_action": game.default_action,
        "parsing": "last ACTION: line, else a lone name" if game.actions else "last ACTION: line, else the reply",
        "parsing.synonyms": len(game.synonyms),
        "prompt.sha256": hashlib.sha256(json.dumps(words).encode()).hexdigest(),
    }


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), part)
    else:
        yield name, value


def evaluations(results: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """The evaluations {player: {task: figures}} among the groups of results.json: those whose entries are figures.

    A task's name alone does not tell: `versions` has an entry of the package crafter, a mere text.
    """
    found = {}
    for player, group in results.items():
        entries = group.items() if isinstance(group, dict) else ()
        played = {task: entry for task, entry in entries if isinstance(entry, dict)}
        if played:
            found[player] = played
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write `content` as `write_text` does."""
    write_text(path, json_text(content) + "\n")


def json_text(content: dict[str, Any]) -> str:
    """Indented JSON, with a list of numbers on one line, as an interval or the lengths of episodes."""
    # No string is matched: in JSON, a line break in a string is written \\n.
    return re.sub(r"\[\n[-+\w.,\s]*\]", lambda found: " ".join(found[0].split()), json.dumps(content, indent=1))


def write_text(path: Path, text: str) -> None:
    """Write a file that nobody, not even after a kill, ever finds half written."""
    temporary = path.with_name(f".{path.name}.writing")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
