"""The training loop: collect a fixed-turn batch, update, repeat; and what surrounds it.

results = Trainer(load_config("experiments/quickstart.yaml")).fit()
"""

import copy
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from accelerate.utils import set_seed

from agentrl import checkpoint
from agentrl.agents import Agent, RandomAgent
from agentrl.alarms import Alarms
from agentrl.assembly import assemble
from agentrl.best import best_evaluation, save_best
from agentrl.callbacks import Callback
from agentrl.checkpoint import Checkpoints, Progress
from agentrl.collected_metrics import collected_metrics
from agentrl.collector import Collected, Collector
from agentrl.config import Config
from agentrl.episode import GameSlot, SlotState
from agentrl.errors import UserError
from agentrl.evaluation import evaluate_shared, summarise
from agentrl.faults import PROMPT_TOO_LONG, kind_of
from agentrl.imitation import require_player, warm_start
from agentrl.learner import Learner
from agentrl.policy import ActorCritic, load_lm, save_policy
from agentrl.progress import RichProgress, say, track
from agentrl.ranks import Ranks, make_accelerator
from agentrl.records import Turn, TurnBatch
from agentrl.report import ReportWriter
from agentrl.results import machine, versions, write_json
from agentrl.run_folder import claim, open_folder
from agentrl.scorers import Scorers
from agentrl.seeding import training_seed
from agentrl.stopping import Interrupted, StopSignals
from agentrl.targets import annotate, make_targets
from agentrl.tracking import make_trackers
from agentrl.turn_files import write_turns


class RunStopped(UserError):
    """The run gave up: too many of its turns broke. What was learned before is in its last checkpoint."""


