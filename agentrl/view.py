"""`agentrl view`: a folder with one page that shows runs and benchmarks, and all that it loads.

    index.html, *.js, *.css      the page, from agentrl/viewer
    data/index.js                the sources and their stamps
    data/0.js                    source 0: curves, table of tasks, lines of the list of episodes
    data/0/1/2.js                the turns of episode 2 of turn file 1 of source 0: loaded when it is opened
    data/0/1/2.frames.js         its pictures

A page that was opened from a file may load scripts and nothing else, so data are scripts that hand over one JSON value.
What models and games wrote is in them: it is escaped here, and the page never takes it for anything but text.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import agentrl
from agentrl.episode_frames import Replay
from agentrl.errors import UserError
from agentrl.results import write_text
from agentrl.turn_files import TurnFileError
from agentrl.view_data import curves, open_source, outcomes, table
from agentrl.view_pictures import encode, replay_of
from agentrl.view_tokens import Pieces, add_pieces, find_tokenizer
from agentrl.view_turns import FoundEpisode, read_episodes

COLUMNS = ("file", "number", "task", "seed", "slot", "episode", "length", "return", "invalid", "error", "ending")
OUTCOME = ("success", "progression", "frames")
"""Columns of the list of episodes: what the turns say, and what a replay or results.json adds."""

MOST_ASKED = 20_000
"""Turns of a source that are replayed at most, only to learn how their episodes came out."""

MARKER = "agentrl-view"
"""A file that says whose folder it is: no other is ever written over."""


@dataclass(slots=True)
class TurnFile:
    """A file as it was read; `episodes` in its order, `note` if it is broken."""

    stamp: tuple[int, int]
    index: int
    episodes: list[FoundEpisode] = field(default_factory=list)
    note: str = ""


class Viewed:
    """One source in the page's folder; `refresh` brings it up to date."""

    def __init__(self, index: int, path: Path, data: Path, frames: int, outcomes: bool) -> None:
        self.index = index
        self.path = path
        self.source = open_source(path)
        self.files: dict[str, TurnFile] = {}
        self._data = data
        self._frames = frames
        self._outcomes = outcomes
        self._asked: set[tuple[str, int, tuple[int, int]]] = set()
        self._stamps: dict[str, tuple[int, int]] | None = None

    def refresh(self) -> bool:
        """Read what changed since the last time; False if nothing did."""
        stamps = self._now()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        self.source = open_source(self.path)
        for path in self.source.turn_files:
            stamp = stamps.get(path.name)
            known = self.files.get(path.stem)
            if stamp and (known is None or known.stamp != stamp):
                self.files[path.stem] = self._read(path, stamp, known.index if known else len(self.files))
        self._draw_some()
        if self._outcomes:
            self._ask_some()
        self._write()
        return True

    def find(self, file: int, number: int) -> FoundEpisode | None:
        """Episode `number` of turn file `file`."""
        for found in self.files.values():
            if found.index == file and 0 <= number < len(found.episodes):
                return found.episodes[number]
        return None

    def played(self) -> list[FoundEpisode]:
        """All episodes in the order of the list."""
        order = [path.stem for path in self.source.turn_files]
        return [episode for stem in order if stem in self.files for episode in self.files[stem].episodes]

    def draw(self, file: int, number: int) -> None:
        """Replay an episode for its pictures and its outcome, and write them."""
        episode = self.find(file, number)
        if episode is None or episode.line["frames"]:
            return
        note = ""
        content: dict[str, Any] = {}
        try:
            played = replay_of(self.source, episode)
            note = played.note
            content = encode(played.frames) if played.frames else {}
            _complete(episode, played)
        except UserError as error:
            note = str(error)
        name = f"{self.index}/{file}/{number}.frames"
        write_chunk(self._data, name, {**content, "note": note})
        episode.line["frames"] = True

    def _draw_some(self) -> None:
        """Pictures of the first episodes that a replay can reach."""
        wanted = [episode for episode in self.played() if not episode.first_turn][: self._frames]
        for episode in wanted:
            self.draw(episode.line["file"], episode.line["number"])

    def _ask_some(self) -> None:
        """How episodes of evaluations came out, which their turns do not tell: a replay does, within limits."""
        left = MOST_ASKED
        for stem, file in self.files.items():
            for episode in file.episodes if stem.startswith("evaluation-") else ():
                key = (stem, episode.line["number"], file.stamp)
                left -= len(episode.actions)
                if left < 0:
                    return
                if key not in self._asked and episode.line["progression"] is None and not episode.first_turn:
                    self._asked.add(key)
                    _complete(episode, replay_of(self.source, episode, draw=False))

    def _read(self, path: Path, stamp: tuple[int, int], index: int) -> TurnFile:
        found = TurnFile(stamp, index)
        folder = self._data / str(self.index) / str(index)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        tokenizer = find_tokenizer(self.path, self.source.model)
        pieces = Pieces(tokenizer) if tokenizer else None
        told = outcomes(self.source)
        try:
            for number, episode in enumerate(read_episodes(path)):
                add_pieces(episode.chunk, pieces)
                write_chunk(self._data, f"{self.index}/{index}/{number}", episode.chunk)
                self._keep(found, number, episode, told)
        except TurnFileError as error:
            found.note = str(error)
        return found

    def _keep(
        self, file: TurnFile, number: int, episode: FoundEpisode, told: dict[tuple[str, int], dict[str, Any]]
    ) -> None:
        line = {**episode.line, "file": file.index, "number": number, "frames": False}
        outcome = told.get((line["task"], line["slot"]), {})
        if outcome.get("seed") == line["seed"]:
            line |= {name: outcome.get(name) for name in ("success", "progression")}
        # The turns are in the chunk's file, which is all that needs them.
        file.episodes.append(replace(episode, line=line, chunk={}))

    def _write(self) -> None:
        lines = [episode.line for episode in self.played()]
        content = {
            "name": self.source.name,
            "kind": self.source.kind,
            "path": str(self.path),
            "discount": self.source.discount,
            "finished": bool(self.source.results) and not self.source.results.get("interrupted", False),
            "notes": [*self.source.notes, *(file.note for file in self.files.values() if file.note)],
            "curves": curves(self.source),
            "table": table(self.source),
            "files": [[found.index, stem] for stem, found in self.files.items()],
            "episodes": {name: [line[name] for line in lines] for name in (*COLUMNS, *OUTCOME)},
        }
        write_chunk(self._data, str(self.index), content)

    def _now(self) -> dict[str, tuple[int, int]]:
        """(time, size) of every file that counts."""
        small = [self.path / name for name in ("config.yaml", "metrics.jsonl", "results.json")]
        stamps = {}
        for path in (*small, *self.source.turn_files):
            try:
                stat = path.stat()
            except OSError:
                continue
            stamps[path.name] = (stat.st_mtime_ns, stat.st_size)
        return stamps


