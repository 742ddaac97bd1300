"""Recorded episodes played again from their seed, and what came out otherwise."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from math import isclose
from typing import Any, Protocol

from agentrl.envs.base import Observation, TextEnv
from agentrl.errors import UserError, did_you_mean, one_line
from agentrl.golden.recording import End, Header, Recording, Row

FLAGS = ("terminated", "truncated")
SHOWN = 60
"""Longest part of a value that a difference quotes."""
SAME = "same"
"""A field of a state that is as it was in the row before."""
ROUNDING = 1e-6
"""Recordings round some rewards and progressions to six digits."""


class Difference(Exception):
    """What came out otherwise, in one short line."""


class Comparison(Protocol):
    """A way to compare a recording with our game.

    Attributes:
        compared: how many of `unit` were found the same so far.
    """

    compared: int
    unit: str

    def compare(self, recording: Recording) -> bool:
        """Whether the comparison ended early, where YOU was lost.

        Raises:
            Difference: the first one.
            UserError: the recording cannot be played at all.
        """
        ...


class Replay(ABC):
    """A game that is played as a recording says, once.

    Attributes:
        game: made as the header tells.
        seed: of its reset.
        splits_flags: whether `terminated` and `truncated` are compared one by one, or only whether either is set.
        flags_limit: whether the recorded game itself reports its time limit; otherwise the loop around it counted.
    """

    unit = "rows"
    game: TextEnv
    seed: int
    splits_flags = True
    flags_limit = True

    def __init__(self) -> None:
        self.compared = 0

    @abstractmethod
    def state(self) -> Row:
        """What the game is like inside, after the last row."""

    def comparable(self, state: Row) -> Row:
        """The part of a state that means the same in ours and in theirs."""
        return state

    def facts(self) -> Row:
        """What the header says of the episode, as our game says it after its reset."""
        game = self.game
        return {
            "mission": game.mission or None,
            "max_steps": game.max_turns,
            "action_space": list(game.actions or ()),
            "default_action": game.default_action,
        }

    def progression(self, info: Row) -> float:
        """After a step with this info."""
        return float(info.get("progression", 0.0))

    def stats(self, last: Row) -> Row:
        """What the end says beside progression and actions, after the last row."""
        return {}

    def next_level(self) -> Row:
        """The state that the original goes on in where YOU was lost: random numbers go on too."""
        self.game.reset()
        return self.state()

    def rows(self, replies: Iterable[str]) -> Iterator[Row]:
        """The reset's row, then one for each reply, until the episode ends."""
        game = self.game
        observation, _ = game.reset(seed=self.seed)
        yield {"kind": "reset", "step": 0, "text": text_of(observation), "state": self.state()}
        for number, reply in enumerate(replies, start=1):
            legal = reply in (game.actions or ())
            observation, reward, terminated, truncated, info = game.step(reply)
            yield {
                "kind": "step",
                "step": number,
                "action": reply if legal else game.default_action,
                **({} if legal else {"candidate": reply}),
                "reward": float(reward),
                "terminated": terminated,
                "truncated": truncated,
                "text": text_of(observation),
                "progression": self.progression(info),
                "state": self.state(),
            }
            if terminated or truncated:
                return

    def end(self, rows: list[Row]) -> Row:
        """The row that follows these."""
        steps = rows[1:]
        stats = {
            "progression": steps[-1]["progression"] if steps else 0.0,
            "action_frequency": dict(sorted(Counter(row["action"] for row in steps).items())),
            **self.stats(rows[-1]),
        }
        return {"kind": "end", "stats": stats, "failed_candidates": [r["candidate"] for r in steps if "candidate" in r]}

    def compare(self, recording: Recording) -> bool:
        """Play the recording again, and compare row by row; see `Comparison`."""
        if recording.end is None:
            raise UserError(f"cases of text of {recording.header.env}: there are none but crafter's")
        replies = (str(row.get("candidate", row["action"])) for row in recording.rows[1:])
        played: list[Row] = []
        state: Row = {}
        for ours, theirs in zip_longest(self.rows(replies), recording.rows):
            if ours is None:
                raise Difference(f"over here, recorded up to row {len(recording.rows) - 1}")
            if not played:
                self.compare_header(recording.header)
            state = unfolded(theirs["state"], state)
            where = f"row {self.compared}"
            if theirs.get("env_reset_quirk"):
                if not ours["terminated"]:
                    raise Difference(f"{where}: YOU is not lost, recorded as lost")
                compare_fields(f"{where}, state", *map(self.comparable, (self.next_level(), state)))
                self.compared += 1
                return True
            compare_fields(where, {k: v for k, v in ours.items() if k not in ("state", *FLAGS)}, theirs)
            compare_fields(f"{where}, state", *map(self.comparable, (ours["state"], state)))
            if played:
                self._compare_flags(where, ours, theirs)
            played.append(ours)
            self.compared += 1
        self.compare_end(played, recording.end)
        return False

    def compare_end(self, played: list[Row], theirs: End) -> None:
        """Raises: Difference: the first field of the end."""
        end = self.end(played)
        compare_fields("end, stats", end["stats"], theirs.stats)
        compare_fields("end", {"failed_candidates": end["failed_candidates"]}, theirs.model_dump())

    def compare_header(self, header: Header) -> None:
        """Raises: Difference: the first fact about the episode."""
        compare_fields("header", self.facts(), header.model_dump())

    def _compare_flags(self, where: str, ours: Row, theirs: Row) -> None:
        if self.splits_flags:
            compare_fields(where, {name: ours[name] for name in FLAGS}, theirs)
        elif self.flags_limit or not ours["truncated"]:
            compare_fields(where, *({"over": any(row[name] for name in FLAGS)} for row in (ours, theirs)))


