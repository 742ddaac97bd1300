"""Who plays: the model, a uniformly random player, or the game's scripted player. All answer a list of game slots."""

from collections.abc import Sequence
from typing import Protocol

from agentrl.engines.base import Engine, Reply, Request, Sampling
from agentrl.envs import ScriptedPlayer, TextEnv
from agentrl.episode import GameSlot
from agentrl.errors import UserError, in_short
from agentrl.memory_kinds import SummaryMemory
from agentrl.seeding import key, uniforms


class Agent(Protocol):
    """Answers each slot's current prompt."""

    def act(self, slots: Sequence[GameSlot]) -> list[Reply]: ...


def styled_reply(slot: GameSlot, action: str) -> str:
    """What a player that only names its action answers in the words of the slot's prompt style.

    Where the memory carries notes, it carries on what there is, from the first scene on.
    """
    scene, mission = slot.observation.scene, slot.game.mission
    if isinstance(slot.memory, SummaryMemory):
        return slot.prompter.reply_for(action, scene, mission, slot.memory.notes or scene)
    return slot.prompter.reply_for(action, scene, mission)


class ModelAgent:
    """The model behind an engine. Draws are keyed by (seed, slot, episode, turn): the batch's make-up changes none.

    `stream` keeps the draws of training and evaluation apart.
    """

    def __init__(self, engine: Engine, sampling: Sampling, seed: int, stream: str = "sample") -> None:
        self.engine = engine
        self.sampling = sampling
        self.seed = seed
        self.stream = stream

    def act(self, slots: Sequence[GameSlot]) -> list[Reply]:
        return self.engine.generate([self._request(slot) for slot in slots])

    def _request(self, slot: GameSlot) -> Request:
        seed = key(self.stream, self.seed, slot.index, slot.episode, slot.turn)
        return Request(slot.prompt.messages, slot.prompt.ids, self.sampling, slot.legal, seed)


class RandomAgent:
    """A uniformly random legal action each turn."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def act(self, slots: Sequence[GameSlot]) -> list[Reply]:
        return [Reply(styled_reply(slot, self._action(slot))) for slot in slots]

    def _action(self, slot: GameSlot) -> str:
        if slot.legal is None:
            raise UserError(
                f"{slot.game_id} takes free text: there is no uniformly random player (evaluation.random: false)"
            )
        return random_action(slot.legal, self.seed, slot.index, slot.episode, slot.turn)


def random_action(legal: Sequence[str], seed: int, slot: int, episode: int, turn: int) -> str:
    """The choice of the uniformly random player of this seed, in a slot's episode and turn."""
    return legal[int(uniforms(key("random_player", seed, slot, episode, turn), 1)[0] * len(legal))]


class ScriptedAgent:
    """The game's own scripted player, started anew with each episode."""

    def __init__(self) -> None:
        self._players: dict[int, tuple[TextEnv, int, ScriptedPlayer]] = {}

    def act(self, slots: Sequence[GameSlot]) -> list[Reply]:
        return [Reply(styled_reply(slot, self._action(slot))) for slot in slots]

    def _action(self, slot: GameSlot) -> str:
        try:
            return self._player(slot)()
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"game.id = {slot.game_id}: its scripted player broke: {in_short(error)}") from error

    def _player(self, slot: GameSlot) -> ScriptedPlayer:
        game, episode, player = self._players.get(slot.index, (None, -1, None))
        if player is None or game is not slot.game or episode != slot.episode:
            player = slot.game.scripted_player()
            if player is None:
                raise UserError(f"game.id = {slot.game_id}: this game has no scripted player to imitate")
            self._players[slot.index] = (slot.game, slot.episode, player)
        return player
