"""Pairs of turns, one preferred to the other, taken from stored trajectories: what reward models and DPO learn from.

A file of pairs is a file of turns (`agentrl.turn_files`): the preferred turn, the other, the next pair. Ids are those
that were sampled.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentrl.errors import UserError
from agentrl.records import Turn
from agentrl.turn_files import episodes, read_turns, write_turns

By = Literal["advantage", "reward", "return"]
Between = Literal["replies", "turns"]


FEWEST = 5
"""Pairs that can be learned from: one of them is for testing."""

HELD_OUT_SHARE = 0.2
"""Of the pairs: never trained on, to say what was learned."""


@dataclass(frozen=True, slots=True)
class Pair:
    """`preferred` over `other`."""

    preferred: Turn
    other: Turn


def held_out(pairs: int) -> int:
    """How many of so many pairs are kept for testing. Raises UserError where there are too few to learn from."""
    if pairs < FEWEST:
        raise UserError(f"{pairs} pairs: {FEWEST} are needed at least, one of them to be tested on")
    return max(1, int(HELD_OUT_SHARE * pairs))


def optimizer_steps(pairs: int, epochs: int, batch_pairs: int) -> int:
    """Of training on so many pairs, those for testing taken off."""
    return epochs * -(-(pairs - held_out(pairs)) // batch_pairs)


def find_pairs(
    turns: Sequence[Turn],
    by: By = "advantage",
    between: Between = "replies",
    margin: float = 0.0,
    gamma_step: float = 0.99,
    most_of_a_prompt: int = 8,
) -> list[Pair]:
    """Pairs whose worth differs by more than `margin`, those that differ most first for each prompt.

    Args:
        by: what a turn is worth: its advantage as stored, its reward, or the discounted return from it to the end of
            its episode (of episodes that are there from that turn to the game's end or limit).
        between: "replies" to one and the same prompt; "turns" of one game, whatever their prompts.
        most_of_a_prompt: pairs of replies taken of one prompt. A turn is in one pair at most.
    """
    worth = _worth(turns, by, gamma_step)
    groups: dict[object, list[tuple[float, Turn]]] = defaultdict(list)
    for turn, value in zip(turns, worth, strict=True):
        if value is not None and turn.error is None and turn.reply_ids:
            groups[tuple(turn.prompt_ids) if between == "replies" else turn.game].append((value, turn))
    pairs: list[Pair] = []
    for group in groups.values():
        group.sort(key=lambda valued: valued[0], reverse=True)
        half = len(group) // 2  # the best with the worst, and so inwards
        candidates = zip(group[:half], group[::-1][:half], strict=True)
        found = [
            Pair(good, bad)
            for (best, good), (worst, bad) in candidates
            if best - worst > margin and (between == "turns" or good.reply_ids != bad.reply_ids)
        ]
        pairs += found if between == "turns" else found[:most_of_a_prompt]
    return pairs


def write_pairs(path: Path, pairs: Sequence[Pair]) -> None:
    """Write pairs to a .parquet or .jsonl file. Raises TurnFileError."""
    write_turns(path, [turn for pair in pairs for turn in (pair.preferred, pair.other)])


def read_pairs(path: Path) -> list[Pair]:
    """Read what `write_pairs` wrote.

    Raises:
        UserError: no such file, or it holds no pairs.
    """
    turns = read_file(path)
    if not turns or len(turns) % 2:
        raise UserError(f"{path}: {len(turns)} turns; a file of pairs holds two a pair: agentrl preferences writes it")
    return [Pair(good, bad) for good, bad in zip(turns[::2], turns[1::2], strict=True)]


def stored_turns(sources: Sequence[Path]) -> list[Turn]:
    """All turns of files, and of runs (those of training: turns/update-*.parquet).

    Raises:
        UserError: there are none.
    """
    files: list[Path] = []
    for source in sources:
        found = sorted((source / "turns").glob("update-*.parquet")) if source.is_dir() else [source]
        if not found:
            raise UserError(f"{source}: no turns/update-*.parquet; set tracking.turns_every = 1 in the run's recipe")
        files += found
    return [turn for file in files for turn in read_file(file)]


def read_file(path: Path) -> list[Turn]:
    """`read_turns`, a file that is not there told as the user's mistake."""
    try:
        return read_turns(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def whole_episodes(turns: Sequence[Turn]) -> list[list[Turn]]:
    """Episodes that are there from their first turn to their end, and in which nothing broke."""
    return [
        episode
        for episode in episodes(list(turns))
        if [turn.turn for turn in episode] == list(range(len(episode)))
        and (episode[-1].terminated or episode[-1].truncated)
        and all(turn.error is None for turn in episode)
    ]


def best_episodes(turns: Sequence[Turn], share: float) -> list[Turn]:
    """The turns of the best `share` of whole episodes: most of the game's own reward, and of equal ones the shorter.

    Raises:
        UserError: no episode is there from its first turn to its end.
    """
    whole = whole_episodes(turns)
    if not whole:
        raise UserError(f"no whole episode among {len(turns)} turns: keep more of them, tracking.turns_every = 1")

    def rank(episode: list[Turn]) -> tuple[float, int]:
        return -sum(turn.reward_parts.get("game", turn.reward) for turn in episode), len(episode)

    kept = sorted(whole, key=rank)[: max(1, round(share * len(whole)))]
    return [turn for episode in kept for turn in episode]


def _worth(turns: Sequence[Turn], by: By, gamma_step: float) -> list[float | None]:
    read: dict[By, Callable[[Turn], float | None]] = {"advantage": lambda t: t.advantage, "reward": lambda t: t.reward}
    if by in read:
        return [read[by](turn) for turn in turns]
    worth: dict[int, float] = {}
    for episode in episodes(list(turns)):
        if not (episode[-1].terminated or episode[-1].truncated):
            continue
        tail, later = 0.0, None
        for turn in reversed(episode):
            if later is not None and turn.turn != later - 1:
                break  # what lay between is not here
            tail, later = turn.reward + gamma_step * tail, turn.turn
            worth[id(turn)] = tail
    return [worth.get(id(turn)) for turn in turns]
