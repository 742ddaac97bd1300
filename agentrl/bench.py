"""Score a player on a suite of tasks, each episode to its end: `agentrl bench`.

A model in this process plays in lock step, one batch a round; an endpoint is asked by a thread an episode, so that no
episode waits for another one's reply. An episode that was finished is kept at once, and a resumed benchmark plays what
is missing: draws and seeds depend on the task, the episode and the turn alone.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from zlib import crc32

from agentrl import envs
from agentrl.agents import Agent, ModelAgent, RandomAgent, ScriptedAgent
from agentrl.bench_prompts import AgentSpec, BenchMemory, bench_player
from agentrl.bench_results import Folder, Played, Step, count_actions, task_figures, totals
from agentrl.bench_suite import Suite, Task
from agentrl.collector import begin_episodes, play_round
from agentrl.engines.base import Engine, Reply, Sampling
from agentrl.episode import Episode, GameSlot
from agentrl.progress import Tracked, say, track
from agentrl.records import Turn
from agentrl.reference import reference_rows
from agentrl.seeding import held_out_seed

APART = 100_000
"""Held-out episodes between two values of --seed."""


class BenchEngine(Engine, Protocol):
    """An engine that says whether it answers in this process."""

    in_process: bool


@dataclass(slots=True)
class Player:
    """Who plays: a model behind an engine, or `random` or `scripted`.

    Attributes:
        name: what results call it.
        prompt_budget: most tokens of a prompt; `tokenizer` makes them. An endpoint has neither.
    """

    name: str
    engine: BenchEngine | None = None
    sampling: Sampling = field(default_factory=Sampling)
    tokenizer: Any = None
    prompt_budget: int = 2**31

    def agent(self, seed: int) -> Agent:
        if self.engine is not None:
            return ModelAgent(self.engine, self.sampling, seed, "bench")
        return RandomAgent(seed) if self.name == "random" else ScriptedAgent()


class Counting:
    """An agent whose tokens are counted by slot, and whose failed answers are remembered as such."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.tokens: dict[int, list[int]] = {}

    def act(self, slots: Sequence[GameSlot]) -> list[Reply]:
        replies = self._agent.act(slots)
        for slot, reply in zip(slots, replies, strict=True):
            counts = self.tokens.setdefault(slot.index, [0, 0])
            counts[0] += reply.prompt_tokens if reply.prompt_tokens is not None else len(slot.prompt.ids)
            counts[1] += reply.reply_tokens if reply.reply_tokens is not None else len(reply.ids)
        return replies


@dataclass(slots=True)
class Job:
    """An episode that is being played."""

    task: Task
    number: int
    slot: GameSlot
    steps: list[Step]
    mission: str = ""


