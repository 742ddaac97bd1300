"""The command line: what reaches the functions behind it, and one line with status 2 for each mistake."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentrl import check_env
from agentrl.cli import app
from agentrl.config import NewModelConfig
from agentrl.configfile import load_config, make_config
from agentrl.errors import UserError
from agentrl.plainyaml import load_yaml

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
QUICKSTART = str(EXPERIMENTS / "quickstart.yaml")
COMMANDS = [
    "train",
    "eval",
    "play",
    "imitate",
    "games",
    "new-model",
    "new-game",
    "check-env",
    "check-golden",
    "export",
    "view",
]


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str, **extra):
        return CliRunner().invoke(app, list(arguments), **extra)

    return invoke


@pytest.fixture
def behind(monkeypatch):
    """Replace a module behind the command line by one function that records how it is called."""

    def replace(module: str, name: str, answer=None):
        calls = []

        def function(*arguments, **keywords):
            calls.append((arguments, keywords))
            if isinstance(answer, BaseException):
                raise answer
            return answer

        fake = types.ModuleType(module)
        setattr(fake, name, function)
        monkeypatch.setitem(sys.modules, module, fake)
        monkeypatch.setattr(sys.modules["agentrl"], module.removeprefix("agentrl."), fake, raising=False)
        return calls

    return replace


def assert_one_line(result, *parts: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("agentrl: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n")
    for part in parts:
        assert part in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(run, command):
    result = run(command, "--help")
    assert result.exit_code == 0
    text = re.sub(r"\s+", " ", result.stdout)
    assert f"Examples: agentrl {command} " in text
    assert "torch" not in text


def test_root_help_lists_every_command(run):
    for result in (run("--help"), run()):
        assert result.exit_code == 0
        assert all(command in result.stdout for command in COMMANDS)


def test_version(run):
    from agentrl import __version__

    assert run("--version").stdout == f"agentrl {__version__}\n"


@pytest.mark.parametrize("recipe", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_dry_run_of_every_recipe(run, tmp_path, recipe):
    result = run("train", str(recipe), "--dry-run", "--seed=7")
    assert result.exit_code == 0, result.output
    assert make_config(load_yaml(result.stdout)) == load_config(recipe, ["--seed=7"])
    assert "# turns per update" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_dry_run_checks_the_game(run, tmp_path):
    assert_one_line(run("train", QUICKSTART, "--dry-run", "--game.options.num_dists=-1"), "num_dists = -1", "from 0")
    assert "2 worker processes" in run("train", QUICKSTART, "--dry-run", "--workers.processes=2").stdout
    assert list(tmp_path.iterdir()) == []
    assert_one_line(run("train", QUICKSTART, "--dry-run", "--game", "babyai/gto"), "game.id", "babyai/goto")
    assert_one_line(run("train", QUICKSTART, "--dry-run", "--game.options.rewrd=binary"), "rewrd", "reward")


class FakeTrainer:
    is_main = True
    run_dir = Path("runs/fake")

    def __init__(self, interrupted: bool = False):
        self.interrupted = interrupted
        self.fitted = 0

    def fit(self):
        self.fitted += 1
        return {"interrupted": self.interrupted, "updates": 3}


def test_train(run, behind):
    trainer = FakeTrainer()
    calls = behind("agentrl.trainer", "Trainer", trainer)
    assert run("train", "--optimizer.lr", "1e-4", QUICKSTART, "--resume", "--model", "some/dir").exit_code == 0
    config = load_config(QUICKSTART, ["--optimizer.lr=1e-4", "--model.path=some/dir"])
    assert calls == [((config,), {"resume": True})]
    assert trainer.fitted == 1
    assert run("train", QUICKSTART).stdout == "Report: runs/fake/report.html\n"
    assert calls[1] == ((load_config(QUICKSTART),), {"resume": False})


def test_train_that_was_interrupted_says_how_to_go_on(run, behind):
    behind("agentrl.trainer", "Trainer", FakeTrainer(interrupted=True))
    result = run("train", QUICKSTART)
    assert result.exit_code == 0
    assert "agentrl train runs/fake/config.yaml --resume" in result.stdout


def test_eval_of_a_model_without_recipe(run, behind, tmp_path):
    calls = behind("agentrl.standalone", "evaluate_model", {"success": 0.5})
    arguments = ["eval", "org/model", "--game", "babyai/goto", "--option", "reward=binary", "--option", "num_dists=2"]
    result = run(*arguments, "--greedy", "--episodes", "9", "--prompt.style=cot", "--out", "deep/figures.json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads((tmp_path / "deep/figures.json").read_text()) == {"success": 0.5}
    options = {"reward": "binary", "num_dists": 2}
    tree = {"name": "eval", "game": {"id": "babyai/goto", "options": options}, "evaluation": {"episodes": 9}}
    config = make_config(tree, ["--prompt.style=cot"])
    assert calls == [((config, "org/model", True), {})]


def test_eval_takes_the_recipe_of_the_run(run, behind, tmp_path):
    calls = behind("agentrl.standalone", "evaluate_model", {})
    step = tmp_path / "runs/quickstart/checkpoints/step-12"
    step.mkdir(parents=True)
    (step.parent / "step-3").mkdir()
    (tmp_path / "runs/quickstart/config.yaml").write_text(Path(QUICKSTART).read_text())
    config = load_config(QUICKSTART, ["--engine.temperature=0.5"])
    for model in ("runs/quickstart", "runs/quickstart/checkpoints/step-12"):
        result = run("eval", model, "--temperature", "0.5")
        assert result.exit_code == 0, result.output
        (used, path, greedy), _ = calls.pop()
        assert Path(path).resolve() == step
        assert (used, greedy) == (config, False)


def test_eval_of_another_game_drops_the_recipes_game_options(run, behind):
    calls = behind("agentrl.standalone", "evaluate_model", {})
    recipe = str(EXPERIMENTS / "babyai_qwen2.5_3b.yaml")
    run("eval", "org/model", "--config", recipe)
    run("eval", "org/model", "--config", recipe, "--game", "other/task")
    games = [(config.game.id, config.game.options) for (config, *_), _ in calls]
    assert games == [("babyai/goto", {"reward": "binary"}), ("other/task", {})]


def test_eval_of_a_run_without_checkpoint(run, tmp_path):
    (tmp_path / "config.yaml").write_text(Path(QUICKSTART).read_text())
    assert_one_line(run("eval", "."), "no finished checkpoint")


def test_eval_of_a_mistyped_run(run, behind, tmp_path):
    """Without a folder of runs, or beside a model of that organisation, it may be a name on Hugging Face."""
    calls = behind("agentrl.standalone", "evaluate_model", {})
    game = ["--game", "babyai/goto"]
    assert run("eval", "runs/quikstart", *game).exit_code == 0
    (tmp_path / "runs/quickstart").mkdir(parents=True)
    assert run("eval", "runs/quikstart", *game).exit_code == 0
    assert len(calls) == 2
    (tmp_path / "runs/quickstart/config.yaml").touch()
    for more in ([], game):
        mistake = run("eval", "runs/quikstart", *more)
        assert_one_line(mistake, "runs/quikstart: no such folder; did you mean runs/quickstart?")
    assert_one_line(run("eval", "runs/other"), "runs/other: no such folder\n")
    assert len(calls) == 2


def test_eval_that_could_not_write_its_figures_is_not_begun(run, behind, tmp_path):
    calls = behind("agentrl.standalone", "evaluate_model", {})
    (tmp_path / "file").touch()
    for out in (".", "file/figures.json"):
        assert_one_line(run("eval", "org/model", "--game", "babyai/goto", "--out", out), "--out", "cannot be written")
    assert calls == []


def test_imitate(run, behind):
    calls = behind("agentrl.standalone", "imitate_player", {"loss": 0.1})
    result = run("imitate", QUICKSTART, "--imitation.episodes=3", "--out", "warm")
    assert json.loads(result.stdout) == {"loss": 0.1}
    run("imitate", QUICKSTART)
    assert calls[0] == ((load_config(QUICKSTART, ["--imitation.episodes=3"]), Path("warm"), None), {})
    assert calls[1] == ((load_config(QUICKSTART), Path("runs/quickstart-imitation"), None), {})


def test_play(run):
    result = run("play", "babyai/goto", "--seed", "3", "--option", "reward=binary", input="turn left\nq\n")
    assert result.exit_code == 0, result.output
    assert "turn left" in result.stdout


def test_play_takes_game_and_prompts_of_a_recipe(run, behind):
    calls = behind("agentrl.play", "play")
    recipe = str(EXPERIMENTS / "babyai_qwen2.5_3b.yaml")
    for arguments in ([], ["--style", "action", "--seed", "7", "--option", "num_dists=2"], ["babyai/open", "--prompt"]):
        result = run("play", "--config", recipe, *arguments)
        assert result.exit_code == 0, result.output
    configs = [
        load_config(recipe),
        load_config(recipe, ["--prompt.style=action", "--game.options.num_dists=2"]),
        load_config(recipe, ["--game=babyai/open", "--game.options={}"]),
    ]
    wanted = zip(configs, [None, 7, None], [False, False, True], strict=True)
    assert [arguments[:3] for arguments, _ in calls] == list(wanted)


def test_games(run):
    assert "babyai" in run("games").stdout
    listed = json.loads(run("games", "--json").stdout)
    babyai = next(game for game in listed if game["name"] == "babyai")
    assert {"goto", "pickup", "open", "putnext", "pick_up_seq_go_to"} <= set(babyai["tasks"])
    assert babyai["description"]


@pytest.mark.parametrize(("more", "style"), [([], "action"), (["--style", "cot"], "cot")])
def test_games_counts_tokens(run, behind, more, style):
    calls = behind("agentrl.game_list", "print_tokens")
    sys.modules["agentrl.game_list"].print_games = None
    assert run("games", "--tokens", "org/model", *more).exit_code == 0
    assert calls == [(("org/model", style, False), {})]


def test_new_game(run, tmp_path):
    result = run("new-game", "my_game", "--dir", "deep/er")
    assert result.exit_code == 0, result.output
    folder = "deep/er/my_game"
    assert (tmp_path / folder / "pyproject.toml").is_file()
    for word in (f"install -e {folder}", "check-env my_game", f"{folder}/quickstart.yaml"):
        assert word in result.stdout
    assert_one_line(run("new-game", "my_game", "--dir", "deep/er"), f"{folder} exists already")


@pytest.mark.parametrize(("states", "status"), [(["passed", "not reached", "not run"], 0), (["passed", "failed"], 1)])
def test_check_env_tells_by_its_exit_status(run, monkeypatch, states, status):
    asked = []
    results = [check_env.Result(name, state, "why") for name, state in zip(check_env.CHECKS, states, strict=False)]
    monkeypatch.setattr(check_env, "check_env", lambda *arguments: asked.append(arguments) or results)
    result = run("check-env", "babyai/goto", "--option", "num_dists=2", "--game.options.reward=binary")
    assert (result.exit_code, result.stderr) == (status, "")
    assert asked == [("babyai/goto", {"num_dists": 2, "reward": "binary"})]
    assert all(state in result.stdout.lower() for state in states)


def test_a_game_in_a_file_is_found_from_the_recipe_or_from_here(run, behind, tmp_path):
    """And its path is kept whole, so that a run goes on from wherever it is resumed."""
    calls = behind("agentrl.trainer", "Trainer", FakeTrainer())
    recipe = tmp_path / "recipes" / "mine.yaml"
    recipe.parent.mkdir()
    recipe.write_text("name: mine\ngame: {id: 'games/mine.py:Mine/small'}\n")
    run("train", "recipes/mine.yaml")
    run("train", QUICKSTART, "--game", "games/mine.py:Mine")
    found = [config.game.id for (config,), _ in calls]
    assert found == [f"{recipe.parent}/games/mine.py:Mine/small", f"{tmp_path}/games/mine.py:Mine"]


def test_new_model(run, behind):
    calls = behind("agentrl.new_model", "create")
    result = run("new-model", "dir", "--game", "babyai/goto", "--hidden-size", "32", "--seed", "5", "--overwrite")
    assert result.exit_code == 0, result.output
    assert calls == [((Path("dir"), "babyai/goto", {}, NewModelConfig(hidden_size=32), 5, 50, True, "terse"), {})]


def test_every_size_of_a_new_model(run, behind):
    calls = behind("agentrl.new_model", "create")
    sizes = {"hidden_size": 48, "layers": 3, "heads": 6, "kv_heads": 2, "ffn_size": 99, "vocab_size": 400}
    sizes["max_positions"] = 2077
    given = [word for name, size in sizes.items() for word in (f"--{name.replace('_', '-')}", str(size))]
    assert run("new-model", "dir", "--game", "babyai/goto", *given).exit_code == 0
    assert calls[0][0][3] == NewModelConfig(**sizes) != NewModelConfig()


@pytest.mark.parametrize(("more", "dtype"), [([], "float32"), (["--dtype", "bfloat16"], "bfloat16")])
def test_new_model_from_a_package(run, behind, more, dtype):
    calls = behind("agentrl.smollm2", "create")
    result = run("new-model", "dir", "--from", "smollm2", "--overwrite", *more)
    assert result.exit_code == 0, result.output
    assert calls == [((Path("dir"), dtype, True), {})]


FROM = ["new-model", "dir", "--from", "smollm2"]
MISTAKES = [
    (["trian"], ["trian", "train"]),
    (["train"], ["CONFIG"]),
    (["train", QUICKSTART, "second.yaml"], ["one recipe"]),
    (["train", "nowhere.yaml"], ["nowhere.yaml", "no such file"]),
    (["train", QUICKSTART.replace(".yaml", ".yml")], ["did you mean"]),
    (["train", QUICKSTART, "--resme"], ["--resme", "--resume"]),
    (["train", QUICKSTART, "--dry-rnu=true"], ["--dry-run"]),
    (["train", QUICKSTART, "--algorithm.lr=1"], ["algorithm.lr = 1", "optimizer.lr"]),
    (["train", QUICKSTART, "--optimizer.lr=fast"], ["optimizer.lr", '"fast"', "a number"]),
    (["train", QUICKSTART, "--optimizer.lr"], ["value is missing"]),
    (["train", QUICKSTART, "--name=a\x1b[31m\nb"], ["name"]),
    (["train", QUICKSTART, "--batch.num_envs=0"], ["batch.num_envs = 0", "greater than 0"]),
    (["eval"], ["MODEL"]),
    (["eval", "org/model"], ["org/model: no folder here has this name", "--game ID"]),
    (["eval", "."], [".: its folder is no run's", "--game ID"]),
    (["eval", "../nowhere", "--game", "babyai/goto"], ["../nowhere: no such folder"]),
    (["eval", "/no/where"], ["/no/where: no such folder"]),
    (["eval", "runs/x/checkpoints/step-3"], ["runs/x/checkpoints/step-3: no such folder"]),
    (["eval", "org/model", "--game", "babyai/goto", "--greedy", "--temperature", "1"], ["exclude"]),
    (["eval", "org/model", "--game", "babyai/goto", "--episodes", "0"], ["evaluation.episodes = 0", "--episodes"]),
    (
        ["eval", "org/model", "--game", "babyai/goto", "--episodes", "many"],
        ["evaluation.episodes", '"many"', "a whole number"],
    ),
    (["eval", "org/model", "--game", "babyai/goto", "--option", "reward"], ["--option NAME=VALUE"]),
    (["eval", "org/model", "--game", "babyai/goto", "--temperature", "0"], ["engine.temperature = 0"]),
    (["play"], ["GAME", "--config"]),
    (["play", "--config", "nowhere.yaml"], ["nowhere.yaml", "no such file"]),
    (["play", "--config", QUICKSTART, "--style", "actoin"], ["actoin", "action"]),
    (["play", "babyai/gto"], ["babyai/goto"]),
    (["play", "babyai/goto", "--seed", "x"], ["--seed"]),
    (["play", "babyai/goto", "--option", "rewrd=binary"], ["rewrd", "reward"]),
    (["play", "babyai/goto", "--option", "reward={"], ["--option reward={", "not YAML"]),
    (["play", "babyai/goto", "--style", "actoin"], ["actoin", "action"]),
    (["imitate", QUICKSTART, "--ou", "x"], ["--out"]),
    (["games", "--jsn"], ["--json"]),
    (["games", "--style", "cot"], ["--style cot", "--tokens"]),
    (["games", "--tokens", "./nowhere"], ["./nowhere", "no tokenizer"]),
    (["new-game"], ["NAME"]),
    (["new-game", "My Game"], ["'My Game'", "small letters"]),
    (["check-env"], ["GAME"]),
    (["check-env", "babyai/gto"], ["'babyai/gto'", "babyai/goto"]),
    (["check-env", "babyai/goto", "--option", "rewrd=binary"], ["rewrd", "reward"]),
    (["check-env", "babyai/goto", "--optoin=rewrd=binary"], ["--option"]),
    (["check-env", "nowhere.py:Game"], ["nowhere.py: no such file"]),
    (["play", "nowhere.py"], ["nowhere.py: no such file"]),
    (["new-model", "dir"], ["--game"]),
    (["new-model", "dir", "--from", "smollm3"], ["--from smollm3", "smollm2"]),
    (["new-model", "dir", "--dtype", "bfloat16", "--game", "babyai/goto"], ["--dtype bfloat16", "--from"]),
    ([*FROM, "--dtype", "int8"], ["--dtype int8", "bfloat16"]),
    *[
        ([*FROM, name, value], [f"{name}: not with --from"])
        for name, value in [
            ("--game", "babyai/goto"),
            ("--layers", "2"),
            ("--seed", "0"),
            ("--option", "reward=binary"),
        ]
    ],
    (["new-model", "dir", "--game", "babyai/goto", "--hidden-size", "0"], ["hidden_size = 0"]),
    (["new-model", "dir", "--game", "babyai/goto", "--vocab-size", "3"], ["vocab_size = 3", "260"]),
]


@pytest.mark.parametrize(("arguments", "parts"), MISTAKES, ids=lambda value: " ".join(map(repr, value))[:60])
def test_mistakes(run, arguments, parts):
    result = run(*arguments)
    assert_one_line(result, *parts)
    assert result.stderr.rstrip("\n").isprintable()


def test_a_user_error_from_inside_is_one_line(run, behind):
    behind("agentrl.trainer", "Trainer", UserError("runs/x holds\na run: add --resume"))
    assert_one_line(run("train", QUICKSTART), "runs/x holds a run: add --resume")


def test_a_bug_keeps_its_traceback(run, behind):
    behind("agentrl.trainer", "Trainer", ValueError("a bug"))
    result = run("train", QUICKSTART)
    assert result.exit_code == 1
    assert isinstance(result.exception, ValueError)


def test_a_disk_that_fails_is_one_line(run, behind):
    behind("agentrl.trainer", "Trainer", OSError(28, "No space left on device", "runs/x/turns"))
    result = run("train", QUICKSTART)
    assert result.exit_code == 1
    assert result.stderr == "agentrl: [Errno 28] No space left on device: 'runs/x/turns'\n"


def test_ctrl_c_is_status_130(run, behind):
    behind("agentrl.trainer", "Trainer", KeyboardInterrupt())
    assert run("train", QUICKSTART).exit_code == 130


def spawn(*arguments: str, **extra) -> subprocess.CompletedProcess:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, **extra)


def test_a_mistake_in_a_real_process(tmp_path):
    done = spawn("-m", "agentrl", "train", QUICKSTART, "--algorithm.lr=1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("agentrl: command line: algorithm.lr = 1: no such field")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["train", "nowhere.yaml"], ["trian"]])
def test_help_and_mistakes_wait_for_no_heavy_import(arguments):
    program = (
        "import sys; from agentrl.cli import app\n"
        f"try: app({arguments!r})\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'numpy', 'gymnasium', 'minigrid'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = spawn("-c", program)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_in_a_real_process(tmp_path):
    game = [sys.executable, "-m", "agentrl", "play", "babyai/goto", "--seed", "1"]
    process = subprocess.Popen(
        game, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    )
    assert process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode in (0, 130)
    assert b"Traceback" not in errors
