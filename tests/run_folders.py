"""Folders as a run leaves them behind, and the page that a report is."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from agentrl.config import Config
from agentrl.configfile import dump_config
from agentrl.records import Message, Turn
from agentrl.statistics import wilson
from agentrl.turn_files import write_turns

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Tags with attributes, text, and whether every element is closed where it should be."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    def names(self) -> list[str]:
        return [tag for tag, _ in self.tags]


def figures(success: float | None, episodes: int = 100) -> dict[str, Any]:
    return {
        "episodes": episodes,
        "success": success,
        "success_ci95": list(wilson(round(success * episodes), episodes)) if success is not None else None,
        "return": 0.5 if success is None else success * 0.9,
        "return_ci95": [0.4, 0.625],
        "progression": success,
        "length": 12.25,
        "invalid_fraction": 0.125,
        "errors": 3,
    }


def turn(number: int = 0, **changes: Any) -> Turn:
    messages: list[Message] = [
        {"role": "system", "content": "The rules."},
        {"role": "user", "content": f"scene {number - 1}"},
        {"role": "assistant", "content": "go forward"},
        {"role": "user", "content": f"scene {number}"},
    ]
    plain = Turn("babyai/goto", 0, 0, number, 9, [1, 2, 3], [4], [-0.5], [()], messages=messages, action="turn left")
    return replace(plain, **{"reply_text": f"reply {number}", **changes})


def write_run(run_dir: Path, name: str = "demo", task: str = "babyai/goto") -> None:
    """A finished run of 30 updates, 4 of them critic warm-up."""
    run_dir.mkdir(parents=True, exist_ok=True)
    sections = {"batch": {"updates": 26}, "critic_warmup": {"max_updates": 8}}
    (run_dir / "config.yaml").write_text(
        dump_config(Config.model_validate({"name": name, "game": {"id": task}, **sections}))
    )
    rows: list[dict[str, Any]] = [{"update": 0, "evaluation/before/babyai/goto/success": 0.25}]
    for update in range(1, 31):
        row = {"update": update, "turns": update * 64.0, "phase/critic_warmup": float(update <= 4)}
        rows.append({**row, "episode/success": update / 30, "lr/policy": 0.001, "explained_variance": None})
    rows.append(
        {"update": 30, "evaluation/after/babyai/goto/success": 0.9, "evaluation/after/babyai/goto/episodes": 100}
    )
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = {
        "random": {task: figures(0.2)},
        "before": {task: figures(0.25)},
        "after": {task: figures(0.9)},
        "after_greedy": {task: figures(0.95)},
        "update-10": {task: figures(0.5)},
        "seconds": 3723.0,
        "cpu_seconds": 75.2,
        "turns": 1920,
        "machine": "2 cores",
        "versions": {"torch": "2.13.0"},
    }
    (run_dir / "results.json").write_text(json.dumps(results))
    write_turns(run_dir / "turns" / "evaluation-after.parquet", [turn(0), turn(1, terminated=True, reward=0.9)])
