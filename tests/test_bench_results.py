"""A benchmark's numbers by hand, and BALROG's files: the same folders, names, fields and columns as its own."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrl.bench_results import ESCAPE, Folder, Played, Step, standard_error, task_figures, totals
from agentrl.bench_suite import Task, load_suite, original_names
from agentrl.errors import UserError
from agentrl.records import Turn
from agentrl.turn_files import read_turns

GOTO, BABA, CRAFTER = (Task(id, 2, {}) for id in ("babyai/goto", "babaisai/env/goto_win", "crafter"))

PLAYED = Played(
    task="babyai/goto",
    number=0,
    seed=5,
    success=True,
    progression=1.0,
    game_return=0.9,
    length=3,
    invalid=1,
    error=None,
    achievements=None,
    achievable=[],
    input_tokens=30,
    output_tokens=6,
    terminated=True,
    actions={"go forward": 2, "turn left": 1},
    failed_candidates=["fly"],
    mission="go to the red ball",
)
STEPS = [Step("go forward", "", "a wall, 1 step", 0.0, False), Step("fly", "so\nit is", 'a "wall"', 0.9, True)]

FIELDS = {
    name: set(fields.split())
    for name, fields in {
        "summary.json": "average_progress standard_error environments total_input_tokens total_output_tokens client "
        "agent",
        "game": "progression_percentage standard_error average_steps episodes_played tasks input_tokens output_tokens",
        "episode": "task action_frequency input_tokens output_tokens done episode_return num_steps failed_candidates "
        "mission progression process_num seed agent client",
    }.items()
}
"""As in a folder that BALROG wrote."""


def a_folder(path: Path) -> Folder:
    return Folder(path, {"type": "naive"}, {"client_name": "vllm", "model_id": "stub"})


def stored(folder: Folder, task: Task, played: Played) -> Played:
    turn = Turn(task.id, played.number, 0, 0, played.seed, [1], messages=[{"role": "user", "content": "x"}])
    folder.store(task, played, STEPS, [turn])
    return played


def test_standard_errors_are_of_the_population() -> None:
    assert standard_error([0.0, 1.0]) == pytest.approx(0.5 / 2**0.5)
    assert standard_error([1.0, 1.0, 1.0]) == 0.0
    assert standard_error([0.3]) == 0.0


def test_a_game_is_the_mean_of_its_episodes_and_overall_that_of_the_games() -> None:
    """Three episodes of one task and one of another count four times; two games count once each."""
    crafter = replace(PLAYED, task="crafter", progression=0.5)
    played = [
        *(replace(PLAYED, number=n, progression=p) for n, p in enumerate((1.0, 0.0, 0.0))),
        replace(PLAYED, task="babyai/open", progression=1.0),
        crafter,
        replace(crafter, progression=0.25),
        replace(crafter, progression=None, error="engine: no answer"),
    ]
    found = totals([GOTO, CRAFTER], played)
    assert found["games"]["babyai"] == {"progression": 50.0, "standard_error": 25.0, "episodes": 4}
    assert found["games"]["crafter"] == {
        "progression": 37.5,
        "standard_error": pytest.approx(12.5 / 2**0.5),
        "episodes": 2,
    }
    assert found["overall"] == {
        "progression": 43.75,
        "standard_error": pytest.approx((25.0**2 + 12.5**2 / 2) ** 0.5 / 2),
    }
    assert totals([GOTO], [])["overall"]["progression"] is None


def test_what_failed_is_counted_and_in_no_mean() -> None:
    failed = replace(PLAYED, number=1, success=None, progression=None, error="engine: no answer")
    figures = task_figures([PLAYED, failed])
    assert (figures["episodes"], figures["failed"], figures["success"], figures["progression"]) == (1, 1, 1.0, 1.0)
    assert [one["error"] for one in figures["episodes_list"]] == [None, "engine: no answer"]
    nothing = task_figures([failed])
    assert (nothing["episodes"], nothing["failed"]) == (0, 1)
    assert "success" not in nothing


def test_the_folders_and_files_are_balrogs(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    crafter = replace(PLAYED, task="crafter", achievements=["wake_up"], achievable=["wake_up", "eat_cow"], success=None)
    played = [
        stored(folder, GOTO, PLAYED),
        stored(folder, BABA, replace(PLAYED, task=BABA.id, terminated=False)),
        stored(folder, CRAFTER, crafter),
    ]
    folder.write_summaries([GOTO, BABA, CRAFTER], played, {"kind": "bench"})
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {name for name in found if not name.startswith("episodes/")} == {
        "babyai/BabyAI-MixedTrainLocal-v0/goto/BabyAI-MixedTrainLocal-v0/goto_run_00.csv",
        "babyai/BabyAI-MixedTrainLocal-v0/goto/BabyAI-MixedTrainLocal-v0/goto_run_00.json",
        "babyai/babyai_summary.json",
        "babaisai/env/goto_win/env/goto_win_run_00.csv",
        "babaisai/env/goto_win/env/goto_win_run_00.json",
        "babaisai/babaisai_summary.json",
        "crafter/default/default_run_00.csv",
        "crafter/default/default_run_00.json",
        "crafter/crafter_summary.json",
        "summary.json",
        "results.json",
        "turns.parquet",
    }

    def read(name: str) -> dict[str, Any]:
        return json.loads((tmp_path / name).read_text())

    episode = read("babyai/BabyAI-MixedTrainLocal-v0/goto/BabyAI-MixedTrainLocal-v0/goto_run_00.json")
    assert episode.keys() == FIELDS["episode"]
    assert (episode["task"], episode["done"], episode["num_steps"]) == ("BabyAI-MixedTrainLocal-v0/goto", True, 3)
    other = read("babaisai/env/goto_win/env/goto_win_run_00.json")
    assert other.keys() == FIELDS["episode"] - {"done", "mission"} | {"target_plan"}
    assert read("crafter/default/default_run_00.json")["achievements"] == {"eat_cow": 0, "wake_up": 1}
    assert read("babyai/babyai_summary.json").keys() == FIELDS["game"]
    assert read("babyai/babyai_summary.json")["tasks"] == {
        "BabyAI-MixedTrainLocal-v0/goto": {
            "progression_percentage": 100.0,
            "standard_error": 0.0,
            "episodes_played": 1,
        }
    }
    assert read("summary.json").keys() == FIELDS["summary.json"]
    assert [turn.game for turn in read_turns(tmp_path / "turns.parquet")] == [GOTO.id, BABA.id, CRAFTER.id]


def test_the_fields_are_those_of_a_recorded_folder() -> None:
    """Where the recorded folder is at hand."""
    example = Path(__file__).parents[2] / "shared" / "golden" / "results_example"
    if not example.is_dir():
        pytest.skip("no recorded folder here")
    assert json.loads((example / "summary.json").read_text()).keys() == FIELDS["summary.json"]
    assert json.loads((example / "babyai" / "babyai_summary.json").read_text()).keys() == FIELDS["game"]
    run = example / "babyai/BabyAI-MixedTrainLocal-v0/goto/BabyAI-MixedTrainLocal-v0/goto_run_00"
    assert json.loads(run.with_suffix(".json").read_text()).keys() == FIELDS["episode"] - {"done"}
    with run.with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, escapechar=ESCAPE))
    assert rows[0] == ["Step", "Action", "Reasoning", "Observation", "Reward", "Done"]


def test_an_episodes_lines_survive_their_csv(tmp_path: Path) -> None:
    hostile = [Step('a,"b"\n', "r\u02d8\ud800", "=1+1\r\n\x00é", -0.5, False)]
    folder = a_folder(tmp_path)
    folder.store(CRAFTER, replace(PLAYED, task="crafter"), [*STEPS, *hostile], [])
    with (tmp_path / "crafter/default/default_run_00.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader((line.replace("\x00", "?") for line in file), escapechar=ESCAPE))
    assert rows[1] == ["0", "go forward", "", "a wall, 1 step", "0.0", "False"]
    assert rows[2] == ["1", "fly", "so\nit is", 'a "wall"', "0.9", "True"]
    assert rows[3][1] == 'a,"b"\n'
    assert rows[3][4:] == ["-0.5", "False"]


def test_a_failed_episode_is_played_again_and_has_no_file_of_balrogs(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    assert folder.stored(GOTO, 0) is None
    stored(folder, GOTO, replace(PLAYED, error="crashed: x"))
    assert folder.stored(GOTO, 0) is None
    assert not list(tmp_path.glob("babyai/**/*.csv"))
    stored(folder, GOTO, PLAYED)
    assert folder.stored(GOTO, 0) == PLAYED
    own = next((tmp_path / "episodes").rglob("0000.json"))
    own.write_text(own.read_text()[:40])
    assert folder.stored(GOTO, 0) is None


@pytest.mark.parametrize(
    ("game_id", "names"),
    [
        ("babyai/open", ("babyai", "BabyAI-MixedTrainLocal-v0/open")),
        ("babyai/BabyAI-GoToObj-v0", ("babyai", "BabyAI-GoToObj-v0")),
        ("babaisai/env/make_win", ("babaisai", "env/make_win")),
        ("crafter", ("crafter", "default")),
        ("crafter/default", ("crafter", "default")),
        ("textworld/cooking", ("textworld", "the_cooking_game")),
        ("minihack/Corridor-R3", ("minihack", "MiniHack-Corridor-R3-v0")),
        ("nle", ("nle", "NetHackChallenge-v0")),
        ("games/mine.py:Guess", ("file", "mine-Guess")),
    ],
)
def test_what_balrog_calls_a_task(game_id: str, names: tuple[str, str]) -> None:
    assert original_names(game_id) == names


def test_the_suite_is_balrogs() -> None:
    suite = load_suite("balrog", ["babyai/*", "babaisai/*", "crafter"])
    counts: dict[str, int] = {}
    for task in suite.tasks:
        counts[task.game] = counts.get(task.game, 0) + task.episodes
    assert counts == {"babyai": 50, "babaisai": 120, "crafter": 10}
    assert {task.episodes for task in load_suite("balrog", ["crafter"], 2).tasks} == {2}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("name: x\ntasks: [{id: babyai/gotoo}]", "did you mean 'babyai/goto'"),
        ("name: x\ntasks: [{id: 'babyi/*'}]", "no game babyi; did you mean babyai"),
        ("name: x\ntasks: [{id: 'babyai/zz*'}]", "no task of babyai matches"),
        ("name: x\ntasks: [{id: crafter, episode: 3}]", "tasks.0.episode: no such field"),
        ("name: x\ntasks: [{id: crafter, episodes: 0}]", "tasks.0.episodes"),
        ("name: x\ntasks: [{id: crafter}, {id: crafter}]", "crafter comes twice"),
        ("name: x\ntasks: [{id: crafter, options: {colour: red}}]", "crafter has no such option"),
        ("name: x\ntasks: []", "tasks"),
        ("tasks", "mine.yaml"),
    ],
)
def test_a_suite_that_is_none_is_one_line(content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(content)
    with pytest.raises(UserError) as caught:
        load_suite(str(tmp_path / "mine.yaml"))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_suites_and_tasks_that_are_not_there() -> None:
    with pytest.raises(UserError, match="--suite balrok: no such suite; did you mean balrog"):
        load_suite("balrok")
    with pytest.raises(UserError, match=r"--suite no.yaml: no such file"):
        load_suite("no.yaml")
    with pytest.raises(UserError, match="--tasks babyai/gotoo: no task of suite quick; did you mean babyai/goto"):
        load_suite("quick", ["babyai/gotoo"])
