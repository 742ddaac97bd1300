"""Broken games, each caught by the check whose name its docstring is, and by no other."""

import io
import json
from inspect import getdoc
from pathlib import Path

import broken_games
import pytest
from fresh_python import told
from rich.console import Console

from agentrl import hostile_replies
from agentrl.check_env import CHECKS, FAILED, NOT_REACHED, NOT_RUN, PASSED, Result, check_env, print_results
from agentrl.env_probe import Probe
from agentrl.env_referee import Findings
from agentrl.env_trace import first_difference, printed
from agentrl.envs import games
from agentrl.envs.registry import BUILT_IN
from agentrl.errors import UserError

FILE = Path(broken_games.__file__)
SOUND = ("Sound", "OneLevelBySaying")
GAMES = [
    name
    for name, kind in vars(broken_games).items()
    if isinstance(kind, type) and issubclass(kind, broken_games.Sound) and name not in SOUND
]
ANOTHER_PROCESS = {"HashOrder", "Hangs", "HangsInC", "Exits", "Segfaults", "LeaksThreads", "LeaksProcesses"}
"""What only processes of their own can show, or survive."""

CALL_SECONDS = 3.0


def check_of(name):
    return getdoc(getattr(broken_games, name))


def probed(name, seconds=2.0):
    """check -> state of one probe, in this process."""
    file = io.StringIO()
    Probe(f"{FILE}:{name}", {}, Findings(file), lambda what: None, seconds).run(trace_only=False)
    return {
        found["check"]: found["state"] for found in map(json.loads, file.getvalue().splitlines()) if "check" in found
    }


def states(name, trial_seconds=2.0):
    """check -> (state, reason) of the whole command."""
    results = check_env(f"{FILE}:{name}", {}, CALL_SECONDS, trial_seconds)
    assert [result.check for result in results] == list(CHECKS)
    return {result.check: (result.state, result.reason) for result in results}


def failed(found):
    return [check for check, (state, _) in found.items() if state == FAILED]


def test_every_check_has_a_broken_game():
    assert {check_of(name) for name in GAMES} == set(CHECKS)


def test_a_sound_game_passes_every_check():
    assert {state for state, _ in states("Sound").values()} == {PASSED}


@pytest.mark.parametrize("name", [name for name in GAMES if name not in ANOTHER_PROCESS])
def test_a_broken_game_is_caught_by_its_own_check(name):
    found = probed(name, seconds=0.3)
    assert [check for check, state in found.items() if state == FAILED] == [check_of(name)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("HashOrder", ["seed 0, turn 0: observation"]),
        ("HangsInC", ["took more than 3 s", "broken_games.py", "in step"]),
        ("Exits", ["exit status 3", "step("]),
    ],
)
def test_what_ends_or_changes_with_its_process(name, words):
    found = states(name)
    assert failed(found) == [check_of(name)]
    _, reason = found[check_of(name)]
    assert all(word in reason for word in words)
    assert found["close"][0] == (PASSED if name == "HashOrder" else NOT_RUN)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_a_broken_game_is_caught_by_the_whole_command(name):
    found = states(name)
    assert failed(found) == [check_of(name)]
    rest = {state for check, (state, _) in found.items() if check != check_of(name)}
    assert rest <= {PASSED, NOT_RUN, NOT_REACHED}


def test_a_game_without_a_time_limit_is_told_so():
    found = {result.check: result.state for result in check_env("signpost", {"length": 20})}
    assert found.pop("truncated") == NOT_REACHED  # its last turn is its end
    assert set(found.values()) == {PASSED}


def test_a_fixed_map_is_no_failure_where_the_game_says_so():
    found = probed("OneLevelBySaying", seconds=0.3)
    assert found.pop("seeds-differ") == NOT_REACHED
    assert FAILED not in found.values()


@pytest.mark.slow
@pytest.mark.parametrize("name", [entry.name for entry in BUILT_IN])
def test_built_in_games_pass(name):
    if not (tasks := games()[name].tasks):
        pytest.skip("it has no task of its own")
    results = check_env(f"{name}/{tasks[0]}")
    wrong = {result.check: result.reason for result in results if result.state not in (PASSED, NOT_REACHED)}
    assert wrong == {}


@pytest.mark.parametrize(
    ("game", "options", "words"),
    [
        ("babyai/gto", {}, "did you mean 'babyai/goto'"),
        ("signpost", {"length": 0}, "whole number"),
    ],
)
def test_a_users_mistake_is_no_finding(game, options, words):
    with pytest.raises(UserError, match=words):
        check_env(game, options)


def test_nothing_of_a_game_reaches_the_terminal_unescaped():
    screen = io.StringIO()
    hostile = "[bold]\x1b[2J\u202e[/nonsense]\nmore"
    results = [Result("reward", FAILED, hostile), Result("time", PASSED, hostile)]
    print_results(hostile, results, Console(file=screen, width=200, force_terminal=False))
    shown = screen.getvalue()
    assert "[bold]" in shown
    assert "[/nonsense] more" in shown
    assert not {"\x1b", "\u202e"} & set(shown)
    assert "1 failed, 1 passed" in shown
    assert CHECKS["reward"] in shown


def test_hostile_replies_are_what_they_promise():
    replies = list(hostile_replies.replies(("go", "stay")))
    assert replies == list(hostile_replies.replies(("go", "stay")))
    assert len(replies) == 1000
    assert "" in replies
    assert sum(len(reply) >= 100_000 for reply in replies) == 20
    assert any("\x00" in reply for reply in replies)
    assert any(not reply.isascii() for reply in replies)
    assert sum("go" in reply or "stay" in reply for reply in replies) > 150
    "".join(replies).encode()


def test_traces_tell_where_they_part():
    one = [printed({"observation": "a" * 100, "reward": 0.0}), printed({"observation": "b", "reward": 1.0})]
    assert first_difference(one, one) is None
    other = [printed({"observation": "a" * 99 + "b", "reward": 0.0}), one[1]]
    assert first_difference(one, other).startswith("turn 0: observation is 'aaa")
    assert first_difference(one, [one[0], one[1] | {"reward": "2.0"}]) == "turn 1: reward is 2.0, was 1.0"
    assert first_difference(one, one[:1]) == "it has 0 turns, had 1"


def test_the_docs_list_every_check():
    docs = (FILE.parents[2] / "docs" / "games.md").read_text()
    assert all(f"| `{name}` | {what} |" in docs for name, what in CHECKS.items())


def test_a_file_that_hangs_while_it_is_loaded_is_told(tmp_path):
    (tmp_path / "stuck.py").write_text("while True:\n    pass\n")
    found = {result.check: result for result in check_env(f"{tmp_path}/stuck.py:Game", {}, call_seconds=2.0)}
    assert found["no-hang"].state == FAILED
    assert "import" in found["no-hang"].reason
    assert {result.state for result in found.values()} == {FAILED, NOT_RUN}


def test_no_model_library_is_loaded():
    modules = "check_env, env_probe, env_trials, new_game, prompt_tokens, game_list, cli_games"
    script = f"import sys; from agentrl import {modules}; print({{'torch', 'transformers'}} & set(sys.modules))"
    assert told(script) == "set()\n"
