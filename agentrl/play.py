"""A person plays a game in the terminal through the slot that a model plays through: what it is shown, is shown."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from agentrl import envs
from agentrl.config import Config, ModelConfig
from agentrl.engines.base import Reply
from agentrl.episode import Episode, GameSlot
from agentrl.errors import UserError
from agentrl.memory import make_memory
from agentrl.records import Message
from agentrl.trajectory import make_prompter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

HELP, QUIT = "?", "q"


def play(config: Config, seed: int | None, show_prompt: bool, console: Console) -> None:
    """Play one episode of the config's game, until it ends, `q`, Ctrl-C or Ctrl-D.

    With `show_prompt` each turn shows the whole prompt; else the first one comes whole, then the newest message alone.
    The model's tokenizer takes part where `model.path` is a folder that has one: it decides which past turns fit
    `prompt.max_prompt_tokens`, and which words are its control tokens. Without it, nothing is dropped or cut.

    Raises:
        UserError: unknown game, option, style or memory; a model without chat template; the game broke.
    """
    game = config.game
    envs.check(game.id, **game.options)
    seed = random.randrange(2**31) if seed is None else seed
    tokenizer = _tokenizer(config.model)
    slot = GameSlot(
        0,
        game.id,
        lambda: envs.make(game.id, **game.options),
        make_prompter(config, tokenizer),
        make_memory(config.prompt),
        lambda episode: seed if episode == 0 else None,
    )
    with closing(slot):
        if not slot.next_episode():
            raise _broken(slot.failed_resets[0])
        _note(console, f"{game.id}, seed {seed}. {HELP} lists the actions, {QUIT} quits.")
        if tokenizer is None and config.model.path is not None:
            _note(console, f"model.path = {config.model.path}: no tokenizer there to count prompt tokens with.")
        _play(slot, show_prompt, console)


def _play(slot: GameSlot, show_prompt: bool, console: Console) -> None:
    total, episode = 0.0, None
    while episode is None:
        prompt = slot.prompt
        if prompt.dropped_turns:
            _note(console, f"Over prompt.max_prompt_tokens: without the oldest {_turns(prompt.dropped_turns)}.")
        _show(console, prompt.messages if show_prompt or slot.turn == 0 else prompt.messages[-1:])
        if slot.overflow:
            _note(console, "Over prompt.max_prompt_tokens without any past turn: here a model's episode ends.")
            break
        line = _ask(console, slot.legal, {**(slot.game.actions or {}), **slot.prompter.texts.actions})
        if line is None:
            break
        turn, episode = slot.play(Reply(line))
        if turn.error and episode:
            raise _broken(episode)
        if not turn.valid:
            _note(console, f"That names no possible action: {turn.action} is played.")
        if turn.reward:
            _note(console, f"Reward {turn.reward:+g}")
        total += turn.reward
    _note(console, _summary(episode) if episode else f"Stopped after {_turns(slot.turn)}, return {total:g}.")


def _tokenizer(model: ModelConfig) -> PreTrainedTokenizerBase | None:
    """The recipe's model's, if it lies here: nothing is downloaded for a person's game."""
    if model.path is None or not any(Path(model.path).glob("tokenizer*")):
        return None
    from agentrl.policy import load_tokenizer  # seconds of imports, which a game without a model is spared

    return load_tokenizer(model.path, model.trust_remote_code)


def _broken(episode: Episode) -> UserError:
    return UserError(f"game.id = {episode.game}: the game broke: {(episode.error or '').removeprefix('raised: ')}")


def _ask(console: Console, legal: Sequence[str] | None, meanings: Mapping[str, str]) -> str | None:
    """A reply; None to stop. Blank lines are not sent."""
    while True:
        try:
            line = console.input("[bold]> [/]").strip()
        except (EOFError, KeyboardInterrupt):
            console.print()
            return None
        if line and (line not in (HELP, QUIT) or line in (legal or ())):
            return line
        if line == QUIT:
            return None
        if line == HELP:
            names = "any text" if legal is None else "\n".join(f"{name}: {meanings.get(name, '')}" for name in legal)
            _note(console, names)


def _show(console: Console, messages: Sequence[Message]) -> None:
    for message in messages:
        console.rule(Text(message["role"], style="dim"), align="left", style="dim")
        console.print(Text(_harmless(message["content"])))


def _note(console: Console, text: str) -> None:
    console.print(Text(_harmless(text), style="cyan"))


def _summary(episode: Episode) -> str:
    word = "over" if episode.success is None else "success" if episode.success else "no success"
    progression = episode.progression or 0
    summary = f"{word} after {_turns(episode.length)}, return {episode.game_return:g}, progression {progression:.0%}."
    if episode.achievements is None:
        return summary
    names = f": {', '.join(episode.achievements)}" if episode.achievements else ""
    return f"{summary}\n{len(episode.achievements)} of {len(episode.achievable)} achievements{names}."


def _turns(count: int) -> str:
    return f"{count} turn{'' if count == 1 else 's'}"


def _harmless(text: str) -> str:
    """Without control characters: a game's text must not move the cursor or recolour the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)
