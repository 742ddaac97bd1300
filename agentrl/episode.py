"""One running game: its episodes, memory and current prompt. Training and evaluation both play through it.

The slot owns the reset: a final observation reaches the bootstrap before the next episode begins. A game that raises is
closed and replaced; the turn keeps its place, marked with the error.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict
from zlib import crc32

from agentrl.engines.base import Reply
from agentrl.envs import Observation, TextEnv
from agentrl.memory import Memory, PastTurn
from agentrl.parsing import parse_action
from agentrl.prompting import Prompt, Prompter, PromptTooLong
from agentrl.records import Turn

RESET_TRIES = 3


class GameBroken(RuntimeError):
    """A game failed to start, several seeds in a row."""


@dataclass(slots=True)
class Episode:
    """What is known of a finished episode. `success` and `progression` are the game's own words."""

    game: str
    seed: int
    length: int
    game_return: float
    success: bool | None
    progression: float | None
    error: str | None
    invalid_turns: int = 0
    turns: list[Turn] = field(default_factory=list)


class PlayedTurn(TypedDict):
    """What replays a turn: the reply as text, and the action that was executed."""

    reply: str
    action: str
    valid: bool


class SlotState(TypedDict):
    """An unfinished episode is its seed plus its actions; replies rebuild the memory."""

    episode: int
    seed: int
    played: list[PlayedTurn]
    prompt_crc: int


