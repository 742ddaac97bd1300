"""Games in worker processes: they play as at home, side by side; whatever a game does, it ends a turn and no more."""

import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import faulty_games
import pytest
from faulty_games import WORDS, Faulty

from agentrl import faults
from agentrl.collector import Collector
from agentrl.config import PromptConfig, WorkersConfig
from agentrl.configfile import make_config
from agentrl.engines.base import Reply
from agentrl.envs import TextEnv
from agentrl.episode import Episode, GameBroken, GameSlot
from agentrl.errors import UserError
from agentrl.faults import GameFault
from agentrl.memory import make_memory
from agentrl.prompting import Prompter
from agentrl.records import Turn, TurnBatch
from agentrl.workers import WorkerPool

GAME = f"{Path(faulty_games.__file__)}:Faulty"

CRASHES = {
    "os._exit": "its process left with status 3",
    "orphan": "its process left with status 3",
    "sigkill": "its process was killed by SIGKILL",
    "segfault": "its process was killed by SIGSEGV",
    "close the pipe": "its process left with status 1",
    "garbage in the pipe": "something else than an answer came through its pipe",
}


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """One process, so that all games of a test share it."""
    pool = WorkerPool(WorkersConfig(processes=1, step_seconds=1.0, reset_seconds=20.0))
    yield pool
    pool.close()


@pytest.fixture(autouse=True)
def fresh_log() -> None:
    faults._told.clear()


def slot(make: Callable[[], TextEnv], index: int = 0, **arguments: Any) -> GameSlot:
    config = PromptConfig(style="terse")
    seeds = arguments.pop("seeds", lambda episode: 2 * episode + index % 2 + 1)
    return GameSlot(index, GAME, make, Prompter(config, GAME, None), make_memory(config), seeds, **arguments)


class Cycle:
    """Says one word after the other."""

    def act(self, slots: Any) -> list[Reply]:
        return [Reply(WORDS[slot.turn % 3], [40, 41], [-0.5, 0.0], [(), (41,)]) for slot in slots]


def play(makers: list[Callable[[], TextEnv]], turns: int, **arguments: Any) -> tuple[list[Turn], list[Episode]]:
    """`turns` turns of a game of each maker."""
    collector = Collector([slot(make, index, **arguments) for index, make in enumerate(makers)], Cycle())
    try:
        collected = collector.collect(turns)
    finally:
        collector.close()
    return collected.turns, collected.episodes


def both(pool: WorkerPool, options: dict[str, Any]) -> tuple[Callable[[], TextEnv], Callable[[], TextEnv]]:
    return lambda: pool.open(GAME, options), lambda: Faulty(**options)


# As at home


def test_a_game_in_a_worker_looks_and_answers_as_at_home(pool: WorkerPool) -> None:
    home, away = Faulty(), pool.open(GAME, {})
    for seed in (5, 6):
        assert away.reset(seed=seed) == home.reset(seed=seed)
        for name in ("actions", "default_action", "max_turns", "mission", "synonyms", "achievements"):
            assert getattr(away, name) == getattr(home, name), name
        player, other = away.scripted_player(), home.scripted_player()
        assert player is not None
        assert other is not None
        over = False
        while not over:
            action = player()
            assert action == other()
            found, expected = away.step(action), home.step(action)
            assert found[:4] == expected[:4]
            info = {**expected[4], "achievements": [w for w in WORDS if w in expected[4]["achievements"]]}
            assert {name: value for name, value in found[4].items() if value is not None} == info
            over = found[2]
            assert over or away.prompt_facts() == home.prompt_facts()
    away.close()


def test_a_game_has_its_actions_before_it_is_reset(pool: WorkerPool) -> None:
    away = pool.open(GAME, {"turns": 9})
    assert away.max_turns == 9
    assert away.actions == Faulty().actions
    with pytest.raises(AttributeError):
        away.nothing  # noqa: B018
    away.close()


def test_turns_and_episodes_of_slots_are_the_same_at_home_and_away(pool: WorkerPool) -> None:
    for options in ({}, {"fault": "raise", "every": 3}, {"chatter": 200_000, "turns": 3}):
        away, home = both(pool, options)
        assert play([away] * 3, 14) == play([home] * 3, 14)


