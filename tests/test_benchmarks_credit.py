"""benchmarks/credit.py and discounts.py: what they compare, and that only what they mean to change changes."""

import math
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from agentrl.agents import ModelAgent
from agentrl.configfile import load_config
from agentrl.engines.base import Sampling
from agentrl.episode import GameSlot
from agentrl.records import TurnBatch
from agentrl.seeding import held_out_seed
from agentrl.trainer import Trainer

ROOT = Path(__file__).parents[1]

SMALL = [
    "--game.options.length=8",
    "--game.options.bench=2",
    "--batch.num_envs=4",
    "--batch.turns_per_env=32",
    "--batch.updates=1",
    "--algorithm.minibatches=2",
    "--evaluation.episodes=0",
    "--tracking.backends=[]",
]


@pytest.fixture
def credit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.chdir(ROOT)
    return import_module("credit")


@pytest.fixture
def discounts(credit: ModuleType) -> ModuleType:
    return import_module("discounts")


def slots(trainer: Trainer, count: int = 8) -> list[GameSlot]:
    made = [trainer.parts.games(i, lambda episode, i=i: held_out_seed(i), evaluation=True) for i in range(count)]
    for slot in made:
        assert slot.next_episode()
    return made


def test_all_recipes_play_as_many_turns_in_minibatches_as_large(credit: ModuleType) -> None:
    recipe = load_config(credit.RECIPE)
    for name in ("dual", "single", "short"):
        config = load_config(credit.RECIPE, credit.overrides(name, True, recipe))
        assert config.batch.updates * config.turns_per_update == recipe.batch.updates * recipe.turns_per_update
        assert config.policy_steps == recipe.policy_steps
        assert config.game.options == recipe.game.options | {"reminder": True}
        assert config.batch.turns_per_env == (16 if name == "short" else 512)
        assert config.algorithm.gamma_token == (0.99 if name == "single" else 1.0)
        assert config.algorithm.lambda_step == (0.95 if name == "single" else 1.0)
    assert recipe.game.options["length"] <= recipe.batch.turns_per_env


def test_half_of_the_walks_start_right_and_their_worth_is_the_discounted_reward(
    credit: ModuleType, tmp_path: Path
) -> None:
    """An untrained critic says 0: right walks have their worth for an advantage, wrong ones 0, batches of 3 nothing."""
    config = load_config(credit.RECIPE, [*SMALL, f"--output_dir={tmp_path}"])
    measured = credit.measure(Trainer(config))
    assert len(measured["right"]) == len(measured["wrong"]) == credit.WALKS // 2
    assert measured["worth"] == pytest.approx(0.999**7)
    np.testing.assert_allclose(measured["right"], 0.999**7)
    np.testing.assert_allclose(measured["wrong"], 0.0, atol=1e-12)
    assert measured["explained_variance"] == [0.0] * 8
    short = load_config(credit.RECIPE, [*SMALL, f"--output_dir={tmp_path}", "--batch.turns_per_env=3"])
    assert credit.measure(Trainer(short))["right"] == [0.0] * (credit.WALKS // 2)
    per_token = [f"--algorithm.gamma_{of}=0.9" for of in ("step", "token")]
    single = credit.measure(Trainer(load_config(credit.RECIPE, [*SMALL, f"--output_dir={tmp_path}", *per_token])))
    # Seven steps and two token factors in each turn, but one where the walker rests: at turns 3, 5, 7, if at all.
    assert set(np.round(np.log(single["right"]) / np.log(0.9), 6)) <= {20.0, 21.0, 22.0, 23.0}
    assert single["worth"] == pytest.approx(np.mean(single["right"]))


def test_where_returns_hardly_vary_there_is_no_explained_variance(credit: ModuleType, tmp_path: Path) -> None:
    """A reward that a discount has shrunk to 1e-4 leaves a critic's noise divided by nothing, not a figure."""
    tiny = load_config(credit.RECIPE, [*SMALL, f"--output_dir={tmp_path}", "--algorithm.gamma_step=0.25"])
    found = credit.measure(Trainer(tiny))["explained_variance"]
    assert [math.isnan(figure) for figure in found] == [True] * 5 + [False] * 3  # 0.25^3 / 2 = 0.008, 0.25^2 / 2 = 0.03
    nan = math.nan
    runs = [{"explained_variance": row} for row in ([nan, nan, 0.5], [nan, -1.0, 0.0], [nan, nan, 0.25])]
    np.testing.assert_array_equal(credit.median_explained(runs), [nan, -1.0, 0.25])


def test_horizons_by_hand(discounts: ModuleType) -> None:
    assert discounts.horizons(1)["dual"] == discounts.horizons(1)["single"]
    for tokens in (3, 30, 100):
        found = discounts.horizons(tokens)
        assert found["dual"] == discounts.horizons(1)["dual"]
        assert (0.99 * 0.95) ** (tokens * found["single"]["horizon"]) == pytest.approx(math.exp(-1))
        assert 0.99 ** (tokens * found["single"]["reach"]) == pytest.approx(math.exp(-1))


def test_filler_is_read_with_the_prompt_and_leaves_prompt_and_choice_as_they_were(
    discounts: ModuleType, tmp_path: Path
) -> None:
    """30 tokens, a single one of them chosen, at the cost of one pass; only the first choice is in the policy loss."""
    recipe, *changed = discounts.GAMES["signpost"]
    plain = Trainer(load_config(recipe, [*changed, f"--output_dir={tmp_path}"]))
    style = discounts.padded_style("terse", 30, tmp_path)
    padded = Trainer(
        load_config(
            recipe, [*changed, f"--output_dir={tmp_path}", f"--prompt.style={style}", "--engine.max_reply_tokens=40"]
        )
    )
    parts = padded.parts
    parts.engine.constraint = discounts.WholeReply(parts.tokenizer, parts.end_id, parts.games.prompter)
    passes: list[int] = []
    parts.model.lm.base_model.register_forward_hook(lambda *_: passes.append(1))
    playing, beside = slots(padded), slots(plain)
    assert [slot.prompt.messages for slot in playing] == [slot.prompt.messages for slot in beside]
    replies = ModelAgent(parts.engine, Sampling(1.0, 40), seed=0).act(playing)
    assert len(passes) == 1
    turns = [slot.play(reply)[0] for slot, reply in zip(playing, replies, strict=True)]
    for turn, slot in zip(turns, playing, strict=True):
        slot.close()
        assert turn.valid
        assert turn.reply_text.endswith(f"ACTION: {turn.action}")
        assert turn.action.endswith(" road")
        assert len(turn.reply_ids) == 30
        assert [len(legal) > 1 for legal in turn.reply_legal].count(True) == 1
        assert [logprob for logprob in turn.reply_logprobs if logprob] == [min(turn.reply_logprobs)]
    batch = TurnBatch.from_turns(turns)
    assert batch.policy_mask_R.sum() == len(turns)
    assert len(batch.reply_ids_R) == 30 * len(turns)
