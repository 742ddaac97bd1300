"""Metrics reach their files and trackers, and a resumed run goes on where it was cut."""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentrl.callbacks import Callback
from agentrl.config import Config
from agentrl.errors import UserError
from agentrl.records import Turn
from agentrl.tracking import cut_back, evaluation_metrics, make_trackers, read_metrics
from agentrl.turn_files import read_turns

RESULTS = {"babyai/goto": {"episodes": 4, "success": 0.5, "success_ci95": [0.1, 0.9], "progression": None}}


@dataclass
class Run:
    """As much of a trainer as callbacks see."""

    config: Config
    run_dir: Path
    update: int = 0
    total_updates: int = 5
    is_main: bool = True


def config(*backends: str, turns_every: int = 0) -> Config:
    tracking = {"backends": list(backends), "turns_every": turns_every}
    return Config.model_validate({"name": "demo", "game": {"id": "babyai/goto"}, "tracking": tracking})


def play(run: Run, callbacks: list[Callback], updates: range, end: bool = True) -> None:
    """What the trainer does with callbacks; without `end` the process is killed instead."""
    for callback in callbacks:
        callback.on_start(run)
    for run.update in updates:
        for callback in callbacks:
            callback.on_update(run, {"losses/policy": run.update / 10, "approx_kl": math.nan})
    if end:
        for callback in callbacks:
            callback.on_evaluation(run, "after", RESULTS)
        for callback in callbacks:
            callback.on_end(run)


def test_metrics_file(tmp_path: Path) -> None:
    run = Run(config(), tmp_path / "run")
    play(run, make_trackers(run.config, run.run_dir), range(1, 3))
    assert (run.run_dir / "metrics.jsonl").read_text().splitlines() == [
        '{"update": 1, "losses/policy": 0.1, "approx_kl": null}',
        '{"update": 2, "losses/policy": 0.2, "approx_kl": null}',
        '{"update": 2, "evaluation/after/babyai/goto/episodes": 4.0, "evaluation/after/babyai/goto/success": 0.5}',
    ]


def test_every_row_is_on_disk_at_once(tmp_path: Path) -> None:
    run = Run(config(), tmp_path)
    play(run, make_trackers(run.config, run.run_dir), range(1, 4), end=False)
    assert [row["update"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2, 3]


def test_a_killed_and_resumed_run_has_the_metrics_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole, killed = Run(config(), tmp_path / "whole"), Run(config(), tmp_path / "killed")
    play(whole, make_trackers(whole.config, whole.run_dir), range(1, 6))
    play(killed, make_trackers(killed.config, killed.run_dir), range(1, 5), end=False)
    with (killed.run_dir / "metrics.jsonl").open("a") as file:
        file.write('{"update": 5, "losses/pol')
    play(killed, make_trackers(killed.config, killed.run_dir, resume_from_update=2), range(3, 6))
    # Killed after its last evaluation: that is played again at the same update, and gives the same row.
    again = make_trackers(killed.config, killed.run_dir, resume_from_update=5)
    play(killed, again, range(0))
    assert (killed.run_dir / "metrics.jsonl").read_bytes() == (whole.run_dir / "metrics.jsonl").read_bytes()


TORN = [b'{"update": 3, "x": 0.', b'{"update"', b"\0\0\0", b"[3]", b"7", b"\xff\xfe", b"", b"[" * 100_000]


@pytest.mark.parametrize("torn", TORN, ids=lambda torn: repr(torn[:20]))
def test_cut_back_keeps_bytes_and_drops_a_torn_line(torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [b'{"update":0, "evaluation/before/g/success": 1}\n', b'{"update": 1, "x": 1e-07}\n', b'{"update": 2}\n']
    path.write_bytes(b"".join(rows) + torn)
    cut_back(path, 1)
    assert path.read_bytes() == b"".join(rows[:2])
    assert list(tmp_path.iterdir()) == [path]


def test_a_whole_last_line_without_newline_counts(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"update": 1}\n{"update": 2}')
    assert [row["update"] for row in read_metrics(path)] == [1, 2]
    cut_back(path, 2)
    assert path.read_bytes() == b'{"update": 1}\n{"update": 2}\n'


def test_damage_before_the_end_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    content = b'{"update": 1}\n{"upd\n{"update": 3}\n'
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"metrics\.jsonl, line 2"):
        cut_back(path, 1)
    assert path.read_bytes() == content


def test_only_the_main_process_writes(tmp_path: Path) -> None:
    run = Run(config("tensorboard", turns_every=1), tmp_path / "run", is_main=False)
    callbacks = make_trackers(run.config, run.run_dir)
    play(run, callbacks, range(1, 3))
    for callback in callbacks:
        callback.on_batch(run, [Turn("g", 0, 0, 0, 0, [1])])
    assert not run.run_dir.exists()


def test_evaluation_metrics_keep_numbers_only() -> None:
    figures = {"success": True, "return": 1, "length": 2.5, "success_ci95": [0, 1], "progression": None, "note": "x"}
    assert evaluation_metrics("before", {"a/b": figures}) == {
        "evaluation/before/a/b/success": 1.0,
        "evaluation/before/a/b/return": 1.0,
        "evaluation/before/a/b/length": 2.5,
    }


def test_tensorboard_purges_what_is_computed_again(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = Run(config("tensorboard"), tmp_path)
    play(run, make_trackers(run.config, run.run_dir), range(1, 5), end=False)
    play(run, make_trackers(run.config, run.run_dir, resume_from_update=2), range(3, 6))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    points = [(event.step, round(event.value, 3)) for event in events.Scalars("losses/policy")]
    assert points == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4), (5, 0.5)]
    assert "approx_kl" not in events.Tags()["scalars"]
    assert [event.value for event in events.Scalars("evaluation/after/babyai/goto/success")] == [0.5]


