"""results.json: whole or not there, with what one needs to compare two of them."""

import json
import platform
from pathlib import Path
from typing import Any

import pytest

from agentrl import envs
from agentrl.assembly import Games
from agentrl.config import Config
from agentrl.results import evaluations, json_text, machine, versions, write_json, write_text
from agentrl.trajectory import make_prompter


def test_what_decides_a_result_is_named() -> None:
    found = versions()
    assert found["python"] == platform.python_version()
    assert {"agentrl", "torch", "transformers", "numpy", "minigrid"} < set(found)
    assert machine().split(", ")[1].endswith(" cores")
    assert "\n" not in machine()


def played_under(**sections: Any) -> dict[str, Any]:
    game = {"id": "babyai/goto", "options": {"num_dists": 8}}
    config = Config.model_validate({"name": "x", "game": game, **sections})
    return Games(config, make_prompter(config, None)).settings


def test_c24_a_result_states_what_moves_scores_beside_the_model() -> None:
    """Agent style, history, temperature, limits: unstated, they moved published scores by a factor of five."""
    found = played_under(prompt={"style": "cot", "history": 16, "keep": "newest:1"}, engine={"temperature": 0.7})
    stated = {
        "rows": "turn",
        "game.id": "babyai/goto",
        "game.options.num_dists": 8,
        "game.max_turns": 64,
        "game.default_action": "go forward",
        "parsing": "last ACTION: line, else a lone name",
        "parsing.synonyms": len(envs.make("babyai/goto").synonyms),
        "prompt.style": "cot",
        "prompt.history": 16,
        "prompt.keep": "newest:1",
        "prompt.max_prompt_tokens": 1024,
        "engine.temperature": 0.7,
        "engine.max_reply_tokens": 16,
        "engine.constrain": "none",
        "model.path": None,
        "model.dtype": "float32",
    }
    assert stated.items() <= found.items()
    assert len(found["prompt.sha256"]) == 64
    assert evaluations({"settings": found}) == {}, "no group of figures"
    assert json.loads(json.dumps(found)) == found


def test_c24_any_other_word_of_a_prompt_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {played_under(prompt={"style": style})["prompt.sha256"] for style in ("action", "cot", "action")}
    assert len(texts) == 2
    actions = envs.make("babyai/goto").actions or {}
    monkeypatch.setitem(actions, "drop", "let go of what you carry")
    texts.add(played_under()["prompt.sha256"])
    assert len(texts) == 3
    assert played_under(game={"id": "babyai/goto", "options": {"compat": "balrog"}})["parsing.synonyms"] == 0


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