@pytest.mark.parametrize("answers", ["100 MB", "nothing", "no observation", "no reward"])
def test_c18_garbage_answers_break_a_turn_as_they_do_at_home(pool: WorkerPool, answers: str) -> None:
    away, home = both(pool, {"answers": answers, "every": 3, "turns": 4})
    found, expected = play([away] * 2, 9), play([home] * 2, 9)
    errors = [turn.error for turn in found[0] if turn.error]
    assert errors
    assert all(error.startswith("raised: ") for error in errors)
    assert found == expected


def test_workers_load_neither_torch_nor_what_needs_it(pool: WorkerPool) -> None:
    game = pool.open(GAME, {"tells_modules": True})
    observation, _ = game.reset(seed=0)
    assert observation.status == "loaded: nothing"
    game.close()


def test_a_game_restored_in_a_worker_asks_the_same_next_prompt(pool: WorkerPool) -> None:
    away, home = both(pool, {})
    one, other = slot(home), slot(away)
    one.next_episode()
    for word in WORDS[:2]:
        one.play(Reply(word))
    assert other.restore(one.state())
    assert other.prompt == one.prompt
    other.close()


def test_a_users_mistake_is_one(pool: WorkerPool) -> None:
    with pytest.raises(UserError, match=r"Faulty has no such option; did you mean 'turns'|no such option"):
        pool.open(GAME, {"truns": 3}).reset(seed=0)
    with pytest.raises(GameFault, match=r"raised: OSError: no display"):
        pool.open(GAME, {"fault": "make"}).reset(seed=0)


def test_games_in_two_workers_play_at_the_same_time() -> None:
    pool = WorkerPool(WorkersConfig(processes=2))
    slots = [slot(lambda: pool.open(GAME, {"pause": 0.3}), index) for index in range(2)]
    collector = Collector(slots, Cycle())
    assert len({each.game.seat for each in slots}) == 2  # type: ignore[attr-defined]
    began = time.monotonic()
    collector.collect(2)
    assert time.monotonic() - began < 1.1  # one after the other: 1.2
    collector.close()
    pool.close()


# What breaks


def innocent(turns: list[Turn], episodes: list[Episode]) -> tuple[list[Turn], list[Episode]]:
    return [t for t in turns if t.slot != 1], [e for e in episodes if e.seed % 2]


@pytest.mark.parametrize("fault", [*CRASHES, "raise", "raise unspeakable", "sys.exit", "interrupt"])
def test_c18_a_game_that_crashes_ends_its_turn_and_nothing_else(pool: WorkerPool, fault: str) -> None:
    """Three games share a process; the one in the middle breaks at the second turn of its second episode, seed 4."""
    replaced = pool.replaced
    away = both(pool, {"fault": fault, "every": 4, "turns": 4})[0]
    home = both(pool, {"turns": 4})[1]
    turns, episodes = play([away] * 3, 11, seeds=lambda episode: 2 * episode + 1)
    seeds = {0: lambda episode: 2 * episode + 1}
    assert (turns, episodes) == play([home] * 3, 11, seeds=seeds[0])  # odd seeds alone: nobody breaks
    slots = [slot(away, 0), slot(away, 1), slot(away, 2)]
    collector = Collector(slots, Cycle())
    collected = collector.collect(11)
    collector.close()
    expected = play([home] * 3, 11)
    assert innocent(collected.turns, collected.episodes) == innocent(*expected)
    mine = [turn for turn in collected.turns if turn.slot == 1]
    (number,) = (i for i, turn in enumerate(mine) if turn.error)
    broken, after = mine[number], mine[number + 1]
    assert (broken.seed, broken.turn, broken.reward, broken.terminated) == (4, 1, 0.0, False)
    assert (after.seed, after.turn, after.error) == (6, 0, None)
    kind = "crashed" if fault in CRASHES else "raised"
    assert broken.error is not None
    assert broken.error.startswith(f"{kind}: {CRASHES.get(fault, '')}")
    assert pool.replaced - replaced == (fault in CRASHES)
    flat = TurnBatch.from_turns(collected.turns)
    assert flat.error_N.sum() == 1
    assert flat.reply_lengths_N[flat.error_N] == 0


