"""A killed run that is resumed equals one that was not: weights, moments, metrics, games, to the bit."""

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from games import recipe
from killable import Bomb, left_behind, run, start
from test_trainer import Diary

from agentrl.callbacks import Callback
from agentrl.checkpoint import checkpoints
from agentrl.config import Config
from agentrl.errors import UserError
from agentrl.learner import Learner
from agentrl.new_model import create
from agentrl.trainer import Trainer

EVERYTHING: dict[str, Any] = {
    "critic_warmup": {"max_updates": 2, "explained_variance": 1.0},
    "batch": {"num_envs": 3, "turns_per_env": 4, "updates": 4},
    "algorithm": {"kl_coef": 0.1},
    "imitation": {"episodes": 2, "epochs": 1},
    "evaluation": {"episodes": 2, "every": 3, "greedy": False, "random": False},
}
"""6 updates, checkpoints after 0, 2, 4, 6, two optimizer steps each; evaluations untrained, before, update-3, after."""

KINDS: dict[str, dict[str, Any]] = {
    "value_head": {},
    "separate_critic": {"model": {"critic": "separate"}},
    "kl": {"algorithm": {"kl_coef": 0.1, "epochs": 2}},
    "warmup": {"critic_warmup": {"max_updates": 4, "explained_variance": 1.0}, "batch": {"updates": 2}},
    "schedule": {"optimizer": {"schedule": "linear", "warmup_steps": 5}},
    "errors": {"game": {"options": {"breaks": "step", "break_every": 3}}, "max_error_rate": 1.0},
    "crafter": {"game": {"id": "crafter", "options": {"max_turns": 5}}, "prompt": {"max_prompt_tokens": 600}},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("model") / "model"
    shape = recipe(folder).model.new
    create(folder, "fake/echo", {}, shape)
    return {"path": str(folder)}


def of_kind(name: str, folder: Path, model: dict[str, Any]) -> Config:
    """6 updates, checkpoints after 0, 2, 4, 6."""
    sections: dict[str, Any] = {"batch": {"num_envs": 3, "turns_per_env": 4, "updates": 6}, "model": model}
    sections["evaluation"] = {**EVERYTHING["evaluation"], "keep_episodes": 0}
    for key, section in KINDS[name].items():
        sections[key] = sections.get(key, {}) | section if isinstance(section, dict) else section
    return recipe(folder, **sections)


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    tensors, others = found["tensors"], expected["tensors"]
    assert [name for name in tensors.keys() | others.keys() if tensors.get(name) != others.get(name)] == []
    for name in ("step", "state", "games", "metrics", "evaluations"):
        assert found[name] == expected[name]


class Killed(BaseException):
    """Not an Exception: nobody on the way takes it for his."""


class Kill(Callback):
    """Ends a run without a word, before update `update + 1` is trained, or after it was logged."""

    def __init__(self, event: str, update: int) -> None:
        self.event, self.update = event, update

    def on_batch(self, trainer: Any, turns: Any) -> None:
        self._strike("on_batch", trainer.update)

    def on_update(self, trainer: Any, metrics: Any) -> None:
        self._strike("on_update", trainer.update)

    def _strike(self, event: str, update: int) -> None:
        if (event, update) == (self.event, self.update):
            raise Killed


@pytest.mark.parametrize("name", KINDS)
def test_c13_resumed_equals_whole(tmp_path: Path, model: dict[str, Any], name: str) -> None:
    Trainer(of_kind(name, tmp_path / "whole", model)).fit()
    config = of_kind(name, tmp_path / "killed", model)
    with pytest.raises(Killed):
        Trainer(config, callbacks=[Kill("on_batch", 3)]).fit()
    resumed = Trainer(config, resume=True)
    assert resumed.update == 2
    resumed.fit()
    assert_equal(left_behind(tmp_path / "killed" / "run"), left_behind(tmp_path / "whole" / "run"))


def test_c13_a_new_small_model_and_its_tokenizer_come_back(tmp_path: Path) -> None:
    sections: dict[str, Any] = {"evaluation": {"episodes": 0}, "algorithm": {"kl_coef": 0.1}}
    Trainer(recipe(tmp_path, name="whole", **sections)).fit()
    config = recipe(tmp_path, name="killed", **sections)
    with pytest.raises(Killed):
        Trainer(config, callbacks=[Kill("on_update", 3)]).fit()
    Trainer(config, resume=True).fit()
    assert_equal(left_behind(tmp_path / "killed"), left_behind(tmp_path / "whole"))


def test_c25_a_resumed_run_asks_the_prompts_that_were_next(tmp_path: Path, model: dict[str, Any]) -> None:
    first, second = Diary(), Diary()
    config = of_kind("value_head", tmp_path, model)
    with pytest.raises(Killed):
        Trainer(config, callbacks=[first, Kill("on_batch", 3)]).fit()
    with pytest.raises(Killed):
        Trainer(config, resume=True, callbacks=[second, Kill("on_batch", 2)]).fit()
    expected, found = first.turns[2], second.turns[0]
    assert found == expected
    assert [turn.policy_version for turn in found] == [2] * 12


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory, model: dict[str, Any]) -> dict[str, Any]:
    """What a run with everything in it leaves behind if nobody kills it."""
    folder = tmp_path_factory.mktemp("unharmed")
    assert run(recipe(folder, model=model, **EVERYTHING)) == 0
    return left_behind(folder / "run")


