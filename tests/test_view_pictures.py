"""Replays, pictures, films."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from run_folders import write_run
from typer.testing import CliRunner
from viewed_turns import played

from agentrl import envs
from agentrl.cli import app
from agentrl.episode_frames import Frame, replay, text_frames
from agentrl.errors import UserError
from agentrl.turn_files import write_turns
from agentrl.view_baba import UNIT, picture
from agentrl.view_pictures import encode, write_film


def decoded(content: dict[str, Any], at: int) -> Frame:
    """Picture `at` as the page would draw it."""
    if "tiles" not in content:
        return image(content["pictures"][content["order"][at]])
    sheet, unit = image(content["sheet"]), content["unit"]
    frame = np.zeros((content["height"], content["width"], 3), dtype=np.uint8)
    for place, tile in enumerate(content["tiles"][at]):
        y, x = (unit * part for part in divmod(place, content["width"] // unit))
        row, column = (unit * part for part in divmod(tile, content["columns"]))
        frame[y : y + unit, x : x + unit] = sheet[row : row + unit, column : column + unit]
    return frame


def image(url: str) -> Frame:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB"))


@pytest.mark.parametrize(
    ("game", "options", "shape"),
    [
        ("babyai/BabyAI-GoToLocalS5N2-v0", {}, (160, 160, 3)),
        ("babaisai/env/goto_win", {}, (8 * UNIT, 8 * UNIT, 3)),
        ("crafter", {"max_turns": 30}, (256, 256, 3)),
    ],
)
def test_a_replay_draws_every_turn_and_what_follows_the_last(
    game: str, options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    turns = played(game, seed=5, **options)
    found = replay(game, options, 5, [turn.action for turn in turns], [turn.reward for turn in turns])
    assert found.note == ""
    assert [frame.shape for frame in found.frames] == [shape] * (len(turns) + 1)
    assert found.scenes[:-1] == [turn.messages[-1]["content"] for turn in turns]
    assert found.progression is not None
    assert any((a != b).any() for a, b in zip(found.frames, found.frames[1:], strict=False))


def test_a_babyai_replay_is_what_the_game_draws() -> None:
    turns = played("babyai/goto", seed=3, most=20)
    found = replay("babyai/goto", {}, 3, [turn.action for turn in turns], [turn.reward for turn in turns])
    game = envs.make("babyai/goto", render_mode="rgb_array")
    game.reset(seed=3)
    for turn, frame in zip(turns, found.frames, strict=False):
        assert np.array_equal(frame, game.render())
        game.step(turn.action)


def test_a_replay_that_leaves_the_recording_stops_and_says_where() -> None:
    turns = played("babyai/goto", seed=3, most=10)
    rewards = [turn.reward for turn in turns]
    rewards[4] = 0.5
    found = replay("babyai/goto", {}, 3, [turn.action for turn in turns], rewards)
    assert found.note == "the replay left the recording at turn 4: reward 0, not 0.5"
    assert len(found.frames) == 5


def test_a_game_that_cannot_be_made_is_a_note() -> None:
    found = replay("babyai/goto", {"nonsense": 1}, 3, [], [])
    assert found.note.startswith("the replay broke: ")
    assert found.frames == []


def test_babaisai_tiles_tell_things_apart() -> None:
    game = envs.make("babaisai/env/goto_win")
    game.reset(seed=0)
    world = game.level.world  # type: ignore[attr-defined]
    drawn = picture(world)
    tiles = {
        item: drawn[y * UNIT : (y + 1) * UNIT, x * UNIT : (x + 1) * UNIT].tobytes()
        for cell, item in enumerate(world.tops)
        for y, x in [divmod(cell, world.width)]
    }
    assert len(set(tiles.values())) == len(tiles) > 5


def test_tiles_are_exact_and_small() -> None:
    turns = played("babyai/goto", seed=3, most=40)
    found = replay("babyai/goto", {}, 3, [turn.action for turn in turns], [turn.reward for turn in turns])
    content = encode(found.frames)
    assert all(np.array_equal(decoded(content, at), frame) for at, frame in enumerate(found.frames))
    assert len(content["sheet"]) < 20_000


def test_where_tiles_do_not_pay_each_picture_is_kept_once() -> None:
    noise = [np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8) for seed in range(40)]
    smooth = [np.repeat(np.repeat(frame[::16, ::16], 16, axis=0), 16, axis=1) for frame in noise]
    content = encode([*smooth, smooth[3]])
    assert (len(content["pictures"]), content["order"][-1]) == (40, 3)
    assert np.abs(decoded(content, 40).astype(int) - smooth[3]).mean() < 12  # lossy


def test_a_gif_has_every_turn(tmp_path: Path) -> None:
    frames = [np.full((20, 30, 3), shade, dtype=np.uint8) for shade in (0, 80, 160, 240)]
    write_film(tmp_path / "new" / "film.gif", frames, per_second=4)
    with Image.open(tmp_path / "new" / "film.gif") as film:
        assert (film.n_frames, film.size, film.info["duration"]) == (4, (30, 20), 250)


def test_films_of_text_have_one_size() -> None:
    frames = text_frames(["one line", "a\nb\nc\x1b[31m<b>", "x" * 10_000])
    assert len({frame.shape for frame in frames}) == 1
    assert all(frame.std() > 0 for frame in frames)


@pytest.mark.parametrize(("name", "said"), [("film.avi", ".gif or .mp4"), ("film.mp4", "pip install imageio-ffmpeg")])
def test_a_film_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match=said):
        write_film(tmp_path / name, [np.zeros((8, 8, 3), dtype=np.uint8)], 4)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    write_run(tmp_path / "demo")
    write_turns(tmp_path / "demo" / "turns" / "evaluation-after.parquet", played("babyai/goto", seed=3, most=12))
    return tmp_path / "demo"


def test_export_of_an_episode(run_dir: Path) -> None:
    film = run_dir / "film.gif"
    result = CliRunner().invoke(app, ["view", str(run_dir), "--episode", "0", "--gif", str(film)])
    assert result.exit_code == 0, result.output
    with Image.open(film) as opened:
        assert opened.n_frames >= 4  # equal pictures in a row are one


def test_export_of_a_text_game(tmp_path: Path) -> None:
    write_run(tmp_path / "demo")
    turns = played("toytext/frozenlake", seed=3)
    write_turns(tmp_path / "demo" / "turns" / "evaluation-after.parquet", turns)
    film = tmp_path / "film.gif"
    result = CliRunner().invoke(app, ["view", str(tmp_path / "demo"), "--episode", "0", "--gif", str(film)])
    assert result.exit_code == 0, result.output
    with Image.open(film) as opened:
        assert opened.size[0] == 640
        assert 2 <= opened.n_frames <= len(turns) + 1


def test_a_game_that_does_not_take_its_own_mode_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = played("toytext/frozenlake", seed=3)
    monkeypatch.setattr("agentrl.envs.toytext.ToyText.metadata", {"render_modes": ["rgb_array"]})
    found = replay("toytext/frozenlake", {}, 3, [turn.action for turn in turns], [turn.reward for turn in turns])
    assert (found.note, found.frames, len(found.scenes)) == ("", [], len(turns) + 1)


@pytest.mark.parametrize(
    ("episode", "said"),
    [
        ("evaluation-aftre/0", "did you mean evaluation-after?"),
        ("evaluation-after/9", "does not hold so many"),
        ("evaluation-after/x", "as in evaluation-after/0"),
    ],
)
def test_no_such_episode_is_one_line(run_dir: Path, episode: str, said: str) -> None:
    result = CliRunner().invoke(app, ["view", str(run_dir), "--episode", episode, "--gif", "film.gif"])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_gif_and_episode_go_together(run_dir: Path) -> None:
    result = CliRunner().invoke(app, ["view", str(run_dir), "--gif", "film.gif"])
    assert result.exit_code == 2
    assert "--gif and --episode go together" in result.output
