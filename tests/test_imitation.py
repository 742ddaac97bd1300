"""Supervised warm start: it learns what was shown, over the same ids and legal sets that are sampled from."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from games import make_slot
from games import tokenizer as game_tokenizer
from tiny import ACTIONS, naive_logprobs, random_turns, tiny_config, tiny_model, tokenizer

from agentrl.constrain import ActionConstraint
from agentrl.engines.base import Request, Sampling
from agentrl.engines.transformers import TransformersEngine
from agentrl.errors import UserError
from agentrl.imitation import demonstrate, imitate
from agentrl.policy import ActorCritic
from agentrl.records import FREE, Turn

END = tokenizer().eos_token_id


def config(micro_batch_turns: int = 32, seed: int = 0, **section: Any) -> Any:
    optimizer = {"micro_batch_turns": micro_batch_turns}
    return tiny_config(imitation={"episodes": 1, **section}, optimizer=optimizer, seed=seed)


def shown(count: int = 24) -> list[Turn]:
    """The action depends on the prompt's last id alone."""
    constraint = ActionConstraint(tokenizer(), END, after_marker=False)
    turns = []
    for i in range(count):
        prompt = [7 + i % 5, 30 + i, 60 + i % len(ACTIONS)]
        ids = [*constraint.encode(ACTIONS[i % len(ACTIONS)], ACTIONS[i % len(ACTIONS)]), END]
        cursor, legal = constraint.cursor(ACTIONS), []
        for token in ids:
            legal.append(cursor.allowed)
            cursor.advance(token)
        turns.append(Turn("tiny", 0, 0, i, 0, prompt, ids, [0.0] * len(ids), legal))
    return turns


def mean_loss(model: ActorCritic, turns: list[Turn], temperature: float = 1.0) -> float:
    """Over tokens with a choice."""
    return -float(
        np.mean(
            [
                logprob
                for t in turns
                for logprob, ids in zip(
                    naive_logprobs(model.lm, t.prompt_ids, t.reply_ids, t.reply_legal, temperature),
                    t.reply_legal,
                    strict=True,
                )
                if len(ids) != 1
            ]
        )
    )


def test_the_loss_falls_and_the_shown_actions_are_what_is_sampled() -> None:
    model, turns, losses = tiny_model(), shown(), []
    last = imitate(model, turns, config(epochs=30, batch_turns=8, lr=0.01), losses.append)
    assert len(losses) == 30 * 3
    assert losses[0] > 1.0
    assert last == pytest.approx(np.mean(losses[-3:]))
    assert last < 0.1 * losses[0]
    assert mean_loss(model, turns) < 0.1 * losses[0]
    constraint = ActionConstraint(tokenizer(), END, after_marker=False)
    engine = TransformersEngine(model.lm, tokenizer(), [END], constraint)
    replies = engine.generate([Request([], t.prompt_ids, Sampling(0.0, 9), ACTIONS) for t in turns])
    assert [reply.ids for reply in replies] == [turn.reply_ids for turn in turns]
    assert not model.training


def test_the_first_loss_is_the_mean_over_tokens_with_a_choice() -> None:
    """Forced ids enter neither the sum nor the count; turns that broke neither."""
    model, turns = tiny_model(), random_turns(3, errors=[4])
    losses: list[float] = []
    imitate(model, turns, config(epochs=1, batch_turns=100), losses.append)
    assert losses == pytest.approx([mean_loss(tiny_model(), [turn for turn in turns if not turn.error])], rel=1e-5)


def test_c05_what_is_learnt_is_the_distribution_at_the_sampling_temperature() -> None:
    turns, losses = shown(), []
    warm = tiny_config(imitation={"episodes": 1, "epochs": 1, "batch_turns": 100}, engine={"temperature": 2.0})
    imitate(tiny_model(), turns, warm, losses.append)
    assert losses == pytest.approx([mean_loss(tiny_model(), turns, 2.0)], rel=1e-5)
    assert losses != pytest.approx([mean_loss(tiny_model(), turns)], rel=1e-2)


def test_where_all_is_forced_nothing_is_learnt() -> None:
    turns = random_turns(3)
    for turn in turns:
        turn.reply_legal = [(token,) for token in turn.reply_ids]
    assert imitate(tiny_model(), turns, config(epochs=2)) == 0.0


def test_only_the_policy_is_trained() -> None:
    model = tiny_model(separate_critic=True)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    imitate(model, shown(), config(epochs=1))
    policy = {name for name, _ in model.policy_parameters()}
    assert all(torch.equal(p, before[name]) == (name not in policy) for name, p in model.named_parameters())


