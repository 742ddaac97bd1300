"""The schema of `algorithm`: estimator of advantages, losses and regularisers; what cannot go together is refused."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from agentrl.section import Fraction, Positive, Rate, Section

Estimator = Literal["dual_gae", "turn_gae", "single_gae", "bilevel_gae", "rebn", "rloo", "grpo", "dr_grpo", "gigpo"]


class AlgorithmConfig(Section):
    """Advantages and PPO. docs/estimators.md has the formulas, and when to use which."""

    estimator: Estimator = Field(
        default="dual_gae", description="turn_gae: token factors 1; single_gae: the step factors between tokens, too"
    )
    gamma_step: Fraction = 0.99
    lambda_step: Fraction = 0.95
    gamma_token: Fraction = 1.0
    lambda_token: Fraction = 1.0
    critic_lambda_step: Fraction | None = Field(
        default=None, description="lambda_step of the critic's returns, if another"
    )
    critic_lambda_token: Fraction | None = Field(default=None, description="lambda_token of the critic's returns")
    length_adaptive_alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="lambda_token of a reply of l tokens: 1 - 1 / (alpha l); none: off"
    )
    gigpo_step_weight: Rate = Field(default=1.0, description="weight of gigpo's advantage of a step")
    policy_loss: Literal["ppo", "cispo"] = "ppo"
    ratio: Literal["token", "turn", "turn_product"] = Field(
        default="token", description="what is clipped: a token's ratio, or its turn's geometric mean or product"
    )
    aggregate: Literal["token", "turn", "episode"] = Field(
        default="token", description="what policy, entropy and KL losses are averaged over"
    )
    epochs: Positive = 1
    minibatches: Positive = Field(default=4, description="optimizer steps an epoch")
    clip_low: Fraction = Field(default=0.2, description="ratio is clipped below 1 - clip_low")
    clip_high: Rate = Field(default=0.2, description="ratio is clipped above 1 + clip_high")
    dual_clip: Annotated[float, Field(gt=1)] | None = Field(default=3.0, description="bound for negative advantages")
    value_clip: Annotated[float, Field(gt=0)] | None = Field(default=0.5, description="clip range of value updates")
    value_coef: Rate = 0.5
    first_position_weight: Rate = Field(default=3.0, description="weight of the value loss at a turn's first position")
    entropy_coef: Rate = 0.0
    kl_coef: Rate = Field(default=0.0, description="of the KL to the policy that training began with")
    kl_kind: Literal["reward", "loss"] = Field(default="reward", description="inside the reward, or as a loss")
    kl_estimator: Literal["k1", "k2", "k3"] | None = Field(
        default=None, description="none: k1 in the reward, k3 in the loss"
    )
    kl_target: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="kl_coef changes by up to a tenth an update to keep the KL here; none: fixed"
    )
    whiten_advantages: bool | None = Field(
        default=None, description="none: as the estimator is published, all but rloo, grpo, dr_grpo and gigpo do"
    )
    format_penalty: Rate = Field(default=0.1, description="subtracted from the reward of a turn without a legal action")
    is_correction_cap: Annotated[float, Field(ge=1)] | None = Field(
        default=None, description="cap of truncated importance weights, trainer over sampler; none: off"
    )
    is_correction_mask: tuple[Annotated[float, Field(ge=0, le=1)], Annotated[float, Field(ge=1)]] | None = Field(
        default=None, description="leave out what has an importance weight outside of these bounds; none: off"
    )
    is_correction_level: Literal["token", "turn"] = Field(
        default="token", description="weights of tokens, or of whole turns (the product of their tokens')"
    )

    @property
    def kl(self) -> str:
        """Which estimate of the KL is used."""
        return self.kl_estimator or ("k1" if self.kl_kind == "reward" else "k3")

    @property
    def has_critic(self) -> bool:
        return self.estimator in ("dual_gae", "turn_gae", "single_gae", "bilevel_gae")

    @property
    def compares_groups(self) -> bool:
        return self.estimator in ("rloo", "grpo", "dr_grpo", "gigpo")

    @property
    def whitens(self) -> bool:
        return not self.compares_groups if self.whiten_advantages is None else self.whiten_advantages

    @model_validator(mode="after")
    def _fits_estimator(self) -> "AlgorithmConfig":
        tokens = (self.gamma_token, self.lambda_token)
        if self.estimator in ("turn_gae", "single_gae") and tokens != (1.0, 1.0):
            raise ValueError(
                f"algorithm.gamma_token, algorithm.lambda_token = {tokens}: {self.estimator} sets them; leave them out"
            )
        if self.kl_kind == "loss" and self.kl_estimator == "k1":
            raise ValueError("algorithm.kl_estimator = k1: as a loss its gradient is 0 on average; take k2 or k3")
        if self.kl_target is not None and not self.kl_coef:
            raise ValueError(f"algorithm.kl_target = {self.kl_target}: give a kl_coef to begin with")
        critic_only = {
            "critic_lambda_step": self.critic_lambda_step,
            "critic_lambda_token": self.critic_lambda_token,
            "length_adaptive_alpha": self.length_adaptive_alpha,
        }
        for name, value in critic_only.items():
            if value is not None and not self.has_critic:
                raise ValueError(f"algorithm.{name} = {value}: {self.estimator} has no critic; leave it out")
        if self.length_adaptive_alpha is not None and (self.estimator == "single_gae" or self.lambda_token != 1.0):
            raise ValueError(
                f"algorithm.length_adaptive_alpha = {self.length_adaptive_alpha}: it sets lambda_token; leave one out"
            )
        return self
