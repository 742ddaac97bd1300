"""Comparisons: numbers by hand, pairs by seed, groups over training seeds, what is published, hostile names."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from agentrl.cli import app
from agentrl.compare import Figure, difference, differing, load_entry, pooled, shared_metric
from agentrl.errors import UserError
from agentrl.published import find_rows, published_rows
from agentrl.statistics import bootstrap_seeds, interquartile_mean, paired_difference, wilson


def bench(
    folder: Path, scores: dict[str, list[float]], settings: dict[str, Any] | None = None, first: int = 100
) -> Path:
    """A benchmark's results: progression of each episode, success where it is 1; Crafter knows no success."""
    tasks = {
        task: {
            "episodes_list": [
                {
                    "seed": first + number,
                    "number": number,
                    "success": None if task == "crafter" else score == 1.0,
                    "progression": score,
                    "return": 2 * score,
                    "error": None,
                }
                for number, score in enumerate(found)
            ]
        }
        for task, found in scores.items()
    }
    content = {
        "kind": "bench",
        "tasks": tasks,
        "settings": {"agent": "naive"} | (settings or {}),
        "overall": {"progression": 12.0, "standard_error": 3.0},
    }
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(content))
    return folder


def run(folder: Path, success: float, episodes: int = 10) -> Path:
    figures = {
        "episodes": episodes,
        "success": success,
        "success_ci95": [0.1, 0.9],
        "return": 1.0,
        "return_ci95": [0, 2],
    }
    before = figures | {"success": 0.0}
    content = {"before": {"babyai/goto": before}, "after": {"babyai/goto": figures}, "versions": {"crafter": "1"}}
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(content))
    return folder


