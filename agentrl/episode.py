"""One running game: its episodes, memory and current prompt. Training and evaluation both play through it.

The slot owns the reset: a final observation reaches the bootstrap before the next episode begins. A game that raises,
or answers what no game may answer, or in a worker process dies, hangs or takes too much memory, is closed and replaced;
the turn keeps its place, marked with the error.
"""

from collections.abc import Callable
from contextlib import suppress
from zlib import crc32

from agentrl import answers, faults
from agentrl.engines.base import Reply
from agentrl.envs import Observation, TextEnv
from agentrl.episode_records import Episode as Episode
from agentrl.episode_records import PlayedTurn as PlayedTurn
from agentrl.episode_records import SlotState as SlotState
from agentrl.errors import UserError
from agentrl.faults import ENGINE, PROMPT_TOO_LONG, GameFault, fault_of
from agentrl.memory import Memory, PastTurn
from agentrl.prompting import Prompt, Prompter, PromptTooLong
from agentrl.records import Turn
from agentrl.remote import RemoteGame
from agentrl.rewards import TurnFacts, TurnTerms
from agentrl.trajectory import TrajectoryPrompter

RESET_TRIES = 3

GAME_ERRORS = (Exception, SystemExit)
"""A game that leaves the process by sys.exit must not take the run with it."""

OWN_FILES = (__file__, answers.__file__)
"""An error raised in them says what the game answered. Of any other error, the place is told too."""


class GameBroken(UserError):
    """A game failed to start, several seeds in a row."""


