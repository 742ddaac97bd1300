"""The benchmark's prompts, composed as BALROG composes them; the words are data (prompts/bench).

No system message: the first user message is the instruction, then come past observations and replies in turn, last the
current observation with what the agent style asks for. With `history` h the newest 2 h events are shown, an event being
an observation or a reply: h observations with the current one, and from turn h on the reply before each of them; a lone
assistant message then follows the instruction. An empty reply is no event. Status texts (inventory) stand in the
current message alone, before the scene.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentrl import envs
from agentrl.bench_agents import AgentStyle, agent_style
from agentrl.chat import ChatEncoder, well_formed
from agentrl.envs import Observation, TextEnv
from agentrl.errors import UserError
from agentrl.memory import Memory, PastTurn, Remembered
from agentrl.parsing import parse_action
from agentrl.prompting import Prompt, PromptTooLong
from agentrl.records import Message
from agentrl.section import Section
from agentrl.styles import GameTexts, load_texts, load_words, template

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Demonstration = Sequence[tuple[str, str]]
"""A scripted episode: scenes, each with the action that was played there."""

SHORT, LONG = "Observation:", "Current Observation:"
PLAYED = ("rules", "hints", "actions", "max_turns", "mission")


class FewShotWords(Section):
    announce: str
    begin: str
    end: str
    turn_over: str


class AgentWords(Section):
    """prompts/bench/agents.yaml."""

    suffixes: dict[str, str]
    feedback: str
    plan_shown: str
    few_shot: FewShotWords


class InstructionWords(Section):
    """prompts/bench/instruction.yaml."""

    instruction: str


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """How an agent is asked and read.

    Attributes:
        style: a name in `agentrl.bench_agents.STYLES`, or the dotted path of an `AgentStyle`.
        history: observations that a prompt shows, the current one among them.
        parsing: "strict", the answer must be a legal action's name letter by letter, or "tolerant", ours.
        feedback: whether the observation after a reply without a legal action begins by saying so.
        prompts: a folder whose files take the place of those in prompts/bench; "balrog" for the instructions of the
            installed BALROG package; None for ours.
        demonstrations: episodes that few_shot shows.
    """

    style: str = "naive"
    history: int = 16
    parsing: Literal["strict", "tolerant"] = "strict"
    feedback: bool = True
    prompts: str | None = None
    demonstrations: int = 1


class BenchMemory:
    """The turns that a prompt may show; more than `history`, since empty replies take no place."""

    def __init__(self, history: int) -> None:
        self.turns: deque[PastTurn] = deque(maxlen=2 * max(1, history))

    def reset(self) -> None:
        self.turns.clear()

    def add(self, turn: PastTurn) -> None:
        self.turns.append(turn)

    def recall(self) -> list[Remembered]:
        return [Remembered(turn.scene, turn.reply) for turn in self.turns]


class Words:
    """The words of the benchmark for one game, as functions of what they say.

    Raises:
        UserError: a file of `folder` is none of ours, or a template in it fails.
    """

    def __init__(self, game_id: str, folder: Path | None, clean: Callable[[str], str]) -> None:
        self.agents = _read(AgentWords, "agents.yaml", folder)
        instruction = _read(InstructionWords, "instruction.yaml", folder)
        own = folder / "games" / f"{game_id.partition('/')[0]}.yaml" if folder else None
        self.texts: GameTexts = load_words(GameTexts, own) if own and own.is_file() else load_texts(game_id)
        self.instruction = template(instruction.instruction, PLAYED, "instruction.yaml: instruction", clean)
        self.feedback = template(self.agents.feedback, ("action",), "agents.yaml: feedback", clean)
        self.plan_shown = template(self.agents.plan_shown, ("reply",), "agents.yaml: plan_shown", clean)
        self.begin = template(self.agents.few_shot.begin, ("number",), "agents.yaml: few_shot.begin", clean)
        self.end = template(self.agents.few_shot.end, ("number",), "agents.yaml: few_shot.end", clean)
        self._all = [self.agents.model_dump(), instruction.model_dump(), self.texts.model_dump()]

    def sha256(self, *more: object) -> str:
        """A hash that changes with any word."""
        return hashlib.sha256(json.dumps([*self._all, *more]).encode()).hexdigest()


@dataclass
class BenchPrompter:
    """Asks and reads as `spec` says: what a game slot needs of a prompter.

    Args:
        tokenizer: None where an endpoint makes ids of the messages: nothing is dropped then, and ids are empty.
        budget: most tokens of a prompt; the oldest events are dropped until it fits.
        instruct: the instruction's text of a game, in place of ours.
        demonstrations: of few_shot.
    """

    spec: AgentSpec
    game_id: str
    tokenizer: PreTrainedTokenizerBase | None = None
    budget: int = 2**31
    instruct: Callable[[TextEnv], str] | None = None
    demonstrations: Sequence[Demonstration] = ()
    _chat: ChatEncoder | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.style: AgentStyle = agent_style(self.spec.style)
        self._chat = None if self.tokenizer is None else ChatEncoder(self.tokenizer)
        self._clean = well_formed if self._chat is None else self._chat.neutralise
        folder = Path(self.spec.prompts) if self.spec.prompts not in (None, "balrog") else None
        if folder is not None and not folder.is_dir():
            raise UserError(f"--prompts {folder}: no such folder (or `balrog`, for the instructions of that package)")
        self.words = Words(self.game_id, folder, self._clean)
        self.texts = self.words.texts
        suffix = self.style.suffix or self.words.agents.suffixes.get(self.style.name)
        if suffix is None:
            raise UserError(
                f"agents.yaml: suffixes: no {self.style.name}; known: {', '.join(self.words.agents.suffixes)}"
            )
        self.suffix = suffix.strip()

    def describe(self) -> dict[str, Any]:
        """What a result says of the agent."""
        return {
            "style": self.spec.style,
            "history": self.spec.history,
            "parsing": self.spec.parsing,
            "feedback": self.spec.feedback,
            "prompts": self.spec.prompts or "agentrl",
            "demonstrations": len(self.demonstrations),
        }

    def sha256(self) -> str:
        """A hash that changes with any word of ours that the prompts are made of."""
        return self.words.sha256(self.suffix, list(self.demonstrations))

    def build(
        self, game: TextEnv, observation: Observation, memory: Memory, legal: Sequence[str] | None = None
    ) -> Prompt:
        """The prompt within the token budget. Raises PromptTooLong where it does not fit without any event."""
        assert isinstance(memory, BenchMemory)
        head, events = self._head(game), self._events(memory)
        last: Message = {"role": "user", "content": self._current(game, observation, memory, legal)}
        if self._chat is None:
            return Prompt([*head, *events, last], [], 0)
        for dropped in range(len(events) + 1):
            messages = [*head, *events[dropped:], last]
            ids = self._chat.encode(messages)
            if len(ids) <= self.budget:
                return Prompt(messages, ids, dropped)
        raise PromptTooLong(messages, ids, self.budget)

    def parse(self, reply: str, legal: Sequence[str] | None, synonyms: Mapping[str, str]) -> str | None:
        answer = self.style.read(reply)
        if legal is None:
            return answer.action or None
        if self.spec.parsing == "strict":
            return answer.action if answer.action in legal else None
        return parse_action(reply, legal, synonyms) or parse_action(answer.action, legal, synonyms)

    def reply_for(self, action: str, scene: str = "", mission: str = "", notes: str = "") -> str:
        return self.style.wrap(action)

    def shown(self, scene: str, before: PastTurn | None) -> str:
        """A scene as prompts and logs show it: after a reply without a legal action it begins by saying so."""
        if before is None or before.valid or not self.spec.feedback:
            return scene
        return f"\n\n{self.words.feedback(before.action)}\n\n{SHORT}\n{scene}"

    def _head(self, game: TextEnv) -> list[Message]:
        own = self.texts.actions
        actions = tuple((name, own.get(name, meaning)) for name, meaning in (game.actions or {}).items())
        if self.instruct is not None:
            text = self._clean(self.instruct(game))
        else:
            texts = self.texts.rules.strip(), self.texts.hints.strip()
            text = self.words.instruction(*texts, actions, game.max_turns, game.mission)
        head: list[Message] = [{"role": "user", "content": text}]
        if self.demonstrations:
            words = self.words.agents.few_shot
            head[0]["content"] += f"\n\n{words.announce.strip()}"
            for number, episode in enumerate(self.demonstrations, start=1):
                head.append({"role": "user", "content": self.words.begin(number)})
                for scene, action in episode:
                    head.append({"role": "user", "content": f"{SHORT}\n{self._clean(scene)}"})
                    head.append({"role": "assistant", "content": self._clean(self.style.wrap(action))})
                head.append({"role": "user", "content": self.words.end(number)})
            head.append({"role": "user", "content": words.turn_over.strip()})
        return head

    def _events(self, memory: BenchMemory) -> list[Message]:
        """Past observations and replies, as far back as the buffer reaches, the current observation not among them."""
        turns, history = list(memory.turns), self.spec.history
        plans = self.style.plans_shown
        events: list[Message] = []
        for number, turn in enumerate(turns):
            scene = self.shown(turn.scene, turns[number - 1] if number else None)
            events.append({"role": "user", "content": f"{SHORT}\n{self._clean(scene)}"})
            answer = self.style.read(turn.reply)
            if answer.action:
                newest = len(turns) - number <= plans
                said = self.words.plan_shown(answer.reasoning) if newest else answer.action
                events.append({"role": "assistant", "content": self._clean(said)})
        kept = events[len(events) - min(len(events), max(0, 2 * history - 1)) :]
        # Where replies were empty, more observations than `history` fit: the oldest keep their header alone.
        seen = 1
        for event in reversed(kept):
            if event["role"] == "user":
                seen += 1
                if seen > history:
                    event["content"] = SHORT
        return kept

    def _current(
        self, game: TextEnv, observation: Observation, memory: BenchMemory, legal: Sequence[str] | None
    ) -> str:
        before = memory.turns[-1] if memory.turns else None
        status = f"{self._clean(observation.status)}\n" if observation.status else ""
        scene = self._clean(self.shown(observation.scene, before))
        narrowed = legal is not None and set(legal) != set(game.actions or ())
        possible = f"\n\nPossible this turn: {', '.join(legal or ())}" if narrowed else ""
        return f"{LONG}\n{status}{scene}{possible}\n\n{self.suffix}"


def _read(kind: type[Any], name: str, folder: Path | None) -> Any:
    """A file of the user's folder, or ours."""
    own = folder / name if folder else None
    return load_words(kind, own if own and own.is_file() else files("agentrl.prompts") / "bench" / name)


def bench_player(
    spec: AgentSpec,
    game_id: str,
    tokenizer: PreTrainedTokenizerBase | None = None,
    budget: int = 2**31,
    options: Mapping[str, Any] | None = None,
) -> BenchPrompter:
    """The prompter of a game; memories are `BenchMemory(spec.history)`.

    Raises:
        UserError: an unknown style, a mistake in the words, a game without a scripted player for few_shot, no BALROG
            package where its instructions are asked for.
    """
    envs.check(game_id, **(options or {}))
    instruct, demonstrations = None, []
    if spec.prompts == "balrog":
        from agentrl.balrog_bridge import instructions

        instruct = instructions(game_id)
    if agent_style(spec.style).demonstrates:
        from agentrl.demonstrations import demonstrations as played

        demonstrations = played(game_id, dict(options or {}), spec.demonstrations)
    return BenchPrompter(spec, game_id, tokenizer, budget, instruct, demonstrations)
