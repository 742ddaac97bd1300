"""One episode as a film."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from agentrl.episode_frames import text_frames
from agentrl.errors import UserError, did_you_mean
from agentrl.view_data import open_source
from agentrl.view_pictures import replay_of, write_film
from agentrl.view_turns import read_episodes


def export(folder: Path, episode: str, film: Path, per_second: float) -> None:
    """Play an episode of a run or a benchmark again, and write its pictures, of a text game its scenes.

    Args:
        episode: FILE/K, episode K (from 0) of turn file FILE as the page names them; or K of the first file.

    Raises:
        UserError: no such episode, it cannot be played again, or the film cannot be written.
    """
    source = open_source(folder)
    files = {path.stem: path for path in source.turn_files}
    if not files:
        raise UserError(f"--episode {episode}: {folder} holds no turns")
    stem, _, number = episode.rpartition("/")
    stem = stem or next(iter(files))
    if stem not in files:
        raise UserError(
            f"--episode {episode}: no turn file {stem}{did_you_mean(stem, files)}; there are {', '.join(files)}"
        )
    if not number.isdecimal():
        raise UserError(f"--episode {episode}: give its number, as in {stem}/0")
    found = next(islice(read_episodes(files[stem]), int(number), None), None)
    if found is None:
        raise UserError(f"--episode {episode}: {stem} does not hold so many episodes")
    try:
        played = replay_of(source, found)
    except UserError as error:
        raise UserError(f"--episode {episode}: {error}") from error
    if not played.scenes:
        raise UserError(f"--episode {episode}: {played.note}")
    write_film(film, played.frames or text_frames(played.scenes), per_second)
