"""results.json: a run's figures for machines, with what one needs to know to compare them."""

import json
import os
import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

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
