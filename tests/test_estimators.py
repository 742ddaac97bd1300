"""Estimators by name: what each makes of a batch, what is refused, and that each of them learns."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from games import recipe
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tiny import random_turns

from agentrl.advantages import dual_discount_gae, length_adaptive_lambda
from agentrl.algorithm_config import AlgorithmConfig
from agentrl.bilevel_gae import bilevel_gae
from agentrl.config import Config
from agentrl.episode_advantages import dr_grpo, gigpo, grpo, rloo, turn_returns
from agentrl.estimators import with_critic, without_critic
from agentrl.records import Turn, TurnBatch
from agentrl.targets import aggregation_weights
from agentrl.tracking import read_metrics
from agentrl.trainer import Trainer

GAMMAS: dict[str, Any] = {"gamma_step": 0.9, "lambda_step": 0.8}
TOKENS: dict[str, Any] = {"gamma_token": 0.97, "lambda_token": 0.7}


def of_critic(seed: int = 0, **algorithm: Any) -> tuple[np.ndarray, np.ndarray, dict[str, Any], np.ndarray]:
    """(advantages, returns) by the config; the arguments of GAE, and lengths, to compute them by hand."""
    batch = TurnBatch.from_turns(random_turns(seed, errors=[2]))
    rng = np.random.default_rng(seed)
    rewards, values = rng.normal(size=(2, len(batch.reply_ids_R)))
    prompts, following = rng.normal(size=(2, len(batch)))
    found = with_critic(batch, rewards, values, prompts, following, AlgorithmConfig(**algorithm))
    arguments = {
        "rewards_R": rewards,
        "values_R": values,
        "reply_offsets": batch.reply_offsets,
        "prompt_values_N": prompts,
        "next_values_N": following,
        **{f"{name}_N": getattr(batch, f"{name}_N") for name in ("slot", "terminated", "truncated", "error")},
    }
    return *found, arguments, batch.reply_lengths_N


@pytest.mark.parametrize(
    ("algorithm", "estimator", "factors"),
    [
        (GAMMAS | TOKENS, dual_discount_gae, GAMMAS | TOKENS),
        ({"estimator": "turn_gae"} | GAMMAS, dual_discount_gae, GAMMAS | {"gamma_token": 1.0, "lambda_token": 1.0}),
        ({"estimator": "single_gae"} | GAMMAS, dual_discount_gae, GAMMAS | {"gamma_token": 0.9, "lambda_token": 0.8}),
        ({"estimator": "bilevel_gae"} | GAMMAS | TOKENS, bilevel_gae, GAMMAS | TOKENS),
    ],
)
def test_presets_of_gae(algorithm: dict[str, Any], estimator: Any, factors: dict[str, float]) -> None:
    advantages, returns, arguments, _ = of_critic(**algorithm)
    expected = estimator(**arguments, **factors)
    np.testing.assert_array_equal(advantages, expected[0])
    np.testing.assert_array_equal(returns, expected[1])


@pytest.mark.parametrize("estimator", ["dual_gae", "bilevel_gae"])
def test_decoupled_lambda_gives_the_critic_returns_of_its_own(estimator: str) -> None:
    """The policy's advantages stay; with critic lambdas of 1 returns are plain sums to the trace's end."""
    algorithm = {"estimator": estimator} | GAMMAS | TOKENS
    plain, _, arguments, _ = of_critic(**algorithm)
    advantages, returns, *_ = of_critic(**algorithm, critic_lambda_step=1.0, critic_lambda_token=1.0)
    np.testing.assert_array_equal(advantages, plain)
    gae = dual_discount_gae if estimator == "dual_gae" else bilevel_gae
    np.testing.assert_array_equal(returns, gae(**arguments, **algorithm_factors(lambda_step=1.0, lambda_token=1.0))[1])


def algorithm_factors(**changed: float) -> dict[str, float]:
    return GAMMAS | TOKENS | changed


def test_length_adaptive_lambda_is_each_replys_own() -> None:
    advantages, _, arguments, lengths = of_critic(**GAMMAS, gamma_token=0.97, length_adaptive_alpha=0.4)
    own = length_adaptive_lambda(lengths, 0.4)
    assert len(set(own)) > 2
    expected = dual_discount_gae(**arguments, **algorithm_factors(lambda_token=own))[0]  # type: ignore[arg-type]
    np.testing.assert_array_equal(advantages, expected)


def episodes(seed: int, sizes: list[int], broken: tuple[int, ...] = ()) -> TurnBatch:
    """Groups of whole episodes of 1 to 4 turns, in a batch; three observations; the last turn of some broke."""
    rng = np.random.default_rng(seed)
    turns: list[Turn] = []
    for slot, group in enumerate(np.repeat(np.arange(len(sizes)), sizes)):
        length = int(rng.integers(1, 5))
        for number in range(length):
            turn = random_turns(int(rng.integers(1000)), slots=1, length=1)[0]
            turn.slot, turn.turn, turn.seed, turn.reward = slot, number, 100 + int(group), float(rng.normal())
            turn.messages = [{"role": "user", "content": f"room {rng.integers(3)}"}]
            turn.terminated, turn.next_prompt_ids = number == length - 1, []
            if slot in broken and turn.terminated:
                turn.error, turn.terminated = "raised: it broke", False
            turns.append(turn)
    return TurnBatch.from_turns(turns)


def of_episodes(batch: TurnBatch, **algorithm: Any) -> tuple[np.ndarray, np.ndarray]:
    """By turn: the advantage and return of its tokens, which are all the same."""
    rewards_R = np.zeros(len(batch.reply_ids_R))
    spoken = batch.reply_lengths_N > 0
    rewards_R[batch.reply_offsets[1:][spoken] - 1] = batch.reward_N[spoken]
    found = without_critic(batch, rewards_R, AlgorithmConfig(**algorithm))
    for of_token in found:
        for start, end in zip(batch.reply_offsets, batch.reply_offsets[1:], strict=False):
            assert len(set(of_token[start:end])) <= 1
    first = batch.reply_offsets[:-1][spoken]
    return found[0][first], found[1][first]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000))
def test_estimators_without_a_critic(seed: int) -> None:
    batch = episodes(seed, [2, 3])
    of_turn = np.array([turn.slot for turn in batch.turns])
    group = np.array([0, 0, 1, 1, 1])
    sums = np.bincount(of_turn, batch.reward_N)
    steps = turn_returns(batch.reward_N, of_turn, 0.9)
    for name, function in (("rloo", rloo), ("grpo", grpo), ("dr_grpo", dr_grpo)):
        advantages, returns = of_episodes(batch, estimator=name, gamma_step=0.9)
        np.testing.assert_allclose(advantages, function(sums, group)[of_turn])
        np.testing.assert_allclose(returns, steps)
    rooms = np.array([int(turn.messages[-1]["content"].split()[1]) for turn in batch.turns])
    expected = gigpo(sums, group, steps, of_turn, rooms, step_weight=0.5)
    found = of_episodes(batch, estimator="gigpo", gamma_step=0.9, gigpo_step_weight=0.5)[0]
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(of_episodes(batch, estimator="rebn", gamma_step=0.9)[0], steps)


@pytest.mark.parametrize("estimator", ["rebn", "rloo", "grpo", "dr_grpo", "gigpo"])
def test_broken_episodes_say_nothing_and_are_compared_with_nobody(estimator: str) -> None:
    """Of the group of two one breaks: neither has an advantage. The group of three is as if it were of two."""
    whole, broken = episodes(1, [2, 3]), episodes(1, [2, 3], broken=(0, 3))
    healthy = [turn for turn in whole.turns if turn.slot in (2, 4)]
    expected = of_episodes(TurnBatch.from_turns(healthy), estimator=estimator)[0]
    advantages = of_episodes(broken, estimator=estimator)[0]
    slots = np.array([turn.slot for turn in broken.turns if not turn.error])
    np.testing.assert_allclose(advantages[np.isin(slots, (2, 4))], expected)
    assert not advantages[np.isin(slots, (0, 3))].any()
    if estimator != "rebn":
        assert not advantages[slots == 1].any()


def test_a_batch_in_which_every_episode_broke_teaches_nothing() -> None:
    batch = episodes(2, [2], broken=(0, 1))
    assert not of_episodes(batch, estimator="gigpo")[0].any()


def test_weights_of_a_mean_over_turns_and_over_episodes() -> None:
    batch = TurnBatch.from_turns(random_turns(4, errors=[2]))
    x, mask = np.random.default_rng(0).normal(size=len(batch.reply_ids_R)), batch.policy_mask_R
    of_turns = [
        (x[a:b][mask[a:b]], turn.slot)
        for turn, a, b in zip(batch.turns, batch.reply_offsets, batch.reply_offsets[1:], strict=False)
    ]
    with_choice = [tokens for tokens, _ in of_turns if len(tokens)]
    by_game = [np.concatenate([tokens for tokens, slot in of_turns if slot == game]) for game in range(3)]
    for over, parts in (("token", [x[mask]]), ("turn", with_choice), ("episode", by_game)):
        weights = aggregation_weights(batch, over)  # type: ignore[arg-type]
        assert not weights[~mask].any()
        expected = np.mean([np.mean(tokens) for tokens in parts])
        assert (weights * x).sum() / weights.sum() == pytest.approx(expected)
        assert weights.sum() == pytest.approx(mask.sum() if over == "token" else len(parts))


EPISODES: dict[str, Any] = {"form": "episodes", "num_envs": 4, "group_size": 2}


@pytest.mark.parametrize(
    ("batch", "algorithm", "mistake"),
    [
        ({}, {"estimator": "rebn"}, "algorithm.estimator = rebn: .* set batch.form = episodes"),
        (EPISODES | {"group_size": 1}, {"estimator": "grpo"}, "set batch.group_size to 2 or more"),
        (EPISODES | {"num_envs": 5}, {"estimator": "gigpo"}, "batch.num_envs = 5: must divide by batch.group_size = 2"),
        ({"group_size": 2}, {}, "batch.group_size = 2: groups need batch.form = episodes"),
        ({}, {"estimator": "turn_gae", "lambda_token": 0.5}, "algorithm.gamma_token, algorithm.lambda_token"),
        (EPISODES, {"estimator": "rloo", "critic_lambda_step": 1.0}, "algorithm.critic_lambda_step = 1.0: rloo has no"),
        ({}, {"kl_kind": "loss", "kl_estimator": "k1"}, "take k2 or k3"),
        ({}, {"kl_target": 0.1}, "algorithm.kl_target = 0.1: give a kl_coef to begin with"),
        ({}, {"length_adaptive_alpha": 0.1, "lambda_token": 0.9}, "it sets lambda_token"),
    ],
)
def test_what_cannot_be_is_refused(batch: dict[str, Any], algorithm: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ValidationError, match=mistake):
        Config(name="test", game={"id": "babyai/goto"}, batch=batch, algorithm={"minibatches": 1, **algorithm})


def test_no_critic_to_warm_up() -> None:
    sections: dict[str, Any] = {"batch": EPISODES, "algorithm": {"estimator": "rebn"}}
    with pytest.raises(ValidationError, match=r"critic_warmup.max_updates = 1: algorithm.estimator = rebn has no"):
        Config(name="test", game={"id": "babyai/goto"}, critic_warmup={"max_updates": 1}, **sections)


@pytest.mark.parametrize(
    "algorithm",
    [
        {"estimator": "bilevel_gae"},
        {"estimator": "dual_gae", "critic_lambda_step": 1.0, "length_adaptive_alpha": 5.0, "ratio": "turn"},
        {"estimator": "rebn", "policy_loss": "cispo"},
        {"estimator": "rloo", "aggregate": "episode"},
        {"estimator": "grpo", "aggregate": "turn", "kl_coef": 0.01, "kl_kind": "loss"},
        {"estimator": "dr_grpo", "ratio": "turn_product"},
        {"estimator": "gigpo"},
    ],
    ids=lambda algorithm: algorithm["estimator"],
)
def test_every_estimator_learns_to_repeat_a_word(algorithm: dict[str, Any], tmp_path: Path) -> None:
    """fake/echo pays 1 a turn for the shown word; a random player gets 1/3 of 2 turns."""
    config = recipe(
        tmp_path,
        game={"options": {"turns": 2}},
        model={"new": {"hidden_size": 32, "layers": 1, "heads": 2, "kv_heads": 1, "ffn_size": 32, "vocab_size": 300}},
        batch={"form": "episodes", "num_envs": 32, "group_size": 4, "updates": 40},
        algorithm={"epochs": 2, "gamma_step": 0.5, "entropy_coef": 0.05, **algorithm},
        optimizer={"lr": 5e-3, "value_lr": 5e-3, "micro_batch_turns": 64},
        evaluation={"episodes": 32, "random": False, "greedy": False, "keep_episodes": 1},
        checkpoint={"every": 0},
    )
    results = Trainer(config).fit()
    before, after = (results[name]["fake/echo"]["return"] for name in ("before", "after"))
    assert after > before + 0.7
    has_critic = config.algorithm.has_critic
    rows = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert ("losses/value" in rows) == ("explained_variance" in rows) == has_critic


def test_an_adapted_kl_coefficient_moves_towards_its_target_and_is_resumed(tmp_path: Path) -> None:
    """A KL below its target lowers the coefficient by a tenth an update; a resumed run goes on from there."""
    sections: dict[str, Any] = {
        "algorithm": {"kl_coef": 0.1, "kl_target": 1e6},
        "evaluation": {"episodes": 0},
        "checkpoint": {"every": 1},
    }
    Trainer(recipe(tmp_path, batch={"updates": 2}, **sections)).fit()
    resumed = Trainer(recipe(tmp_path, batch={"updates": 4}, **sections), resume=True)
    assert resumed.learner.kl_coef == pytest.approx(0.1 * 0.9**2)
    resumed.fit()
    coefficients = [row["kl_coef"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl") if "kl_coef" in row]
    assert coefficients == pytest.approx([0.1 * 0.9**i for i in range(4)])


def test_a_kl_above_its_target_raises_the_coefficient(tmp_path: Path) -> None:
    trainer = Trainer(recipe(tmp_path, algorithm={"kl_coef": 0.1, "kl_target": 0.5}))
    for measured, coefficient in ((5.0, 0.11), (0.55, 0.11 * 1.05), (-1.0, 0.11 * 1.05 * 0.9)):
        trainer.learner.adapt_kl(measured)
        assert trainer.learner.kl_coef == pytest.approx(coefficient)


@pytest.mark.parametrize("level", ["token", "turn"])
def test_a_correction_of_nearly_equal_logprobs_changes_next_to_nothing(level: str, tmp_path: Path) -> None:
    """The engine's logprobs are the trainer's to 1e-6, so bounds of one part in a thousand leave everything in."""
    weights = []
    for correction in ({}, {"is_correction_mask": (0.999, 1.001), "is_correction_level": level}):
        folder = tmp_path / str(len(weights))
        trainer = Trainer(recipe(folder, algorithm=correction, batch={"updates": 1}, evaluation={"episodes": 0}))
        trainer.fit()
        weights.append([p.detach().clone() for p in trainer.parts.model.parameters()])
    for one, other in zip(*weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