class GameSlot:
    """Game number `index` of a batch.

    Args:
        make: makes the game.
        seeds: episode number -> game seed; None: no further episode.
        format_penalty: subtracted from the reward of a turn whose reply holds no legal action.
        keep_turns: hand whole episodes over in `Episode.turns`.
    """

    def __init__(
        self,
        index: int,
        game_id: str,
        make: Callable[[], TextEnv],
        prompter: Prompter,
        memory: Memory,
        seeds: Callable[[int], int | None],
        format_penalty: float = 0.0,
        keep_turns: bool = False,
    ) -> None:
        self.index = index
        self.game_id = game_id
        self.prompter = prompter
        self.memory = memory
        self.format_penalty = format_penalty
        self.keep_turns = keep_turns
        self.episode = -1
        self.failed_resets: list[Episode] = []
        self._make = make
        self._seeds = seeds
        self.game = make()

    def next_episode(self) -> bool:
        """Start the next episode; False if there is none.

        Raises:
            GameBroken: the game failed to reset `RESET_TRIES` times in a row.
        """
        for _ in range(RESET_TRIES):
            self.episode += 1
            seed = self._seeds(self.episode)
            if seed is None:
                return False
            try:
                self._begin(seed)
            except Exception as error:
                failure = error
                reason = f"reset: {_name(error)}"
                self.failed_resets.append(Episode(self.game_id, seed, 0, 0.0, None, None, reason))
                self._replace_game()
            else:
                return True
        raise GameBroken(f"{self.game_id} failed to reset {RESET_TRIES} times in a row: {_name(failure)}") from failure

    def play(self, reply: Reply) -> tuple[Turn, Episode | None]:
        """Play one turn. The next episode is not begun here: call `next_episode` when an `Episode` comes back."""
        turn = self._new_turn()
        turn.reply_ids, turn.reply_logprobs, turn.reply_legal = reply.ids, reply.logprobs, reply.legal
        turn.reply_text, turn.finish_reason, turn.policy_version = reply.text, reply.finish_reason, reply.policy_version
        action = parse_action(reply.text, self.legal, self.game.synonyms)
        turn.valid = action is not None
        turn.action = self.game.default_action if action is None else action
        scene = self.observation.scene
        try:
            self.observation, reward, turn.terminated, turn.truncated, info = self._step(turn.action)
        except Exception as error:
            self._replace_game()
            return turn, self._broken(turn, f"game: {_name(error)}")
        self._remember(scene, turn.reply_text, turn.action, turn.valid)
        self._return += reward
        turn.reward = reward if turn.valid else reward - self.format_penalty
        if not turn.terminated:
            self._build_prompt()
            if turn.truncated:
                turn.next_prompt_ids = self.prompt.ids
        if turn.terminated or turn.truncated:
            return turn, self._finish(turn, info)
        self._record(turn)
        return turn, None

    def prompt_too_long(self) -> tuple[Turn, Episode]:
        """The turn that cannot be played because its prompt, alone, is over budget (`self.overflow`)."""
        turn = self._new_turn()
        return turn, self._broken(turn, "prompt_too_long")

    @property
    def turn(self) -> int:
        """Number of the turn to be played next, from 0."""
        return len(self._played)

    def state(self) -> SlotState:
        return SlotState(episode=self.episode, seed=self.seed, played=list(self._played), prompt_crc=self._crc())

    def restore(self, state: SlotState) -> bool:
        """Replay an unfinished episode; False if the game did not come out where it was (it is not deterministic)."""
        self.episode = state["episode"]
        self._begin(state["seed"])
        for played in state["played"]:
            scene = self.observation.scene
            self.observation, reward, terminated, truncated, _ = self._step(played["action"])
            if terminated or truncated:
                self.next_episode()
                return False
            self._remember(scene, **played)
            self._return += reward
        self._build_prompt()
        return self._crc() == state["prompt_crc"]

    def close(self) -> None:
        self.game.close()

    def _begin(self, seed: int) -> None:
        self.observation, info = self.game.reset(seed=seed)
        self.legal = self._legal(info)
        self.seed = seed
        self._played: list[PlayedTurn] = []
        self._turns: list[Turn] = []
        self._return = 0.0
        self._invalid = 0
        self.memory.reset()
        self._build_prompt()

    def _step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.game.step(action)
        self.legal = self._legal(info)
        return observation, float(reward), bool(terminated), bool(truncated), info

    def _legal(self, info: dict[str, Any]) -> tuple[str, ...] | None:
        narrowed = info.get("legal_actions")
        names = self.game.actions if narrowed is None else narrowed
        return None if names is None else tuple(names)

    def _remember(self, scene: str, reply: str, action: str, valid: bool) -> None:
        self._played.append(PlayedTurn(reply=reply, action=action, valid=valid))
        self._invalid += not valid
        self.memory.add(PastTurn(scene, reply, action, valid))

    def _build_prompt(self) -> None:
        self.overflow = False
        try:
            self.prompt = self.prompter.build(self.game, self.observation, self.memory, self.legal)
        except PromptTooLong as error:
            self.overflow = True
            self.prompt = Prompt(error.messages, error.ids, 0)

    def _new_turn(self) -> Turn:
        return Turn(
            game=self.game_id,
            slot=self.index,
            episode=self.episode,
            turn=self.turn,
            seed=self.seed,
            prompt_ids=self.prompt.ids,
            messages=self.prompt.messages,
            dropped_turns=self.prompt.dropped_turns,
        )

    def _record(self, turn: Turn) -> None:
        if self.keep_turns:
            self._turns.append(turn)

    def _broken(self, turn: Turn, error: str) -> Episode:
        turn.error, turn.finish_reason, turn.reward = error, "error", 0.0
        return self._finish(turn, {})

    def _finish(self, turn: Turn, info: dict[str, Any]) -> Episode:
        self._record(turn)
        return Episode(
            game=self.game_id,
            seed=self.seed,
            length=turn.turn + 1,
            game_return=self._return,
            success=info.get("success"),
            progression=info.get("progression"),
            error=turn.error,
            invalid_turns=self._invalid,
            turns=self._turns,
        )

    def _replace_game(self) -> None:
        try:
            self.game.close()
        finally:
            self.game = self._make()

    def _crc(self) -> int:
        return crc32(" ".join(map(str, self.prompt.ids)).encode())


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
