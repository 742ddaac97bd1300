"""The episodes that a report shows to read, shortened so that the page stays light, and made safe to look at."""

from dataclasses import dataclass
from pathlib import Path

from agentrl.records import Message, Turn
from agentrl.report_evaluations import ON_THE_WAY, PLAYERS
from agentrl.turn_files import episodes, read_turns

MAX_EPISODES = 3
MAX_HEAD, MAX_TAIL = 30, 10
"""Episodes a file, and turns an episode: its first and its last."""

MAX_TEXT = 4000
MAX_PROMPT = 8000
MAX_MEMORY = 60_000
"""Characters of a message, of what a prompt holds beside the newest message, and of all that in an episode: there the
texts of earlier turns come back. What is left out is said in place."""


@dataclass(frozen=True)
class ShownTurn:
    """A turn and its prompt.

    Attributes:
        seen: the newest message.
        instruction: the system message where it differs from that of the turn shown before, else "".
        prompt: the messages between them; the oldest `left_out` are not among these.
    """

    turn: Turn
    seen: str
    instruction: str
    prompt: list[Message]
    left_out: int


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


def episode_paths(folder: Path) -> list[Path]:
    """evaluation-*.parquet in the order of the table; of those during training the last, and only if none is after."""
    paths = {path.stem.removeprefix("evaluation-"): path for path in sorted(folder.glob("evaluation-*.parquet"))}
    underway = [player for player in paths if player.startswith(ON_THE_WAY)]
    known = [player for player in PLAYERS if player in paths]
    others = [player for player in paths if player not in PLAYERS and player not in underway]
    newest = [] if "after" in paths else sorted(underway, key=lambda player: (len(player), player))[-1:]
    return [paths[player] for player in [*known, *newest, *others]]


def read_episodes(path: Path) -> EpisodeFile:
    """Raises TurnFileError as `read_turns`."""
    found = episodes(read_turns(path))
    player = path.stem.removeprefix("evaluation-").replace("_", " ")
    shown = [_episode(number, turns) for number, turns in enumerate(found[:MAX_EPISODES], start=1)]
    return EpisodeFile(player, path.name, shown, len(found) - len(shown))


def _episode(number: int, turns: list[Turn]) -> ShownEpisode:
    head, tail = (turns, []) if len(turns) <= MAX_HEAD + MAX_TAIL else (turns[:MAX_HEAD], turns[-MAX_TAIL:])
    instruction = latest = _instruction(turns[0])
    shown: list[ShownTurn] = []
    room = MAX_MEMORY
    for turn in (*head, *tail):
        shown.append(_shown(turn, latest, min(room, MAX_PROMPT)))
        latest = _instruction(turn)
        room -= len(shown[-1].instruction) + sum(len(message["content"]) for message in shown[-1].prompt)
    return ShownEpisode(
        number=number,
        game=turns[0].game,
        seed=turns[0].seed,
        length=len(turns),
        total_reward=sum(turn.reward for turn in turns),
        ending=_ending(turns[-1]),
        instruction=shorten(instruction, MAX_TEXT),
        head=shown[: len(head)],
        skipped=len(turns) - len(shown),
        tail=shown[len(head) :],
    )


def _ending(last: Turn) -> str:
    if last.error:
        return f"error: {last.error}"
    if last.terminated:
        return "ended by the game"
    return "time limit" if last.truncated else "not ended"


def _instruction(turn: Turn) -> str:
    first = turn.messages[:1]
    return first[0]["content"] if first and first[0]["role"] == "system" else ""


def _shown(turn: Turn, latest: str, room: int) -> ShownTurn:
    """With at most some `room` characters beside the newest message; the newest of them, whole messages but for one."""
    system = _instruction(turn)
    messages = turn.messages[1:] if system else turn.messages
    changed = shorten(system, min(MAX_TEXT, max(room, 0))) if system != latest else ""
    room -= len(changed)
    prompt: list[Message] = []
    for message in reversed(messages[:-1]):
        if room <= 0:
            break
        text = shorten(message["content"], min(MAX_TEXT, room))
        room -= len(text)
        prompt.insert(0, {"role": message["role"], "content": text})
    seen = shorten(messages[-1]["content"], MAX_TEXT) if messages else ""
    return ShownTurn(turn, seen, changed, prompt, left_out=max(len(messages) - 1, 0) - len(prompt))


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
