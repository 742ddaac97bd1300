"""The schema of a run: every field of a YAML recipe, its default, its bounds and one line of meaning.

Reading YAML, command-line overrides and one-line error messages live in `agentrl.configfile`; what follows from a
config (turns per update, optimizer steps) is computed here, so that `--dry-run` and the trainer cannot disagree.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from agentrl.algorithm_config import AlgorithmConfig
from agentrl.reward_terms import OWN_PARTS, RewardName, RewardTerm
from agentrl.section import Decay, Fraction, NonNegative, Positive, Rate, Seconds, Size
from agentrl.section import Section as Section


class GameConfig(Section):
    """Which game is played."""

    id: str = Field(description="NAME/TASK as `agentrl games` lists it, FILE.py:CLASS, or gymnasium/ENV_ID")
    options: dict[str, Any] = Field(default={}, description="keyword arguments of the game, e.g. {reward: binary}")


class NewModelConfig(Section):
    """A small Qwen2-architecture model with a tokenizer made from the game's own text."""

    hidden_size: Size = 64
    layers: Size = 2
    heads: Size = 4
    kv_heads: Size = 2
    ffn_size: Size = 192
    vocab_size: Annotated[int, Field(ge=260, le=2**18)] = 512
    max_positions: Positive = 2048
    tie_embeddings: bool = True


class ModelConfig(Section):
    """The language model and its critic."""

    path: str | None = Field(default=None, description="Hugging Face name or folder; none: a new small model (`new`)")
    new: NewModelConfig = Field(default=NewModelConfig(), description="shape of the new model, used if path is none")
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description="dtype of the stored weights")
    precision: Literal["no", "bf16"] = Field(
        default="no", description="Accelerate's autocast; the value head stays fp32"
    )
    attention: Literal["eager", "sdpa", "flash_attention_2"] = "sdpa"
    critic: Literal["value_head", "separate"] = Field(
        default="value_head", description="value head on the policy's trunk, or a second model of its own"
    )
    gradient_checkpointing: bool = False
    trust_remote_code: bool = False


class PromptConfig(Section):
    """How a game's text becomes messages, and how many tokens they may take."""

    style: str = Field(default="action", description="template in prompts/styles, or a path to a YAML file")
    history: NonNegative = Field(default=1, description="n: past turns kept beside the current observation")
    keep: str = Field(
        default="whole",
        pattern=r"^(whole|action|newest:[1-9]\d*)$",
        description="what is kept of past replies: whole | action | newest:K (K newest whole, older ones action only)",
    )
    memory: str | None = Field(default=None, description="summary, diff, or the dotted path of a class of one's own")
    max_prompt_tokens: Positive = 1024


class EngineConfig(Section):
    """How replies are sampled."""

    name: Literal["transformers", "openai"] = Field(
        default="transformers", description="openai: an endpoint, for agentrl bench alone"
    )
    # Colder than that, logits leave the range of fp32.
    temperature: Annotated[float, Field(ge=1e-3, allow_inf_nan=False)] = 1.0
    max_reply_tokens: Positive = 16
    constrain: Literal["none", "actions"] = Field(
        default="none", description="actions: only legal actions can be sampled (after ACTION: in styles that reason)"
    )
    batch_size: Positive = Field(default=256, description="most prompts in one forward pass")
    top_p: float = Field(default=1.0, description="refused below 1: the trained distribution must be the sampled one")
    top_k: int = Field(default=0, description="refused above 0, as top_p")


class WorkersConfig(Section):
    """Processes that games run in, several games each. The limits hold there alone: a game in the trainer's own process
    cannot be ended."""

    processes: Annotated[int, Field(ge=0, le=1024)] = Field(
        default=0, description="worker processes (of each trainer under torchrun); 0: games run in the trainer's own"
    )
    step_seconds: Seconds = Field(default=60.0, description="longest step of a game; then its turn breaks")
    reset_seconds: Seconds = Field(default=120.0, description="longest start of a process, a game or an episode")
    memory_mb: Positive | None = Field(default=None, description="most resident memory of a process (Linux)")


