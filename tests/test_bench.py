"""`agentrl bench` end to end: players, a tiny model in process and behind an endpoint, failures, kill and resume."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, Fault, constant, model_answer
from models import tiny_model
from typer.testing import CliRunner

from agentrl.bench_config import FILE
from agentrl.cli import app
from agentrl.turn_files import read_turns

SUITE = """
name: mine
tasks:
  - {id: babyai/goto, episodes: 2}
  - {id: babaisai/env/goto_win, episodes: 2}
  - {id: recall, episodes: 3, options: {length: 3}}
"""
SHORT = """
name: short
tasks:
  - {id: recall, episodes: 3, options: {length: 4}}
  - {id: toytext/blackjack, episodes: 3}
"""
VARYING = ("seconds", "machine", "versions", "commit")


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(SUITE)
    return file


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


def bench(*arguments: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert result.exit_code == status, f"{result.output}{result.exception}"
    return result.output


def results(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "results.json").read_text())


def fixed(folder: Path) -> dict[str, Any]:
    return {name: value for name, value in results(folder).items() if name not in VARYING}


def original_files(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.suffix in (".csv", ".json")]
    skip = ("results.json", FILE, "summary.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.name not in skip}


def test_the_scripted_player_wins_and_what_is_kept_tells_how(suite: Path, tmp_path: Path) -> None:
    told = bench("--player", "scripted", "--suite", suite, "--out", tmp_path / "out")
    assert "all games" in told
    found = results(tmp_path / "out")
    assert found["overall"] == {"progression": 100.0, "standard_error": 0.0}
    assert {game: row["episodes"] for game, row in found["games"].items()} == {"babyai": 2, "babaisai": 2, "recall": 3}
    assert found["tasks"]["recall"]["max_turns"] == 3
    assert found["tasks"]["recall"]["options"] == {"length": 3}
    assert found["reference"].keys() == {"babyai/goto", "babaisai/env/goto_win"}  # recall is played with an option
    assert found["agent"]["parsing"] == "strict"
    assert len(found["agent"]["prompts_sha256"]["recall"]) == 64
    assert found["settings"]["history"] == 16
    seeds = [one["seed"] for row in found["tasks"].values() for one in row["episodes_list"]]
    assert seeds == [2**30, 2**30 + 1, 2**30, 2**30 + 1, 2**30, 2**30 + 1, 2**30 + 2]
    turns = read_turns(tmp_path / "out" / "turns.parquet")
    assert {(turn.game, turn.slot) for turn in turns} == {
        (task, number) for task, row in found["tasks"].items() for number in range(row["episodes"])
    }
    with (tmp_path / "out" / "recall/default/default_run_00.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["Action"] for row in rows[:2]] == ["go on", "go on"]
    assert rows[1]["Observation"] == "Which word was it?"
    assert (rows[2]["Observation"], rows[2]["Reward"], rows[2]["Done"]) == ("Right.", "1.0", "True")


def test_every_style_plays_the_scripted_player(suite: Path, tmp_path: Path) -> None:
    for style in ("cot", "robust_naive", "robust_cot", "plan", "few_shot"):
        bench(
            "--player", "scripted", "--suite", suite, "--tasks", "recall", "--agent", style, "--out", tmp_path / style
        )
        assert results(tmp_path / style)["overall"]["progression"] == 100.0


def test_random_play_does_not_depend_on_how_many_play_at_a_time(suite: Path, tmp_path: Path) -> None:
    for workers in (1, 3, 16):
        bench("--player", "random", "--suite", suite, "--workers", workers, "--out", tmp_path / str(workers))
    assert fixed(tmp_path / "1") == fixed(tmp_path / "3") == fixed(tmp_path / "16")
    bench("--player", "random", "--suite", suite, "--tasks", "recall", "--out", tmp_path / "alone")
    assert fixed(tmp_path / "alone")["tasks"]["recall"] == fixed(tmp_path / "1")["tasks"]["recall"]
    bench("--player", "random", "--suite", suite, "--seed", 1, "--out", tmp_path / "other")
    assert fixed(tmp_path / "other")["tasks"] != fixed(tmp_path / "1")["tasks"]


def test_one_level_for_all_episodes_of_a_task(suite: Path, tmp_path: Path) -> None:
    bench("--player", "random", "--suite", suite, "--balrog-seeding", "--seed", 5, "--out", tmp_path / "out")
    lists = [row["episodes_list"] for row in results(tmp_path / "out")["tasks"].values()]
    assert {one["seed"] for episodes in lists for one in episodes} == {5}


def test_a_model_in_process_and_behind_an_endpoint_play_the_same(suite: Path, tmp_path: Path, model: Path) -> None:
    """Prompts fit the context: behind an endpoint nobody drops the oldest events."""
    suite.write_text(SHORT)
    common = ("--suite", suite, "--max-tokens", 6, "--history", 3)
    bench("--model", model, *common, "--out", tmp_path / "here")
    with ChatServer(model_answer(model), model="tiny") as server:
        bench("--model", "tiny", "--engine", "openai", "--base-url", server.url, *common, "--out", tmp_path / "there")
        assert server.most > 1
    here, there = fixed(tmp_path / "here"), fixed(tmp_path / "there")
    assert here["tasks"] == there["tasks"]
    turns = [read_turns(tmp_path / name / "turns.parquet") for name in ("here", "there")]
    replies = [[turn.reply_text for turn in found] for found in turns]
    assert replies[0] == replies[1]
    assert len(set(replies[0])) > 1


def test_legal_actions_alone(suite: Path, tmp_path: Path, model: Path) -> None:
    for style in ("naive", "cot"):
        bench("--model", model, "--suite", suite, "--tasks", "recall", "--constrain", "--agent", style,
              "--max-tokens", 40, "--out", tmp_path / style)  # fmt: skip
    assert results(tmp_path / "naive")["tasks"]["recall"]["invalid_fraction"] == 0.0


def test_an_endpoint_that_fails_costs_its_episode_until_it_is_resumed(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with ChatServer(constant("go on")) as server:
        common = ("--model", "tiny", "--engine", "openai", "--base-url", server.url, "--max-retries", 0)
        server.faults.extend([Fault(), Fault(status=500, body={"error": {"message": "lost"}})])
        told = bench(*common, "--suite", suite, "--tasks", "recall", "--workers", 1, "--out", out, status=1)
        assert "1 of 3 episodes failed" in told
        found = results(out)["tasks"]["recall"]
        assert (found["episodes"], found["failed"]) == (2, 1)
        assert "engine: " in found["episodes_list"][0]["error"]
        asked = len(server.bodies)
        bench("--resume", out)
        found = results(out)["tasks"]["recall"]
        assert (found["episodes"], found["failed"]) == (3, 0)
        assert len(server.bodies) == asked + 3  # the failed one alone was played again
        bench("--resume", out)
        assert len(server.bodies) == asked + 3


def test_killed_and_resumed_is_as_if_nothing_had_been(suite: Path, tmp_path: Path, model: Path) -> None:
    suite.write_text(SHORT)
    arguments = ["--model", model, "--suite", suite, "--max-tokens", 4, "--workers", 1]
    bench(*arguments, "--out", tmp_path / "whole")
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-m", "agentrl", "bench", *map(str, arguments), "--out", str(killed)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    until = time.monotonic() + 120
    while len(list(killed.glob("episodes/**/*.json"))) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "results.json").exists()
    assert 2 <= len(list(killed.glob("episodes/**/*.json"))) < 6
    bench("--resume", killed)
    assert fixed(killed) == fixed(tmp_path / "whole")
    assert original_files(killed) == original_files(tmp_path / "whole")
    assert read_turns(killed / "turns.parquet") == read_turns(tmp_path / "whole" / "turns.parquet")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "which model? Give --model NAME"),
        (("--player", "randm"), "--player randm: one of model, random, scripted; did you mean random?"),
        (("--player", "random", "--model", "x"), "exclude each other"),
        (("--player", "random", "--agent", "cott"), "--agent cott: one of naive"),
        (("--player", "random", "--suite", "balrok"), "did you mean balrog"),
        (("--model", "x", "--base-url", "http://127.0.0.1:1/v1"), "only with --engine openai"),
        (("--model", "x", "--engine", "vllm"), "--engine vllm: not in process yet"),
        (("--model", "x", "--constrain", "--agent", "robust_cot"), "--constrain: not with --agent robust_cot"),
        (("--model", "/no/such/model"), "no such folder"),
        (("--player", "random", "--parsing", "loose"), "--parsing loose: one of strict, tolerant"),
        (("--player", "random", "--tasks", "babyai/zzz"), "no task of suite balrog"),
        (("--player", "random", "--prompts", "/no/such"), "--prompts /no/such: no such folder"),
        (("--resume", "/no/such"), "no benchmark in this folder"),
        (("--resume", "x", "--out", "y"), "exclude each other"),
        (("--episodes", "0", "--player", "random"), "--episodes"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_leaves_nothing(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    out = () if "--resume" in arguments else ("--out", tmp_path / "out")
    assert told in bench(*arguments, *out, status=2)
    assert not (tmp_path / "out").exists()


def test_a_resumed_benchmark_is_the_same_one(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    bench("--player", "random", "--suite", suite, "--tasks", "recall", "--out", out)
    assert "begun with 16; leave it out" in bench("--resume", out, "--history", 4, status=2)
    bench("--resume", out, "--history", 16, "--workers", 2)
    assert "go on with it by --resume" in bench("--player", "random", "--suite", suite, "--out", out, status=2)
    (out / FILE).write_text("{")
    assert "is damaged" in bench("--resume", out, status=2)


def test_nobody_listens_is_one_line(suite: Path, tmp_path: Path) -> None:
    told = bench("--model", "x", "--engine", "openai", "--base-url", "http://127.0.0.1:9/v1", "--suite", suite,
                 "--max-retries", 0, "--out", tmp_path / "out", status=2)  # fmt: skip
    assert "http://127.0.0.1:9/v1" in told
