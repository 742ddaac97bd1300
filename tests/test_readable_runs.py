"""Case C26: what was played can be read, not only its means: every k-th update's turns, as text and in the viewer."""

import json
from pathlib import Path

from games import recipe
from typer.testing import CliRunner

from agentrl.cli import app
from agentrl.trainer import Trainer
from agentrl.turn_files import read_turns, write_turns


def test_c26_every_kth_updates_turns_can_be_read_as_text_and_in_a_viewer(tmp_path: Path) -> None:
    Trainer(recipe(tmp_path, tracking={"turns_every": 2}, evaluation={"episodes": 0})).fit()
    run = tmp_path / "run"
    files = sorted((run / "turns").iterdir())
    assert [file.name for file in files] == ["update-000002.parquet", "update-000004.parquet"]

    turns = read_turns(files[0])
    assert len(turns) == 4 * 6
    write_turns(tmp_path / "turns.jsonl", turns)
    lines = [json.loads(line) for line in (tmp_path / "turns.jsonl").read_text(encoding="utf-8").splitlines()]
    for turn, line in zip(turns, lines, strict=True):
        assert line["messages"][-1]["content"]
        assert line["reply_text"] == turn.reply_text != ""
        assert line["action"]
        assert line["advantage"] is not None
        assert sum(line["reward_parts"].values()) == line["reward"]

    page = tmp_path / "page"
    result = CliRunner().invoke(app, ["view", str(run), "--out", str(page), "--frames", "0"])
    assert result.exit_code == 0, result.output
    listed = (page / "data" / "0.js").read_text()
    assert '"update-000002"' in listed
    assert '"update-000004"' in listed
    shown = "".join(path.read_text() for path in sorted((page / "data" / "0").rglob("*.js")))
    for turn in turns:
        assert json.dumps(turn.messages[-1]["content"])[1:-1].replace("<", "\\u003c") in shown
