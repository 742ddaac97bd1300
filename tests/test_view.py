"""The page's folder, and the server that keeps it up to date."""

import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_folders import turn, write_run
from typer.testing import CliRunner
from viewed_turns import HOSTILE, hostile_turns, played

from agentrl.cli import app
from agentrl.errors import UserError
from agentrl.turn_files import write_turns
from agentrl.view import View, write_chunk
from agentrl.view_server import make_server


def chunk(page: Path, name: str) -> Any:
    """What the page gets of a data file."""
    text = (page / "data" / f"{name}.js").read_text(encoding="ascii")
    head = f"agentrl.chunk({json.dumps(name)},"
    assert text.startswith(head)
    assert text.endswith(");\n")
    return json.loads(text[len(head) : -3])


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    write_run(tmp_path / "demo")
    episodes = [*played("babyai/goto", seed=3, most=12), *played("babyai/BabyAI-GoToLocalS5N2-v0", seed=4, slot=1)]
    write_turns(tmp_path / "demo" / "turns" / "evaluation-after.parquet", episodes)
    return tmp_path / "demo"


def test_the_folder_is_complete(run_dir: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["view", str(run_dir), "--out", str(tmp_path / "page"), "--frames", "1"])
    assert result.exit_code == 0, result.output
    page = tmp_path / "page"
    html = (page / "index.html").read_text()
    scripts = [part.partition('"')[0] for part in html.split('<script src="')[1:]]
    assert {"base.js", "player.js", "main.js"} <= set(scripts)
    assert all((page / script).exists() for script in scripts)
    assert "default-src 'none'" in html
    assert "http" not in html.replace("http-equiv", "")
    source = chunk(page, "0")
    assert source["episodes"]["length"] == [12, len(chunk(page, "0/0/1")["turn"])]
    assert source["episodes"]["frames"] == [True, False]
    assert source["files"] == [[0, "evaluation-after"]]
    assert chunk(page, "index")["live"] is False
    assert len(chunk(page, "0/0/0.frames")["tiles"]) == 13
    assert not (page / "data/0/0/1.frames.js").exists()


def test_a_replay_tells_whether_an_episode_succeeded(run_dir: Path, tmp_path: Path) -> None:
    View([run_dir], tmp_path / "page", frames=2).refresh()
    episodes = chunk(tmp_path / "page", "0")["episodes"]
    last = chunk(tmp_path / "page", "0/0/1")
    assert episodes["success"] == [None, last["terminated"][-1]]
    assert episodes["progression"][1] == float(last["terminated"][-1])


def test_results_of_a_benchmark_tell_it_too(tmp_path: Path) -> None:
    entry = {"number": 1, "seed": 9, "success": False, "progression": 0.25}
    other = {"number": 0, "seed": 8, "success": True, "progression": 1.0}  # of another play: the seed differs
    results = {"kind": "bench", "tasks": {"made/up": {"episodes": 2, "episodes_list": [other, entry]}}}
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "results.json").write_text(json.dumps(results))
    turns = [replace(turn(0), game="made/up", slot=0), replace(turn(0), game="made/up", slot=1)]
    write_turns(tmp_path / "result" / "turns.parquet", turns)
    View([tmp_path / "result"], tmp_path / "page", frames=0).refresh()
    episodes = chunk(tmp_path / "page", "0")["episodes"]
    assert episodes["success"] == [None, False]
    assert episodes["progression"] == [None, 0.25]


def test_nothing_that_could_end_a_script_is_in_a_chunk(tmp_path: Path) -> None:
    write_run(tmp_path / "demo")
    write_turns(tmp_path / "demo" / "turns" / "evaluation-after.parquet", hostile_turns())
    View([tmp_path / "demo"], tmp_path / "page", frames=1).refresh()
    for path in (tmp_path / "page" / "data").rglob("*.js"):
        text = path.read_bytes()
        assert text.isascii()
        assert b"<" not in text
        assert text.count(b"\n") == 1
    assert chunk(tmp_path / "page", "0/0/0")["action"] == list(HOSTILE)


