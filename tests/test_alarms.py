"""Alarms: each at its threshold, told once, and a collapse that is caught in time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from games import recipe

from agentrl.alarms import ABOVE, BELOW, Alarmed, Alarms, alarms
from agentrl.config import AlarmsConfig
from agentrl.tracking import read_metrics
from agentrl.trainer import Trainer

QUIET = {
    "approx_kl": 0.01,
    "clip_fraction": 0.1,
    "entropy": 0.5,
    "explained_variance": 0.2,
    "effective_sample_size": 1.0,
    "turns/invalid_fraction": 0.1,
    "turns/length_stop_fraction": 0.0,
    "turns/repetition": 0.1,
    "grad_norm/policy": 1.0,
    "optimizer/skipped_steps": 0.0,
}
SILENT = AlarmsConfig(**dict.fromkeys([*ABOVE, *BELOW, "grad_norm_ratio"]))


def names(metrics: dict[str, float], norms: list[float] | None = None, config: AlarmsConfig | None = None) -> list[str]:
    return [alarm.metric for alarm in alarms(metrics, config or AlarmsConfig(), norms or [])]


def test_a_healthy_update_rings_nothing() -> None:
    assert names(QUIET, [1.0] * 20) == []
    assert names({}) == []  # a critic pre-training has no such metrics


@pytest.mark.parametrize("name", [*ABOVE, *BELOW])
def test_each_alarm_rings_beyond_its_threshold_and_not_at_it(name: str) -> None:
    metric = next(known for known in QUIET if known.removeprefix("turns/") == name)
    threshold = getattr(AlarmsConfig(), name)
    beyond = threshold + (1e-6 if name in ABOVE else -1e-6)
    assert names(QUIET | {metric: threshold}) == []
    assert names(QUIET | {metric: beyond}) == [metric]
    assert names(QUIET | {metric: beyond}, config=SILENT) == []


def test_gradients_are_compared_with_their_median_of_late() -> None:
    assert names(QUIET | {"grad_norm/policy": 101.0}, [2.0, 2.0, 90.0, 2.0, 2.0]) == ["grad_norm/policy"]
    assert names(QUIET | {"grad_norm/policy": 99.0}, [2.0, 2.0, 90.0, 2.0, 2.0]) == []
    assert names(QUIET | {"grad_norm/policy": 101.0}, [2.0] * 4) == []  # too few to say


def test_an_alarm_is_told_when_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    callback = Alarms(AlarmsConfig())
    for update, kl in enumerate([0.01, 0.5, 0.6, 0.01, 0.7], start=1):
        metrics = QUIET | {"approx_kl": kl}
        trainer: Any = SimpleNamespace(update=update, is_main=True)
        callback.on_update(trainer, metrics)
        assert metrics["alarms"] == (kl > 0.3)
    said = "".join(capsys.readouterr())
    assert "alarm at update 2: approx_kl = 0.5 (threshold 0.3): the policy moves far" in " ".join(said.split())
    assert said.count("alarm at update") == 2


def test_c14_a_collapse_is_caught_before_its_tenth_bad_update(tmp_path: Path) -> None:
    """A learning rate of 1 ruins the policy at its first step; the run stops by itself, its metrics written."""
    sections: dict[str, Any] = {"optimizer": {"lr": 1.0}, "batch": {"updates": 30}, "evaluation": {"episodes": 0}}
    with pytest.raises(Alarmed, match=r"alarms.stop_after = 3.*lower optimizer.lr"):
        Trainer(recipe(tmp_path, alarms={"stop_after": 3}, **sections)).fit()
    rows = [row for row in read_metrics(tmp_path / "run" / "metrics.jsonl") if "approx_kl" in row]
    assert len(rows) < 10
    assert [row["alarms"] > 0 for row in rows[-2:]] == [True, True]


def test_a_healthy_run_is_not_stopped(tmp_path: Path) -> None:
    Trainer(recipe(tmp_path, alarms={"stop_after": 1}, evaluation={"episodes": 0})).fit()