def test_c16_neither_the_micro_batch_nor_the_call_changes_what_is_learnt() -> None:
    results = []
    for size in (1, 5, 32, 32):
        model = tiny_model()
        loss = imitate(model, shown(), config(size, epochs=2, batch_turns=12, lr=1e-3), autocast=nullcontext)
        results.append((loss, torch.cat([p.detach().flatten() for p in model.parameters()])))
    for loss, weights in results:
        assert loss == pytest.approx(results[-1][0], rel=1e-5)
        # Adam divides by the gradient's size: where that is 0 but for rounding, its sign is an accident.
        assert float((weights - results[-1][1]).norm() / weights.norm()) < 1e-4
    assert results[2][0] == results[3][0]
    assert torch.equal(results[2][1], results[3][1])
    other = tiny_model()
    imitate(other, shown(), config(seed=1, epochs=2, batch_turns=12, lr=1e-3))
    assert not torch.equal(torch.cat([p.detach().flatten() for p in other.parameters()]), results[-1][1])


def test_autocast_is_what_the_model_runs_under() -> None:
    exact, half = (
        imitate(tiny_model(), shown(), config(epochs=1), autocast=autocast)
        for autocast in (nullcontext, lambda: torch.autocast("cpu", torch.bfloat16))
    )
    assert exact != half
    assert exact == pytest.approx(half, abs=0.1)


@pytest.mark.parametrize("style", ["terse", "cot"])
@pytest.mark.parametrize("constrained", [True, False])
def test_demonstrations_follow_the_trie(style: str, constrained: bool) -> None:
    """Each shown id is one that the sampler may take there, with the very legal set that the sampler would report."""
    end = game_tokenizer().eos_token_id
    constraint = ActionConstraint(game_tokenizer(), end, after_marker=style == "cot") if constrained else None

    def make(index: int, seeds: Any, *, evaluation: bool) -> Any:
        return make_slot(index, seeds, evaluation, options={"narrow": True}, prompt={"style": style})

    found = demonstrate(make, game_tokenizer(), end, constraint, episodes=3, seed=0)
    assert found.success == 1.0
    assert len(found.turns) == 12
    for turn in found.turns:
        assert game_tokenizer().decode(turn.reply_ids, skip_special_tokens=True) == turn.reply_text
        assert turn.reply_ids[-1] == end
        assert len(turn.reply_ids) == len(turn.reply_legal) == len(turn.reply_logprobs)
        assert turn.valid
        free = [legal == FREE for legal in turn.reply_legal]
        assert not constrained or not free[-1]
        assert all(free) == (not constrained)
        assert all(ids == FREE or token in ids for token, ids in zip(turn.reply_ids, turn.reply_legal, strict=True))
        if style == "cot" and constrained:
            marker = game_tokenizer().decode([t for t, is_free in zip(turn.reply_ids, free, strict=True) if is_free])
            assert marker.endswith("ACTION:")


def test_the_shown_ids_are_the_tries_own_where_the_tokenizer_joins_across_the_marker() -> None:
    """A tokenizer may write ": go" as one token in running text; after the marker the sampler never draws it."""

    class Joining:
        """Encodes a word and the colon before it as one id, as a tokenizer without pre-splitting does."""

        def encode(self, text: str, add_special_tokens: bool) -> list[int]:
            return [99] * text.count(": go") + [ord(c) for c in text.replace(": go", "")]

        def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
            return "".join(map(chr, ids))

    constraint = ActionConstraint(Joining(), 0, after_marker=True)  # type: ignore[arg-type]
    assert constraint.encode("ACTION: go", "go") == [*map(ord, "ACTION: go")]
    cursor = constraint.cursor(("go",))
    for token in [*constraint.encode("ACTION: go", "go"), 0]:
        assert cursor.allowed == FREE or token in cursor.allowed
        cursor.advance(token)


def test_a_scripted_reply_that_is_not_legal_is_named() -> None:
    end = game_tokenizer().eos_token_id
    constraint = ActionConstraint(game_tokenizer(), end, after_marker=False)

    def make(index: int, seeds: Any, *, evaluation: bool) -> Any:
        slot = make_slot(index, seeds, evaluation)
        slot.game.scripted_player = lambda: lambda: "yellow"  # type: ignore[method-assign]
        return slot

    with pytest.raises(UserError, match=r"fake/echo: the scripted player's reply 'yellow' is not a legal action"):
        demonstrate(make, game_tokenizer(), end, constraint, episodes=1, seed=0)
