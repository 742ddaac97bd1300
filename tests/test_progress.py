"""Progress in a log is plain lines now and then; on a terminal it is one live display."""

import io
from types import SimpleNamespace
from typing import Any

import pytest

from agentrl import progress
from agentrl.progress import RichProgress, duration, evaluation_line, track


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_plain_lines_come_now_and_then(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with track(100, "evaluating", "episodes") as bar:
        for _ in range(100):
            clock.now += 0.5
            bar.text = f"success {bar.completed / 100:.2f}"
            bar.advance()
    assert capsys.readouterr().out.splitlines() == [
        "evaluating  40/100  2 episodes/s  ETA 0:30  success 0.39",
        "evaluating  80/100  2 episodes/s  ETA 0:10  success 0.79",
        "evaluating  100/100  2 episodes/s  success 0.99",
    ]


def test_rate_follows_the_last_advances_and_a_resumed_start_is_no_speed(clock: Clock) -> None:
    with track(1000, "x", "steps", completed=500) as bar:
        assert bar.rate is None
        clock.now += 2
        bar.advance(4)
        assert bar.rate == 2
        for _ in range(100):
            clock.now += 0.1
            bar.advance()
        assert bar.rate == pytest.approx(10)


def test_training_line(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    run = SimpleNamespace(is_main=True, update=0, total_updates=30)
    callback = RichProgress()
    callback.on_start(run)
    for run.update in (1, 2):
        clock.now += 20
        # Warm-up has ended early: fewer updates are left.
        run.total_updates = 25 if run.update == 2 else 30
        metrics = {
            "turns": 1000.0 * run.update,
            "phase/critic_warmup": float(run.update < 2),
            "explained_variance": 0.5,
        }
        if run.update == 2:
            metrics |= {"episode/success": 0.25, "episode/return": float("nan"), "episode/achievements": 4.5}
        callback.on_update(run, metrics)
    callback.on_evaluation(
        run, "after", {"g": {"episodes": 8, "success": None, "return": 1.0, "return_ci95": [0.5, 2.0]}}
    )
    callback.on_end(run)
    assert capsys.readouterr().out.splitlines() == [
        "critic warm-up  1/30  ETA 9:40  ev 0.50",
        "training  2/25  ETA 7:40  50 turns/s  success 0.25  achievements 4.50  ev 0.50",
        "after  g  8 episodes  return 1.00 [0.50, 2.00]",
    ]


def test_other_processes_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    run = SimpleNamespace(is_main=False, update=1, total_updates=3)
    callback = RichProgress()
    callback.on_start(run)
    callback.on_update(run, {"turns": 1.0})
    callback.on_evaluation(run, "after", {"g": {"episodes": 8}})
    callback.on_end(run)
    assert capsys.readouterr().out == ""


class Unread(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("stdout", [Unread(), None])
def test_a_run_outlives_its_readers(stdout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", stdout)
    run, callback = SimpleNamespace(is_main=True, update=0, total_updates=2), RichProgress()
    callback.on_start(run)
    run.update = 2
    callback.on_update(run, {"turns": 1.0})
    callback.on_evaluation(run, "after", {"g": {"episodes": 8}})
    callback.on_end(run)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_holds_one_live_display(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    with track(2, "training") as outer:
        outer.advance()
        with pytest.raises(RuntimeError), track(4, "evaluating\x1b[31m [bold]", "episodes") as inner:  # noqa: PT012
            inner.text = "success 1.00\x1b]0;title\x07"
            inner.advance(4)
            assert progress._live is not None
            assert len(progress._live.tasks) == 2
            progress._live.refresh()
            raise RuntimeError
        assert progress._live is not None
        assert len(progress._live.tasks) == 1
        outer.advance()
    assert progress._live is None
    shown = terminal.getvalue()
    assert "training" in shown
    assert "evaluating?[31m [bold]" in shown
    assert "4/4" in shown
    assert "\x1b]0;" not in shown
    assert "\x1b[?25h" in shown, "the cursor is shown again"


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 75, 3600, 3661)] == ["0:00", "1:15", "1:00:00", "1:01:01"]


def test_evaluation_line() -> None:
    figures = {"episodes": 64, "success": 0.953, "success_ci95": [0.87, 0.98], "return": 0.8, "progression": 0.5}
    line = "after  babyai/goto  64 episodes  success 0.95 [0.87, 0.98]  return 0.80  progression 0.50"
    assert evaluation_line("after", "babyai/goto", figures) == line
    figures |= {"success": None, "achievements": 5.125, "achievements_ci95": [4.6, 5.612], "score": 9.871}
    figures |= {"achievement_rates": {"red": 0.5}, "lengths": [3, 4]}
    line = "after  cave  64 episodes  return 0.80  progression 0.50  achievements 5.12 [4.60, 5.61]  score 9.87 %"
    assert evaluation_line("after", "cave", figures) == line


def test_other_processes_track_in_silence(clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("RANK", "1")
    with track(2, "evaluating", "episodes") as bar:
        clock.now += 100
        bar.advance(2)
    assert bar.completed == 2
    assert capsys.readouterr().out == ""
