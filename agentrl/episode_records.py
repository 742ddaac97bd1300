"""What is known of a finished episode, and what brings an unfinished one back."""

from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from agentrl.records import Turn


@dataclass(slots=True)
class Episode:
    """What is known of a finished episode. `success` and `progression` are the game's own words.

    One that broke has its `error`, and the length, return and achievements that it had until then. One that failed to
    begin has an error that starts with "reset: ".

    Attributes:
        achievements: those unlocked; None where the game has none.
        achievable: all that the game has, unlocked or not.
        context_full: whether it was cut because the next prompt did not fit; None where prompts do not grow.
    """

    game: str
    seed: int
    length: int
    game_return: float
    success: bool | None
    progression: float | None
    error: str | None
    invalid_turns: int = 0
    achievements: tuple[str, ...] | None = None
    achievable: tuple[str, ...] = ()
    context_full: bool | None = None
    turns: list[Turn] = field(default_factory=list)


class PlayedTurn(TypedDict):
    """What replays a turn: the reply as text (as `ids`, too, where prompts are made of them; its number of `tokens`
    where rewards may ask for it), the action executed."""

    reply: str
    action: str
    valid: bool
    ids: NotRequired[list[int]]
    tokens: NotRequired[int]


class SlotState(TypedDict):
    """An unfinished episode is its seed plus its actions; replies rebuild the memory."""

    episode: int
    seed: int
    played: list[PlayedTurn]
    prompt_crc: int
