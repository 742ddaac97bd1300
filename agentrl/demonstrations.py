"""Episodes that few_shot agents are shown: the scripted player's, of seeds that no benchmark plays."""

from contextlib import closing
from typing import Any

from agentrl import envs
from agentrl.errors import UserError
from agentrl.seeding import key

LONGEST = 1000
"""Observations and actions of all demonstrations together, as in BALROG (max_icl_history)."""


def demonstrations(game_id: str, options: dict[str, Any], count: int) -> list[list[tuple[str, str]]]:
    """`count` episodes as (scene, action) pairs; the same ones for a game whenever it is asked for.

    Of BabaIsAI, episodes of other tasks, one each: its own would give the solution away.

    Raises:
        UserError: the game has no scripted player.
    """
    found: list[list[tuple[str, str]]] = []
    left = LONGEST // 2
    for number in range(count):
        episode = _episode(_shown_for(game_id, number), options, key("demonstration", number) % 2**30)[:left]
        left -= len(episode)
        if episode:
            found.append(episode)
    return found


def _shown_for(game_id: str, number: int) -> str:
    name, _, task = game_id.partition("/")
    if name != "babaisai":
        return game_id
    others = [other for other in envs.games()[name].tasks if other != task]
    return f"{name}/{others[key('demonstration', number, 1) % len(others)]}"


def _episode(game_id: str, options: dict[str, Any], seed: int) -> list[tuple[str, str]]:
    with closing(envs.make(game_id, **options)) as game:
        observation, _ = game.reset(seed=seed)
        player = game.scripted_player()
        if player is None:
            raise UserError(f"--agent few_shot: {game_id} has no scripted player to learn from; choose another style")
        played: list[tuple[str, str]] = []
        over = False
        while not over and len(played) < game.max_turns:
            action = player()
            played.append((observation.scene, action))
            observation, _, terminated, truncated, _ = game.step(action)
            over = terminated or truncated
    return played
