"""Rewards that models give: a judge behind a real endpoint on this machine, a reward model trained on preferences."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_server import ChatServer, Fault
from games import recipe
from models import tiny_model

from agentrl.alarms import WINDOW, Alarms, reward_hacking
from agentrl.config import AlarmsConfig, Config
from agentrl.engines.base import Reply
from agentrl.errors import UserError
from agentrl.judge import Judge
from agentrl.preferences import Pair
from agentrl.ranks import Ranks
from agentrl.records import Turn
from agentrl.reward_model import RewardModel, load_reward_model, train_reward_model
from agentrl.reward_terms import JudgeTerm
from agentrl.scorers import Scorers
from agentrl.tracking import read_metrics
from agentrl.trainer import Trainer


def turn(reply: str, scene: str = "a wall 3 steps forward", **known: Any) -> Turn:
    messages = [{"role": "user", "content": scene}]
    return Turn("tiny", 0, 0, 0, 0, [1], [2], [0.0], [()], messages=messages, reply_text=reply, **known)


def marks_by_length(body: dict[str, Any]) -> Reply:
    """One point a letter of the answer, up to ten."""
    answer = re.search(r"<answer>\n(.*)\n</answer>", body["messages"][0]["content"], re.DOTALL)
    assert answer is not None
    return Reply(f"It is so long.\n**SCORE: {min(10, len(answer[1]))}**", prompt_tokens=3, reply_tokens=2)


def term(url: str, **fields: Any) -> JudgeTerm:
    return JudgeTerm(kind="judge", model="tiny", base_url=url, rubric="be brief", **fields)


def test_marks_are_scaled_and_explained_and_asked_for_once(tmp_path: Path) -> None:
    cache = tmp_path / "judge.jsonl"
    with ChatServer(marks_by_length) as server:
        judge = Judge("brief", term(server.url), cache)
        first = judge.score([turn("go"), turn("toggle"), turn("go")])
        assert first == [(0.2, "It is so long. **SCORE: 2**"), (0.6, "It is so long. **SCORE: 6**"), first[0]]
        assert len(server.bodies) == 2
        asked = server.bodies[0]["messages"][0]["content"]
        assert "be brief" in asked
        assert "a wall 3 steps forward" in asked
        cache.write_text(cache.read_text() + '{"key": "torn')
        again = Judge("brief", term(server.url), cache)
        assert again.score([turn("toggle")]) == [first[1]]
        assert len(server.bodies) == 2
        Judge("brief", term(server.url, highest=20), cache).score([turn("toggle")])  # another scale is another question
        assert len(server.bodies) == 3


@pytest.mark.parametrize(
    "said",
    ["no mark", "SCORE: 11", "SCORE: -1", "", "I would say that its SCORE: 3 of 10 in my mind"],
)
def test_an_answer_without_a_mark_is_missing(said: str) -> None:
    with ChatServer(lambda body: Reply(said, prompt_tokens=1, reply_tokens=1)) as server:
        assert Judge("x", term(server.url)).score([turn("go")]) == [None]


def test_the_last_mark_counts() -> None:
    with ChatServer(lambda body: Reply("SCORE: 10\nNo:\n- score = 4.5", prompt_tokens=1, reply_tokens=1)) as server:
        ((mark, _),) = Judge("x", term(server.url)).score([turn("go")])
    assert mark == 0.45


def test_what_is_missing_is_counted_and_paid_the_others_mean(tmp_path: Path) -> None:
    with ChatServer(marks_by_length) as server:
        scorers = Scorers({"brief": term(server.url, weight=2.0, concurrency=1)}, tmp_path, Ranks())
        turns = [turn("go"), turn("toggle"), turn("drop"), turn("broke", error="raised: x")]
        turns[0].reward, turns[0].reward_parts = 1.0, {"game": 1.0}
        server.answer = lambda body: (
            Reply("?", prompt_tokens=1, reply_tokens=1) if "drop" in str(body) else marks_by_length(body)
        )
        metrics = scorers.score(turns)
    assert metrics == {"rewards/brief_missing_fraction": pytest.approx(1 / 3)}
    assert [t.reward_parts for t in turns] == [
        {"game": 1.0, "brief": pytest.approx(0.4)},
        {"brief": pytest.approx(1.2)},
        {"brief": pytest.approx(0.8)},
        {},
    ]
    assert turns[0].reward == pytest.approx(1.4)
    assert turns[0].notes == {"brief": "It is so long. **SCORE: 2**"}
    assert turns[2].notes == {}


def test_a_judge_that_answers_nobody_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After it has once been reached; before that it is a mistake in the recipe."""
    with ChatServer(marks_by_length) as server:
        scorers = Scorers({"brief": term(server.url)}, tmp_path, Ranks())
        scorers.score([turn("go")])
        server.faults.extend([Fault(status=400, body={"error": {"message": "no"}})] * 2)
        later = [turn("left"), turn("right")]
        assert scorers.score(later) == {"rewards/brief_missing_fraction": 1.0}
    assert [t.reward_parts["brief"] for t in later] == [0.0, 0.0]
    assert "not one of 2 turns could be scored" in capsys.readouterr().out


