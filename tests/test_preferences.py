"""Pairs from stored turns, and what learns from them: DPO by hand and end to end, filtered imitation."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import ACTIONS, naive_logprobs, random_turns, tiny_config, tiny_model, tokenizer
from typer.testing import CliRunner

from agentrl.cli import app
from agentrl.constrain import ActionConstraint
from agentrl.dpo import dpo_loss, reply_logprobs, train_dpo
from agentrl.errors import UserError
from agentrl.imitation import imitate
from agentrl.preferences import Pair, best_episodes, find_pairs, held_out, read_pairs, stored_turns, write_pairs
from agentrl.records import Turn, TurnBatch
from agentrl.turn_files import write_turns

END = tokenizer().eos_token_id


def answer(prompt: int, action: str, **known: object) -> Turn:
    """A turn whose reply is the action, over the legal ids."""
    constraint = ActionConstraint(tokenizer(), END, after_marker=False)
    ids, cursor, legal = [*constraint.encode(action, action), END], constraint.cursor(ACTIONS), []
    for token in ids:
        legal.append(cursor.allowed)
        cursor.advance(token)
    turn = Turn("tiny", 0, 0, 0, 0, [7, 30, prompt], ids, [0.0] * len(ids), legal, action=action, reply_text=action)
    return replace(turn, **known)  # type: ignore[arg-type]


def test_replies_to_one_prompt_are_paired_best_with_worst() -> None:
    turns = [
        answer(1, "go", advantage=0.5),
        answer(1, "drop it", advantage=-0.5),
        answer(1, "toggle", advantage=0.1),
        answer(1, "go back", advantage=0.0),
        answer(2, "go", advantage=9.0),  # the only answer to its prompt
        answer(3, "go", advantage=1.0),
        answer(3, "go", advantage=-1.0),  # the same reply: nothing to prefer
        answer(4, "go", advantage=1.0, error="raised: x"),
        answer(4, "toggle", advantage=-1.0),
    ]
    found = [(pair.preferred.action, pair.other.action) for pair in find_pairs(turns)]
    assert found == [("go", "drop it"), ("toggle", "go back")]
    assert [(p.preferred.action, p.other.action) for p in find_pairs(turns, margin=0.2)] == [("go", "drop it")]
    assert len(find_pairs(turns, most_of_a_prompt=1)) == 1


def test_turns_of_a_game_are_paired_whatever_their_prompts() -> None:
    turns = [answer(i, "go", reward=float(i)) for i in range(4)] + [answer(9, "go", reward=7.0, game="other")]
    pairs = find_pairs(turns, by="reward", between="turns")
    assert [(pair.preferred.reward, pair.other.reward) for pair in pairs] == [(3.0, 0.0), (2.0, 1.0)]


def test_a_return_is_of_the_rest_of_an_episode_that_is_there() -> None:
    """Rewards 1, 2 of an episode that ends: returns 1 + 0.5 * 2 and 2. One cut by a batch has none."""
    ended = [answer(1, "go", turn=0, reward=1.0), answer(2, "go", turn=1, reward=2.0, terminated=True)]
    cut = [answer(1, "toggle", slot=1, turn=0, reward=9.0), answer(2, "toggle", slot=1, turn=1)]
    lost = [answer(1, "drop it", slot=2, turn=0), answer(2, "drop it", slot=2, turn=1, reward=1.0, truncated=True)]
    gap = [answer(1, "go back", slot=3, turn=0), answer(2, "go back", slot=3, turn=2, reward=-1.0, truncated=True)]
    pairs = find_pairs([*ended, *cut, *lost, *gap], by="return", gamma_step=0.5)
    found = {(pair.preferred.action, pair.other.action, pair.preferred.turn) for pair in pairs}
    # Turn 0: 2.0 and 0.5. Turn 1 and 2 share a prompt: 2.0, 1.0, -1.0, of which the middle one is left over.
    assert found == {("go", "drop it", 0), ("go", "go back", 1)}


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_pairs_survive_a_file(suffix: str, tmp_path: Path) -> None:
    pairs = [Pair(answer(1, "go"), answer(1, "toggle")), Pair(answer(2, "drop it"), answer(2, "go"))]
    write_pairs(tmp_path / f"p{suffix}", pairs)
    assert read_pairs(tmp_path / f"p{suffix}") == pairs


def test_files_without_pairs_are_one_line(tmp_path: Path) -> None:
    write_turns(tmp_path / "odd.jsonl", [answer(1, "go")])
    with pytest.raises(UserError, match=r"odd.jsonl: 1 turns; a file of pairs holds two a pair"):
        read_pairs(tmp_path / "odd.jsonl")
    with pytest.raises(UserError, match=r"no.jsonl: cannot be read"):
        read_pairs(tmp_path / "no.jsonl")
    with pytest.raises(UserError, match=r"tracking.turns_every = 1"):
        stored_turns([tmp_path])
    with pytest.raises(UserError, match="4 pairs: 5 are needed"):
        held_out(4)


def test_the_best_episodes_are_whole_and_of_equal_ones_the_shorter() -> None:
    def episode(slot: int, rewards: list[float], **end: bool) -> list[Turn]:
        turns = [
            answer(1, "go", slot=slot, turn=t, reward=9.0, reward_parts={"game": r}) for t, r in enumerate(rewards)
        ]
        return [*turns[:-1], replace(turns[-1], **end)]

    turns = [
        *episode(0, [0.0, 1.0], terminated=True),
        *episode(1, [1.0], terminated=True),
        *episode(2, [0.0], truncated=True),
        *episode(3, [5.0]),  # cut by the batch
        *episode(4, [0.0, 0.5], terminated=True)[1:],  # its first turn is not here
    ]
    assert [(turn.slot, turn.turn) for turn in best_episodes(turns, 0.34)] == [(1, 0)]
    assert [(turn.slot, turn.turn) for turn in best_episodes(turns, 0.67)] == [(1, 0), (0, 0), (0, 1)]
    with pytest.raises(UserError, match="no whole episode among 1 turns"):
        best_episodes(episode(3, [5.0]), 1.0)


def test_the_loss_by_hand() -> None:
    """Preferred -1, other -2, under the reference they were equal: -log sigmoid(0.5 * 1)."""
    loss = dpo_loss(torch.tensor([-1.0]), torch.tensor([-2.0]), torch.tensor([0.0]), beta=0.5)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-0.5)))
    assert dpo_loss(torch.tensor([-1.0]), torch.tensor([-2.0]), torch.tensor([1.0]), 0.5).item() == pytest.approx(
        math.log(2)
    )


def test_the_logprob_of_a_reply_is_that_of_its_tokens() -> None:
    model, turns = tiny_model(), random_turns(3)
    batch = TurnBatch.from_turns(turns)
    which = np.array([5, 0, 11, 3])
    with torch.no_grad():
        found = reply_logprobs(model, batch, which, 0.7).tolist()
    expected = [
        sum(naive_logprobs(model.lm, t.prompt_ids, t.reply_ids, t.reply_legal, 0.7)) for t in (turns[i] for i in which)
    ]
    assert found == pytest.approx(expected, abs=1e-4)


def test_dpo_raises_the_preferred_share_and_leaves_the_values() -> None:
    """On every prompt the action after the likely one is preferred."""
    pairs = []
    for prompt in range(40):
        good, bad = ACTIONS[prompt % 4], ACTIONS[4 + prompt % 4]
        pairs.append(Pair(answer(prompt, good), answer(prompt, bad)))
    model = tiny_model()
    head = [parameter.clone() for _, parameter in model.value_parameters()]
    figures = train_dpo(model, pairs, tiny_config(), beta=0.5, epochs=6, lr=3e-3, batch_pairs=8)
    assert figures["held_out_pairs"] == 8
    assert figures["preferred_share"] > figures["preferred_share_before"]
    assert figures["preferred_share"] >= 0.9
    assert all(torch.equal(a, b) for a, (_, b) in zip(head, model.value_parameters(), strict=True))


def test_the_micro_batch_does_not_change_dpo() -> None:
    pairs = [Pair(answer(p, ACTIONS[p % 4]), answer(p, ACTIONS[4 + p % 3])) for p in range(12)]
    losses: dict[int, list[float]] = {2: [], 32: []}
    for size, told in losses.items():
        config = tiny_config(optimizer={"micro_batch_turns": size})
        train_dpo(tiny_model(), pairs, config, epochs=2, lr=1e-3, batch_pairs=8, on_step=told.append)
    assert len(losses[2]) == 4
    assert losses[2] == pytest.approx(losses[32], abs=1e-4)


def test_pairs_of_different_prompts_are_refused() -> None:
    pairs = [Pair(answer(1, "go"), answer(2, "toggle"))] * 6
    with pytest.raises(UserError, match="--between replies"):
        train_dpo(tiny_model(), pairs, tiny_config())


def test_filtered_imitation_learns_the_best_episodes() -> None:
    """Of episodes in which the same prompt was answered rightly and wrongly, the right answers are what is learned."""
    turns = []
    for slot in range(32):
        action = ACTIONS[slot % 8]
        reward = float(action == "toggle")
        turns.append(answer(5, action, slot=slot, reward=reward, reward_parts={"game": reward}, terminated=True))
    model, batch = tiny_model(), TurnBatch.from_turns([answer(5, action) for action in ACTIONS])
    kept = best_episodes(turns, 0.125)
    assert {turn.action for turn in kept} == {"toggle"}
    imitate(model, kept, tiny_config(imitation={"epochs": 30, "lr": 3e-3}))
    with torch.no_grad():
        chances = reply_logprobs(model, batch, np.arange(8), 1.0).exp()
    assert chances[ACTIONS.index("toggle")] > 0.9


def test_the_commands_end_to_end(tmp_path: Path) -> None:
    """A run that keeps its turns, pairs of them, DPO, a reward model, filtered imitation: each on what came before."""
    runner = CliRunner()

    def run(*arguments: str) -> str:
        result = runner.invoke(app, list(arguments))
        assert result.exit_code == 0, result.output + str(result.exception)
        return result.stdout

    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"name: kept\noutput_dir: {tmp_path}\ngame: {{id: toytext/blackjack}}\nprompt: {{style: terse}}\n"
        "model: {new: {hidden_size: 16, layers: 1, heads: 2, kv_heads: 1, ffn_size: 32}}\n"
        "engine: {constrain: actions, max_reply_tokens: 8}\n"
        "batch: {num_envs: 16, turns_per_env: 16, updates: 2}\n"
        "evaluation: {episodes: 4, greedy: false, random: false}\n"
        "tracking: {backends: [], turns_every: 1}\n"
    )
    run("train", str(recipe))
    kept, pairs = tmp_path / "kept", tmp_path / "pairs.parquet"
    assert "pairs of 512 turns" in run("preferences", str(kept), "--out", str(pairs))
    model = next((kept / "checkpoints").glob("step-*"))
    told = run(
        *("dpo", str(recipe), f"--model.path={model}", "--pairs", str(pairs), "--out", str(tmp_path / "dpo")),
        *("--lr", "1e-3", "--epochs", "2", "--batch-pairs", "8"),
    )
    figures = json.loads(told)
    assert {"before", "dpo", "after", "settings"} <= figures.keys()
    assert (tmp_path / "dpo" / "model.safetensors").is_file()
    between = tmp_path / "turns.parquet"
    run("preferences", str(kept), "--out", str(between), "--by", "return", "--between", "turns")
    told = run("train-reward", "--pairs", str(between), "--model", str(model), "--out", str(tmp_path / "reward"))
    assert json.loads(told)["pairs"] > 10
    told = run(
        *("imitate", str(recipe), f"--model.path={model}", "--from", str(kept), "--best", "0.2"),
        *("--out", str(tmp_path / "filtered")),
    )
    assert json.loads(told)["imitation"]["turns"] > 0
    refused = runner.invoke(app, ["preferences", str(kept), "--out", str(pairs), "--by", "advantge"])
    assert refused.exit_code == 2
    assert "did you mean advantage" in refused.output