def text_of(observation: Observation) -> Row:
    """An observation under the names of recordings."""
    return {"long_term_context": observation.scene, "short_term_context": observation.status}


def unfolded(state: Row, before: Row) -> Row:
    """A recorded state in full."""
    return {name: before.get(name) if value == SAME else value for name, value in state.items()}


def folded(state: Row, before: Row) -> Row:
    """The opposite: whatever is long and unchanged is SAME."""
    return {
        name: SAME if isinstance(value, list | dict) and value and before.get(name) == value else value
        for name, value in state.items()
    }


def compare_fields(where: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Compare the fields that both have.

    Raises:
        Difference: the first field, key or line that is otherwise.
    """
    for name, have in ours.items():
        if name in theirs and not _equal(have, theirs[name]):
            path, have, want = _first_apart(name, have, theirs[name])
            raise Difference(one_line(f"{where}, {path}: {_quoted(have)}, recorded {_quoted(want)}"))


def check_options(given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises: UserError: a header's config has a field that the game does not know."""
    names = list(known)
    for name in given:
        if name not in names:
            hint = did_you_mean(name, names)
            raise UserError(f"header.config.{name}: the game has no such option{hint}; known: {', '.join(names)}")


def seed_of(value: Any) -> int:
    """A recorded seed. Raises: UserError: it is none."""
    if type(value) is not int or value < 0:
        raise UserError(f"header.seed = {value!r}: without a whole number the episode cannot be played again")
    return value


def _equal(have: Any, want: Any) -> bool:
    if isinstance(have, float) and type(want) in (int, float):
        return isclose(have, want, rel_tol=0, abs_tol=ROUNDING)
    return bool(have == want)


def _first_apart(path: str, have: Any, want: Any) -> tuple[str, Any, Any]:
    """Into dicts, lists and texts of several lines, down to what differs."""
    if isinstance(have, dict) and isinstance(want, dict):
        parts = [(f"{path}.{key}", have.get(key), want.get(key)) for key in {**have, **want}]
    elif isinstance(have, list) and isinstance(want, list) and len(have) == len(want):
        parts = [(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(have, want, strict=True))]
    elif isinstance(have, str) and isinstance(want, str) and "\n" in have + want:
        lines = zip_longest(have.split("\n"), want.split("\n"))
        parts = [(f"{path}, line {i}", *pair) for i, pair in enumerate(lines, start=1)]
    else:
        return path, have, want
    return _first_apart(*next(part for part in parts if part[1] != part[2]))


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
