"""`agentrl export`: datasets that other libraries read, models that load, cards that hostile text cannot break."""

import json
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
import yaml
from games import recipe
from huggingface_hub import DatasetCard, ModelCard
from run_folders import figures, turn, write_run
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from typer.testing import CliRunner

from agentrl import export as export_module
from agentrl.cli import app
from agentrl.configfile import load_config
from agentrl.errors import UserError
from agentrl.export import export_dataset, export_model, open_source
from agentrl.model_card import COLUMNS, escaped, fenced, front_matter
from agentrl.trainer import Trainer
from agentrl.turn_files import SCHEMA, read_turns, write_turns

HOSTILE = "a|b`c\n---\nlicense: mit\n<script>alert(1)</script> ![x](http://evil/p.png) \x1b[31m \u202e \ud800"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A real run of four updates, with checkpoints of the second and the last one, and an evaluation of each."""
    config = recipe(
        tmp_path_factory.mktemp("runs"),
        evaluation={"episodes": 3, "keep_episodes": 2, "every": 2},
        tracking={"turns_every": 2},
    )
    Trainer(config).fit()
    return Path(config.output_dir) / config.name


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def read(folder: Path, split: str):
    """The rows of a split, as any reader of Parquet gets them."""
    return [
        row for file in sorted((folder / "data").glob(f"{split}-*.parquet")) for row in pq.read_table(file).to_pylist()
    ]


def test_every_turn_of_a_run_is_in_the_dataset(run, tmp_path):
    result = invoke("export", run, "--dataset", tmp_path / "turns")
    train, evaluation = read(tmp_path / "turns", "train"), read(tmp_path / "turns", "evaluation")
    assert result.stdout == f"{len(train) + len(evaluation):,} turns written to {tmp_path / 'turns'}\n"
    assert {row["part"] for row in train} == {"update-000002", "update-000004"}
    files = {file.stem: read_turns(file) for file in (run / "turns").glob("*.parquet")}
    assert len(files) == 6
    for part, turns in files.items():
        rows = [row for row in train + evaluation if row["part"] == part]
        assert len(rows) == len(turns)
        for row, played in zip(rows, turns, strict=True):
            for name in (
                "messages",
                "prompt_ids",
                "reply_ids",
                "reply_logprobs",
                "reward",
                "advantage",
                "value",
                "seed",
            ):
                assert row[name] == getattr(played, name)
            assert {part["key"]: part["value"] for part in row["reward_parts"]} == played.reward_parts
    assert any(row["advantage"] for row in train)


def test_the_card_tells_where_the_splits_are(run, tmp_path):
    export_dataset(open_source(run), tmp_path / "turns")
    card = DatasetCard.load(tmp_path / "turns" / "README.md")
    (default,) = card.data.to_dict()["configs"]
    for entry in default["data_files"]:
        assert list((tmp_path / "turns").glob(entry["path"]))
    assert {entry["split"] for entry in default["data_files"]} == {"train", "evaluation"}
    assert card.data.to_dict()["size_categories"] == ["n<1K"]
    assert "| train | update-000002 | fake/echo | 24 | " in card.text
    assert "torch" in card.text


def test_the_card_explains_every_column():
    told = [name for names in COLUMNS for name in names.split(", ")]
    assert sorted(told) == sorted(["part", *SCHEMA.names])


def test_load_dataset_reads_it(run, tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: pyarrow reads the same files above")
    export_dataset(open_source(run), tmp_path / "turns")
    loaded = datasets.load_dataset(str(tmp_path / "turns"), cache_dir=str(tmp_path / "cache"))
    assert loaded["train"].num_rows == len(read(tmp_path / "turns", "train"))


def test_a_benchmark_is_exported_in_shards(tmp_path, monkeypatch):
    """250 turns in shards of 100, read 30 at a time: none is lost, doubled or moved."""
    monkeypatch.setattr(export_module, "SHARD_ROWS", 100)
    monkeypatch.setattr(export_module, "read_tables", lambda file: export_read(file, rows=30))
    export_read = sys.modules["agentrl.turn_files"].read_tables
    bench = tmp_path / "bench"
    write_turns(bench / "turns.parquet", [turn(i, episode=i // 50, reply_text=f"reply {i}") for i in range(250)])
    (bench / "results.json").write_text(json.dumps({"kind": "bench", "settings": {"style": HOSTILE}, "versions": {}}))
    export_dataset(open_source(bench), tmp_path / "out")
    names = [file.name for file in sorted((tmp_path / "out" / "data").iterdir())]
    assert names == [f"evaluation-0000{i}-of-00003.parquet" for i in range(3)]
    assert [row["reply_text"] for row in read(tmp_path / "out", "evaluation")] == [f"reply {i}" for i in range(250)]
    text = (tmp_path / "out" / "README.md").read_text()
    assert "| evaluation | bench | babyai/goto | 250 | 5 |" in text
    assert "<script>" not in text


def test_the_model_folder_is_the_checkpoint(run, tmp_path):
    result = invoke("export", run, "--model", tmp_path / "model")
    assert result.stdout == f"{run / 'checkpoints' / 'step-4'} written to {tmp_path / 'model'}\n"
    names = {file.name for file in (tmp_path / "model").iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "README.md", "recipe.yaml"} <= names
    assert not names & {"optimizer.safetensors", "value.safetensors", "state.json", "games-0.json", "rng-0.safetensors"}
    exported, trained = (
        AutoModelForCausalLM.from_pretrained(folder).state_dict()
        for folder in (tmp_path / "model", run / "checkpoints" / "step-4")
    )
    assert exported.keys() == trained.keys()
    assert all(torch.equal(exported[name], trained[name]) for name in trained)
    assert AutoTokenizer.from_pretrained(tmp_path / "model").chat_template
    drawn = GenerationConfig.from_pretrained(tmp_path / "model")
    assert (drawn.do_sample, drawn.temperature, drawn.top_k, drawn.top_p) == (True, 1.0, 0, 1.0)
    assert drawn.eos_token_id is not None
    before, after = load_config(run / "config.yaml"), load_config(tmp_path / "model" / "recipe.yaml")
    assert after == before.model_copy(update={"output_dir": "runs"})
    assert str(run.parent) not in (tmp_path / "model" / "README.md").read_text()


def test_what_is_no_safe_file_stays_behind(run, tmp_path):
    copy = tmp_path / "runs" / "copy"
    shutil.copytree(run, copy)
    for name in ("pytorch_model.bin", "model.pt", "modeling_own.py", "notes.pkl"):
        (copy / "checkpoints" / "step-4" / name).write_bytes(b"\x80\x04.")
    export_model(open_source(copy), None, tmp_path / "model")
    assert {file.suffix for file in (tmp_path / "model").iterdir()} == {
        ".json",
        ".jinja",
        ".safetensors",
        ".md",
        ".yaml",
    }


def test_the_model_card_has_the_figures_of_these_weights(run, tmp_path):
    results = json.loads((run / "results.json").read_text())
    export_model(open_source(run), None, tmp_path / "last")
    card = ModelCard.load(tmp_path / "last" / "README.md")
    told = {(e.task_name, e.metric_type): e.metric_value for e in card.data.eval_results}
    assert told["after training", "success"] == results["after"]["fake/echo"]["success"]
    assert told["after training, greedy", "return"] == results["after_greedy"]["fake/echo"]["return"]
    assert {name for name, _ in told} == {"after training", "after training, greedy"}
    for words in ("before training", "uniformly random", "engine.constrain: actions", results["versions"]["torch"]):
        assert words in card.text
    low, high = results["after"]["fake/echo"]["return_ci95"]
    assert f"[{low:.3g}, {high:.3g}]" in card.text
    yaml_block = card.text.partition("```yaml\n")[2].partition("\n```")[0]
    assert yaml.safe_load(yaml_block)["optimizer"]["lr"] == pytest.approx(1e-3)


def test_an_earlier_checkpoint_does_not_carry_the_last_figures(run, tmp_path):
    result = invoke("export", run / "checkpoints" / "step-2", "--model", tmp_path / "second")
    assert result.exit_code == 0, result.output
    card = ModelCard.load(tmp_path / "second" / "README.md")
    assert {e.task_name for e in card.data.eval_results} == {"after 2 updates"}
    assert "after training" not in card.text
    assert "2 updates" in card.text


def test_a_run_without_results_says_so(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    for content in (None, "{broken", "[]"):
        (copy / "results.json").unlink(missing_ok=True)
        if content is not None:
            (copy / "results.json").write_text(content)
        export_model(open_source(copy), None, tmp_path / f"model {content}")
        assert "were not evaluated" in (tmp_path / f"model {content}" / "README.md").read_text()


def test_hostile_names_stay_text(tmp_path):
    """A task, a setting, a version that break out of tables, YAML, code and HTML, in every place a card has."""
    run_dir = tmp_path / "run"
    write_run(run_dir)
    results = json.loads((run_dir / "results.json").read_text()) | {
        "after": {HOSTILE: figures(0.5)},
        "settings": {HOSTILE: HOSTILE},
        "versions": {HOSTILE: HOSTILE},
        "machine": HOSTILE,
        "updates": 30,
    }
    (run_dir / "results.json").write_text(json.dumps(results))
    (run_dir / "checkpoints" / "step-30").mkdir(parents=True)
    write_turns(run_dir / "turns" / "update-000001.parquet", [turn(game=HOSTILE, reply_text=HOSTILE)])
    export_model(open_source(run_dir), None, tmp_path / "model")
    export_dataset(open_source(run_dir), tmp_path / "turns")
    for folder in ("model", "turns"):
        text = (tmp_path / folder / "README.md").read_text(encoding="utf-8")
        _, head, body = text.split("---\n", 2)
        assert "license" not in yaml.safe_load(head)
        assert "<script>" not in body
        assert "](http" not in body
        assert all(character.isprintable() or character == "\n" for character in text)
        tables = [line for line in body.splitlines() if line.startswith("|")]
        assert all(line.count(" | ") in (1, 4, 8) for line in tables)
    assert yaml.safe_load((tmp_path / "model" / "README.md").read_text().split("---\n")[1])["model-index"]


def test_pieces_of_cards():
    assert escaped("a | `b` <i> [c](d) ![e] \x1b[0m\nnext") == (
        "a &#124; &#96;b&#96; &lt;i&gt; &#91;c&#93;(d) &#33;&#91;e&#93; &#92;x1b&#91;0m next"
    )
    assert fenced("x\n````\ny", "yaml") == "`````yaml\nx\n````\ny\n`````"
    assert fenced("plain", "") == "```\nplain\n```"
    tree = {
        "tags": ["no", "1e-6", "a: b", "---", "x\n---\ny", "'\"{}"],
        "name": HOSTILE.encode("utf-8", "replace").decode(),
    }
    lines = front_matter(tree).split("\n")
    assert (lines[0], lines[-1], lines.count("---")) == ("---", "---", 2)
    read_back = yaml.safe_load("\n".join(lines[1:-1]))
    assert read_back["tags"] == ["no", "1e-6", "a: b", "---", "x --- y", "'\"{}"]


def test_mistakes_are_one_line_and_leave_nothing(run, tmp_path):
    used = tmp_path / "used"
    used.mkdir()
    (used / "mine.txt").write_text("mine")
    bench = tmp_path / "bench"
    write_turns(bench / "turns.parquet", [turn()])
    empty = tmp_path / "empty"
    shutil.copytree(run, empty)
    shutil.rmtree(empty / "turns")
    shutil.rmtree(empty / "checkpoints")
    new = tmp_path / "new"
    for arguments, words in {
        (run,): "--dataset DIR, --model DIR",
        (run, "--dataset", used): "in use",
        (run, "--model", used): "in use",
        (tmp_path / "nowhere", "--model", new): "no such folder",
        (used, "--model", new): "neither a run",
        (bench, "--model", new): "no model",
        (empty, "--model", new): "no finished checkpoint",
        (empty, "--dataset", new): "no turns",
        (run / "checkpoints" / "step-3", "--model", new): "there are step-2, step-4",
    }.items():
        result = invoke("export", *arguments)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
        assert words in result.stderr
    assert (used / "mine.txt").read_text() == "mine"
    assert not new.exists()


def test_a_file_that_holds_no_turns_leaves_no_folder(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "turns" / "update-000002.parquet").write_bytes(b"PAR1 or so")
    with pytest.raises(UserError, match=r"update-000002\.parquet"):
        export_dataset(open_source(copy), tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"copy"}
