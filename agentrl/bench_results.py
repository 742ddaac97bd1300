"""What a benchmark leaves behind: BALROG's folders and files, and results.json and turns.parquet of ours.

    DIR/<env>/<task>/<task>_run_NN.csv|json     an episode (task names may hold a slash, and then nest)
    DIR/<env>/<env>_summary.json, summary.json  as BALROG's own tools read them
    DIR/episodes/...                            ours of each episode, figures and turns: what resume reads
    DIR/results.json, turns.parquet             of all of them

An episode is there once its figures are: they are written last, whole or not at all.
"""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from agentrl.bench_suite import Task, original_names
from agentrl.episode import Episode
from agentrl.evaluation import summarise
from agentrl.records import Turn
from agentrl.results import json_text, write_json, write_text
from agentrl.statistics import bootstrap_mean
from agentrl.turn_files import SCHEMA, read_tables, write_turns

ESCAPE = "˘"
"""BALROG's escapechar."""

MISSION = {"babyai": "mission", "babaisai": "target_plan"}
"""What BALROG calls an episode's goal."""


@dataclass(slots=True)
class Played:
    """A finished episode, as it is kept. `error` is set where a game or an engine failed: it has no score then."""

    task: str
    number: int
    seed: int
    success: bool | None
    progression: float | None
    game_return: float
    length: int
    invalid: int
    error: str | None
    achievements: list[str] | None
    achievable: list[str]
    input_tokens: int
    output_tokens: int
    terminated: bool
    actions: dict[str, int]
    failed_candidates: list[str] = field(default_factory=list)
    mission: str = ""

    def episode(self) -> Episode:
        return Episode(
            game=self.task,
            seed=self.seed,
            length=self.length,
            game_return=self.game_return,
            success=self.success,
            progression=self.progression,
            error=self.error,
            invalid_turns=self.invalid,
            achievements=None if self.achievements is None else tuple(self.achievements),
            achievable=tuple(self.achievable),
        )


@dataclass(slots=True)
class Step:
    """A line of an episode's CSV: what was answered, and what was seen after it."""

    action: str
    reasoning: str
    observation: str
    reward: float
    done: bool