class BatchConfig(Section):
    """Fixed-turn batches: every update trains on num_envs * turns_per_env turns. Or one whole episode of each game."""

    form: Literal["turns", "episodes"] = Field(
        default="turns", description="episodes: each game plays one to its end, however many turns that takes"
    )
    num_envs: Positive = 32
    turns_per_env: Positive = Field(default=32, description="not used with form = episodes")
    group_size: Positive = Field(default=1, description="games that share their seeds; with form = episodes")
    updates: Positive = Field(default=100, description="policy updates; critic warm-up comes on top")


class CriticWarmupConfig(Section):
    """Critic pre-training: the policy stays frozen, bit for bit."""

    max_updates: NonNegative = Field(default=0, description="most warm-up updates; 0: none")
    explained_variance: Annotated[float, Field(le=1)] = Field(
        default=0.5, description="stop once the value explains this much of a batch it has not seen"
    )
    epochs: Positive = Field(default=1, description="passes over each warm-up batch")


class OptimizerConfig(Section):
    """AdamW."""

    lr: Rate = Field(default=1e-6, description="learning rate of the policy")
    value_lr: Rate = Field(default=1e-5, description="learning rate of the value head or critic")
    weight_decay: Rate = 0.01
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    eps: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-8
    warmup_steps: NonNegative = Field(default=0, description="optimizer steps over which the rates rise from 0")
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    micro_batch_turns: Positive = Field(default=32, description="turns in one forward-backward pass")


class ImitationConfig(Section):
    """Supervised warm start from the game's scripted player; off at 0 episodes."""

    episodes: NonNegative = 0
    epochs: Positive = 4
    lr: Rate = 1e-3
    batch_turns: Positive = 64


class EvaluationConfig(Section):
    """Held-out episodes: fixed seeds, never used in training, each played to its end."""

    episodes: NonNegative = Field(default=64, description="seeds 0..N-1 of the held-out range; 0: no evaluation")
    num_envs: Positive = 64
    every: NonNegative = Field(default=0, description="also evaluate every K updates; 0: only before and after")
    greedy: bool = Field(default=True, description="report the greedy policy beside the sampled one")
    random: bool = Field(default=True, description="report a uniformly random player beside it")
    keep_episodes: NonNegative = Field(default=3, description="whole episodes written for the report")


class AlarmsConfig(Section):
    """Thresholds of metrics beyond which a run says that something is wrong, and what to try; none: no such alarm."""

    approx_kl: Rate | None = 0.3
    clip_fraction: Fraction | None = 0.6
    entropy: Rate | None = Field(default=1e-4, description="alarm below it")
    explained_variance: float | None = Field(default=-2.0, description="alarm below it")
    effective_sample_size: Fraction | None = Field(default=0.5, description="alarm below it")
    invalid_fraction: Fraction | None = 0.9
    length_stop_fraction: Fraction | None = 0.5
    repetition: Fraction | None = Field(default=0.7, description="1 - distinct tokens / tokens of a reply, mean")
    grad_norm_ratio: Rate | None = Field(default=50.0, description="of the policy's norm over its recent median")
    reward_hacking: Fraction | None = Field(
        default=0.1, description="alarm where success falls by more while a learned term of the reward rises"
    )
    stop_after: NonNegative = Field(default=0, description="stop after so many alarmed updates in a row; 0: never")


class CheckpointConfig(Section):
    """What is written for resuming."""

    every: NonNegative = Field(default=10, description="updates between checkpoints; 0: only at the end")
    keep: Positive = Field(default=2, description="newest checkpoints kept")
    best: bool = Field(
        default=True, description="with evaluation.every, keep the policy of the best evaluation in best/, too"
    )


class TrackingConfig(Section):
    """Where metrics and turns go beside metrics.jsonl."""

    backends: list[Literal["tensorboard", "trackio", "wandb"]] = ["tensorboard"]
    project: str = "agentrl"
    turns_every: NonNegative = Field(default=25, description="write every K-th update's turns to turns/; 0: never")


