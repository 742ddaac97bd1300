"""Held-out episodes: seeds fixed beforehand, each played to its end, whoever finishes first."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from agentrl.agents import Agent
from agentrl.collector import begin_episodes, play_round
from agentrl.episode import Episode, GameSlot
from agentrl.ranks import Ranks
from agentrl.seeding import held_out_seed
from agentrl.statistics import bootstrap_mean, unlock_score, wilson
from agentrl.stopping import Interrupted

Summary = dict[str, object]


class MakeSlot(Protocol):
    """Makes game slot `index`; `seeds` maps an episode number to a game seed, None after the last."""

    def __call__(self, index: int, seeds: Callable[[int], int | None], *, evaluation: bool) -> GameSlot: ...


def evaluate(
    agent: Agent,
    games: MakeSlot,
    numbers: Sequence[int] = range(64),
    num_envs: int = 64,
    on_episode: Callable[[Episode], None] = lambda episode: None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Episode]:
    """Play held-out episodes `numbers` to their end, up to `num_envs` at a time; returned in the order of `numbers`.

    Every episode has a slot of its own, whose index is its number: neither its game nor its draws depend on how many
    are played at a time.

    Raises:
        Interrupted: `stop` returned True between two rounds.
    """
    waiting = list(reversed(numbers))
    finished: dict[int, Episode] = {}
    active: list[GameSlot] = []

    def finish(slot: GameSlot, episode: Episode) -> None:
        finished[slot.index] = episode
        slot.close()
        on_episode(episode)

    def refill() -> None:
        while waiting and len(active) < num_envs:
            new = [waiting.pop() for _ in range(min(len(waiting), num_envs - len(active)))]
            slots = [games(number, partial(_one_episode, number), evaluation=True) for number in new]
            active.extend(slots)
            for slot, begun in zip(slots, begin_episodes(slots), strict=True):
                if not begun:
                    finish(slot, slot.failed_resets[0])
            active[:] = [slot for slot in active if slot.index not in finished]

    try:
        refill()
        while active:
            if stop():
                raise Interrupted
            for slot, _, episode in play_round(active, agent):
                if episode is not None:
                    finish(slot, episode)
            active[:] = [slot for slot in active if slot.index not in finished]
            refill()
    finally:
        for slot in active:
            slot.close()
    return [finished[number] for number in numbers]


def evaluate_shared(
    ranks: Ranks,
    agent: Agent,
    make_slot: MakeSlot,
    episodes: int,
    num_envs: int,
    on_episode: Callable[[Episode], None] = lambda episode: None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Episode]:
    """Held-out episodes 0..`episodes` - 1, every process playing its share; each gets them all.

    Raises:
        Interrupted: on every process, once all have ended, if `stop` returned True on any.
    """
    share: list[Episode] | None
    try:
        share = evaluate(agent, make_slot, range(ranks.index, episodes, ranks.count), num_envs, on_episode, stop)
    except Interrupted:
        share = None
    # Shares have different numbers of rounds: only here, where each comes once, may the processes wait for each other.
    shares = ranks.gather([share])
    if None in shares:
        raise Interrupted
    return sorted((episode for share in shares for episode in share or ()), key=lambda episode: episode.seed)


def _one_episode(number: int, episode: int) -> int | None:
    return held_out_seed(number) if episode == 0 else None


def summarise(episodes: Sequence[Episode]) -> Summary:
    """Success with its Wilson interval, return with a bootstrap interval over episodes, progression and length; where
    the game has achievements, their mean number an episode, the rate of each, and the score made of the rates.

    There must be an episode at least. Those that broke, and those that `rows: trajectory` cut (`context_full`, their
    fraction), count: without success and at progression 0 where these have a meaning and the game says nothing, with
    the return and the achievements they had.
    """
    successes = [bool(e.success) for e in episodes]
    meaningful = any(e.success is not None for e in episodes)
    returns = [e.game_return for e in episodes]
    progressions = [e.progression or 0.0 for e in episodes if e.progression is not None or e.error or e.context_full]
    measured = any(e.progression is not None for e in episodes)
    turns = sum(e.length for e in episodes)
    return {
        "episodes": len(episodes),
        "success": float(np.mean(successes)) if meaningful else None,
        "success_ci95": list(wilson(sum(successes), len(episodes))) if meaningful else None,
        "return": float(np.mean(returns)),
        "return_ci95": list(bootstrap_mean(returns)),
        "progression": float(np.mean(progressions)) if measured else None,
        "length": turns / len(episodes),
        "lengths": [e.length for e in episodes],
        "invalid_fraction": sum(e.invalid_turns for e in episodes) / max(1, turns),
        "errors": sum(e.error is not None for e in episodes),
        **_context_full(episodes),
        **_achievements(episodes),
    }


def _context_full(episodes: Sequence[Episode]) -> Summary:
    """Empty where prompts do not grow with the episode."""
    if all(e.context_full is None for e in episodes):
        return {}
    return {"context_full": sum(bool(e.context_full) for e in episodes) / len(episodes)}


def _achievements(episodes: Sequence[Episode]) -> Summary:
    """Empty where the game has none. Those of an episode that never began are none."""
    names = next((e.achievable for e in episodes if e.achievable), ())
    if not names:
        return {}
    unlocked = [e.achievements or () for e in episodes]
    counts = [len(each) for each in unlocked]
    rates = {name: sum(name in each for each in unlocked) / len(episodes) for name in names}
    return {
        "achievements": float(np.mean(counts)),
        "achievements_ci95": list(bootstrap_mean(counts)),
        "achievement_rates": rates,
        "score": unlock_score(list(rates.values())),
    }
