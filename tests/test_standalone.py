"""`eval` and `imitate`, for real, on a model of a few thousand parameters."""

import json
import math
from pathlib import Path

import games  # noqa: F401  (registers fake/echo)
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from agentrl.cli import app
from agentrl.configfile import load_config
from agentrl.errors import UserError
from agentrl.new_model import create
from agentrl.standalone import evaluate_model, imitate_player
from agentrl.trainer import Trainer

GAME = "babyai/BabyAI-GoToObjS4-v0"
RECIPE = f"""
name: small
game: {{id: {GAME}}}
model: {{new: {{hidden_size: 16, layers: 1, heads: 2, kv_heads: 1, ffn_size: 32, vocab_size: 300}}}}
prompt: {{style: terse, max_prompt_tokens: 400}}
engine: {{constrain: actions}}
batch: {{num_envs: 2, turns_per_env: 4, updates: 1}}
optimizer: {{lr: 1e-3}}
evaluation: {{episodes: 4, random: false}}
tracking: {{backends: []}}
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return path


def test_eval_of_a_run_repeats_the_figures_of_its_training(recipe):
    results = Trainer(load_config(recipe)).fit()
    for flags, row in ([], "after"), (["--greedy"], "after_greedy"):
        done = CliRunner().invoke(app, ["eval", "runs/small", *flags])
        assert done.exit_code == 0, done.stderr
        figures = json.loads(done.stdout)
        assert figures[GAME] == json.loads(json.dumps(results[row]))[GAME]
        assert figures["model"] == "runs/small/checkpoints/step-1"


def test_eval_shows_achievements_and_score(recipe):
    game = ["--game", "fake/echo", "--option", "achieving=end"]
    create(Path("model"), "fake/echo", {}, load_config(recipe).model.new)
    done = CliRunner().invoke(app, ["eval", "model", "--config", str(recipe), *game, "--episodes", "3"])
    assert done.exit_code == 0, done.stderr
    figures = json.loads(done.stdout)["fake/echo"]
    assert set(figures["achievement_rates"]) == {"red", "green", "blue"}
    assert figures["achievements"] == pytest.approx(sum(figures["achievement_rates"].values()))
    low, high = figures["achievements_ci95"]
    assert (
        f"achievements {figures['achievements']:.2f} [{low:.2f}, {high:.2f}]  score {figures['score']:.2f} %"
        in done.stderr
    )
    assert f'"lengths": {str(figures["lengths"]).replace("[", "[ ").replace("]", " ]")}' in done.stdout


def test_imitate_saves_a_model_that_learned_and_loads_anywhere(recipe):
    config = load_config(recipe, ["--imitation.episodes=30", "--imitation.epochs=20", "--imitation.lr=1e-2"])
    figures = imitate_player(config, Path("warm"))
    assert figures["imitation"]["scripted_success"] == 1.0
    # Six legal actions: a player that knows nothing of the game's needs has a loss near log 6 a turn.
    assert figures["imitation"]["loss"] < 0.5 * math.log(6)
    model, tokenizer = AutoModelForCausalLM.from_pretrained("warm"), AutoTokenizer.from_pretrained("warm")
    assert model.num_parameters() < 20_000
    assert tokenizer.chat_template
    again = evaluate_model(config, "warm")
    assert again[GAME] == figures[GAME]
    assert again["settings"] == figures["settings"]


@pytest.mark.parametrize(("greedy", "temperature"), [(False, 0.5), (True, 0.0)])
def test_c24_an_evaluation_states_how_it_was_played(recipe, tiny_model_dir, greedy, temperature):
    overrides = ["--evaluation.episodes=1", "--engine.temperature=0.5", "--prompt.history=3"]
    told = evaluate_model(load_config(recipe, overrides), tiny_model_dir, greedy)["settings"]
    stated = {"engine.temperature": temperature, "prompt.history": 3, "model.path": str(tiny_model_dir)}
    assert stated.items() <= told.items()
    assert {"game.max_turns", "parsing", "prompt.style", "prompt.sha256", "engine.max_reply_tokens"} <= told.keys()


@pytest.mark.parametrize(
    ("override", "part"),
    [("--imitation.episodes=0", "--imitation.episodes=N"), ("--imitation.episodes=1", "is in use")],
)
def test_imitate_refuses(recipe, override, part):
    Path("out").mkdir()
    Path("out/file").touch()
    with pytest.raises(UserError, match=part):
        imitate_player(load_config(recipe, [override]), Path("out"))


def test_eval_refuses_to_play_nothing(recipe):
    with pytest.raises(UserError, match="--episodes N"):
        evaluate_model(load_config(recipe, ["--evaluation.episodes=0"]), "nowhere")


def test_a_folder_that_cannot_be_written_shows_before_the_work(recipe):
    Path("file").touch()
    with pytest.raises(UserError, match=r"file/warm cannot be written: .*--out"):
        imitate_player(load_config(recipe, ["--imitation.episodes=1", "--model.path=nowhere"]), Path("file/warm"))


@pytest.mark.parametrize("kept", [True, False])
def test_imitate_leaves_no_folder_behind_that_it_made_for_nothing(recipe, kept):
    """A game without a scripted player shows only when it is asked to play; a folder that was there stays."""
    if kept:
        Path("models/warm").mkdir(parents=True)
    overrides = ["--game.id=fake/echo", "--game.options.player=false", "--imitation.episodes=1"]
    with pytest.raises(UserError, match="no scripted player"):
        imitate_player(load_config(recipe, overrides), Path("models/warm"))
    assert Path("models/warm").exists() == Path("models").exists() == kept
