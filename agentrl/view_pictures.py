"""An episode's pictures for the page, and as a GIF or MP4.

Most of a picture is the picture before: it is cut into square tiles, each different one is kept once in a sheet, and a
frame is the numbers of its tiles. Where that does not pay (Crafter's light changes every pixel at every turn) frames
are pictures of their own, in WebP with losses.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, features

from agentrl.episode_frames import Frame, Replay, replay
from agentrl.errors import UserError
from agentrl.view_data import Source
from agentrl.view_turns import FoundEpisode

UNITS = (32, 40, 28, 16)
"""Sides of a tile that are tried, in pixels; the first by which a picture can be divided."""

WORTH = 0.3
"""Tiles pay where at most this part of them differ."""

COLUMNS = 32
"""Tiles in a row of the sheet."""

QUALITY, EFFORT = 60, 2


def encode(frames: Sequence[Frame]) -> dict[str, Any]:
    """Frames of one size as JSON's types: `tiles` (a sheet, and of each frame its tiles row by row) or `pictures`."""
    height, width = frames[0].shape[:2]
    unit = next((unit for unit in UNITS if height % unit == 0 and width % unit == 0), 0)
    size = {"width": width, "height": height}
    if unit:
        tiles: dict[bytes, int] = {}
        numbers = [_numbers(frame, unit, tiles) for frame in frames]
        if len(tiles) <= max(64, WORTH * len(frames) * len(numbers[0])):
            return {**size, "unit": unit, "columns": COLUMNS, "sheet": _sheet(tiles, unit), "tiles": numbers}
    pictures: dict[bytes, int] = {}
    order = [pictures.setdefault(frame.tobytes(), len(pictures)) for frame in frames]
    unique = [np.frombuffer(data, dtype=np.uint8).reshape(height, width, 3) for data in pictures]
    return {**size, "pictures": [_data_url(Image.fromarray(frame), exact=False) for frame in unique], "order": order}


def replay_of(source: Source, episode: FoundEpisode, draw: bool = True) -> Replay:
    """An episode of a turn file played again.

    Raises:
        UserError: the file does not hold its beginning.
    """
    if episode.first_turn:
        raise UserError(f"its first {episode.first_turn} turns were in an earlier batch: it cannot be played again")
    task, seed = episode.line["task"], episode.line["seed"]
    return replay(task, source.game_options(task), seed, episode.actions, episode.rewards, draw)


def write_film(path: Path, frames: Sequence[Frame], per_second: float) -> None:
    """Write frames of one size to a .gif, or to a .mp4 if imageio-ffmpeg is installed.

    Raises:
        UserError: another suffix, the package is missing, or the file cannot be written.
    """
    if path.suffix not in (".gif", ".mp4"):
        raise UserError(f"{path}: an episode is written to a .gif or .mp4 file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".mp4":
            _write_mp4(path, frames, per_second)
            return
        first, *others = [Image.fromarray(frame).quantize(256, dither=Image.Dither.NONE) for frame in frames]
        first.save(path, save_all=True, append_images=others, duration=round(1000 / per_second), loop=0)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error}") from error


def _write_mp4(path: Path, frames: Sequence[Frame], per_second: float) -> None:
    try:
        import imageio_ffmpeg
    except ImportError:
        raise UserError(f"{path}: an MP4 needs a package: pip install imageio-ffmpeg; or write a .gif") from None
    height, width = (side // 2 * 2 for side in frames[0].shape[:2])  # the codec takes even sides alone
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=per_second, macro_block_size=2)
    writer.send(None)
    for frame in frames:
        writer.send(np.ascontiguousarray(frame[:height, :width]).tobytes())
    writer.close()


def _numbers(frame: Frame, unit: int, tiles: dict[bytes, int]) -> list[int]:
    rows, columns = frame.shape[0] // unit, frame.shape[1] // unit
    cut = frame.reshape(rows, unit, columns, unit, 3).swapaxes(1, 2).reshape(rows * columns, unit * unit * 3)
    return [tiles.setdefault(tile.tobytes(), len(tiles)) for tile in cut]


def _sheet(tiles: dict[bytes, int], unit: int) -> str:
    rows = -(-len(tiles) // COLUMNS)
    sheet = np.zeros((rows * unit, COLUMNS * unit, 3), dtype=np.uint8)
    for data, number in tiles.items():
        y, x = divmod(number, COLUMNS)
        tile = np.frombuffer(data, dtype=np.uint8).reshape(unit, unit, 3)
        sheet[y * unit : (y + 1) * unit, x * unit : (x + 1) * unit] = tile
    return _data_url(Image.fromarray(sheet), exact=True)


def _data_url(image: Image.Image, exact: bool) -> str:
    file = io.BytesIO()
    if exact or not features.check("webp"):
        kind = "png"
        image.save(file, "PNG", optimize=exact)
    else:
        kind = "webp"
        image.save(file, "WEBP", quality=QUALITY, method=EFFORT)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
