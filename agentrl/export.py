"""What others can use of a run or a benchmark: its turns as a dataset folder, a checkpoint as a model folder.

Both are folders in Hugging Face's form, each with a card. They are written under a temporary name: whole or not at all.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from agentrl.checkpoint import checkpoints
from agentrl.config import Config
from agentrl.configfile import dump_config, load_config
from agentrl.errors import UserError
from agentrl.model_card import dataset_card, model_card
from agentrl.turn_files import SCHEMA, read_tables

SHARD_ROWS = 50_000
"""Turns in one Parquet file of a dataset."""

MODEL_FILES = (".json", ".jinja", ".txt", ".model", ".safetensors")
NOT_THE_MODEL = ("state.json", "games-*.json", "rng-*", "optimizer.safetensors", "value.safetensors")
"""Of a checkpoint: what a model's folder is made of, and what only a resumed run needs."""


@dataclass(frozen=True, slots=True)
class Source:
    """A run's folder, or that of a benchmark's results.

    Attributes:
        turn_files: (split, part, file) in order.
        config: None for a benchmark.
    """

    folder: Path
    turn_files: list[tuple[str, str, Path]]
    config: Config | None
    results: dict[str, Any]

    @property
    def name(self) -> str:
        return self.config.name if self.config else self.folder.resolve().name


def open_source(folder: Path) -> Source:
    """What `agentrl train` or `agentrl bench` left in a folder.

    Raises:
        UserError: it is neither.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give that of a run or of a benchmark's results")
    results = _results(folder)
    if (folder / "config.yaml").is_file():
        files = sorted((folder / "turns").glob("*.parquet"))
        splits = [("evaluation" if file.stem.startswith("evaluation-") else "train", file.stem, file) for file in files]
        return Source(folder, splits, load_config(folder / "config.yaml"), results)
    turns = folder / "turns.parquet"
    if not turns.is_file():
        raise UserError(f"{folder}: neither a run (it has no config.yaml) nor a benchmark's results (no turns.parquet)")
    return Source(folder, [("evaluation", "bench", turns)], None, results)


def export_dataset(source: Source, out: Path) -> int:
    """Write a dataset folder of all turns; returns their number.

    Raises:
        UserError: there are none, a file is none of ours, or `out` is in use.
    """
    if not source.turn_files:
        raise UserError(
            f"{source.folder}: no turns in it; tracking.turns_every and evaluation.keep_episodes write some"
        )
    counts: list[dict[str, Any]] = []
    with _new_folder(out) as folder:
        splits = {}
        for split in dict.fromkeys(split for split, _, _ in source.turn_files):
            files = [(part, file) for other, part, file in source.turn_files if other == split]
            _write_shards(folder / "data", split, files, counts)
            splits[split] = f"data/{split}-*.parquet"
        card = dataset_card(source.name, splits, counts, source.results)
        (folder / "README.md").write_text(card, encoding="utf-8")
    return sum(row["turns"] for row in counts)


def export_model(source: Source, checkpoint: Path | None, out: Path) -> Path:
    """Write a model folder of a checkpoint, the newest by default; returns the one it was.

    Raises:
        UserError: there is no such checkpoint, or `out` is in use.
    """
    if source.config is None:
        raise UserError(f"{source.folder}: a benchmark's results hold no model; give the run that made it")
    found = checkpoints(source.folder)
    if not found:
        raise UserError(f"{source.folder}: this run has no finished checkpoint yet")
    chosen = checkpoint or found[-1]
    if chosen.resolve() not in [path.resolve() for path in found]:
        raise UserError(f"{chosen}: no such checkpoint; there are {', '.join(path.name for path in found)}")
    step = int(chosen.name.removeprefix("step-"))
    # Where its maker keeps runs is nobody's business.
    config = source.config.model_copy(update={"output_dir": Config.model_fields["output_dir"].default})
    with _new_folder(out) as folder:
        for file in sorted(chosen.iterdir()):
            if file.suffix in MODEL_FILES and not any(file.match(pattern) for pattern in NOT_THE_MODEL):
                shutil.copyfile(file, folder / file.name)
        _sample_as_trained(folder / "generation_config.json", config)
        (folder / "recipe.yaml").write_text(dump_config(config), encoding="utf-8")
        card = model_card(source.name, step, config, source.results)
        (folder / "README.md").write_text(card, encoding="utf-8")
    return chosen


def _sample_as_trained(file: Path, config: Config) -> None:
    """Tell `generate` and servers to draw as the trained policy does: left alone, they are greedy or cut the tail."""
    settings = json.loads(file.read_text()) if file.exists() else {}
    settings |= {"do_sample": True, "temperature": config.engine.temperature, "top_k": 0, "top_p": 1.0}
    file.write_text(json.dumps(settings, indent=2) + "\n")


def _write_shards(folder: Path, split: str, files: list[tuple[str, Path]], counts: list[dict[str, Any]]) -> None:
    """Turns of one split in files of `SHARD_ROWS`, and a row in `counts` for each part and game."""
    folder.mkdir(exist_ok=True)
    shards: list[Path] = []
    for table in _regrouped(_read(split, files, counts)):
        shards.append(folder / f"{split}-{len(shards):05d}.parquet")
        pq.write_table(table, shards[-1], compression="zstd")
    for number, shard in enumerate(shards):
        shard.rename(folder / f"{split}-{number:05d}-of-{len(shards):05d}.parquet")


def _read(split: str, files: list[tuple[str, Path]], counts: list[dict[str, Any]]) -> Iterator[pa.Table]:
    for part, file in files:
        turns: dict[str, int] = {}
        episodes: dict[str, set[tuple[int, int]]] = {}
        for table in read_tables(file):
            keys = zip(*(table[name].to_pylist() for name in ("game", "slot", "episode")), strict=True)
            for game, slot, episode in keys:
                turns[game] = turns.get(game, 0) + 1
                episodes.setdefault(game, set()).add((slot, episode))
            yield _portable(table).add_column(0, "part", pa.array([part] * len(table), pa.string()))
        counts += [
            {"split": split, "part": part, "game": game, "turns": turns[game], "episodes": len(episodes[game])}
            for game in turns
        ]


def _regrouped(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, `SHARD_ROWS` a table."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        while sum(map(len, held)) >= SHARD_ROWS:
            joined = pa.concat_tables(held)
            yield joined.slice(0, SHARD_ROWS)
            held = [joined.slice(SHARD_ROWS)]
    if any(map(len, held)):
        yield pa.concat_tables(held)


def _portable(table: pa.Table) -> pa.Table:
    """Without maps, which not every reader takes: lists of {key, value} instead."""
    for number, field in enumerate(SCHEMA):
        if pa.types.is_map(field.type):
            pair = pa.struct([pa.field("key", field.type.key_type), pa.field("value", field.type.item_type)])
            column = pc.cast(table[field.name], pa.list_(pair))
            table = table.set_column(number, field.name, column)
    return table.replace_schema_metadata(None)


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `out` in the end; nothing is left of one that was not finished."""
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise UserError(f"{out} is in use: choose another folder, or remove it")
    writing = out.with_name(f".{out.name}.writing")
    shutil.rmtree(writing, ignore_errors=True)
    try:
        writing.mkdir(parents=True)
        yield writing
        if out.is_dir():
            out.rmdir()
        writing.rename(out)
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error}") from error
    finally:
        shutil.rmtree(writing, ignore_errors=True)


def _results(folder: Path) -> dict[str, Any]:
    """results.json; empty where a run has none yet, or its file is damaged."""
    try:
        results = json.loads((folder / "results.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return results if isinstance(results, dict) else {}
