"""The table of estimators: its figures by hand; the memories' cells name memories that exist."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from agentrl.config import PromptConfig
from agentrl.memory import make_memory


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return import_module(request.param)


estimators = pytest.mark.parametrize("benchmark", ["estimators"], indirect=True)


@estimators
def test_the_goal_is_reached_where_five_batches_mean_it(benchmark: ModuleType) -> None:
    rows = [(100 * n, success) for n, success in enumerate([0.5, 0.9, 0.9, 0.9, 0.9, 0.9, 1.0], start=1)]
    assert benchmark.turns_to_goal(rows) == 600
    assert benchmark.turns_to_goal(rows[:5]) is None
    assert benchmark.turns_to_goal([]) is None


@estimators
def test_a_line_has_the_middle_seeds_and_who_reached_the_goal(benchmark: ModuleType) -> None:
    runs = [
        {"success": success, "achievements": None, "turns_to_goal": goal, "cpu_seconds": 10.0}
        for success, goal in ((0.0, None), (0.5, 900), (1.0, 700), (0.5, None))
    ]
    told = benchmark.line("s5n2/grpo", runs)
    assert told.startswith("| s5n2/grpo | 0.500 [")
    assert told.endswith("success | 0.00 0.50 1.00 0.50 | 800 (2 of 4) | 10 |")
    mean, low, high = benchmark.over_seeds([0.4, 0.4, 0.4])
    assert (mean, low, high) == pytest.approx((0.4, 0.4, 0.4))


@estimators
def test_a_small_run_is_kept_and_not_done_again(benchmark: ModuleType, tmp_path: Path) -> None:
    small = ["--batch.num_envs=8", "--batch.turns_per_env=4", "--evaluation.episodes=2", "--imitation.episodes=0"]
    first = benchmark.train("s5n2/gigpo", 0, 40, tmp_path, small)
    assert first["turns"] >= 40
    assert benchmark.train("s5n2/gigpo", 0, 40, tmp_path, ["--no.such=field"]) == first


@pytest.mark.parametrize("benchmark", ["memory"], indirect=True)
def test_every_memory_can_be_made(benchmark: ModuleType) -> None:
    for settings in benchmark.MEMORIES.values():
        assert make_memory(PromptConfig(**{name: value for name, value in settings.items() if name != "style"}))