def test_trackio_resumes_the_run_by_its_stored_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, Any]] = []
    fake = SimpleNamespace(
        init=lambda **arguments: calls.append(("init", arguments)),
        log=lambda metrics, step: calls.append(("log", (step, metrics))),
        finish=lambda: calls.append(("finish", None)),
    )
    monkeypatch.setitem(sys.modules, "trackio", fake)
    for run_dir in (tmp_path / "one", tmp_path / "one", tmp_path / "other"):
        run = Run(config("trackio"), run_dir)
        play(run, make_trackers(run.config, run.run_dir), range(4, 5))
    inits = [arguments for name, arguments in calls if name == "init"]
    assert [init["resume"] for init in inits] == ["allow"] * 3
    assert inits[0]["project"] == "agentrl"
    assert inits[0]["config"]["game"]["id"] == "babyai/goto"
    assert inits[0]["name"] == inits[1]["name"] != inits[2]["name"]
    assert inits[0]["name"].startswith("demo-")
    assert calls[1:4] == [
        ("log", (4, {"losses/policy": 0.4})),
        ("log", (4, {"evaluation/after/babyai/goto/episodes": 4.0, "evaluation/after/babyai/goto/success": 0.5})),
        ("finish", None),
    ]


def test_wandb_resumes_the_run_by_its_stored_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inits: list[dict[str, Any]] = []
    logged: list[dict[str, float]] = []
    axes: list[tuple[str, str]] = []

    def init(**arguments: Any) -> SimpleNamespace:
        inits.append(arguments)
        return SimpleNamespace(
            log=logged.append,
            finish=lambda: None,
            define_metric=lambda name, step_metric: axes.append((name, step_metric)),
        )

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    run = Run(config("wandb"), tmp_path)
    play(run, make_trackers(run.config, run.run_dir), range(1, 2), end=False)
    play(run, make_trackers(run.config, run.run_dir, resume_from_update=0), range(1, 2), end=False)
    assert inits[0]["id"] == inits[1]["id"] == json.loads((tmp_path / "tracking.json").read_text())["wandb"]
    assert inits[0]["resume"] == "allow"
    assert axes == [("*", "update")] * 2
    # No wandb step: it may not go back, and a resumed run's does.
    assert logged == [{"update": 1, "losses/policy": 0.1}] * 2


@pytest.mark.parametrize("backend", ["trackio", "wandb"])
def test_a_missing_package_is_one_line_before_training(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, backend, None)
    with pytest.raises(UserError, match=rf"tracking\.backends = {backend}.*pip install 'agentrl\[{backend}\]'"):
        make_trackers(config(backend), tmp_path)


def test_turns_of_every_kth_update(tmp_path: Path) -> None:
    run = Run(config(turns_every=2), tmp_path)
    callbacks = make_trackers(run.config, run.run_dir)
    for run.update in range(5):
        for callback in callbacks:
            callback.on_batch(run, [Turn("g", 0, 0, run.update, 0, [1], value=0.5)])
    files = sorted((tmp_path / "turns").iterdir())
    assert [file.name for file in files] == ["update-000002.parquet", "update-000004.parquet"]
    # The batch that becomes update 2 is collected while one update is finished.
    assert [turn.turn for turn in read_turns(files[0])] == [1]
