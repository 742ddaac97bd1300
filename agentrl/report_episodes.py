"""The episodes that a report shows to read, shortened so that the page stays light, and made safe to look at."""

from dataclasses import dataclass
from pathlib import Path

from agentrl.records import Message, Turn
from agentrl.turn_files import episodes, read_turns

MAX_EPISODES = 3
MAX_HEAD, MAX_TAIL = 50, 10
MAX_TEXT = 4000
MAX_PROMPT = 8000
"""Limits of episodes a file, turns an episode, characters a message and a prompt. What is left out is said in place."""


@dataclass(frozen=True)
class ShownTurn:
    """`seen` is the newest message of the prompt, `prompt` its other messages without the shared instruction."""

    turn: Turn
    seen: str
    prompt: list[Message]


@dataclass(frozen=True)
class ShownEpisode:
    """`skipped` turns are left out between `head` and `tail`."""

    number: int
    game: str
    seed: int
    length: int
    total_reward: float
    ending: str
    instruction: str
    head: list[ShownTurn]
    skipped: int
    tail: list[ShownTurn]


@dataclass(frozen=True)
class EpisodeFile:
    """The episodes of one turns/evaluation-*.parquet."""

    player: str
    file: str
    episodes: list[ShownEpisode]
    left_out: int


def read_episodes(path: Path) -> EpisodeFile:
    """Raises TurnFileError as `read_turns`."""
    found = episodes(read_turns(path))
    player = path.stem.removeprefix("evaluation-").replace("_", " ")
    shown = [_episode(number, turns) for number, turns in enumerate(found[:MAX_EPISODES], start=1)]
    return EpisodeFile(player, path.name, shown, len(found) - len(shown))


def _episode(number: int, turns: list[Turn]) -> ShownEpisode:
    first = turns[0].messages
    instruction = first[0]["content"] if first and first[0]["role"] == "system" else ""
    head, tail = (turns, []) if len(turns) <= MAX_HEAD + MAX_TAIL else (turns[:MAX_HEAD], turns[-MAX_TAIL:])
    return ShownEpisode(
        number=number,
        game=turns[0].game,
        seed=turns[0].seed,
        length=len(turns),
        total_reward=sum(turn.reward for turn in turns),
        ending=_ending(turns[-1]),
        instruction=shorten(instruction, MAX_TEXT),
        head=[_shown(turn, instruction) for turn in head],
        skipped=len(turns) - len(head) - len(tail),
        tail=[_shown(turn, instruction) for turn in tail],
    )


def _ending(last: Turn) -> str:
    if last.error:
        return f"error: {last.error}"
    if last.terminated:
        return "ended by the game"
    return "time limit" if last.truncated else "not ended"


def _shown(turn: Turn, instruction: str) -> ShownTurn:
    messages = turn.messages
    if messages and messages[0] == {"role": "system", "content": instruction}:
        messages = messages[1:]
    seen = messages[-1]["content"] if messages else ""
    room, prompt = MAX_PROMPT, []
    for message in messages[:-1]:
        text = shorten(message["content"], min(MAX_TEXT, room))
        room = max(room - len(text), 0)
        prompt.append({"role": message["role"], "content": text})
    return ShownTurn(turn, shorten(seen, MAX_TEXT), prompt)


def shorten(text: str, most: int) -> str:
    """Cut from the middle: a prompt's beginning and end say what it is."""
    if len(text) <= most:
        return text
    head, tail = most // 2, most - most // 2
    return f"{text[:head]}\n… {len(text) - most:,} characters left out …\n{text[len(text) - tail :]}"


_SIGNS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {
    code: f"⟨U+{code:04X}⟩"
    for codes in (
        range(0x7F, 0xA0),
        (0x061C, 0x200E, 0x200F),
        range(0x202A, 0x202F),
        range(0x2066, 0x206A),
        range(0xD800, 0xE000),
    )
    for code in codes
}


def visible(text: object) -> str:
    """Control characters, marks of writing direction and lone surrogates as signs: they could hide or reorder text."""
    return str(text).translate(_SIGNS)
