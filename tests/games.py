"""Games for tests, registered as fake/echo: whoever repeats the shown word wins; and it can break in every way.

Beside them what the tests of playing and training share: a small tokenizer, slots, players, a recipe.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from agentrl import envs
from agentrl.config import Config, PromptConfig
from agentrl.engines.base import Reply
from agentrl.envs import GameSpec, Observation, ScriptedPlayer, TextEnv
from agentrl.episode import GameSlot
from agentrl.memory import make_memory
from agentrl.new_model import game_texts, train_tokenizer
from agentrl.prompting import Prompter
from agentrl.rewards import TurnTerms

WORDS = ("red", "green", "blue")

_chance = count()


class Echo(TextEnv):
    """Shows a word each turn, drawn from the seed; the reward is 1 for repeating it. Success: not once wrong.

    Args:
        turns: an episode's length.
        ending: what the last turn reports, "terminated", "truncated" or "both"; "never": it has none.
        breaks: what goes wrong at turn `break_turn` (0 is the reset) of the seeds that `break_every` divides.
        growth: words that each turn adds to the scene.
        free_text: no list of actions; the game judges the reply.
        narrow: only the shown word and the one after it are legal.
        success: whether the game says what success is.
        chance: the words depend on something that no seed fixes.
        achieving: each word is an achievement, unlocked by repeating it; told at the "end", or at "every turn".
    """

    def __init__(
        self,
        turns: int = 4,
        ending: str = "terminated",
        breaks: str = "",
        break_turn: int = 2,
        break_every: int = 1,
        growth: int = 0,
        free_text: bool = False,
        narrow: bool = False,
        success: bool = True,
        chance: bool = False,
        player: bool = True,
        achieving: str = "",
    ) -> None:
        if breaks == "make":
            raise OSError("no display")
        self.actions = None if free_text else {word: f"say {word}" for word in WORDS}
        self.default_action = WORDS[0]
        self.synonyms = {"crimson": "red"}
        self.max_turns = turns
        self.mission = "repeat the word"
        self.achievements = WORDS if achieving else ()
        self.closed = 0
        self._achieving = achieving
        self._ending = ending
        self._breaks = breaks
        self._break_turn, self._break_every = break_turn, break_every
        self._growth = growth
        self._narrow = narrow
        self._success = success
        self._chance = chance
        self._player = player

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Any]:
        super().reset(seed=seed)
        self._seed = seed or 0
        self._turn = self._right = 0
        self._unlocked: list[str] = []
        self._word = self._draw()
        if self._broken("reset"):
            raise RuntimeError("the cards are missing")
        return self._observation(), self._info()

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        assert not self.closed, "a closed game is played"
        self._turn += 1
        if self._broken("step"):
            raise RuntimeError("the table fell over\nand the chair")
        if self._broken("exit"):
            raise SystemExit(3)
        reward = float(action == self._word)
        self._right += action == self._word
        if action == self._word:
            self._unlocked.append(self._word)
        self._word = self._draw()
        over = self._turn == self.max_turns and self._ending != "never"
        terminated, truncated = over and self._ending != "truncated", over and self._ending != "terminated"
        info = self._info()
        if over:
            info |= {"progression": self._right / self._turn}
            info |= {"success": self._right == self._turn} if self._success else {}
        if self._achieving == "every turn" or (self._achieving and over):
            info["achievements"] = list(self._unlocked)
        for how, names in {"unlocked": None, "unlocked counts": {"red": 0}, "unlocked mauve": ["red", "mauve"]}.items():
            if self._broken(how):
                info["achievements"] = names
        if self._broken("nan"):
            reward = float("nan")
        if self._broken("huge"):
            reward = 1e308
        for how, legal in {"legal": [], "legal text": "red", "legal numbers": [1, 2]}.items():
            if self._broken(how):
                info["legal_actions"] = legal
        if self._broken("progression"):
            info["progression"] = float("inf")
        observation = self._observation()
        return "no observation" if self._broken("observation") else observation, reward, terminated, truncated, info  # type: ignore[return-value]

    def prompt_facts(self) -> dict[str, str]:
        if self._broken("facts"):
            raise KeyError("achievement")
        return {}

    def scripted_player(self) -> ScriptedPlayer | None:
        if self._breaks == "player":
            return lambda: WORDS[99]
        return (lambda: self._word) if self._player else None

    def close(self) -> None:
        self.closed += 1
        if self._breaks == "close" or self._breaks == "step":
            raise OSError("already gone")

    def _broken(self, how: str) -> bool:
        return self._breaks == how and self._turn == self._break_turn and self._seed % self._break_every == 0

    def _draw(self) -> str:
        return WORDS[(int(self.np_random.integers(3)) + (next(_chance) if self._chance else 0)) % 3]

    def _observation(self) -> Observation:
        scene = f"Turn {self._turn}. The card says {self._word}." + " and so on" * (self._growth * self._turn)
        return Observation(scene, status=f"{self._right} right")

    def _info(self) -> dict[str, Any]:
        at = WORDS.index(self._word)
        return {"legal_actions": [self._word, WORDS[(at + 1) % 3]]} if self._narrow else {}


def _make(task: str, **options: Any) -> TextEnv:
    return Echo(**options)


envs.register(GameSpec("fake", "For tests.", _make, tasks=("echo",)))


@cache
def tokenizer() -> PreTrainedTokenizerBase:
    return train_tokenizer(game_texts("fake/echo", {}, 10, 0), 300)


def make_slot(
    index: int = 0,
    seeds: Callable[[int], int | None] = lambda episode: episode,
    evaluation: bool = False,
    *,
    options: dict[str, Any] | None = None,
    prompt: dict[str, Any] | None = None,
    format_penalty: float = 0.0,
    keep_turns: bool = False,
    terms: TurnTerms | None = None,
) -> GameSlot:
    """A slot of fake/echo with `options`, its first episode not begun."""
    config = PromptConfig.model_validate({"style": "terse", **(prompt or {})})
    prompter = Prompter(config, "fake/echo", tokenizer())
    return GameSlot(
        index,
        "fake/echo",
        lambda: Echo(**(options or {})),
        prompter,
        make_memory(config),
        seeds,
        format_penalty,
        keep_turns,
        terms,
    )


def reply(text: str, finish_reason: str = "stop") -> Reply:
    """A reply as an engine gives it: ids and logprobs, one of them without an alternative."""
    return Reply(text, [40, 41], [-0.5, 0.0], [(), (41,)], finish_reason)  # type: ignore[arg-type]


class Player:
    """Answers what `says` makes of the slot's game."""

    def __init__(self, says: Callable[[GameSlot], str]) -> None:
        self.says = says

    def act(self, slots: Sequence[GameSlot]) -> list[Reply]:
        return [reply(self.says(slot)) for slot in slots]


