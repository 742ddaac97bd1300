"""benchmarks/seeds.py: what several runs of a recipe are pooled to, and that only runs of one recipe are."""

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentrl.configfile import dump_config, load_config
from agentrl.episode import Episode
from agentrl.evaluation import summarise
from agentrl.results import write_json
from agentrl.statistics import wilson

RECIPE = "name: tiny\ngame:\n  id: crafter\nbatch:\n  num_envs: 4\n  turns_per_env: 8\n  updates: 5\n"

NAMES = ("wake_up", "collect_wood", "a $x^{ <name>")


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return import_module("seeds")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(RECIPE)
    return path


def lives(unlocked: Sequence[int], length: int = 100) -> dict[str, Any]:
    """The evaluation of one episode for each of `unlocked`, which says how many of NAMES it unlocked."""
    played = [
        Episode("crafter", 0, length + n, float(n), None, n / 3, None, achievements=NAMES[:n], achievable=NAMES)
        for n in unlocked
    ]
    return {"crafter": summarise(played)}


def walks(successes: int, episodes: int) -> dict[str, Any]:
    """The evaluation of a game with a goal, and without achievements."""
    return {"road": summarise([Episode("road", 0, 7, 0.5, i < successes, None, None) for i in range(episodes)])}


def make_run(folder: Path, recipe: Path, seed: int, *overrides: str, **evaluations: dict[str, Any]) -> Path:
    """A run directory as training leaves it, with the metrics of five batches of ten episodes."""
    run_dir = folder / f"run-{seed}"
    run_dir.mkdir()
    own = [f"--seed={seed}", f"--name=run-{seed}", f"--output_dir={folder}", *overrides]
    (run_dir / "config.yaml").write_text(dump_config(load_config(recipe, own)))
    figures = {"seconds": 3.21, "cpu_seconds": 2.5, "turns": 160, "seed": seed, "machine": "a processor, 2 cores"}
    write_json(run_dir / "results.json", {**evaluations, **figures})
    rows = [
        {
            "update": n,
            "turns": 32.0 * n,
            "episode/count": 10.0,
            "episode/achievements": float(n),
            "episode/success": 0.5,
        }
        for n in range(1, 6)
    ]
    held_out = {"update": 5, "evaluation/after/crafter/achievements": 2.0}
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, held_out]))
    return run_dir


def test_seeds_are_pooled_as_one_observation_each(seeds: ModuleType, tmp_path: Path, recipe: Path) -> None:
    played = ([1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3])
    runs = [seeds.load(make_run(tmp_path, recipe, n, after=lives(unlocked))) for n, unlocked in enumerate(played)]
    found = seeds.pooled(runs, "after")
    # mean 2, deviation 1, t(2) = 4.303: 2 -+ 4.303 / sqrt(3)
    assert found["achievements"] == 2
    assert found["achievements_ci95"] == pytest.approx([-0.48434, 4.48434], abs=1e-4)
    assert found["episodes"] == 12
    assert found["length"] == 102
    assert found["progression"] == pytest.approx(2 / 3)
    assert found["achievement_rates"] == pytest.approx({NAMES[0]: 1, NAMES[1]: 2 / 3, NAMES[2]: 1 / 3})
    # scores of one, two and three rates of 100 % among three: 101 ** (k / 3) - 1
    assert found["score"] == pytest.approx((101 ** (1 / 3) + 101 ** (2 / 3) + 101) / 3 - 1)
    assert [(run["seed"], run["achievements"], run["length"]) for run in found["each"]] == [
        (0, 1, 101),
        (1, 2, 102),
        (2, 3, 103),
    ]
    assert found["each"][1]["achievements_ci95"] == [2, 2]
    assert "success" not in found
    assert seeds.pooled(runs, "random") is None


def test_a_lone_run_keeps_its_own_interval(seeds: ModuleType, tmp_path: Path, recipe: Path) -> None:
    evaluation = lives([0, 1, 3])
    found = seeds.pooled([seeds.load(make_run(tmp_path, recipe, 0, after=evaluation))], "after")
    assert found["achievements_ci95"] == evaluation["crafter"]["achievements_ci95"]
    assert found["score"] == pytest.approx(evaluation["crafter"]["score"])


def test_success_counts_episodes(seeds: ModuleType, tmp_path: Path, recipe: Path) -> None:
    evaluations = [walks(1, 4), walks(7, 8)]
    runs = [seeds.load(make_run(tmp_path, recipe, n, after=after)) for n, after in enumerate(evaluations)]
    found = seeds.pooled(runs, "after")
    assert found["success"] == pytest.approx(8 / 12)
    assert found["success_ci95"] == pytest.approx(wilson(8, 12))
    assert [run["success"] for run in found["each"]] == [0.25, 0.875]
    assert "achievement_rates" not in found
    assert "score" not in found


