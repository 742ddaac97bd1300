"""Fixed-turn batches: each of the games plays exactly `turns_per_env` turns, and lives on into the next batch.

Or whole episodes: each game plays one to its end, for estimators that have no critic to look behind a cut.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from agentrl.agents import Agent
from agentrl.episode import Episode, GameSlot, SlotState
from agentrl.records import Turn
from agentrl.stopping import Interrupted


@dataclass(slots=True)
class Collected:
    """Turns grouped by slot, in time order; the episodes that ended among them, and those that failed to begin; seconds
    in `generate` and `env`."""

    turns: list[Turn]
    episodes: list[Episode]
    seconds: dict[str, float]


def play_round(
    slots: Sequence[GameSlot], agent: Agent, seconds: dict[str, float] | None = None
) -> list[tuple[GameSlot, Turn, Episode | None]]:
    """One turn of every slot: all prompts answered in one call, games asked and heard in index order.

    Games in worker processes play at the same time, and one whose episode is over resets while others still play.
    """
    started = perf_counter()
    fitting = [slot for slot in slots if not slot.overflow]
    replies = dict(zip((slot.index for slot in fitting), agent.act(fitting), strict=True)) if fitting else {}
    answered = perf_counter()
    for slot in fitting:
        slot.begin_turn(replies[slot.index])
    played = []
    for slot in slots:
        turn, episode = slot.prompt_too_long() if slot.overflow else slot.play(replies[slot.index])
        if episode is not None:
            slot.begin_episode()
        played.append((slot, turn, episode))
    if seconds is not None:
        seconds["generate"] += answered - started
        seconds["env"] += perf_counter() - answered
    return played


def begin_episodes(slots: Sequence[GameSlot]) -> list[bool]:
    """`next_episode` of every slot, those in worker processes at the same time."""
    for slot in slots:
        slot.begin_episode()
    return [slot.next_episode() for slot in slots]


class Collector:
    """Plays `slots` with `agent`. The slots' first episodes begin here, unless a state is restored instead."""

    def __init__(self, slots: Sequence[GameSlot], agent: Agent, states: Sequence[SlotState] | None = None) -> None:
        self.slots = slots
        self.agent = agent
        self.inexact: list[str] = []
        try:
            if states is None:
                begin_episodes(slots)
            else:
                restored = [slot.restore(state) for slot, state in zip(slots, states, strict=True)]
                self.inexact = sorted({slot.game_id for slot, exact in zip(slots, restored, strict=True) if not exact})
        except BaseException:  # nobody else could close them
            self.close()
            raise
        self.mark_boundary()

    def collect(self, turns_per_env: int, stop: Callable[[], bool] = lambda: False) -> Collected:
        """Play exactly `turns_per_env` turns of every game.

        Raises:
            Interrupted: `stop` returned True between two rounds.
            GameBroken: a game could not be reset.
        """
        by_slot: dict[int, list[Turn]] = {slot.index: [] for slot in self.slots}
        episodes: list[Episode] = []
        seconds = {"generate": 0.0, "env": 0.0}
        for _ in range(turns_per_env):
            if stop():
                raise Interrupted
            for slot, turn, episode in play_round(self.slots, self.agent, seconds):
                by_slot[slot.index].append(turn)
                if episode is not None:
                    slot.next_episode()
                    episodes += [episode, *slot.failed_resets]
        for slot in self.slots:
            last = by_slot[slot.index][-1]
            if not (last.terminated or last.truncated or last.error):
                last.next_prompt_ids = slot.prompt.ids
        return Collected([turn for turns in by_slot.values() for turn in turns], episodes, seconds)

    def collect_episodes(self, stop: Callable[[], bool] = lambda: False) -> Collected:
        """Play the episode that each game stands at the beginning of, to its end; then all begin the next one.

        Games go on with the same episode number, also where one could not be reset with an earlier one: games of a
        group, whose seeds are the same, stay together.

        Raises:
            Interrupted, GameBroken: as `collect`.
        """
        by_slot: dict[int, list[Turn]] = {slot.index: [] for slot in self.slots}
        episodes: list[Episode] = []
        seconds = {"generate": 0.0, "env": 0.0}
        playing = list(self.slots)
        while playing:
            if stop():
                raise Interrupted
            for slot, turn, episode in play_round(playing, self.agent, seconds):
                by_slot[slot.index].append(turn)
                if episode is not None:
                    playing.remove(slot)
                    slot.next_episode()
                    episodes += [episode, *slot.failed_resets]
        while behind := [slot for slot in self.slots if slot.episode < max(slot.episode for slot in self.slots)]:
            for slot in behind:
                slot.episode = max(slot.episode for slot in self.slots) - 1
                slot.next_episode()
                episodes += slot.failed_resets
        return Collected([turn for turns in by_slot.values() for turn in turns], episodes, seconds)

    def mark_boundary(self) -> None:
        """Remember where the games stand now: `boundary`, which a checkpoint keeps."""
        self.boundary = [slot.state() for slot in self.slots]

    def close(self) -> None:
        for slot in self.slots:
            slot.close()