WORST_MOMENTS = {
    "in the first evaluation": Bomb("agentrl.evaluation:play_round", 2),
    "in the imitation": Bomb("agentrl.imitation:imitate", 1, after=True),
    "writing the first checkpoint": Bomb("agentrl.checkpoint:save_policy", 1),
    "before the first checkpoint has its name": Bomb("agentrl.checkpoint:_fsync", 3),
    "collecting in the warm-up": Bomb("agentrl.collector:play_round", 2),
    "in an optimizer step of the warm-up": Bomb("agentrl.learner:Learner._step", 2),
    "between update 2 and its checkpoint": Bomb("agentrl.tracking:MetricsFile.log", 2, after=True),
    "writing checkpoint 2": Bomb("agentrl.checkpoint:save_policy", 1, after=True),
    "when checkpoint 2 has its name": Bomb("agentrl.checkpoint:Path.rename", 1, after=True),
    "in the evaluation after update 3": Bomb("agentrl.trainer:write_turns", 1),
    "collecting update 4": Bomb("agentrl.collector:play_round", 7),
    "in an optimizer step of update 4": Bomb("agentrl.learner:Learner._step", 3, after=True),
    "removing checkpoint 0": Bomb("agentrl.checkpoint:shutil.rmtree", 1),
    "before the last evaluation": Bomb("agentrl.trainer:Trainer._last_evaluations", 1),
    "writing the results": Bomb("agentrl.trainer:write_json", 1, after=True),
}
"""In this order each is reached by the process that resumes after the one before."""


def test_c13_c25_killed_at_the_worst_moments_one_after_another(
    tmp_path: Path, model: dict[str, Any], unharmed: dict[str, Any]
) -> None:
    config = recipe(tmp_path, model=model, **EVERYTHING)
    for moment, bomb in WORST_MOMENTS.items():
        assert run(config, bomb) == -signal.SIGKILL, moment
        assert all((path / "state.json").exists() for path in checkpoints(tmp_path / "run")), moment
    assert run(config) == 0
    assert_equal(left_behind(tmp_path / "run"), unharmed)
    assert {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()} == {"step-4", "step-6"}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_c13_c25_killed_again_and_again_at_random_moments(
    tmp_path: Path, model: dict[str, Any], unharmed: dict[str, Any], seed: int
) -> None:
    draw, kills, finished = random.Random(seed), 0, 0
    while kills < 5:
        config = recipe(tmp_path / str(finished), model=model, **EVERYTHING)
        process = start(config)
        process.join(timeout=draw.uniform(0.2, 1.0) * unharmed["seconds"])
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        finished += process.exitcode == 0
        process.close()
    assert run(config) == 0
    for run_dir in tmp_path.glob("*/run"):
        assert_equal(left_behind(run_dir), unharmed)


SIGNALS = {
    "collecting update 2": (Bomb("agentrl.collector:play_round", 6, signal.SIGTERM), 1),
    "in an optimizer step of update 3": (Bomb("agentrl.learner:Learner._step", 3, signal.SIGINT), 3),
    "in the evaluation after update 3": (Bomb("agentrl.evaluation:play_round", 1, signal.SIGTERM), 3),
    "collecting update 4": (Bomb("agentrl.collector:play_round", 2, signal.SIGINT), 3),
    "logging update 5": (Bomb("agentrl.tracking:MetricsFile.log", 2, signal.SIGTERM), 5),
    "in the last evaluation": (Bomb("agentrl.evaluation:play_round", 1, signal.SIGINT), 6),
}


def test_c13_signals_leave_checkpoints_and_end_the_process_well(
    tmp_path: Path, model: dict[str, Any], unharmed: dict[str, Any]
) -> None:
    config, folder = recipe(tmp_path, model=model, **EVERYTHING), tmp_path / "run"
    for moment, (bomb, update) in SIGNALS.items():
        assert run(config, bomb) == 0, moment
        assert checkpoints(folder)[-1].name == f"step-{update}", moment
        assert json.loads((folder / "results.json").read_text())["interrupted"], moment
        assert (folder / "report.html").exists(), moment
    assert run(config) == 0
    assert_equal(left_behind(folder), unharmed)


def test_a_signal_before_the_first_update_starts_the_run_anew(
    tmp_path: Path, model: dict[str, Any], unharmed: dict[str, Any]
) -> None:
    config = recipe(tmp_path, model=model, **EVERYTHING)
    for where in ("agentrl.imitation:play_round", "agentrl.evaluation:play_round"):
        assert run(config, Bomb(where, 5, signal.SIGTERM)) == 0
        assert checkpoints(tmp_path / "run") == []
    assert run(config) == 0
    assert_equal(left_behind(tmp_path / "run"), unharmed)