class Folder:
    """The folder of a benchmark's results.

    Args:
        agent, client: what BALROG's files say of them.
    """

    def __init__(self, path: Path, agent: dict[str, Any], client: dict[str, Any]) -> None:
        self.path = path
        self._agent, self._client = agent, client

    def stored(self, task: Task, number: int) -> Played | None:
        """An episode that was finished before; None if it is to be played, for the first time or again."""
        file = self._own(task, number, "json")
        try:
            played = Played(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return None if played.error else played

    def store(self, task: Task, played: Played, steps: Sequence[Step], turns: Sequence[Turn]) -> None:
        """Write an episode's files, ours last of all."""
        stem = self._original(task, played.number)
        stem.parent.mkdir(parents=True, exist_ok=True)
        if played.error is None:
            _write_csv(stem.with_name(f"{stem.name}.csv"), steps)
            original = json.dumps(self._original_json(task, played), indent=4)
            write_text(stem.with_name(f"{stem.name}.json"), _utf8(original))
        write_turns(self._own(task, played.number, "parquet"), list(turns))
        write_json(self._own(task, played.number, "json"), asdict(played))

    def write_summaries(self, tasks: Sequence[Task], played: Sequence[Played], results: Mapping[str, Any]) -> None:
        """BALROG's summaries, then ours."""
        by_game: dict[str, list[Played]] = {}
        for one in played:
            if one.error is None:
                by_game.setdefault(original_names(one.task)[0], []).append(one)
        for game, episodes in by_game.items():
            (self.path / game).mkdir(exist_ok=True)
            text = json.dumps(_game_summary(episodes), indent=4)
            write_text(self.path / game / f"{game}_summary.json", text)
        environments = {game: _percent(episodes) for game, episodes in by_game.items()}
        figures = [entry["progression_percentage"] for entry in environments.values()]
        errors = [entry["standard_error"] for entry in environments.values()]
        summary = {
            "average_progress": float(np.mean(figures)) if figures else 0.0,
            "standard_error": float(np.sqrt(np.sum(np.square(errors))) / len(errors)) if errors else 0.0,
            "environments": environments,
            "total_input_tokens": sum(one.input_tokens for one in played),
            "total_output_tokens": sum(one.output_tokens for one in played),
            "client": self._client,
            "agent": self._agent,
        }
        write_text(self.path / "summary.json", json.dumps(summary, indent=4))
        self._merge_turns([(task, one.number) for task in tasks for one in played if one.task == task.id])
        write_text(self.path / "results.json", json_text(dict(results)) + "\n")

    def _merge_turns(self, episodes: Iterable[tuple[Task, int]]) -> None:
        target = self.path / "turns.parquet"
        temporary = target.with_name(".turns.parquet.tmp")
        with pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
            for task, number in episodes:
                for table in read_tables(self._own(task, number, "parquet")):
                    writer.write_table(table)
        temporary.replace(target)

    def _original(self, task: Task, number: int) -> Path:
        name = task.original
        return self.path / task.game / name / f"{name}_run_{number:02d}"

    def _own(self, task: Task, number: int, suffix: str) -> Path:
        return self.path / "episodes" / task.game / task.original / f"{number:04d}.{suffix}"

    def _original_json(self, task: Task, played: Played) -> dict[str, Any]:
        own: dict[str, Any] = {}
        if played.mission:
            own[MISSION.get(task.game, "goal")] = played.mission
        if played.achievements is not None:
            own["score"] = len(played.achievements)
        own["progression"] = played.progression or 0.0
        if played.achievements is not None:
            own["achievements"] = {name: int(name in played.achievements) for name in sorted(played.achievable)}
        return {
            "task": task.original,
            "action_frequency": played.actions,
            "input_tokens": played.input_tokens,
            "output_tokens": played.output_tokens,
            **({"done": True} if played.terminated else {}),
            "episode_return": played.game_return,
            "num_steps": played.length,
            "failed_candidates": played.failed_candidates,
            **own,
            "process_num": None,
            "seed": played.seed,
            "agent": self._agent,
            "client": self._client,
        }


def task_figures(played: Sequence[Played]) -> dict[str, Any]:
    """A task's figures. Episodes that failed are listed and counted (`failed`), and enter no mean: what they would have
    scored is not known."""
    good = [one for one in played if one.error is None]
    figures: dict[str, Any] = {"failed": len(played) - len(good), "episodes": 0}
    if good:
        figures |= summarise([one.episode() for one in good])
        figures.pop("lengths")
        progressions = [one.progression or 0.0 for one in good]
        figures |= {
            "progression": float(np.mean(progressions)),
            "progression_se": standard_error(progressions),
            "progression_ci95": list(bootstrap_mean(progressions)),
        }
    figures["episodes_list"] = [
        {
            "number": one.number,
            "seed": one.seed,
            "success": one.success,
            "progression": one.progression,
            "return": one.game_return,
            "length": one.length,
            "invalid": one.invalid,
            "error": one.error,
        }
        for one in played
    ]
    return figures


def totals(tasks: Sequence[Task], played: Sequence[Played]) -> dict[str, Any]:
    """`games`, each the mean over all of its episodes in percent, and `overall`, the plain mean of the games.

    Standard errors as BALROG has them: population deviation / sqrt(n); overall sqrt(sum of squares) / games.
    """
    scores: dict[str, list[float]] = {}
    for one in played:
        if one.error is None:
            scores.setdefault(original_names(one.task)[0], []).append(100 * (one.progression or 0.0))
    games = {
        game: {"progression": float(np.mean(found)), "standard_error": standard_error(found), "episodes": len(found)}
        for game, found in scores.items()
    }
    if not games:
        return {"games": {}, "overall": {"progression": None, "standard_error": None}}
    means, errors = ([game[name] for game in games.values()] for name in ("progression", "standard_error"))
    overall = {
        "progression": float(np.mean(means)),
        "standard_error": float(np.sqrt(np.sum(np.square(errors))) / len(errors)),
    }
    return {"games": games, "overall": overall}


def standard_error(values: Sequence[float]) -> float:
    """Population standard deviation / sqrt(n); 0 of a single value."""
    return float(np.std(values) / np.sqrt(len(values)))


def count_actions(actions: Iterable[str]) -> dict[str, int]:
    return dict(Counter(actions))


def _percent(episodes: Sequence[Played]) -> dict[str, Any]:
    scores = [100 * (one.progression or 0.0) for one in episodes]
    return {
        "progression_percentage": float(np.mean(scores)),
        "standard_error": standard_error(scores),
        "episodes_played": len(scores),
    }


def _game_summary(episodes: Sequence[Played]) -> dict[str, Any]:
    tasks: dict[str, list[Played]] = {}
    for one in episodes:
        tasks.setdefault(original_names(one.task)[1], []).append(one)
    whole = _percent(episodes)
    return {
        "progression_percentage": whole["progression_percentage"],
        "standard_error": whole["standard_error"],
        "average_steps": float(np.mean([one.length for one in episodes])),
        "episodes_played": whole["episodes_played"],
        "tasks": {task: _percent(found) for task, found in tasks.items()},
        "input_tokens": sum(one.input_tokens for one in episodes),
        "output_tokens": sum(one.output_tokens for one in episodes),
    }


def _write_csv(path: Path, steps: Sequence[Step]) -> None:
    temporary = path.with_name(f".{path.name}.writing")
    with temporary.open("w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file, escapechar=ESCAPE, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
        writer.writerow(["Step", "Action", "Reasoning", "Observation", "Reward", "Done"])
        for number, step in enumerate(steps):
            writer.writerow([number, step.action, step.reasoning, step.observation, step.reward, step.done])
    temporary.replace(path)


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