def _complete(episode: FoundEpisode, played: Replay) -> None:
    """What a replay tells, into the line of the list."""
    if not played.note:
        for name in ("success", "progression"):
            if episode.line[name] is None:
                episode.line[name] = getattr(played, name)


class View:
    """The page's folder `out` and the sources in it.

    Args:
        frames: of how many episodes a source pictures are drawn at once.
        outcomes: whether episodes of evaluations are replayed to learn how they came out.

    Raises:
        UserError: a path is no run and no benchmark, or the folder belongs to something else.
    """

    def __init__(self, paths: Sequence[Path], out: Path, frames: int, outcomes: bool = True) -> None:
        self.out = out
        data = out / "data"
        if out.exists() and any(out.iterdir()) and not (out / MARKER).exists():
            raise UserError(f"--out {out}: a folder with other things in it; give a new one")
        self.sources = [Viewed(index, path, data, frames, outcomes) for index, path in enumerate(paths)]
        try:
            out.mkdir(parents=True, exist_ok=True)
            (out / MARKER).write_text(f"{agentrl.__version__}\n")
            shutil.rmtree(data, ignore_errors=True)
            data.mkdir()
            for file in files("agentrl").joinpath("viewer").iterdir():
                write_text(out / file.name, file.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"--out {out}: cannot be written: {error}") from error

    def refresh(self, live: bool = False, tell: Callable[[str], None] = lambda line: None) -> None:
        """Bring the folder up to date with its sources; `live` tells the page to ask again."""
        changed = []
        for source in self.sources:
            began = time.monotonic()
            changed.append(source.refresh())
            if changed[-1]:
                turns = sum(episode.line["length"] for episode in source.played())
                seconds = time.monotonic() - began
                tell(f"{source.path}: {len(source.played())} episodes, {turns} turns, {seconds:.1f} s")
        if any(changed):
            self.write_index(live)

    def write_index(self, live: bool) -> None:
        """Names, and what tells the page that a source is another than it was."""
        sources = [{"name": source.source.name, "stamp": time.time_ns() // 1000} for source in self.sources]
        write_chunk(self.out / "data", "index", {"version": agentrl.__version__, "live": live, "sources": sources})


def write_chunk(data: Path, name: str, content: Any) -> None:
    """Write DATA/NAME.js, whole or not at all: a script that hands `content` to the page under its name."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    # ASCII alone, so no U+2028 and no half of a character; and nothing that could end a script element.
    path = data / f"{name}.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, f"agentrl.chunk({json.dumps(name)},{text.replace('<', chr(92) + 'u003c')});\n")
