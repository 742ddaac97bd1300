"""results.json: whole or not there, with what one needs to compare two of them."""

import json
import platform
from pathlib import Path

import pytest

from agentrl.results import json_text, machine, versions, write_json, write_text


def test_what_decides_a_result_is_named() -> None:
    found = versions()
    assert found["python"] == platform.python_version()
    assert {"agentrl", "torch", "transformers", "numpy", "minigrid"} < set(found)
    assert machine().split(", ")[1].endswith(" cores")
    assert "\n" not in machine()


def test_a_file_is_replaced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    write_json(path, {"turns": 1})
    assert json.loads(path.read_text()) == {"turns": 1}

    def killed(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "half")
    assert json.loads(path.read_text()) == {"turns": 1}


def test_a_list_of_numbers_is_one_line() -> None:
    content = {
        "after": {
            "ci95": [0.25, 1e-07],
            "lengths": [3, 400],
            "none": [],
            "names": ["a", "b [\n 1\n]"],
            "deep": [[1, 2], [3]],
        },
        "odd": [None, True, float("nan"), -1],
        "text": "[\n1,\n2]",
    }
    text = json_text(content)
    assert str(json.loads(text)) == str(content)
    lines = [line.strip() for line in text.splitlines()]
    assert '"ci95": [ 0.25, 1e-07 ],' in lines
    assert '"lengths": [ 3, 400 ],' in lines
    assert json_text({"lengths": list(range(256))}).count("\n") == 2


def test_text_of_any_kind_is_kept(tmp_path: Path) -> None:
    write_text(tmp_path / "config.yaml", "name: größe 🎲\n")
    assert (tmp_path / "config.yaml").read_bytes() == "name: größe 🎲\n".encode()