def test_a_second_sigint_interrupts_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    step = Learner._step

    def impatient(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return step(*arguments)

    monkeypatch.setattr(Learner, "_step", impatient)
    with pytest.raises(KeyboardInterrupt):
        Trainer(recipe(tmp_path, evaluation={"episodes": 0})).fit()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_resumed_game_of_chance_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sections: dict[str, Any] = {"game": {"options": {"chance": True, "turns": 50}}, "evaluation": {"episodes": 0}}
    config = recipe(tmp_path, **sections)
    with pytest.raises(Killed):
        Trainer(config, callbacks=[Kill("on_batch", 2)]).fit()
    capsys.readouterr()
    assert Trainer(config, resume=True).fit()["updates"] == 4
    assert capsys.readouterr().out.count("resume is not exact: fake/echo did not replay as it was played") == 1


def test_resuming_what_never_began_begins_it(tmp_path: Path) -> None:
    results = Trainer(recipe(tmp_path, evaluation={"episodes": 0}, batch={"updates": 1}), resume=True).fit()
    assert results["updates"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 7}, "seed = 7: the run in .*/run was begun with 0; keep that, or give another --name"),
        ({"game": {"options": {"turns": 9}}}, r'game.options = {"turns": 9}: the run in .* was begun with {}'),
        ({"model": {"path": "elsewhere"}}, 'model.path = "elsewhere": the run in .* was begun with null'),
        ({"model": {"new": {"layers": 3}}}, r'model.new = {"hidden_size": .*: the run in .* was begun with {"hidden_'),
    ],
)
def test_another_game_model_or_seed_is_not_resumed(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """One folder for several runs: their weights and figures must not be taken for each other's."""
    config = recipe(tmp_path, evaluation={"episodes": 0}, batch={"updates": 1})
    Trainer(config).fit()
    with pytest.raises(UserError, match=message):
        Trainer(recipe(tmp_path, evaluation={"episodes": 0}, batch={"updates": 1}, **change), resume=True)
    longer = recipe(tmp_path, evaluation={"episodes": 0}, batch={"updates": 2}, optimizer={"lr": 1e-5})
    assert Trainer(longer, resume=True).fit()["updates"] == 2


def test_resuming_a_finished_run_changes_nothing(
    tmp_path: Path, model: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    config = of_kind("value_head", tmp_path, model)
    Trainer(config).fit()
    before = left_behind(tmp_path / "run")
    capsys.readouterr()
    again = Diary()
    results = Trainer(config, resume=True, callbacks=[again]).fit()
    assert again.events == [("start", 6), ("end", 6, "results written")]  # no evaluation is played anew
    assert (
        f"{tmp_path}/run: nothing is left to train after 6 updates; its evaluations stand\n" in capsys.readouterr().out
    )
    assert list(results)[:3] == ["before", "update-3", "after"]
    assert results["seconds"] >= before["seconds"]
    assert_equal(left_behind(tmp_path / "run"), before)


def test_resuming_a_trained_run_says_which_evaluations_it_lacks(
    tmp_path: Path, model: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    config = recipe(tmp_path, model=model, batch={"updates": 1}, evaluation={"episodes": 2, "random": False})
    assert run(config, Bomb("agentrl.evaluation:play_round", 9, signal.SIGTERM)) == 0  # 4 before, 4 after, then greedy
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert ("after" in results, "after_greedy" in results, results["interrupted"]) == (True, False, True)
    diary = Diary()
    Trainer(config, resume=True, callbacks=[diary]).fit()
    assert [event[0] for event in diary.events] == ["start", "after_greedy", "end"]
    assert "nothing is left to train after 1 updates; still to be played: after_greedy\n" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["other figures", "another update", "no file", "no JSON"])
def test_evaluations_that_do_not_fit_are_played_again(tmp_path: Path, model: dict[str, Any], damage: str) -> None:
    section: dict[str, Any] = {"episodes": 2, "random": False, "greedy": False}
    config = recipe(tmp_path, model=model, batch={"updates": 1}, evaluation=section)
    first = Trainer(config).fit()
    path = tmp_path / "run" / "results.json"
    if damage == "other figures":
        config = recipe(tmp_path, model=model, batch={"updates": 1}, evaluation=section | {"episodes": 3})
    elif damage == "another update":
        path.write_text(json.dumps(first | {"updates": 0}))
    elif damage == "no JSON":
        path.write_text("{")
    else:
        path.unlink()
    diary = Diary()
    results = Trainer(config, resume=True, callbacks=[diary]).fit()
    assert [event[0] for event in diary.events] == ["start", "after", "end"]
    assert results["after"]["fake/echo"]["episodes"] == config.evaluation.episodes


def test_a_package_named_like_the_game_is_no_evaluation(tmp_path: Path, model: dict[str, Any]) -> None:
    config = recipe(tmp_path, model=model, batch={"updates": 1}, evaluation={"episodes": 1, "random": False})
    first = Trainer(config).fit()
    path = tmp_path / "run" / "results.json"
    path.write_text(json.dumps(first | {"versions": {"fake/echo": "1.8.3"}}))
    trainer = Trainer(config, resume=True)
    assert set(trainer.progress.evaluations) == {"before", "after", "after_greedy"}