@pytest.mark.parametrize(("count", "t"), [(2, 12.706), (10, 2.262), (12, 2.262)])
def test_interval_over_seeds(seeds: ModuleType, count: int, t: float) -> None:
    low, high = seeds.over_seeds([0.0, 2.0] * (count // 2))
    deviation = (count / (count - 1)) ** 0.5
    assert (low, high) == pytest.approx((1 - t * deviation / count**0.5, 1 + t * deviation / count**0.5))


def test_curve_leaves_out_the_first_to_end(
    seeds: ModuleType, tmp_path: Path, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = import_module("seeds_figure")
    monkeypatch.setattr(figure, "POINT", 20)
    run = seeds.load(make_run(tmp_path, recipe, 0, after=lives([1])))
    # Four games: the batch that begins with no episode ended is left out; then two batches of ten make a point.
    assert figure.curve(run, "achievements") == [(96, 2.5), (160, 4.5)]
    run["metrics"][3]["episode/count"] = 30.0
    assert figure.curve(run, "achievements") == [(96, 2.5), (128, 4)]
    run["config"] = load_config(recipe, ["--batch.num_envs=11"])
    assert figure.curve(run, "achievements") == [(128, (10 * 3 + 30 * 4) / 40)]
    assert figure.curve(run, "return") == []


@pytest.mark.parametrize("measure", ["achievements", "success"])
def test_runs_that_exist_are_pooled_and_drawn(
    seeds: ModuleType, tmp_path: Path, recipe: Path, measure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = (lives([0, 1]), lives([2, 3], 400)) if measure == "achievements" else (walks(0, 2), walks(2, 2))
    rows = {"random": before, "before": before, "after": after}
    run_dirs = [make_run(tmp_path, recipe, n, **rows) for n in (0, 3)]
    picture = tmp_path / "docs" / "tiny.svg"
    seeds.main([str(recipe), "--from", *map(str, run_dirs), "--figure", str(picture), "--tracking.turns_every=3"])
    *text, last = capsys.readouterr().out.splitlines()
    summary = json.loads(last)
    assert summary["seeds"] == [0, 3]
    assert summary["cpu_seconds"] == [2.5, 2.5]
    assert summary["machine"] == "a processor, 2 cores"
    assert list(summary["after"])[:3] == ["episodes", measure, f"{measure}_ci95"]
    assert any(line.startswith("after ") and measure in line and "n=4" in line for line in text)
    assert any(line.startswith("  seed 3") for line in text)
    assert any(line.split() == ["collect_wood", "0.0", "0.0", "100.0"] for line in text) == (measure == "achievements")
    assert "</svg>" in picture.read_text()


def test_runs_of_other_recipes_are_refused(
    seeds: ModuleType, tmp_path: Path, recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = make_run(tmp_path, recipe, 0, "--torch_threads=2", after=lives([1]))
    other = make_run(tmp_path, recipe, 1, "--batch.updates=9", after=lives([1]))
    unfinished = make_run(tmp_path, recipe, 2, before=lives([1]))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.yaml").write_text(RECIPE)
    for run_dirs, said in (
        ([first, other], f"--from: {other}: batch.updates = 9, the recipe has 5: "),
        ([first, first], f"{first} and {first} both have seed 0: "),
        ([unfinished], f"{unfinished}: no evaluation after training; "),
        ([tmp_path / "empty"], f"{tmp_path / 'empty'}: cannot be read as a run: "),
        ([tmp_path / "nothing"], f"{tmp_path / 'nothing' / 'config.yaml'}: no such file"),
    ):
        with pytest.raises(SystemExit) as stopped:
            seeds.main([str(recipe), "--from", *map(str, run_dirs)])
        assert stopped.value.code == 2
        assert said in capsys.readouterr().err
    seeds.main([str(recipe), "--from", str(other), "--batch.updates=9"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--figure", "{tmp}/curves.xyz"], "--figure {tmp}/curves.xyz: the ending names the format, one of "),
        (["--figure", "{tmp}/tiny.yaml/curves.svg"], "--figure {tmp}/tiny.yaml/curves.svg: cannot be written: "),
        (["--jobs", "0"], "argument --jobs: 0: at least one"),
        (["--seeds", "1", "2", "1"], "argument --seeds: 1 2 1: give each seed once"),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(
    seeds: ModuleType,
    tmp_path: Path,
    recipe: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.setattr(seeds, "train", lambda *_: pytest.fail("a run was begun"))
    with pytest.raises(SystemExit) as stopped:
        seeds.main([str(recipe), *(argument.format(tmp=tmp_path) for argument in arguments)])
    assert stopped.value.code == 2
    assert said.format(tmp=tmp_path) in capsys.readouterr().err