def test_a_judge_is_paid_for_in_a_run_and_not_asked_twice_by_its_resume(tmp_path: Path) -> None:
    with ChatServer(marks_by_length) as server:
        rewards = {"brief": term(server.url, weight=0.5).model_dump()}
        sections = {"rewards": rewards, "tracking": {"turns_every": 1}, "evaluation": {"episodes": 0}}
        config: Config = recipe(tmp_path, **sections)
        Trainer(config).fit()
        asked = len(server.bodies)
        rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
        assert all(0 < row["rewards/brief"] <= 0.5 for row in rows)
        assert all(row["rewards/brief_missing_fraction"] == 0 for row in rows)
        other = config.model_copy(update={"name": "again"})
        (tmp_path / "again").mkdir()
        (tmp_path / "again" / "judge-brief-0.jsonl").write_bytes(
            (tmp_path / "run" / "judge-brief-0.jsonl").read_bytes()
        )
        found = Trainer(other)
        found.fit()
        assert len(server.bodies) == asked


@pytest.fixture(scope="module")
def reward_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prefers replies that toggle, in scenes with a door or without one."""
    base, out = tiny_model(tmp_path_factory.mktemp("base")), tmp_path_factory.mktemp("reward") / "model"
    rng, pairs = np.random.default_rng(0), []
    for _ in range(60):
        scene = f"a red ball {rng.integers(1, 9)} steps forward"
        pairs.append(Pair(turn("toggle", scene), turn(str(rng.choice(["go forward", "pick up", "drop"])), scene)))
    figures = train_reward_model(pairs, str(base), out, epochs=4, lr=3e-3)
    assert figures["accuracy_before"] == 0.0  # a head of zeros prefers nothing
    assert figures["accuracy"] == 1.0
    assert figures["held_out_pairs"] == 12
    return out


def test_a_trained_reward_model_scores_what_it_was_taught(reward_model: Path) -> None:
    model = RewardModel(str(reward_model), batch_size=2)
    scene = "a blue key 4 steps forward"
    good, bad, also_bad = model.score([turn("toggle", scene), turn("drop", scene), turn("pick up", scene)])
    assert good > max(bad, also_bad) + 1


def test_the_batch_does_not_change_a_score(reward_model: Path) -> None:
    turns = [turn("toggle"), turn("go forward", "a wall " * 40), turn("x", "")]
    one, many = (RewardModel(str(reward_model), batch_size=size).score(turns) for size in (1, 3))
    assert one == pytest.approx(many, abs=1e-4)


def test_a_run_is_paid_by_a_reward_model(reward_model: Path, tmp_path: Path) -> None:
    rewards = {"taught": {"kind": "reward_model", "path": str(reward_model), "weight": 0.1, "max_tokens": 200}}
    Trainer(recipe(tmp_path, rewards=rewards, evaluation={"episodes": 0})).fit()
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert all("rewards/taught" in row and "rewards/game" in row for row in rows)
    assert len({row["rewards/taught"] for row in rows}) > 1


def test_a_language_model_is_no_reward_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no score.weight; make one with `agentrl train-reward`"):
        load_reward_model(str(tiny_model(tmp_path)))


def test_pleasing_the_judge_while_the_game_is_lost_is_an_alarm() -> None:
    def rows(success: float, mark: float) -> list[dict[str, float]]:
        return [{"episode/success": success, "rewards/brief": mark}] * WINDOW

    def rings(*recent: list[dict[str, float]]) -> list[str]:
        return [alarm.metric for alarm in reward_hacking([row for part in recent for row in part], ["brief"], 0.1)]

    assert rings(rows(0.8, 0.2), rows(0.6, 0.3)) == ["rewards/brief"]
    assert rings(rows(0.8, 0.2), rows(0.75, 0.3)) == []
    assert rings(rows(0.8, 0.3), rows(0.6, 0.2)) == []  # both fall: that is another matter
    assert rings(rows(0.6, 0.2), rows(0.8, 0.3)) == []
    assert reward_hacking([{}] * 20, ["brief"], 0.1) == []


def test_the_alarm_of_hacking_needs_two_windows() -> None:
    class Run:
        update, is_main = 0, False

    callback, counts = Alarms(AlarmsConfig(), ["brief"]), []
    for update in range(2 * WINDOW):
        late = update >= WINDOW
        metrics = {"episode/success": 0.2 if late else 0.9, "rewards/brief": 1.0 if late else 0.5}
        callback.on_update(Run(), metrics)  # type: ignore[arg-type]
        counts.append(metrics["alarms"])
    assert counts == [0.0] * (2 * WINDOW - 1) + [1.0]


def test_marks_are_json_that_others_can_read(tmp_path: Path) -> None:
    with ChatServer(marks_by_length) as server:
        Judge("x", term(server.url), tmp_path / "c.jsonl").score([turn("go")])
    row = json.loads((tmp_path / "c.jsonl").read_text())
    assert row["mark"] == 0.2
