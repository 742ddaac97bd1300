"""Rewards that a model gives a batch's turns: reward models and judges, added to what the game and the rules paid."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from agentrl.judge import Judge
from agentrl.progress import say
from agentrl.ranks import Ranks
from agentrl.records import Turn
from agentrl.reward_terms import JudgeTerm, RewardModelTerm, RewardTerm

Marks = Sequence[tuple[float, str] | None]
"""Of each turn its value and what is said of it; None where none could be had."""


class Scorers:
    """The terms of a recipe that a model gives.

    Args:
        terms: name -> term; those of other kinds are passed over.
        run_dir: where the marks of judges are kept, a file a process.

    Raises:
        UserError: a model cannot be loaded, an endpoint cannot be one.
    """

    def __init__(self, terms: Mapping[str, RewardTerm], run_dir: Path, ranks: Ranks) -> None:
        self._ranks = ranks
        self._scorers: dict[str, tuple[float, Judge | _Model]] = {}
        for name, term in terms.items():
            if isinstance(term, JudgeTerm):
                cache = run_dir / f"judge-{name}-{ranks.index}.jsonl"
                self._scorers[name] = term.weight, Judge(name, term, cache)
            elif isinstance(term, RewardModelTerm):
                self._scorers[name] = term.weight, _Model(term, ranks)

    def score(self, turns: Sequence[Turn]) -> dict[str, float]:
        """Add each term to the turns' rewards; returns the metrics `rewards/NAME_missing_fraction`.

        A turn whose value could not be had is paid the mean of the others': it is told from none of them, and above all
        not from those that did badly. Broken turns are paid nothing.
        """
        played = [turn for turn in turns if turn.error is None]
        metrics = {}
        for name, (weight, scorer) in self._scorers.items():
            marks: Marks = scorer.score(played)
            values = [mark[0] for mark in marks if mark is not None]
            neutral = float(np.mean(values)) if values else 0.0
            for turn, mark in zip(played, marks, strict=True):
                turn.reward_parts[name] = weight * (neutral if mark is None else mark[0])
                turn.reward += turn.reward_parts[name]
                if mark is not None and mark[1]:
                    turn.notes[name] = mark[1]
            missing, asked = self._ranks.sum(np.array([len(marks) - len(values), len(marks)], dtype=np.float64))
            metrics[f"rewards/{name}_missing_fraction"] = float(missing / max(1.0, asked))
            if asked and missing == asked and self._ranks.index == 0:
                say(f"rewards.{name}: not one of {int(asked)} turns could be scored; this update goes without")
        return metrics

    def close(self) -> None:
        for _, scorer in self._scorers.values():
            scorer.close()


class _Model:
    """A reward model, in the form of a judge that explains nothing."""

    def __init__(self, term: RewardModelTerm, ranks: Ranks) -> None:
        from agentrl.reward_model import RewardModel

        device = ranks.accelerator.device if ranks.accelerator else None
        self._model = RewardModel(term.path, term.max_tokens, term.batch_size, device)

    def score(self, turns: Sequence[Turn]) -> Marks:
        return [(value, "") for value in self._model.score(turns)]

    def close(self) -> None:
        """Nothing is held open."""