def test_a_lone_surrogate_survives(tmp_path: Path) -> None:
    write_chunk(tmp_path, "x", ["\ud800", "\u2028<"])
    assert (tmp_path / "x.js").read_text() == 'agentrl.chunk("x",["\\ud800","\\u2028\\u003c"]);\n'


def test_only_what_changed_is_read_again(run_dir: Path, tmp_path: Path) -> None:
    page = tmp_path / "page"
    view = View([run_dir], page, frames=0)
    view.refresh(live=True)
    first = chunk(page, "index")
    view.refresh(live=True)
    assert chunk(page, "index") == first
    written = (page / "data/0/0/0.js").stat().st_mtime_ns
    with (run_dir / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"update": 31, "episode/success": 0.5}) + "\n")
    write_turns(run_dir / "turns" / "update-000031.parquet", [turn(5), turn(6)])
    view.refresh(live=True)
    source = chunk(page, "0")
    assert source["curves"]["update"][-1] == 31
    assert source["files"] == [[0, "evaluation-after"], [1, "update-000031"]]
    assert source["episodes"]["length"][-1] == 2
    assert (page / "data/0/0/0.js").stat().st_mtime_ns == written
    assert chunk(page, "index")["sources"] != first["sources"]


def test_a_folder_of_something_else_is_left_alone(run_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    with pytest.raises(UserError, match="other things in it"):
        View([run_dir], tmp_path / "mine", frames=0)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "dear"
    View([run_dir], tmp_path / "page", frames=0)
    View([run_dir], tmp_path / "page", frames=0)  # its own is replaced


def test_a_broken_turn_file_is_a_note(run_dir: Path, tmp_path: Path) -> None:
    (run_dir / "turns" / "evaluation-before.parquet").write_bytes(b"nothing")
    View([run_dir], tmp_path / "page", frames=0).refresh()
    source = chunk(tmp_path / "page", "0")
    assert len(source["episodes"]["length"]) == 2
    assert "evaluation-before.parquet" in source["notes"][0]


def test_a_run_that_has_not_begun_yet_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.yaml").write_text("name: new\n")
    View([tmp_path / "new"], tmp_path / "page", frames=3).refresh()
    source = chunk(tmp_path / "page", "0")
    assert (source["name"], source["finished"], source["curves"]["update"]) == ("new", False, [])


@pytest.fixture
def port(run_dir: Path, tmp_path: Path) -> Iterator[int]:
    server = make_server(View([run_dir], tmp_path / "page", frames=0), 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def get(port: int, path: str, **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.headers


def test_the_server_follows_a_training(run_dir: Path, port: int) -> None:
    status, index, headers = get(port, "/data/index.js")
    assert status == 200
    assert '"live":true' in index
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    with (run_dir / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"update": 31, "episode/success": 0.5}) + "\n" + '{"update": 32, "epis')
    assert get(port, "/data/index.js?1")[1] != index
    assert '"update":[0,1,' in get(port, "/data/0.js")[1]
    assert ",31]" in get(port, "/data/0.js")[1]


def test_the_server_draws_what_is_opened(port: int) -> None:
    get(port, "/data/index.js")
    assert '"unit":32' in get(port, "/data/0/0/1.frames.js")[1]
    assert get(port, "/data/0/0/7.frames.js")[0] == 404
    assert get(port, "/data/9/0/0.frames.js")[0] == 404


@pytest.mark.parametrize("path", ["/../demo/config.yaml", "/%2e%2e/demo/config.yaml", "/data/", "/absent"])
def test_the_server_shows_the_page_alone(port: int, path: str) -> None:
    assert get(port, path)[0] == 404


def test_the_server_answers_no_other_name(port: int) -> None:
    assert get(port, "/index.html", Host="evil.example")[0] == 403
    assert get(port, "/index.html", Host=f"localhost:{port}")[0] == 200


def test_a_port_that_is_taken_is_one_line(run_dir: Path, port: int, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"--port {port}: "):
        make_server(View([run_dir], tmp_path / "other", frames=0), port)
