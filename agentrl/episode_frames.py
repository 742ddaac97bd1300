"""An episode anew, from its seed and its actions: a picture before every turn and one after the last.

A replay that comes out otherwise than the recording (other options, another version of the game) stops there and says
so.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from agentrl import answers, envs
from agentrl.envs import TextEnv
from agentrl.envs.babaisai import BabaIsAI
from agentrl.errors import in_short, one_line
from agentrl.view_baba import picture

Frame = NDArray[np.uint8]

TOLERANCE = 1e-6
"""Within which a reward is the recorded one."""


@dataclass(slots=True)
class Replay:
    """What an episode was, played again.

    Attributes:
        frames: (height, width, 3) bytes each, one before each turn, then one after the last; none where the game
            cannot be drawn.
        scenes: what the game said, as many.
        success, progression: the game's own words at the end; None where it says nothing or the end was not reached.
        note: why the replay stops before the recording does; empty if it does not.
    """

    frames: list[Frame] = field(default_factory=list)
    scenes: list[str] = field(default_factory=list)
    success: bool | None = None
    progression: float | None = None
    note: str = ""


def replay(
    game_id: str,
    options: Mapping[str, Any],
    seed: int,
    actions: Sequence[str],
    rewards: Sequence[float],
    draw: bool = True,
) -> Replay:
    """Play `actions` from `seed`; `rewards` are the recorded ones of the game itself. Without `draw`, no pictures.

    No error of the game comes out: it ends the replay, as its note.
    """
    result = Replay()
    game: TextEnv | None = None
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            game = _make(game_id, options, draw)
            observation = answers.observation(game.reset(seed=seed)[0])
            _show(result, game, observation.scene, draw)
            for turn, (action, recorded) in enumerate(zip(actions, rewards, strict=True)):
                found, reward, terminated, truncated, info = game.step(action)
                if abs(float(reward) - recorded) > TOLERANCE:
                    result.note = (
                        f"the replay left the recording at turn {turn}: reward {float(reward):g}, not {recorded:g}"
                    )
                    break
                _show(result, game, answers.observation(found).scene, draw)
                if terminated or truncated:
                    answer = answers.check(reward, terminated, truncated, info, game.actions, game.achievements)
                    result.success, result.progression = answer.success, answer.progression
                    if turn + 1 < len(actions):
                        result.note = f"the replay ended after turn {turn}, the recording goes on"
                    break
    except (Exception, SystemExit) as error:
        result.note = f"the replay broke: {in_short(error)}"
    finally:
        if game is not None:
            with contextlib.suppress(Exception, SystemExit):
                game.close()
    return result


def text_frames(scenes: Sequence[str]) -> list[Frame]:
    """Scenes of a game that cannot be drawn, as pictures of one size with the text on them."""
    font: Any = ImageFont.load_default(size=13)
    pages = ["\n".join(one_line(line)[:90] for line in scene.splitlines()[:32]) for scene in scenes]
    height = 16 + 17 * max((page.count("\n") + 1 for page in pages), default=1)
    frames = []
    for page in pages:
        image = Image.new("RGB", (640, height), (24, 26, 34))
        ImageDraw.Draw(image).multiline_text((10, 8), page, fill=(232, 232, 236), font=font, spacing=3)
        frames.append(np.asarray(image))
    return frames


def _make(game_id: str, options: Mapping[str, Any], draw: bool) -> TextEnv:
    game = envs.make(game_id, **options)
    if not draw or "rgb_array" not in game.metadata.get("render_modes", ()):
        return game
    try:
        drawing = envs.make(game_id, **{**options, "render_mode": "rgb_array"})
    except Exception:  # it names a mode that it does not take
        return game
    game.close()
    return drawing


def _show(result: Replay, game: TextEnv, scene: str, draw: bool) -> None:
    result.scenes.append(scene)
    if not draw:
        return
    drawn = picture(game.level.world) if isinstance(game, BabaIsAI) else game.render() if game.render_mode else None
    if drawn is not None:
        result.frames.append(np.asarray(drawn, dtype=np.uint8))
