"""The settings of a benchmark, kept in its folder as bench.json, so that it can be resumed without being told again."""

import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from agentrl.bench import Player
from agentrl.bench_prompts import AgentSpec
from agentrl.engines.base import Sampling
from agentrl.errors import UserError
from agentrl.section import NonNegative, Positive, Seconds, Section

FILE = "bench.json"

MAY_CHANGE = ("workers", "base_url", "timeout", "max_retries", "batch_size")
"""What a resumed benchmark may be told anew: it moves no score."""


class BenchConfig(Section):
    """Everything that a benchmark is asked for. Fields have the names of `agentrl bench`'s options."""

    suite: str = "balrog"
    tasks: list[str] = []
    episodes: Positive | None = None
    model: str | None = None
    player: Literal["model", "random", "scripted"] = "model"
    engine: Literal["transformers", "openai", "vllm"] = "transformers"
    base_url: str | None = None
    agent: str = "naive"
    history: NonNegative = 16
    parsing: Literal["strict", "tolerant"] = "strict"
    feedback: bool = True
    prompts: str | None = None
    demonstrations: Positive = 1
    temperature: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    max_tokens: Positive = 1024
    max_prompt_tokens: Positive | None = None
    constrain: bool = False
    seed: int = Field(default=0, ge=0, lt=10_000)
    balrog_seeding: bool = False
    workers: Positive = 16
    timeout: Seconds = 120.0
    max_retries: NonNegative = 6
    batch_size: Positive = 64

    @property
    def spec(self) -> AgentSpec:
        return AgentSpec(self.agent, self.history, self.parsing, self.feedback, self.prompts, self.demonstrations)

    @property
    def name(self) -> str:
        """Of the model, or of the player that takes its place."""
        return self.player if self.player != "model" else str(self.model)

    def original(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What BALROG's files say of agent and client."""
        agent = {
            "type": self.agent,
            "remember_cot": True,
            "max_text_history": self.history,
            "max_image_history": 0,
            "max_cot_history": 1,
            "max_icl_history": 1000,
            "cache_icl": False,
        }
        client = {
            "client_name": self.engine if self.player == "model" else self.player,
            "model_id": self.name,
            "base_url": self.base_url,
            "generate_kwargs": {
                "temperature": self.temperature,
                "max_tokens": self.max_tokens,
                "thinking_budget": None,
            },
            "timeout": self.timeout,
            "max_retries": self.max_retries,
            "delay": 0.5,
            "alternate_roles": False,
        }
        return agent, client

    def folder(self) -> Path:
        """A new one, named as BALROG names them."""
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        model = "".join(c if c.isalnum() or c in "-._" else "_" for c in self.name)[-80:]
        return Path("results") / f"{stamp}_{self.agent}_{model}"

    def check(self) -> None:
        """Raise UserError for what does not go together."""
        if self.player == "model" and self.model is None:
            raise UserError("which model? Give --model NAME, or --player random, or --player scripted")
        if self.player != "model" and self.model is not None:
            raise UserError(f"--player {self.player} and --model {self.model} exclude each other: give one")
        if self.base_url is not None and self.engine != "openai":
            raise UserError(f"--base-url {self.base_url}: only with --engine openai, which asks an endpoint")
        if self.constrain and self.engine != "transformers":
            raise UserError(f"--constrain: only with --engine transformers; {self.engine} decodes freely")
        if self.constrain and self.agent.startswith("robust"):
            raise UserError(f"--constrain: not with --agent {self.agent}, whose tags are free text; take naive or cot")
        if self.engine == "vllm":
            raise UserError("--engine vllm: not in process yet; serve the model, and ask it with --engine openai")

    def make_player(self) -> Player:
        """The player, its model loaded.

        Raises:
            UserError: no such model, an endpoint that cannot be one, a context too short for any prompt.
        """
        if self.player != "model":
            return Player(self.player)
        sampling = Sampling(self.temperature, self.max_tokens)
        if self.engine == "openai":
            from agentrl.engines.openai import OPENAI_URL, OpenAIEngine

            engine = OpenAIEngine(
                self.name,
                self.base_url or OPENAI_URL,
                timeout=self.timeout,
                max_retries=self.max_retries,
                concurrency=self.workers,
            )
            return Player(self.name, engine, sampling)
        return self._in_process(sampling)

    def _in_process(self, sampling: Sampling) -> Player:
        import torch

        from agentrl.arguments import model_and_recipe
        from agentrl.bench_agents import agent_style
        from agentrl.chat import end_of_turn_ids
        from agentrl.config import ModelConfig
        from agentrl.constrain import ActionConstraint
        from agentrl.engines.transformers import TransformersEngine
        from agentrl.policy import load_lm, load_tokenizer

        path, _ = model_and_recipe(self.name)
        tokenizer = load_tokenizer(path)
        lm = load_lm(path, ModelConfig(path=path))
        device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
        lm.to(device).eval()
        context = getattr(lm.config.get_text_config(), "max_position_embeddings", None) or 2**31
        room = context - self.max_tokens
        budget = min(room, self.max_prompt_tokens or room)
        if room < 1:
            raise UserError(f"--max-tokens {self.max_tokens}: the model's context is {context} tokens; give fewer")
        ends = end_of_turn_ids(tokenizer, lm.generation_config)
        constraint = None
        if self.constrain:
            marked = agent_style(self.agent).wrap("x") != "x"
            constraint = ActionConstraint(tokenizer, ends[0], after_marker=marked)
        engine = TransformersEngine(lm, tokenizer, ends, constraint, self.batch_size)
        return Player(self.name, engine, sampling, tokenizer, budget)


def write(folder: Path, config: BenchConfig) -> None:
    """Make the folder and keep the settings there.

    Raises:
        UserError: there is a benchmark in it already, or it cannot be written.
    """
    if (folder / FILE).exists():
        raise UserError(
            f"--out {folder}: holds a benchmark; go on with it by --resume {folder}, or choose another folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(config.model_dump_json(indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"--out {folder}: cannot be written: {error.strerror}") from error


def read(folder: Path, given: dict[str, Any]) -> BenchConfig:
    """The settings of the benchmark in `folder`; `given` are options of this call.

    Raises:
        UserError: there is none, it is damaged, or what is given would play another benchmark.
    """
    try:
        kept = BenchConfig.model_validate_json((folder / FILE).read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"--resume {folder}: no benchmark in this folder ({FILE} is not there)") from None
    except ValidationError as error:
        raise UserError(f"--resume {folder}: {FILE} is damaged: {error.errors()[0]['msg']}") from None
    for name, value in given.items():
        if name not in MAY_CHANGE and getattr(kept, name) != value:
            option = "--" + name.replace("_", "-")
            raise UserError(
                f"{option} {value}: the benchmark in {folder} was begun with {getattr(kept, name)}; leave it out, "
                f"or begin another one"
            )
    return kept.model_copy(update={name: value for name, value in given.items() if name in MAY_CHANGE})


def commit() -> str | None:
    """The commit of a checkout that this package lies in; None for an installed one."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return None
    try:
        told = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip() or None