class Bench:
    """A suite, a player and the folder of results.

    Args:
        workers: episodes played at a time.
        same_level: every episode of a task has the game seed `seed`, as in BALROG with a seed set.

    Raises:
        UserError: a game or a style cannot be made.
    """

    def __init__(
        self,
        suite: Suite,
        player: Player,
        spec: AgentSpec,
        folder: Folder,
        seed: int = 0,
        workers: int = 16,
        same_level: bool = False,
    ) -> None:
        self.suite, self.player, self.spec, self.folder = suite, player, spec, folder
        self.seed, self.workers, self.same_level = seed, workers, same_level
        self._prompters = {
            task.id: bench_player(spec, task.id, player.tokenizer, player.prompt_budget, task.options)
            for task in suite.tasks
        }
        self._agent = Counting(player.agent(seed))

    def run(self) -> list[Played]:
        """Play what the folder lacks; all of the suite's episodes, in its order, those kept before among them."""
        found = {
            (task.id, number): self.folder.stored(task, number)
            for task in self.suite.tasks
            for number in range(task.episodes)
        }
        missing = [
            (task, number)
            for task in self.suite.tasks
            for number in range(task.episodes)
            if found[task.id, number] is None
        ]
        with track(len(found), "benchmark", "episodes", completed=len(found) - len(missing)) as bar:
            in_process = self.player.engine is None or self.player.engine.in_process
            play = self._in_lock_step if in_process else self._in_threads
            for played in play(missing):
                found[played.task, played.number] = played
                _tell(bar, played)
        return [played for played in found.values() if played is not None]

    def results(self, played: Sequence[Played]) -> dict[str, Any]:
        """What results.json says of the episodes, without what depends on when and where they were played."""
        by_task = {task.id: [one for one in played if one.task == task.id] for task in self.suite.tasks}
        agent = next(iter(self._prompters.values())).describe()
        agent["prompts_sha256"] = {task: prompter.sha256() for task, prompter in self._prompters.items()}
        return {
            "kind": "bench",
            "suite": self.suite.name,
            "model": self.player.name,
            "agent": agent,
            "seed": self.seed,
            "same_level": self.same_level,
            "skipped": self.suite.skipped,
            "tasks": {
                task.id: {"options": task.options, "max_turns": self._limit(task), **task_figures(by_task[task.id])}
                for task in self.suite.tasks
            },
            **totals(self.suite.tasks, played),
            "reference": {task.id: rows for task in self.suite.tasks if (rows := _reference(task))},
            "sampling": {"temperature": self.player.sampling.temperature, "max_tokens": self.player.sampling.max_tokens}
            if self.player.engine
            else None,
        }

    def _in_lock_step(self, missing: Sequence[tuple[Task, int]]) -> Iterator[Played]:
        waiting, active = list(reversed(missing)), list[Job]()
        try:
            while waiting or active:
                new = [self._job(*waiting.pop()) for _ in range(min(len(waiting), self.workers - len(active)))]
                active += new
                for job, begun in zip(new, begin_episodes([job.slot for job in new]), strict=True):
                    job.mission = job.slot.game.mission if begun else ""
                    if not begun:
                        active.remove(job)
                        yield self._failed_to_begin(job)
                by_slot = {job.slot.index: job for job in active}
                for slot, turn, episode in play_round([job.slot for job in active], self._agent) if active else ():
                    job = by_slot[slot.index]
                    job.steps.append(self._step(job, turn))
                    if episode is not None:
                        active.remove(job)
                        yield self._finished(job, episode)
        finally:
            for job in active:
                job.slot.close()

    def _in_threads(self, missing: Sequence[tuple[Task, int]]) -> Iterator[Played]:
        stopped = False

        def play(task: Task, number: int) -> Played | None:
            job = self._job(task, number)
            try:
                if not job.slot.next_episode():
                    return self._failed_to_begin(job)
                job.mission = job.slot.game.mission
                while not stopped:
                    ((_, turn, episode),) = play_round([job.slot], self._agent)
                    job.steps.append(self._step(job, turn))
                    if episode is not None:
                        return self._finished(job, episode)
                return None
            finally:
                job.slot.close()

        pool = ThreadPoolExecutor(self.workers, "episode")
        try:
            for future in as_completed([pool.submit(play, *one) for one in missing]):
                played = future.result()
                if played is not None:
                    yield played
        finally:
            stopped = True  # an interrupted benchmark waits for the replies on their way, and for no more
            pool.shutdown(cancel_futures=True)

    def _job(self, task: Task, number: int) -> Job:
        def seeds(episode: int) -> int | None:
            if episode:
                return None
            return self.seed if self.same_level else held_out_seed(APART * self.seed + number)

        index = crc32(task.id.encode()) * APART + number  # a task's draws are the same in whichever suite it stands
        slot = GameSlot(
            index,
            task.id,
            lambda: envs.make(task.id, **task.options),
            self._prompters[task.id],  # type: ignore[arg-type]
            BenchMemory(self.spec.history),
            seeds,
            keep_turns=True,
        )
        return Job(task, number, slot, [])

    def _step(self, job: Job, turn: Turn) -> Step:
        prompter = self._prompters[job.task.id]
        answer = prompter.style.read(turn.reply_text)
        memory = job.slot.memory
        assert isinstance(memory, BenchMemory)
        before = memory.turns[-1] if memory.turns and turn.error is None else None
        scene = prompter.shown(job.slot.observation.scene, before)
        done = turn.terminated or turn.truncated
        return Step(answer.action, answer.reasoning, scene, turn.reward, done)

    def _finished(self, job: Job, episode: Episode) -> Played:
        turns = episode.turns
        invalid = [turn for turn in turns if not turn.valid and turn.error is None]
        read = self._prompters[job.task.id].style.read
        tokens = self._agent.tokens.pop(job.slot.index, [0, 0])
        played = Played(
            task=job.task.id,
            number=job.number,
            seed=episode.seed,
            success=episode.success,
            progression=episode.progression,
            game_return=episode.game_return,
            length=episode.length,
            invalid=episode.invalid_turns,
            error=episode.error,
            achievements=None if episode.achievements is None else list(episode.achievements),
            achievable=list(episode.achievable),
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            terminated=turns[-1].terminated if turns else False,
            actions=count_actions(turn.action for turn in turns if turn.error is None),
            failed_candidates=[read(turn.reply_text).action for turn in invalid],
            mission=job.mission,
        )
        for turn in turns:
            turn.slot = job.number  # the number of the episode tells a reader more than where draws came from
        self.folder.store(job.task, played, job.steps, turns)
        with suppress(Exception):
            job.slot.close()
        return played

    def _failed_to_begin(self, job: Job) -> Played:
        return self._finished(job, job.slot.failed_resets[0])

    def _limit(self, task: Task) -> int:
        game = envs.make(task.id, **task.options)
        try:
            return game.max_turns
        finally:
            game.close()


def _reference(task: Task) -> dict[str, dict[str, Any]]:
    """Random and scripted rows of the task, where it is played with its default options."""
    if task.options:
        return {}
    return {
        player: {name: value for name, value in row.items() if name != "first_episodes"}
        for player, row in reference_rows(task.id).items()
    }


def _tell(bar: Tracked, played: Played) -> None:
    if played.error:
        say(f"{played.task}, episode {played.number}: failed: {played.error}")
    bar.text = f"{played.task} {played.progression or 0:.2f}"
    bar.advance()
