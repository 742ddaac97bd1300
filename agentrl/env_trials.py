"""What a game is tried with: the same episodes again, many episodes to their end, a thousand hostile replies."""

import json
import random
from collections.abc import Callable
from statistics import mean
from time import monotonic

from agentrl import hostile_replies
from agentrl.config import PromptConfig
from agentrl.env_referee import End, Findings, GameRaised, Referee
from agentrl.env_trace import Told, first_difference, printed
from agentrl.errors import UserError, in_short
from agentrl.memory import PastTurn, make_memory
from agentrl.parsing import parse_action
from agentrl.prompting import Prompter

SEEDS, FEWEST_SEEDS, TURNS = 8, 2, 40
"""Episodes, at least so many where time is short, and turns of each, that are played in two processes."""

FEWEST_EPISODES, MOST_EPISODES = 30, 300
PLAYERS = ("random", "scripted", "random", "default", "one action")

LOST_AT_LIMIT = 3
"""So many episodes that are lost at the time limit are no chance."""

SLOW_STEP, SLOW_RESET = 0.1, 10.0
"""Seconds, on average."""


class Trials:
    """Each raises GameRaised where the game raises.

    Args:
        game_id: whose own words the prompts have.
        doing: as the referee's.
        seconds: bound of each.
    """

    def __init__(
        self, referee: Referee, findings: Findings, doing: Callable[[str], None], game_id: str, seconds: float
    ) -> None:
        self._referee, self._findings, self._doing = referee, findings, doing
        self._id, self._seconds = game_id, seconds

    def trace(self) -> None:
        """Episodes to be compared: with those of other seeds, with the same again here, and in the other process."""
        begun, traces = monotonic(), list[list[Told]]()
        while len(traces) < SEEDS and (len(traces) < FEWEST_SEEDS or monotonic() - begun < self._seconds):
            traces.append(self._traced(len(traces)))
        self._findings.write(traces=traces)
        alike = all(trace == traces[0] for trace in traces[1:])
        if alike and self._referee.game.one_level:
            self._findings.conclude("seeds-differ", "it says that it has one level", "not reached")
        elif alike:
            self._findings.fail(
                "seeds-differ", f"seeds 0 to {len(traces) - 1}, the same actions: one and the same episode"
            )
        else:
            different = len({json.dumps(trace) for trace in traces})
            self._findings.conclude("seeds-differ", f"{different} different episodes of {len(traces)}")
        for seed in (0, len(traces) - 1):
            if difference := first_difference(traces[seed], self._traced(seed)):
                self._findings.fail("reset-seed", f"the same actions after reset(seed={seed}) again: {difference}")
        self._findings.conclude("reset-seed", "a seed begins the same episode again, whatever was played before")

    def _traced(self, seed: int) -> list[Told]:
        """What each turn told, values as short prints with a hash."""
        draw = random.Random(0)  # the same draws for every seed: only the game can make a difference
        self._referee.begin(seed)
        told = [printed(self._referee.record)]
        while not self._referee.over and self._referee.turn < TURNS:
            self._referee.step(any_action(self._referee, draw))
            told.append(printed(self._referee.record))
        return told

    def explore(self) -> None:
        """Episodes to their end, by several players, until both ends were seen; each end is followed by a step."""
        draw, begun = random.Random(1), monotonic()
        for episode in range(MOST_EPISODES):
            ends = self._referee.ends
            both = any(end.terminated for end in ends) and any(end.truncated for end in ends)
            seen = both and episode >= FEWEST_EPISODES
            if seen or monotonic() - begun > self._seconds:
                break
            self._referee.begin(1_000 + episode)
            player = self._player(PLAYERS[episode % len(PLAYERS)], draw)
            while not self._referee.over and monotonic() - begun <= self._seconds:
                self._referee.step(player())
            if self._referee.over:
                self._referee.step_after_end()
        self._conclude_explored()

    def _player(self, kind: str, draw: random.Random) -> Callable[[], str]:
        game = self._referee.game
        if kind == "scripted":
            self._doing("scripted_player()")
            try:
                scripted = game.scripted_player()
            except (Exception, SystemExit) as error:
                raise GameRaised(f"scripted_player(): {in_short(error)}") from error
            if scripted is not None:
                return lambda: self._scripted(scripted)
        if kind == "default":
            return lambda: game.default_action
        if kind == "one action":
            action = any_action(self._referee, draw)
            return lambda: (
                action
                if self._referee.legal is None or action in self._referee.legal
                else any_action(self._referee, draw)
            )
        return lambda: any_action(self._referee, draw)

    def _scripted(self, player: Callable[[], str]) -> str:
        self._doing(f"the scripted player, turn {self._referee.turn + 1} of seed {self._referee.seed}")
        try:
            action = player()
        except (Exception, SystemExit) as error:
            raise GameRaised(f"the scripted player, turn {self._referee.turn + 1}: {in_short(error)}") from error
        if self._referee.legal is not None and action not in self._referee.legal:
            self._findings.fail("actions", f"the scripted player plays {action!r}, which is not legal")
            return self._referee.game.default_action
        return action

    def _conclude_explored(self) -> None:
        say, game, ends = self._findings.conclude, self._referee.game, self._referee.ends
        count = f"{len(game.actions)} actions" if game.actions is not None else "free text"
        say("actions", f"{count}, {len(self._referee.step_seconds):,} turns")
        say("default-action", repr(game.default_action))
        say("observation", f"the longest has {self._referee.longest_observation:,} characters")
        say("reward", f"finite at {len(self._referee.step_seconds):,} steps")
        if ends:
            say("end-info", f"success and progression at {len(ends)} ends")
            say("step-after-end", "refused")
        for check in ("end-info", "step-after-end"):
            if not ends:
                say(check, "no episode came to its end", "not reached")
        step, reset = mean(self._referee.step_seconds or [0.0]), mean(self._referee.reset_seconds)
        timing = f"a step takes {1000 * step:.3g} ms on average, a reset {1000 * reset:.3g} ms"
        if step > SLOW_STEP or reset > SLOW_RESET:
            self._findings.fail("time", f"{timing}: at most {1000 * SLOW_STEP:g} and {1000 * SLOW_RESET:g} ms")
        say("time", timing)
        self._conclude_ends(ends)

    def _conclude_ends(self, ends: list[End]) -> None:
        say, fail = self._findings.conclude, self._findings.fail
        terminated = [end for end in ends if end.terminated]
        truncated = [end for end in ends if end.truncated]
        won = sum(bool(end.success) for end in ends)
        if terminated:
            say("terminated", f"{len(terminated)} of {len(ends)} episodes")
        elif won:
            fail("terminated", f"{won} episodes ended in success, none was `terminated`: a game that is won is over")
        else:
            told = f"none of {len(ends)} episodes; a scripted_player() that gets there would show it"
            say("terminated", told, "not reached")
        lost_at_limit = [end for end in terminated if end.turns == end.max_turns and not end.success]
        if truncated:
            say("truncated", f"{len(truncated)} of {len(ends)} episodes")
        elif len(lost_at_limit) >= LOST_AT_LIMIT and any(end.turns < end.max_turns for end in terminated):
            fail(
                "truncated",
                f"{len(lost_at_limit)} episodes ended without success at max_turns, as `terminated`: a time limit is "
                "`truncated` (if a rule of the game says that one has lost then, let max_turns be larger)",
            )
        else:
            longest = max(ends, default=None)
            told = f", after at most {longest.turns} turns; max_turns = {longest.max_turns}" if longest else ""
            say("truncated", f"{len(ends)} episodes ended by themselves{told}", "not reached")

    def answer_hostile_replies(self) -> None:
        """Through the parser and the prompt, as a model's replies come."""
        game, config, begun = self._referee.game, PromptConfig(history=2), monotonic()
        memory = make_memory(config)
        try:
            prompter = Prompter(config, self._id, None)
        except UserError as error:
            self._findings.fail("prompt", str(error))
            return
        played, prompts, seed = 0, 0, 5_000
        self._referee.over = True
        for reply in hostile_replies.replies(tuple(game.actions or ())):
            if monotonic() - begun > self._seconds:
                break
            try:
                if self._referee.over:
                    seed += 1
                    self._referee.begin(seed)
                    memory.reset()
                messages = prompter.messages(game, self._referee.observation, memory, legal=self._referee.legal)
                prompts = max(prompts, sum(len(message["content"]) for message in messages))
                action = parse_action(reply, self._referee.legal, game.synonyms)
                scene = self._referee.observation.scene
                self._referee.step(game.default_action if action is None else action)
                memory.add(PastTurn(scene, reply, action or game.default_action, action is not None))
            except GameRaised as error:
                self._findings.fail("replies", f"reply {played + 1}, {reply[:40]!r}: {error}")
                break
            except Exception as error:  # a template, a fact, a synonym that is no text
                self._findings.fail("prompt", in_short(error))
                return
            played += 1
        told = f"{played:,} of {hostile_replies.COUNT:,} hostile replies"
        state = "passed" if played == hostile_replies.COUNT else "not reached"
        self._findings.conclude("replies", told if state == "passed" else f"{told} in {self._seconds:g} s", state)
        self._findings.conclude("prompt", "rules, actions and observations make a prompt in the style `action`")


def any_action(referee: Referee, draw: random.Random) -> str:
    """A legal action; of free text, a word that the scene mentions or the default."""
    if referee.legal is None:
        return draw.choice([referee.game.default_action, *referee.observation.scene.split()[:50]])
    return referee.legal[int(draw.random() * len(referee.legal))]
