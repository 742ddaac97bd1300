"""The best policy is kept apart from the newest."""

import json
from pathlib import Path
from typing import Any

from games import recipe
from typer.testing import CliRunner

from agentrl.best import best_evaluation
from agentrl.cli import app
from agentrl.trainer import Trainer


def row(success: float | None, value: float = 0.0) -> dict[str, dict[str, Any]]:
    return {"t": {"success": success, "return": value}}


def test_the_best_is_by_success_else_by_return_and_of_equal_ones_the_later() -> None:
    assert best_evaluation({"before": row(1.0), "update-2": row(0.5), "update-4": row(0.4)}, "t") == "update-2"
    assert best_evaluation({"update-2": row(0.5), "update-4": row(0.5), "after": row(0.1)}, "t") == "update-4"
    assert (
        best_evaluation({"update-2": row(None, 3.0), "after": row(None, 4.0), "after_greedy": row(None, 9.0)}, "t")
        == "after"
    )
    assert best_evaluation({"before": row(1.0)}, "t") is None


def test_a_run_keeps_it_and_it_can_be_scored(tmp_path: Path) -> None:
    results = Trainer(recipe(tmp_path, evaluation={"every": 1, "episodes": 6})).fit()
    best = tmp_path / "run" / "best"
    kept = json.loads((best / "evaluation.json").read_text())
    figures = {name: results[name]["fake/echo"]["success"] for name in results if name.startswith("update-")}
    figures["after"] = results["after"]["fake/echo"]["success"]
    assert kept["fake/echo"]["success"] == max(figures.values())
    assert figures[kept["evaluation"]] == max(figures.values())
    assert not list((tmp_path / "run").glob(".*best"))
    found = CliRunner().invoke(app, ["eval", str(best), "--episodes", "6"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["fake/echo"]["success"] == max(figures.values())


def test_a_run_that_is_not_asked_keeps_none(tmp_path: Path) -> None:
    Trainer(recipe(tmp_path, evaluation={"every": 1}, checkpoint={"best": False})).fit()
    assert not (tmp_path / "run" / "best").exists()