class GameSlot:
    """Game number `index` of a batch.

    Args:
        make: makes the game; called when it is first needed, and again after it broke.
        seeds: episode number -> game seed; None: no further episode.
        format_penalty: subtracted from the reward of a turn whose reply holds no legal action.
        terms: what a turn is paid beside the game's own reward.
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
        terms: TurnTerms | None = None,
    ) -> None:
        self.index = index
        self.game_id = game_id
        self.prompter = prompter
        self.memory = memory
        self.format_penalty = format_penalty
        self.keep_turns = keep_turns
        self.terms = terms
        self.episode = -1
        self.failed_resets: list[Episode] = []
        self._make = make
        self._seeds = seeds
        self._trajectory = prompter if isinstance(prompter, TrajectoryPrompter) else None
        self._game: TextEnv | None = None

    def begin_episode(self) -> None:
        """Let a game in a worker process begin its next episode; `next_episode` waits for it."""
        seed = self._seeds(self.episode + 1)
        if seed is not None:
            with suppress(*GAME_ERRORS):  # `next_episode` meets the same error
                if isinstance(self.game, RemoteGame):
                    self.game.begin_reset(seed)

    def begin_turn(self, reply: Reply) -> None:
        """Let a game in a worker process play a reply; `play` waits for its answer."""
        with suppress(*GAME_ERRORS):
            if isinstance(self._game, RemoteGame) and reply.error is None:
                self._game.begin_step(self._action(reply)[0])

    @property
    def game(self) -> TextEnv:
        if self._game is None:
            self._game = self._make()
        return self._game

    def next_episode(self) -> bool:
        """Start the next episode; False if there is none. `failed_resets` are those that failed on the way.

        Raises:
            GameBroken: the game failed to reset `RESET_TRIES` times in a row.
        """
        self.failed_resets = []
        for _ in range(RESET_TRIES):
            self.episode += 1
            seed = self._seeds(self.episode)
            if seed is None:
                return False
            try:
                self._begin(seed)
            except UserError:
                raise
            except GAME_ERRORS as error:
                fault = fault_of(error, *OWN_FILES)
                faults.log(fault, f"{self.game_id}, reset with seed {seed}")
                self.failed_resets.append(Episode(self.game_id, seed, 0, 0.0, None, None, f"reset: {fault}"))
                self.close()
            else:
                return True
        raise GameBroken(f"{self.game_id} failed to reset {RESET_TRIES} times in a row: {fault}")

    def play(self, reply: Reply) -> tuple[Turn, Episode | None]:
        """Play one turn. The next episode is not begun here: call `next_episode` when an `Episode` comes back.

        A reply that is an error breaks the turn, and with it the episode; the game is as sound as before.
        """
        turn = self._new_turn()
        if reply.error is not None:
            lost = GameFault(ENGINE, reply.error)
            faults.log(lost, f"{self.game_id}, seed {self.seed}, turn {turn.turn}")
            return turn, self._broken(turn, str(lost))
        turn.reply_ids, turn.reply_logprobs, turn.reply_legal = reply.ids, reply.logprobs, reply.legal
        turn.reply_text, turn.finish_reason, turn.policy_version = reply.text, reply.finish_reason, reply.policy_version
        try:
            turn.action, turn.valid = self._action(reply)
            played = PlayedTurn(reply=reply.text, action=turn.action, valid=turn.valid)
            if self._trajectory:
                played["ids"] = reply.ids
            if self.terms:
                played["tokens"] = len(reply.ids)
            before = self.observation
            answer = self._step(played)
            if not answer.terminated:
                self._build_prompt()
        except UserError:
            raise
        except GAME_ERRORS as error:
            fault = fault_of(error, *OWN_FILES)
            faults.log(fault, f"{self.game_id}, seed {self.seed}, turn {turn.turn}, action {turn.action[:80]!r}")
            self.close()
            return turn, self._broken(turn, str(fault))
        turn.terminated, turn.truncated = answer.terminated, answer.truncated or self._is_full()
        turn.reward_parts = {"game": answer.reward}
        if self.format_penalty and not turn.valid:
            turn.reward_parts["format"] = -self.format_penalty
        if self.terms:
            self._tell_terms(played, before, answer, turn.truncated)
            turn.reward_parts |= self.terms.score(self._facts)
        turn.reward = sum(turn.reward_parts.values())
        if turn.truncated and not turn.terminated:
            turn.next_prompt_ids = self.prompt.ids
        if turn.terminated or turn.truncated:
            cut = not (answer.terminated or answer.truncated)
            return turn, self._finish(turn, answer.success, answer.progression, cut)
        return turn, None

    def prompt_too_long(self) -> tuple[Turn, Episode]:
        """The turn that cannot be played because its prompt, alone, is over budget (`self.overflow`)."""
        turn = self._new_turn()
        why = f"no past turn, and still over prompt.max_prompt_tokens = {self.prompter.budget}: raise it"
        faults.log(GameFault(PROMPT_TOO_LONG, why), f"{self.game_id}, seed {self.seed}, turn {turn.turn}")
        return turn, self._broken(turn, PROMPT_TOO_LONG)

    @property
    def turn(self) -> int:
        """Number of the turn to be played next, from 0."""
        return len(self._played)

    def state(self) -> SlotState:
        return SlotState(episode=self.episode, seed=self.seed, played=list(self._played), prompt_crc=self._crc())

    def restore(self, state: SlotState) -> bool:
        """Replay an unfinished episode; False if the game did not come out where it was (it is not deterministic).

        Where the replay meets an end or an error, the next episode begins.
        """
        self.episode = state["episode"]
        try:
            self._begin(state["seed"])
            running = self._replay(state["played"])
        except UserError:
            raise
        except GAME_ERRORS as error:
            faults.log(fault_of(error, *OWN_FILES), f"{self.game_id}, replay of seed {state['seed']}")
            self.close()
            running = False
        if not running:
            self.next_episode()
        return running and self._crc() == state["prompt_crc"]

    def close(self) -> None:
        """Close the game; a broken one may fail even in that. The slot makes a new one when it plays on."""
        with suppress(*GAME_ERRORS):
            if self._game is not None:
                self._game.close()
        self._game = None

    def _begin(self, seed: int) -> None:
        found, info = self.game.reset(seed=seed)
        self.observation = answers.observation(found)
        self.legal = answers.legal_actions(info, self.game.actions)
        self.seed = seed
        self._played: list[PlayedTurn] = []
        self._turns: list[Turn] = []
        self._facts: list[TurnFacts] = []
        self._return = 0.0
        self._invalid = 0
        self._achievable = self.game.achievements
        self._unlocked: tuple[str, ...] = ()
        self.memory.reset()
        self._build_prompt()

    def _action(self, reply: Reply) -> tuple[str, bool]:
        """The action that a reply leads to, and whether the reply named it."""
        action = self.prompter.parse(reply.text, self.legal, self.game.synonyms)
        return (self.game.default_action, False) if action is None else (action, True)

    def _step(self, played: PlayedTurn) -> answers.Answer:
        """Execute an action, check what the game answers, and remember the turn.

        Raises:
            Exception: whatever the game raises, ValueError and TypeError for an answer that is none.
        """
        scene = self.observation.scene
        found, reward, terminated, truncated, info = self.game.step(played["action"])
        self.observation = answers.observation(found)
        answer = answers.check(reward, terminated, truncated, info, self.game.actions, self._achievable)
        # A game may forget its own limit; no episode is endless.
        if not answer.terminated and self.turn + 1 >= self.game.max_turns:
            answer.truncated = True
        self.legal = answer.legal
        if answer.achievements is not None:
            self._unlocked = answer.achievements
        self.memory.add(PastTurn(scene, played["reply"], played["action"], played["valid"]))
        self._played.append(played)
        self._invalid += not played["valid"]
        self._return += answer.reward
        return answer

    def _tell_terms(self, played: PlayedTurn, before: Observation, answer: answers.Answer, truncated: bool) -> None:
        self._facts.append(
            TurnFacts(
                before=before,
                after=self.observation,
                reply=played["reply"],
                reply_tokens=played["tokens"],
                action=played["action"],
                valid=played["valid"],
                reward=answer.reward,
                terminated=answer.terminated,
                truncated=truncated,
                success=answer.success,
                progression=answer.progression,
            )
        )

    def _replay(self, turns: list[PlayedTurn]) -> bool:
        """Play turns anew; False if the episode is over before its last turn was played, or with it."""
        for turn in turns:
            before = self.observation
            answer = self._step(turn)
            if answer.terminated or answer.truncated:
                return False
            if self.terms:
                self._tell_terms(turn, before, answer, truncated=False)
            if self._trajectory:  # each prompt is made of the one before
                self._build_prompt()
        if not self._trajectory:
            self._build_prompt()
        return not self._is_full()

    def _build_prompt(self) -> None:
        self.overflow = False
        if self._trajectory and self._played:
            last = self._played[-1]
            self.prompt: Prompt = self._trajectory.extend(
                self.prompt, last["reply"], last["ids"], self.game, self.observation, self.legal
            )
            return
        try:
            self.prompt = self.prompter.build(self.game, self.observation, self.memory, self.legal)
        except PromptTooLong as error:
            self.overflow = True
            self.prompt = Prompt(error.messages, error.ids, 0)

    def _is_full(self) -> bool:
        """Whether the dialogue has grown over its budget. (A first prompt over budget is an `overflow`.)"""
        return self._trajectory is not None and self._trajectory.is_full(self.prompt)

    def _new_turn(self) -> Turn:
        turn = Turn(
            game=self.game_id,
            slot=self.index,
            episode=self.episode,
            turn=self.turn,
            seed=self.seed,
            prompt_ids=self.prompt.ids,
            messages=self.prompt.messages,
            dropped_turns=self.prompt.dropped_turns,
        )
        if self.keep_turns:
            self._turns.append(turn)
        return turn

    def _broken(self, turn: Turn, error: str) -> Episode:
        turn.error, turn.finish_reason = error, "error"
        return self._finish(turn, None, None)

    def _finish(
        self, turn: Turn, success: bool | None, progression: float | None, context_full: bool = False
    ) -> Episode:
        return Episode(
            game=self.game_id,
            seed=self.seed,
            length=turn.turn + 1,
            game_return=self._return,
            success=success,
            progression=progression,
            error=turn.error,
            invalid_turns=self._invalid,
            achievements=self._unlocked if self._achievable else None,
            achievable=self._achievable,
            context_full=context_full if self._trajectory else None,
            turns=self._turns,
        )

    def _crc(self) -> int:
        return crc32(" ".join(map(str, self.prompt.ids)).encode())