@pytest.mark.parametrize("fault", ["sleep", "spin", "drip", pytest.param("stop", marks=pytest.mark.slow)])
def test_c19_a_game_that_hangs_is_given_up(pool: WorkerPool, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    away, home = both(pool, {"fault": fault, "every": 4})[0], both(pool, {})[1]
    began = time.monotonic()
    turns, episodes = play([away] * 3, 9)
    assert time.monotonic() - began < 10
    assert innocent(turns, episodes) == innocent(*play([home] * 3, 9))
    assert [turn.error for turn in turns if turn.error] == ["hung: no answer within workers.step_seconds = 1"]
    if fault != "stop":
        assert "in _go_wrong" in caplog.text  # where it was


@pytest.mark.parametrize(("fault", "kind"), [("os._exit", "crashed"), ("sleep", "hung")])
def test_c18_c19_a_reset_that_breaks_takes_the_next_seed(pool: WorkerPool, fault: str, kind: str) -> None:
    patient = pool.config
    pool.config = WorkersConfig(processes=1, reset_seconds=2.0)
    try:
        _, episodes = play([both(pool, {"fault": fault, "at": 0, "every": 4, "turns": 3})[0]] * 2, 5)
    finally:
        pool.config = patient
    failed = [episode for episode in episodes if episode.error]
    assert [(episode.seed, episode.length) for episode in failed] == [(4, 0)]
    assert (failed[0].error or "").startswith(f"reset: {kind}: ")


def test_c18_a_game_that_never_starts_is_given_up(pool: WorkerPool) -> None:
    with pytest.raises(GameBroken, match="failed to reset 3 times in a row: crashed: its process left with status 3"):
        slot(lambda: pool.open(GAME, {"fault": "os._exit", "at": 0})).next_episode()


def test_c18_a_game_that_grows_is_the_one_that_breaks() -> None:
    pool = WorkerPool(WorkersConfig(processes=1, memory_mb=250))
    away, home = both(pool, {"fault": "memory", "every": 4})[0], both(pool, {})[1]
    turns, episodes = play([away] * 3, 9)
    assert innocent(turns, episodes) == innocent(*play([home] * 3, 9))
    (error,) = [turn.error for turn in turns if turn.error]
    assert "MB in its process, more than workers.memory_mb = 250" in error
    assert error.startswith("memory: ")
    pool.close()


def test_c18_of_games_that_leak_the_one_that_took_most_is_guilty() -> None:
    """It is not the one that happened to cross the line."""
    pool = WorkerPool(WorkersConfig(processes=1, memory_mb=10_000))
    large, small = pool.open(GAME, {"leak": 60}), pool.open(GAME, {"leak": 15})
    for game in (large, small):
        game.reset(seed=1)
    pool._most_memory = large.seat.resident + 70 * 2**20
    large.step("red")
    first = small.seat.handle
    assert small.step("red")[0].scene.startswith("Turn 1.")
    assert small.seat.handle is not first  # it was played anew, in another process
    with pytest.raises(GameFault, match="memory: "):
        large.step("red")
    assert small.step("red")[0].scene.startswith("Turn 2.")
    pool.close()


def test_c18_a_process_killed_while_nobody_plays_breaks_no_game(pool: WorkerPool) -> None:
    away, home = both(pool, {})
    killed = Collector([slot(away, index) for index in range(3)], Cycle())
    whole = Collector([slot(home, index) for index in range(3)], Cycle())
    for number in (3, 4, 5, 9):
        handle = killed.slots[0].game.seat.handle  # type: ignore[attr-defined]
        os.kill(handle.pid, signal.SIGKILL)
        assert handle.wait(5.0)
        one, other = killed.collect(number), whole.collect(number)
        assert (one.turns, one.episodes) == (other.turns, other.episodes)
    killed.close()


def test_c18_a_process_killed_before_it_plays_is_replaced_without_a_word(pool: WorkerPool) -> None:
    """At its start, and while it makes games anew."""
    game = pool.open(GAME, {"pause": 0.05})
    for _ in range(2):
        os.kill(pool.pids()[0], signal.SIGKILL)
        game.begin_reset(1)
    observation, _ = game.reset(seed=1)
    assert observation == Faulty().reset(seed=1)[0]
    for word in WORDS:
        game.step(word)
    handle = game.seat.handle
    assert handle is not None
    os.kill(handle.pid, signal.SIGKILL)
    assert handle.wait(5.0)
    game.begin_step("green")  # after three turns that are played anew
    os.kill(pool.pids()[0], signal.SIGKILL)
    assert game.step("green")[0].scene.startswith("Turn 4.")
    game.close()


def test_c18_sigkill_at_every_reset_is_the_games_own(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrl.workers.EXCUSED", 2)
    replaced = pool.replaced
    with pytest.raises(GameFault, match="crashed: its process was killed by SIGKILL"):
        pool.open(GAME, {"fault": "sigkill", "at": 0}).reset(seed=1)
    assert pool.replaced - replaced == 3


def test_c18_a_game_that_does_not_replay_is_not_passed_off_as_the_same(pool: WorkerPool) -> None:
    game = pool.open(GAME, {"drift": True})
    game.reset(seed=1)
    game.step("red")
    assert game.seat.handle is not None
    os.kill(game.seat.handle.pid, signal.SIGKILL)
    game.seat.handle.wait(5.0)
    with pytest.raises(GameFault, match=r"crashed: .*it is not deterministic"):
        game.step("red")
    game.reset(seed=1)  # starts anew
    game.close()


def test_c19_a_game_that_hangs_in_closing_costs_no_turn(pool: WorkerPool) -> None:
    away = pool.open(GAME, {"fault": "close"})
    away.reset(seed=1)
    away.close()
    turns, episodes = play([both(pool, {})[0]] * 2, 5)
    assert (turns, episodes) == play([Faulty] * 2, 5)


def test_c18_what_a_game_says_is_shown_once_with_its_traceback_and_harmless(
    pool: WorkerPool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "agentrl.games"):
        play([both(pool, {"fault": "raise"})[0]] * 2, 12)
        play([both(pool, {"fault": "segfault", "chatter": 10})[0]], 4)
    raised, crashed = caplog.messages
    assert raised.startswith(
        f"{GAME}, seed 1, turn 1, action 'green': raised: RuntimeError: the table [31mfell [0m over"
    )
    assert "in _go_wrong" in raised
    assert r"the table \x1b[31mfell" in raised.splitlines()[-1]
    assert "Segmentation fault" in crashed
    assert r"\x1b]0;title\x07" in crashed
    assert "\x1b" not in raised + crashed


def test_a_process_that_cannot_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrl.worker_handle.BOOT", "import nothing_of_that_name")
    pool, before = WorkerPool(WorkersConfig(processes=1)), set(children())
    with pytest.raises(UserError, match=r"a worker process does not start: .*status 1: .*nothing_of_that_name"):
        pool.open(GAME, {}).reset(seed=1)
    assert set(children()) <= before


# What is left behind


def groups() -> set[int]:
    """Process groups that live, zombies apart."""
    stats = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            stats.append(path.read_text().rpartition(")")[2].split())
    return {int(fields[2]) for fields in stats if fields[0] != "Z"}


def test_what_a_game_started_ends_with_its_process(pool: WorkerPool) -> None:
    game = pool.open(GAME, {"fault": "orphan"})
    game.reset(seed=1)
    assert game.seat.handle is not None
    group = game.seat.handle.pid
    game.step("red")
    assert group in groups()
    with pytest.raises(GameFault, match="status 3"):
        game.step("red")
    deadline = time.monotonic() + 5
    while group in groups() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert group not in groups()


def children() -> list[int]:
    """Processes that this one started and that are there, as zombies too."""
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


def descriptors() -> list[str]:
    return os.listdir("/proc/self/fd")


def test_c18_a_thousand_episodes_leave_nothing_behind(tmp_path: Path) -> None:
    gc.collect()  # what earlier tests left to be collected is not to go in the middle
    before, trail = (descriptors(), children()), tmp_path / "trail"
    pool = WorkerPool(WorkersConfig(processes=2, reset_seconds=30.0))
    options = {"fault": "os._exit", "every": 250, "turns": 2, "at": 1, "trail": str(trail)}
    slots = [
        slot(lambda: pool.open(GAME, options), index, seeds=lambda e, i=index: 4 * e + i + 1) for index in range(4)
    ]
    collector = Collector(slots, Cycle())
    episodes, open_files = collector.collect(20).episodes, len(descriptors())
    while len(episodes) < 1000:
        episodes += collector.collect(40).episodes
    assert len(descriptors()) <= open_files
    assert len(set(children()) - set(before[1])) == 2
    assert pool.replaced == sum(episode.error is not None for episode in episodes) == 4
    collector.close()
    pool.close()
    assert len(descriptors()) <= len(before[0])
    assert set(children()) <= set(before[1])
    assert trail.read_text().count("closed") == 4


SCRIPT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background inherits that it is ignored
from agentrl.config import WorkersConfig
from agentrl.workers import WorkerPool
game, trail, fault = sys.argv[1:4]
pool = WorkerPool(WorkersConfig(processes=1, reset_seconds=30))
games = [pool.open(game, {"trail": trail, "fault": fault}) for _ in range(2)]
for each in games:
    each.reset(seed=1)
print(games[0].seat.handle.pid, flush=True)
"""


def leave(tmp_path: Path, how: str, fault: str = "") -> tuple[subprocess.Popen[str], int, Path]:
    """A script that opens two games in a worker, whose id comes back, and goes on as `how` says."""
    trail = tmp_path / "trail"
    arguments = [sys.executable, "-c", SCRIPT + how, GAME, str(trail), fault]
    script = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert script.stdout is not None
    return script, int(script.stdout.readline()), trail


def gone(pid: int) -> bool:
    """Within seconds, an ended process that its new parent has not looked at being gone too."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("how", "number"),
    [
        ("", None),
        pytest.param("raise RuntimeError", None, marks=pytest.mark.slow),
        pytest.param("sys.exit(3)", None, marks=pytest.mark.slow),
        ("time.sleep(99)", signal.SIGINT),
    ],
    ids=["end", "error", "exit", "Ctrl-C"],
)
def test_games_are_closed_however_a_script_ends(tmp_path: Path, how: str, number: int | None) -> None:
    script, worker, trail = leave(tmp_path, how)
    if number:
        script.send_signal(number)
    script.communicate(timeout=20)
    assert gone(worker)
    assert trail.read_text().count("closed") == 2


@pytest.mark.parametrize("hangs", [False, True], ids=["idle", "in a step that hangs"])
def test_workers_end_with_a_trainer_that_is_killed(tmp_path: Path, hangs: bool) -> None:
    how = "games[0].begin_step('red')\ngames[0].begin_step('red')\ntime.sleep(99)" if hangs else "time.sleep(99)"
    script, worker, _ = leave(tmp_path, how, "spin" if hangs else "")
    if hangs:
        time.sleep(0.3)
    script.kill()
    script.communicate(timeout=20)
    assert gone(worker)


def test_a_pool_that_is_dropped_leaves_no_process() -> None:
    gc.collect()
    before, pool = set(children()), WorkerPool(WorkersConfig(processes=1))
    game = pool.open(GAME, {})
    game.reset(seed=1)
    game.close()
    assert len(set(children()) - before) == 1
    del pool, game
    gc.collect()
    assert set(children()) <= before


def test_a_closed_pool_starts_again(pool: WorkerPool) -> None:
    game = pool.open(GAME, {})
    game.reset(seed=3)
    first = game.step("red")
    pool.close()
    second = game.step("green")
    home = Faulty()
    home.reset(seed=3)
    assert [first[:2], second[:2]] == [home.step("red")[:2], home.step("green")[:2]]
    game.close()


def test_the_memory_limit_is_refused_where_memory_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda path: False)
    with pytest.raises(ValueError, match=r"workers\.memory_mb = 100: only Linux"):
        make_config({"name": "run", "game": {"id": GAME}, "workers": {"memory_mb": 100}})
