"""Turns for the page: episodes that were really played, and what a hostile game or model would write."""

import random
from typing import Any

from agentrl import envs
from agentrl.records import Message, Turn

HOSTILE = (
    "<script>window.pwned = 1</script>",
    "</script><img src=x onerror='window.pwned = 2'>",
    '"}]);window.pwned = 3;//',
    "\u2028window.pwned = 4\u2029",
    "\x1b[31mred\x1b[2J\x07\x00 \u202egnp.exe",
    "${window.pwned = 5}`'\\",
    "<!--<script>",
)


def played(game_id: str, seed: int, most: int = 400, slot: int = 0, **options: Any) -> list[Turn]:
    """An episode of uniformly random actions, as the toolkit would have kept it; it may be cut after `most` turns."""
    game = envs.make(game_id, **options)
    draw = random.Random(seed)
    scene = game.reset(seed=seed)[0].scene
    turns: list[Turn] = []
    while len(turns) < most:
        action = draw.choice(list(game.actions or {"": ""}))
        past: list[Message] = []
        if turns:
            past = [turns[-1].messages[-1], {"role": "assistant", "content": turns[-1].reply_text}]
        turn = Turn(game_id, slot, 0, len(turns), seed, [1, 2], action=action, reply_text=action)
        turn.messages = [{"role": "system", "content": "Rules."}, *past, {"role": "user", "content": scene}]
        found, reward, turn.terminated, turn.truncated, _ = game.step(action)
        scene, turn.reward = found.scene, float(reward)
        turn.reward_parts = {"game": turn.reward}
        turns.append(turn)
        if turn.terminated or turn.truncated:
            break
    game.close()
    return turns


def hostile_turns(seed: int = 0) -> list[Turn]:
    """An episode in which everything that can hold text holds something evil, a line of a megabyte, too."""
    turns = []
    for number, evil in enumerate(HOSTILE):
        turn = Turn(f"evil{HOSTILE[0]}", 0, 0, number, seed, [1], [7, 8], [-0.5, -2.0], [(7, 9), ()])
        turn.messages = [
            {"role": evil, "content": evil},
            {"role": "user", "content": evil + ("x" * 1_000_000 if number == 0 else "")},
        ]
        turn.reply_text, turn.action, turn.finish_reason = evil, evil, "length"
        turn.notes, turn.reward_parts = {evil: evil, "__proto__": evil}, {evil: 1.0, "game": 0.0}
        turn.reward, turn.valid = 1.0, False
        turns.append(turn)
    turns[-1].error = HOSTILE[0]
    return turns