class Config(Section):
    """One training run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="the run's folder below output_dir")
    output_dir: str = Field(default="runs", pattern=r"^[^\x00]+$", description="a path")
    seed: NonNegative = 0
    torch_threads: Annotated[int, Field(ge=0, le=1024)] = Field(
        default=1, description="CPU threads of torch; 0: torch's own choice"
    )
    rows: Literal["turn", "trajectory"] = Field(
        default="turn",
        description="trajectory: the baseline, a dialogue that grows until prompt.max_prompt_tokens are full, one row",
    )
    max_error_rate: Fraction = Field(default=0.05, description="the run stops when more of a batch's turns broke")
    game: GameConfig
    workers: WorkersConfig = WorkersConfig()
    model: ModelConfig = ModelConfig()
    prompt: PromptConfig = PromptConfig()
    engine: EngineConfig = EngineConfig()
    batch: BatchConfig = BatchConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    rewards: dict[RewardName, RewardTerm] = Field(
        default={}, description="terms beside the game's own reward, each by a name of yours; docs/rewards.md"
    )
    critic_warmup: CriticWarmupConfig = CriticWarmupConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    imitation: ImitationConfig = ImitationConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    alarms: AlarmsConfig = AlarmsConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    tracking: TrackingConfig = TrackingConfig()

    @property
    def turns_per_update(self) -> int:
        """Exact with form = turns; with form = episodes the least, one turn of each game."""
        return self.batch.num_envs * (self.batch.turns_per_env if self.batch.form == "turns" else 1)

    @property
    def optimizer_steps_per_update(self) -> int:
        return self.algorithm.epochs * self.algorithm.minibatches

    @property
    def policy_steps(self) -> int:
        return self.batch.updates * self.optimizer_steps_per_update

    @model_validator(mode="after")
    def _consistent(self) -> "Config":
        if self.engine.top_p != 1.0:
            raise ValueError(f"engine.top_p = {self.engine.top_p}: must be 1 (logprobs are of the whole vocabulary)")
        if self.engine.top_k != 0:
            raise ValueError(f"engine.top_k = {self.engine.top_k}: must be 0 (logprobs are of the whole vocabulary)")
        self._check_batch_form()
        for name in OWN_PARTS:
            if name in self.rewards:
                raise ValueError(f"rewards.{name}: every run has a part of this name; choose another")
        if self.algorithm.minibatches > self.turns_per_update:
            raise ValueError(
                f"algorithm.minibatches = {self.algorithm.minibatches}: at most one a turn, "
                f"and batch.num_envs * batch.turns_per_env = {self.turns_per_update}"
            )
        if self.workers.memory_mb and not Path("/proc/self/statm").exists():
            raise ValueError(f"workers.memory_mb = {self.workers.memory_mb}: only Linux tells a process's memory; null")
        if self.rows == "trajectory":
            self._check_trajectory()
        longest = self.prompt.max_prompt_tokens + self.engine.max_reply_tokens
        if self.model.path is None and longest > self.model.new.max_positions:
            raise ValueError(
                f"prompt.max_prompt_tokens + engine.max_reply_tokens = {longest}: "
                f"at most model.new.max_positions = {self.model.new.max_positions}"
            )
        return self

    def _check_batch_form(self) -> None:
        batch, algorithm = self.batch, self.algorithm
        estimator = f"algorithm.estimator = {algorithm.estimator}"
        if batch.form == "turns" and not algorithm.has_critic:
            raise ValueError(f"{estimator}: has no critic to look behind a cut; set batch.form = episodes")
        if batch.group_size > 1 and batch.form == "turns":
            raise ValueError(f"batch.group_size = {batch.group_size}: groups need batch.form = episodes")
        if batch.group_size == 1 and algorithm.compares_groups:
            raise ValueError(f"{estimator}: compares a group's episodes; set batch.group_size to 2 or more")
        if batch.num_envs % batch.group_size:
            raise ValueError(f"batch.num_envs = {batch.num_envs}: must divide by batch.group_size = {batch.group_size}")
        if self.critic_warmup.max_updates and not algorithm.has_critic:
            raise ValueError(f"critic_warmup.max_updates = {self.critic_warmup.max_updates}: {estimator} has no critic")

    def _check_trajectory(self) -> None:
        for name in ("history", "keep", "memory"):
            value, default = getattr(self.prompt, name), PromptConfig.model_fields[name].default
            if value != default:
                raise ValueError(
                    f"prompt.{name} = {value}: has no meaning with rows = trajectory, where every turn is kept whole; "
                    f"leave it at {'null' if default is None else default}"
                )
        if self.algorithm.minibatches > self.batch.num_envs:
            raise ValueError(
                f"algorithm.minibatches = {self.algorithm.minibatches}: with rows = trajectory at most one a game, "
                f"and batch.num_envs = {self.batch.num_envs}"
            )
