"""Training and evaluation with games in worker processes: the same to the bit as at home, whatever is killed."""

import os
import signal
from pathlib import Path
from typing import Any

import faulty_games
import pytest
from games import recipe
from killable import Bomb, left_behind, run

from agentrl.callbacks import Callback
from agentrl.config import Config
from agentrl.errors import UserError
from agentrl.new_model import create
from agentrl.standalone import evaluate_model
from agentrl.tracking import read_metrics
from agentrl.trainer import RunStopped, Trainer

GAME = f"{Path(faulty_games.__file__)}:Faulty"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model") / "model"
    create(folder, GAME, {}, recipe(folder).model.new)
    return str(folder)


def config(folder: Path, model: str | None, options: dict[str, Any], **sections: Any) -> Config:
    return recipe(
        folder,
        **{
            "game": {"id": GAME, "options": options},
            "model": {"path": model},
            "prompt": {"max_prompt_tokens": 256},
            "evaluation": {"episodes": 5, "greedy": False},
            "workers": {"processes": 2},
            **sections,
        },
    )


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    return all(found[name] == expected[name] for name in expected if name != "seconds")


@pytest.fixture(scope="module")
def at_home(tmp_path_factory: pytest.TempPathFactory, model: str) -> dict[str, Any]:
    """What a run without workers leaves behind; some of its games raise."""
    folder = tmp_path_factory.mktemp("home")
    Trainer(config(folder, model, {"fault": "raise", "every": 9}, max_error_rate=1.0, workers={})).fit()
    return left_behind(folder / "run")


def test_a_run_with_workers_has_the_same_weights_to_the_bit(
    tmp_path: Path, model: str, at_home: dict[str, Any]
) -> None:
    trainer = Trainer(config(tmp_path, model, {"fault": "raise", "every": 9}, max_error_rate=1.0))
    trainer.fit()
    assert trainer.parts.games.maker.replaced == 0
    assert same(left_behind(tmp_path / "run"), at_home)
    rows = [row for row in read_metrics(tmp_path / "run" / "metrics.jsonl") if "losses/value" in row]
    assert sum(row["turns/error_raised_fraction"] for row in rows) > 0


class KillWorkers(Callback):
    """Kills every worker while the weights are updated: no game is being played."""

    def on_batch(self, trainer: Any, turns: Any) -> None:
        for pid in trainer.parts.games.maker.pool.pids():
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_c18_workers_killed_between_turns_change_no_bit(tmp_path: Path, model: str, at_home: dict[str, Any]) -> None:
    trainer = Trainer(
        config(tmp_path, model, {"fault": "raise", "every": 9}, max_error_rate=1.0), callbacks=[KillWorkers()]
    )
    trainer.fit()
    assert trainer.parts.games.maker.replaced == 8
    found, expected = left_behind(tmp_path / "run"), dict(at_home)
    rows = found["metrics"], expected["metrics"]
    found["metrics"], expected["metrics"] = ([{**row, "workers/replaced": 0.0} for row in each] for each in rows)
    assert same(found, expected)


def test_c13_a_trainer_with_workers_killed_and_resumed_has_the_same_weights(
    tmp_path: Path, model: str, at_home: dict[str, Any]
) -> None:
    asked = config(tmp_path, model, {"fault": "raise", "every": 9}, max_error_rate=1.0)
    assert run(asked, Bomb("agentrl.learner:Learner._step", 6)) == -signal.SIGKILL
    assert run(asked) == 0
    assert same(left_behind(tmp_path / "run"), at_home)


def test_c18_c19_kinds_are_counted_and_the_run_goes_on(tmp_path: Path, model: str) -> None:
    seconds = {"processes": 1, "step_seconds": 1.0}
    for kind, fault, every in (("crashed", "segfault", 5), ("hung", "spin", 6)):
        asked = config(
            tmp_path,
            model,
            {"fault": fault, "every": every},
            name=kind,
            max_error_rate=1.0,
            workers=seconds,
            batch={"updates": 2},
            evaluation={"episodes": 0},
        )
        Trainer(asked).fit()
        rows = read_metrics(tmp_path / kind / "metrics.jsonl")
        assert [row["turns"] for row in rows] == [24, 48]
        broken = sum(row["turns/error_fraction"] for row in rows)
        assert broken == sum(row[f"turns/error_{kind}_fraction"] for row in rows) > 0
        assert sum(row["workers/replaced"] for row in rows) == pytest.approx(24 * broken)


def test_c18_the_run_stops_past_the_error_rate(tmp_path: Path, model: str) -> None:
    asked = config(tmp_path, model, {"fault": "os._exit"}, evaluation={"episodes": 0})
    assert asked.max_error_rate == 0.05
    with pytest.raises(RunStopped) as caught:
        Trainer(asked).fit()
    told = (
        "of the turns of update 1 broke (max_error_rate = 0.05): crashed 12 (crashed: its process left with status 3)"
    )
    assert told in str(caught.value)
    assert (tmp_path / "run" / "checkpoints" / "step-0").is_dir()


def test_an_evaluation_in_workers_comes_out_the_same_and_counts_what_broke(tmp_path: Path, model: str) -> None:
    home = config(tmp_path, None, {"fault": "raise", "every": 3}, workers={})
    away = config(tmp_path, None, {"fault": "os._exit", "every": 3})
    found, expected = evaluate_model(away, model)[GAME], evaluate_model(home, model)[GAME]
    assert found["errors"] > 0
    assert found == expected


def test_a_new_model_s_text_is_played_in_workers_too(tmp_path: Path) -> None:
    asked = config(tmp_path, None, {"fault": "os._exit", "every": 3}, evaluation={"episodes": 0})
    with pytest.raises(UserError, match=r"the game broke while its text was read: crashed: .*status 3"):
        Trainer(asked)


def test_a_game_that_only_this_process_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"workers\.processes = 2: fake/echo was given to envs\.register"):
        Trainer(recipe(tmp_path, workers={"processes": 2}))
    assert list(tmp_path.iterdir()) == []
