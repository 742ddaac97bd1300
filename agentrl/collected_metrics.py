"""What a batch's turns and finished episodes say, over all processes: the `episode/` and `turns/` metrics."""

from collections.abc import Sequence

import numpy as np

from agentrl.collector import Collected
from agentrl.faults import KINDS, PROMPT_TOO_LONG, kind_of
from agentrl.ranks import Ranks
from agentrl.records import Turn


def collected_metrics(collected: Collected, ranks: Ranks) -> dict[str, float]:
    """Means over the episodes that ended in this batch (absent if none did) and fractions over its turns.

    `episode/success` is absent where no game says what success is, `episode/achievements` where none has any. Returns
    are the game's own, without penalties. Episodes that broke are counted in `episode/errors` and enter no mean: what
    they would have been is not known. `episode/context_full` is the fraction that `rows: trajectory` cut; the game says
    of those neither success nor progression, as a rule. `turns/error_fraction` is of all turns that broke; those whose
    prompt was too long and, by kind, those whose game broke are fractions of their own.
    """
    episodes = [
        (
            e.game_return,
            e.length,
            np.nan if e.success is None else e.success,
            np.nan if e.progression is None else e.progression,
            np.nan if e.achievements is None else len(e.achievements),
            np.nan if e.context_full is None else e.context_full,
        )
        for e in collected.episodes
        if e.error is None
    ]
    ended = ranks.concatenate(np.array(episodes, dtype=np.float64).reshape(-1, 6))
    turns = ranks.concatenate(
        np.array(
            [
                (
                    not t.valid,
                    t.finish_reason == "length",
                    t.error is not None,
                    t.error == PROMPT_TOO_LONG,
                    t.dropped_turns > 0,
                    len(t.prompt_ids),
                    len(t.reply_ids),
                    1 - len(set(t.reply_ids)) / max(1, len(t.reply_ids)),
                    *(t.error is not None and kind_of(t.error) == kind for kind in KINDS),
                )
                for t in collected.turns
            ],
            dtype=np.float64,
        )
    )
    turn_names = (
        "invalid_fraction",
        "length_stop_fraction",
        "error_fraction",
        "prompt_too_long_fraction",
        "dropped_fraction",
        "prompt_tokens",
        "reply_tokens",
        "repetition",
        *(f"error_{kind}_fraction" for kind in KINDS),
    )
    metrics = {f"turns/{name}": float(mean) for name, mean in zip(turn_names, turns.mean(axis=0), strict=True)}
    metrics |= _reward_parts(collected.turns, ranks)
    metrics["episode/count"] = float(len(ended))
    metrics["episode/errors"] = float(ranks.sum(np.array([len(collected.episodes) - len(episodes)]))[0])
    names = ("return", "length", "success", "progression", "achievements", "context_full")
    for name, column in zip(names, ended.T, strict=True):
        known = column[~np.isnan(column)]
        if len(known):
            metrics[f"episode/{name}"] = float(known.mean())
    return metrics


def _reward_parts(turns: Sequence[Turn], ranks: Ranks) -> dict[str, float]:
    """`rewards/NAME`: what each part of the reward pays a turn, on average over all turns."""
    names = sorted(set(ranks.gather([name for turn in turns for name in turn.reward_parts])))
    sums = [sum(turn.reward_parts.get(name, 0.0) for turn in turns) for name in names]
    *totals, count = ranks.sum(np.array([*sums, len(turns)], dtype=np.float64))
    return {f"rewards/{name}": float(total / count) for name, total in zip(names, totals, strict=True)}