class Trainer:
    """One run of a config, from its first evaluation to its report.

    Args:
        config: the run.
        resume: go on from the newest checkpoint in the run's folder, or from the start if there is none yet.
        callbacks: called after the built-in ones (progress, metrics, trackers, turns, checkpoints, report).

    Raises:
        UserError: the run's folder is in use and `resume` is not set, or holds a run of another game, model or seed;
            model or game cannot be made.
    """

    def __init__(self, config: Config, resume: bool = False, callbacks: Sequence[Callback] = ()) -> None:
        self.config = config
        self.run_dir = Path(config.output_dir) / config.name
        found = claim(self.run_dir, config, resume)
        # No draw of ours hangs on the global generators; a game or memory of one's own may use them.
        set_seed(config.seed)
        self.accelerator = make_accelerator(config)
        self.ranks = Ranks(self.accelerator)
        self.is_main = self.ranks.index == 0
        if config.batch.num_envs % self.ranks.count:
            raise UserError(f"batch.num_envs = {config.batch.num_envs}: must divide by {self.ranks.count} processes")
        if config.batch.num_envs // self.ranks.count % config.batch.group_size:
            raise UserError(f"batch.group_size = {config.batch.group_size}: a group must fit into one process's games")
        path = found[-1] if found else config.model.path
        self.parts = assemble(config, path, self.accelerator.device, self.accelerator.autocast)
        self.learner = Learner(config, self.parts.model, self.accelerator)
        self.scorers = Scorers(config.rewards, self.run_dir, self.ranks)
        self.progress = Progress(warmup_done=config.critic_warmup.max_updates == 0)
        self._games: list[SlotState] | None = None
        self._saved: int | None = None
        if found:
            self.progress, self._games = checkpoint.load(found[-1], self.learner)
            if self.progress.kl_coef is not None:
                self.learner.kl_coef = self.progress.kl_coef
            self._saved = self.update
            checkpoint.recall(self.progress, self.run_dir, config)
            self.parts.engine.policy_version = self.progress.policy_version
        elif config.imitation.episodes:
            require_player(self.parts.games)
        self.callbacks: list[Callback] = [
            Alarms(config.alarms, [name for name, term in config.rewards.items() if term.learned]),
            RichProgress(),
            *(make_trackers(config, self.run_dir, self.update if resume else None) if self.is_main else ()),
            Checkpoints(),
            *callbacks,
            ReportWriter(),
        ]
        self._started = time.monotonic() - self.progress.seconds
        self._signals = StopSignals()

    def fit(self) -> dict[str, Any]:
        """Train to the end; returns what results.json holds.

        SIGINT and SIGTERM stop at the next boundary: a checkpoint is written, and the results so far are returned with
        "interrupted" set. A run that is stopped before its first update starts anew.

        Raises:
            RunStopped: more than `max_error_rate` of a batch's turns broke.
            GameBroken: a game could not be reset.
            UserError: the run's folder cannot be written.
        """
        finished = False
        with self._signals.heeded():
            if self.is_main:
                open_folder(self.run_dir, self.config)
            try:
                self._begin()
                self._train()
                self._last_evaluations()
                finished = True
            except Interrupted:
                pass
            finally:
                self.parts.games.close()
                self.scorers.close()
                results = self._write_results(interrupted=not finished)
                self._tell("on_end")
                if self.progress.skipped_steps == self.learner.value_steps > 0 and self.is_main:
                    say("warning: nothing was learned: not one optimizer step had a gradient of finite numbers")
        return results

    def _train(self) -> None:
        """Update until the end, or until a signal asks to stop; in both cases a checkpoint is left behind."""
        every = self.config.evaluation.every
        try:
            while self.update < self.total_updates:
                if every and self.update and self.update % every == 0:
                    self.evaluate(f"update-{self.update}", self.parts.agent("evaluation"))
                self._one_update()
        except Interrupted:
            self.save_checkpoint()
            raise
        finally:
            self.collector.close()
        self.save_checkpoint()

    def _one_update(self) -> None:
        """Collect a batch, fix its targets, take the optimizer steps, tell everybody."""
        clock, cpu_clock = time.monotonic(), time.process_time()
        critic_only = not self.progress.warmup_done
        replaced = self.parts.games.maker.replaced
        collected = self._collect()
        collected_at = time.monotonic()
        scored = self.scorers.score(collected.turns)
        scored_at = time.monotonic()
        batch = self._batch(collected.turns)
        targets, metrics = self.learner.targets(batch, critic_only)
        annotate(batch, targets, self.config.algorithm)
        self._tell("on_batch", collected.turns)
        metrics |= self.learner.update(batch, targets, self.update, critic_only)
        self.progress.skipped_steps += int(metrics["optimizer/skipped_steps"])
        self.progress.cpu_seconds += time.process_time() - cpu_clock
        if not critic_only and "reference_kl" in metrics:
            metrics["kl_coef"] = self.learner.kl_coef
            self.learner.adapt_kl(metrics["reference_kl"])
            self.progress.kl_coef = self.learner.kl_coef
        self._advance(self.ranks.count * len(batch), critic_only, metrics.get("explained_variance", 0.0))
        seconds = time.monotonic() - clock
        metrics |= {
            "turns": float(self.progress.turns),
            "phase/critic_warmup": float(critic_only),
            **collected_metrics(collected, self.ranks),
            **scored,
            "workers/replaced": float(self.ranks.sum(np.array([self.parts.games.maker.replaced - replaced]))[0]),
            "time/generate": collected.seconds["generate"],
            "time/env": collected.seconds["env"],
            "time/reward": scored_at - collected_at,
            "time/train": time.monotonic() - scored_at,
            "time/turns_per_second": self.ranks.count * len(batch) / seconds,
        }
        self._tell("on_update", metrics)
        self._check_errors(metrics["turns/error_fraction"], collected.turns)

    @property
    def update(self) -> int:
        """Finished updates, critic warm-up included."""
        return self.progress.update

    @property
    def total_updates(self) -> int:
        """Planned updates; it shrinks when the critic warm-up ends early."""
        progress, most = self.progress, self.config.critic_warmup.max_updates
        return self.config.batch.updates + (progress.warmup_updates if progress.warmup_done else most)

    def evaluate(self, name: str, agent: Agent) -> None:
        """Play the held-out episodes, each to its end, and keep the figures under `name`."""
        config = self.config
        if not config.evaluation.episodes or name in self.progress.evaluations:
            return
        with track(-(-config.evaluation.episodes // self.ranks.count), f"evaluating {name}", "episodes") as bar:
            episodes = evaluate_shared(
                self.ranks,
                agent,
                self.parts.games,
                config.evaluation.episodes,
                config.evaluation.num_envs,
                on_episode=lambda episode: bar.advance(),
                stop=lambda: self._signals.asked,
            )
        results = {config.game.id: summarise(episodes)}
        if self.is_main:
            kept = [turn for episode in episodes for turn in episode.turns]
            if any(turn.reply_ids for turn in kept):
                self._score(kept)
                write_turns(self.run_dir / "turns" / f"evaluation-{name}.parquet", kept)
        self._tell("on_evaluation", name, results)
        self.progress.evaluations[name] = results
        self._keep_best(name)

    def save_checkpoint(self) -> None:
        """Write the state of the last finished update, once; turns that were collected since are played again."""
        if self._saved != self.update:
            keep = self.config.checkpoint.keep
            games = self.collector.boundary
            checkpoint.save(self.run_dir, self.learner, self.parts.tokenizer, self.progress, games, keep)
            self._saved = self.update

    def _begin(self) -> None:
        """Restore the games of a checkpoint; or play the first evaluations, with the warm start between them."""
        config, agent = self.config, self.parts.agent("sample")
        initial = self.run_dir / "initial"
        self._tell("on_start")
        if self._games is not None:
            self._keep_reference(initial if initial.exists() else config.model.path)
            self.collector = Collector(self._slots(), agent, self._games)
            inexact = self.ranks.gather(self.collector.inexact)
            if inexact and self.is_main:
                say(f"resume is not exact: {inexact[0]} did not replay as it was played")
            if self.update >= self.total_updates and self.is_main:
                ahead = f"still to be played: {', '.join(self._ahead())}" if self._ahead() else "its evaluations stand"
                say(f"{self.run_dir}: nothing is left to train after {self.update} updates; {ahead}")
            return
        if config.evaluation.random and not self.parts.games.free_text:
            self.evaluate("random", RandomAgent(config.seed))
        if config.imitation.episodes:
            self.evaluate("untrained", self.parts.agent("evaluation"))
            warm_start(self.parts, config, self._should_stop)
            self.ranks.broadcast(self.parts.model.parameters())
        self.evaluate("before", self.parts.agent("evaluation"))
        if self.is_main and config.algorithm.kl_coef and (config.model.path is None or config.imitation.episodes):
            save_policy(self.parts.model, self.parts.tokenizer, initial)
        self._keep_reference()
        self.collector = Collector(self._slots(), agent)
        if config.checkpoint.every:
            self.save_checkpoint()

    def _keep_best(self, name: str) -> None:
        """Copy the policy to best/ if no evaluation of this run's updates was better than the one called `name`."""
        wanted = self.config.checkpoint.best and self.config.evaluation.every
        if not wanted or not (name.startswith("update-") or name == "after"):
            return
        if best_evaluation(self.progress.evaluations, self.config.game.id) == name and self.is_main:
            save_best(self.run_dir, self.parts, name, self.progress.evaluations[name])

    def _last_evaluations(self) -> None:
        for name in self._ahead():
            self.evaluate(name, self.parts.agent("evaluation", greedy=name == "after_greedy"))

    def _ahead(self) -> list[str]:
        """Evaluations of the trained policy that are still to be played."""
        section = self.config.evaluation
        names = ("after", *(["after_greedy"] if section.greedy else [])) if section.episodes else ()
        return [name for name in names if name not in self.progress.evaluations]

    def _advance(self, turns: int, critic_only: bool, explained_variance: float) -> None:
        """Count a finished update. Critic pre-training ends with a batch explained before it was trained on."""
        progress, warmup = self.progress, self.config.critic_warmup
        progress.update += 1
        progress.turns += turns
        progress.seconds = time.monotonic() - self._started
        if critic_only:
            progress.warmup_updates += 1
            enough = explained_variance >= warmup.explained_variance
            progress.warmup_done = enough or progress.warmup_updates >= warmup.max_updates
        else:
            progress.policy_version += 1
            self.parts.engine.policy_version = progress.policy_version
        self.collector.mark_boundary()

    def _keep_reference(self, path: str | Path | None = None) -> None:
        """Freeze the policy that the KL is measured against: that at `path`, or a copy of the present one."""
        if self.config.algorithm.kl_coef:
            lm = copy.deepcopy(self.parts.model.lm) if path is None else load_lm(str(path), self.config.model)
            reference = ActorCritic(lm, None, head_seed=0).to(self.accelerator.device)
            self.learner.reference = reference.requires_grad_(False).eval()

    def _collect(self) -> Collected:
        if self.config.batch.form == "episodes":
            return self.collector.collect_episodes(self._should_stop)
        return self.collector.collect(self.config.batch.turns_per_env, self._should_stop)

    def _slots(self) -> list[GameSlot]:
        """The games of this process. Those of a group play the same seeds, each with draws of its own."""
        batch = self.config.batch
        count = batch.num_envs // self.ranks.count
        indices = range(self.ranks.index * count, (self.ranks.index + 1) * count)
        return [
            self.parts.games(i, partial(training_seed, self.config.seed, i // batch.group_size), evaluation=False)
            for i in indices
        ]

    def _batch(self, turns: list[Turn]) -> TurnBatch:
        return TurnBatch.from_turns(turns, join=self.config.rows == "trajectory")

    def _score(self, turns: list[Turn]) -> None:
        """Give turns their values and advantages, for the reader of the report."""
        batch = self._batch(turns)
        algorithm = self.config.algorithm
        annotate(batch, make_targets(batch, self.learner.scores(batch), algorithm, Ranks())[0], algorithm)

    def _check_errors(self, fraction: float, turns: list[Turn]) -> None:
        if fraction > self.config.max_error_rate:
            errors = self.ranks.gather([turn.error for turn in turns if turn.error])
            kinds = ", ".join(f"{kind} {count}" for kind, count in Counter(map(kind_of, errors)).most_common())
            told = sorted(set(errors) - {PROMPT_TOO_LONG})[:3]
            if PROMPT_TOO_LONG in errors:
                told.append(f"raise prompt.max_prompt_tokens = {self.config.prompt.max_prompt_tokens}")
            raise RunStopped(
                f"{fraction:.0%} of the turns of update {self.update} broke (max_error_rate = "
                f"{self.config.max_error_rate}): {kinds} ({'; '.join(told)})"
            )

    def _write_results(self, interrupted: bool) -> dict[str, Any]:
        results = {
            **self.progress.evaluations,
            "seconds": time.monotonic() - self._started,
            "cpu_seconds": self.progress.cpu_seconds,
            "turns": self.progress.turns,
            "updates": self.update,
            "seed": self.config.seed,
            "held_out_episodes": self.config.evaluation.episodes,
            "interrupted": interrupted,
            "settings": self.parts.games.settings,
            "machine": machine(),
            "versions": versions(),
        }
        if self.is_main:
            write_json(self.run_dir / "results.json", results)
        return results

    def _tell(self, event: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *arguments)

    def _should_stop(self) -> bool:
        return self.ranks.any(self._signals.asked)