def compare(*arguments: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    assert result.exit_code == status, f"{result.output}{result.exception}"
    return result.output


def test_a_benchmarks_figures_by_hand(tmp_path: Path) -> None:
    entry = load_entry(str(bench(tmp_path / "a", {"babyai/goto": [1.0, 0.0, 1.0, 1.0], "crafter": [0.5, 0.25]})))
    success = entry.figures["success", "babyai/goto"]
    assert (success.mean, success.low, success.high) == (0.75, *wilson(3, 4))
    assert success.values == {100: 1.0, 101: 0.0, 102: 1.0, 103: 1.0}
    assert entry.figures["progression", "crafter"].mean == 0.375
    assert ("success", "crafter") not in entry.figures
    assert entry.overall == (12.0, 3.0)


def test_pairs_are_those_of_the_same_seeds() -> None:
    ours = Figure(0, 0, 0, 3, {1: 1.0, 2: 1.0, 3: 0.0})
    theirs = Figure(0, 0, 0, 3, {2: 0.0, 3: 0.0, 4: 1.0})
    found = difference(ours, theirs)
    assert found is not None
    assert found[0] == 0.5
    assert difference(ours, Figure(0, 0, 0, 1, {9: 1.0})) is None


def test_pairing_tells_more_than_two_intervals() -> None:
    """Levels of very different difficulty, on each of which ours is a little better."""
    rng = np.random.default_rng(0)
    theirs = rng.uniform(0, 1, 40)
    ours = theirs + rng.uniform(0.01, 0.03, 40)
    mean, low, high = paired_difference(ours.tolist(), theirs.tolist())
    assert 0.01 < low < mean < high < 0.03
    with pytest.raises(ValueError, match="pairs are needed"):
        paired_difference([], [])
    with pytest.raises(ValueError, match="pairs are needed"):
        paired_difference([1.0], [1.0, 2.0])


def test_the_interval_over_seeds_is_wider_than_over_episodes() -> None:
    """Each seed is sure of its own mean; only the seeds differ."""
    runs = [[0.2] * 50, [0.5] * 50, [0.8] * 50]
    low, high = bootstrap_seeds(runs)
    assert low <= 0.3
    assert high >= 0.7
    assert bootstrap_seeds([[0.5] * 9] * 3) == (0.5, 0.5)
    assert np.isnan(bootstrap_seeds([])[0])


@pytest.mark.parametrize(
    ("values", "mean"),
    [([1, 2, 3, 4], 2.5), ([0, 1, 2, 3, 4, 5, 6, 100], 3.5), ([7], 7.0), ([0, 10], 5.0), ([0, 0, 9], 9 / 6)],
)
def test_the_interquartile_mean_by_hand(values: list[float], mean: float) -> None:
    """Of three values the middle one weighs 1/3, the outer ones 1/12 each: (1/3 * 0 + 1/12 * 9) / (1/2)."""
    assert interquartile_mean(values) == pytest.approx(mean)


def test_a_runs_last_evaluation_is_meant_unless_another_is_named(tmp_path: Path) -> None:
    folder = run(tmp_path / "r", 0.8)
    assert load_entry(str(folder)).figures["success", "babyai/goto"].mean == 0.8
    assert load_entry(f"{folder}:before").figures["success", "babyai/goto"].mean == 0.0
    with pytest.raises(UserError, match=r"no evaluation befor; did you mean before\?; there are: before, after"):
        load_entry(f"{folder}:befor")


def test_a_group_is_the_mean_of_its_runs(tmp_path: Path) -> None:
    entries = [load_entry(str(run(tmp_path / name, success))) for name, success in (("a", 0.6), ("b", 0.8))]
    figure = pooled("both", entries).figures["success", "babyai/goto"]
    assert figure.mean == pytest.approx(0.7)
    assert (figure.low, figure.high, figure.episodes) == (0.6, 0.8, 20)


def test_the_metric_that_most_tasks_have(tmp_path: Path) -> None:
    one = load_entry(str(bench(tmp_path / "a", {"babyai/goto": [1.0], "crafter": [0.5]})))
    two = load_entry(str(run(tmp_path / "r", 0.5)))
    assert shared_metric([one], None) == "progression"
    assert shared_metric([one, two], None) == "success"
    with pytest.raises(UserError, match="--metric progression: not every entry has it"):
        shared_metric([one, two], "progression")


def test_settings_that_move_a_score_are_said(tmp_path: Path) -> None:
    one = load_entry(str(bench(tmp_path / "a", {"crafter": [1.0]}, {"history": 16})))
    two = load_entry(str(bench(tmp_path / "b", {"crafter": [1.0]}, {"history": 4})))
    assert len(differing([one, two])) == 1
    assert "played with different history: " in differing([one, two])[0]


def test_what_failed_and_how_games_were_played_is_said(tmp_path: Path) -> None:
    one, two = (bench(tmp_path / name, {"babyai/goto": [1.0, 0.0]}) for name in ("one", "two"))
    content = json.loads((two / "results.json").read_text())
    row = content["tasks"]["babyai/goto"]
    row["episodes_list"].append(row["episodes_list"][0] | {"seed": 999, "error": "engine: lost"})
    row |= {"options": {"num_dists": 8}, "max_turns": 64}
    (two / "results.json").write_text(json.dumps(content))
    told = " ".join(compare(one, f"{two}/").split())
    assert "1 of 3 episodes of babyai/goto failed and are in no figure" in told
    assert "played with different options of babyai/goto" in told
    assert "played with different turns of babyai/goto" in told
    assert "n = 2" in told
    assert "given twice" in compare(one, f"{one}/", status=2)
    grouped = compare("--group", f"both={one},{two}", one)
    assert "within the group both, played with different options" in " ".join(grouped.split())


def test_a_figure_without_an_interval_has_none(tmp_path: Path) -> None:
    folder = run(tmp_path / "r", 0.5)
    content = json.loads((folder / "results.json").read_text())
    content["after"]["babyai/goto"]["progression"] = 0.25
    (folder / "results.json").write_text(json.dumps(content))
    assert "0.250, n = 10" in compare(folder, "--metric", "progression", "--out", tmp_path / "c.json")
    data = json.loads((tmp_path / "c.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert data["rows"][0]["entries"][str(folder)]["low"] is None
    compare(folder, "--metric", "progression", "--out", tmp_path / "c.svg")


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    one = bench(tmp_path / "one", {"babyai/goto": [1.0, 0.0, 1.0], "crafter": [0.5, 0.25]})
    two = bench(tmp_path / "two", {"babyai/goto": [1.0, 1.0, 1.0], "crafter": [0.5, 0.5]}, {"history": 4})
    told = compare(one, two, "--published", "qwen2.5-7b-instruct", "--out", tmp_path / "c.md")
    assert "two - one, same seeds" in told
    assert "+0.333" in told
    assert "12.0 ± 3.0" in told
    assert "published, not measured: Qwen2.5-7B-Instruct" in told
    assert "8 distractors" in " ".join(told.split())
    assert "played with different history" in told
    table = (tmp_path / "c.md").read_text()
    assert table.startswith("| progression | one | two | two - one, same seeds | random | scripted |")
    compare(one, two, "--out", tmp_path / "c.json")
    data = json.loads((tmp_path / "c.json").read_text())
    assert data["rows"][0]["difference_to_first"][str(two)][0] == pytest.approx(1 / 3)
    compare(one, two, "--out", tmp_path / "c.svg")
    assert (tmp_path / "c.svg").stat().st_size > 5000


def test_hostile_names_are_shown_as_they_are(tmp_path: Path) -> None:
    one = bench(tmp_path / "[red]$x$<b>|", {"[bold]<script>|`$y$": [1.0, 0.0]})
    told = compare(one, "--out", tmp_path / "c.md")
    assert "[bold]<script>|`$y$" in told
    assert "[red]$x$<b>|" in told
    assert "<script>" not in (tmp_path / "c.md").read_text()
    compare(one, "--out", tmp_path / "c.svg")


def test_groups_on_the_command_line(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", 0.6), run(tmp_path / "b", 0.8)
    told = compare("--group", f"ours={a},{b}", b)
    assert "0.700 [0.600, 0.800]" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "nothing to compare"),
        (("/no/such",), "cannot be read"),
        (("{a}", "{a}"), "given twice"),
        (("{a}", "{other}"), "no task in common"),
        (("{a}", "--metric", "sucess"), "did you mean success"),
        (("{a}", "--published", "Qwen2.5-7B-Instrct"), "did you mean Qwen2.5-7B-Instruct"),
        (("{a}", "--out", "x.docx"), "ends in one of"),
        (("--group", "ours"), "write --group NAME=RUN"),
        (("{text}",), "is not JSON"),
        (("{list}",), "holds no results"),
        (("{empty}",), "no evaluation in it"),
        (("{torn}",), "is damaged"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    files = {
        "a": bench(tmp_path / "a", {"babyai/goto": [1.0]}),
        "other": bench(tmp_path / "other", {"babyai/open": [1.0]}),
        **{name: tmp_path / f"{name}.json" for name in ("text", "list", "empty", "torn")},
    }
    for name, content in {
        "text": "hm",
        "list": "[1]",
        "empty": "{}",
        "torn": '{"kind": "bench", "tasks": [1]}',
    }.items():
        files[name].write_text(content)
    output = compare(*(argument.format(**files) for argument in arguments), status=2)
    assert told in " ".join(output.split())


def test_what_is_published_has_a_source_and_percents() -> None:
    rows = published_rows()
    assert len(rows) >= 19
    for row in rows.values():
        assert row.source
        assert row.date
        for figure in [*row.games.values(), *row.tasks.values()]:
            assert figure["progression"] is not None
            assert 0 <= figure["progression"] <= 100
    assert rows["Qwen2.5-72B-Instruct"].games["crafter"] == {"progression": 27.3, "standard_error": 3.6}
    assert len(find_rows(["all"])) == len(rows)