def right(slot: GameSlot) -> str:
    """The shown word."""
    return slot.observation.scene.partition("says ")[2].partition(".")[0]


def recipe(folder: Path, **sections: Any) -> Config:
    """A run of seconds: a model of 5,000 weights on fake/echo. `sections` are laid over the defaults here."""
    tree: dict[str, Any] = {
        "name": "run",
        "output_dir": str(folder),
        "game": {"id": "fake/echo"},
        "model": {
            "new": {"hidden_size": 16, "layers": 1, "heads": 2, "kv_heads": 1, "ffn_size": 32, "vocab_size": 300}
        },
        "prompt": {"style": "terse", "max_prompt_tokens": 128},
        "engine": {"constrain": "actions", "max_reply_tokens": 8},
        "batch": {"num_envs": 4, "turns_per_env": 6, "updates": 4},
        "algorithm": {"minibatches": 2},
        "optimizer": {"lr": 1e-3, "value_lr": 1e-3, "micro_batch_turns": 8},
        "evaluation": {"episodes": 6, "num_envs": 4, "keep_episodes": 1},
        "checkpoint": {"every": 2},
        "tracking": {"backends": [], "turns_every": 0},
    }
    for name, section in sections.items():
        tree[name] = tree[name] | section if isinstance(tree.get(name), dict) else section
    return Config.model_validate(tree)
