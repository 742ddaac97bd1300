"""A person plays a game in the terminal: the same prompt, the same reading of the reply as for a model."""

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from rich.console import Console
from rich.text import Text

from agentrl import envs
from agentrl.config import PromptConfig
from agentrl.envs import TextEnv
from agentrl.errors import UserError, in_short
from agentrl.memory import PastTurn, make_memory
from agentrl.parsing import parse_action
from agentrl.prompting import Prompter
from agentrl.records import Message

HELP, QUIT = "?", "q"


def play(
    game_id: str, options: dict[str, Any], seed: int | None, style: str, show_prompt: bool, console: Console
) -> None:
    """Play one episode, until it ends, `q`, Ctrl-C or Ctrl-D.

    With `show_prompt` each turn shows the whole prompt; else the system message comes once, then the newest message.

    Raises:
        UserError: unknown game, option or style; the game broke.
    """
    try:
        _play(game_id, options, random.randrange(2**31) if seed is None else seed, style, show_prompt, console)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"game.id = {game_id}: the game broke: {in_short(error)}") from error


def _play(game_id: str, options: dict[str, Any], seed: int, style: str, show_prompt: bool, console: Console) -> None:
    config = PromptConfig(style=style)
    prompter, memory = Prompter(config, game_id, None), make_memory(config)
    with closing(envs.make(game_id, **options)) as game:
        observation, info = game.reset(seed=seed)
        memory.reset()
        _note(console, f"{game_id}, seed {seed}. {HELP} lists the actions, {QUIT} quits.")
        turns, total = 0, 0.0
        over = False
        while not over:
            legal = _legal(game, info)
            messages = prompter.messages(game, observation, memory, legal=legal)
            _show(console, messages if show_prompt or turns == 0 else messages[-1:])
            reply = _ask(console, legal, {**(game.actions or {}), **prompter.texts.actions})
            if reply is None:
                break
            action = parse_action(reply, legal, game.synonyms)
            valid = action is not None
            if action is None:
                action = game.default_action
                _note(console, f"That names no possible action: {action} is played.")
            memory.add(PastTurn(observation.scene, reply, action, valid))
            observation, reward, terminated, truncated, info = game.step(action)
            turns, total = turns + 1, total + float(reward)
            if reward:
                _note(console, f"Reward {float(reward):+g}")
            over = terminated or truncated or turns >= game.max_turns
    _note(console, _summary(turns, total, info) if over else f"Stopped after {_turns(turns)}, return {total:g}.")


def _legal(game: TextEnv, info: dict[str, Any]) -> tuple[str, ...] | None:
    narrowed = info.get("legal_actions")
    names = game.actions if narrowed is None else narrowed
    return None if names is None else tuple(names)


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


def _summary(turns: int, total: float, info: dict[str, Any]) -> str:
    success = info.get("success")
    word = "over" if success is None else "success" if success else "no success"
    return f"{word} after {_turns(turns)}, return {total:g}, progression {float(info.get('progression') or 0):.0%}."


def _turns(count: int) -> str:
    return f"{count} turn{'' if count == 1 else 's'}"


def _harmless(text: str) -> str:
    """Without control characters: a game's text must not move the cursor or recolour the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)
