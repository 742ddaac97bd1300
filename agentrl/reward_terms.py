"""The schema of `rewards`: the kinds of terms that a turn may be paid beside the game's own reward."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from agentrl.section import Number, Positive, Seconds, Section

RewardName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]
"""Metrics are named by it."""

OWN_PARTS = ("game", "format")
"""Names of the parts that every run has."""


class _Term(Section):
    learned: ClassVar[bool] = False
    """Whether a model gives it, which a policy may learn to please without playing well."""

    weight: Number = Field(default=1.0, description="what the term's value is multiplied by")


class LengthTerm(_Term):
    """0 for replies up to `free_tokens`, falling to -weight at `most_tokens`."""

    kind: Literal["length"]
    free_tokens: Annotated[int, Field(ge=0)]
    most_tokens: Positive

    @model_validator(mode="after")
    def _falls(self) -> "LengthTerm":
        if self.most_tokens <= self.free_tokens:
            raise ValueError(f"most_tokens = {self.most_tokens}: must be above free_tokens = {self.free_tokens}")
        return self


class RuleTerm(_Term):
    """A function's verdict on a turn, or on an episode at its end: true, false, or a number."""

    kind: Literal["rule"]
    rule: str = Field(description="dotted path; of scope turn f(TurnFacts), of scope episode f([TurnFacts, ...])")
    scope: Literal["turn", "episode"] = "turn"


class ShapingTerm(_Term):
    """gamma_step * Phi(next observation) - Phi(observation), which changes no policy's rank."""

    kind: Literal["shaping"]
    potential: str = Field(description="dotted path of Phi(Observation) -> number")


class RewardModelTerm(_Term):
    """The score of a sequence-classification model with one output, for the prompt and the reply."""

    learned = True
    kind: Literal["reward_model"]
    path: str = Field(description="Hugging Face name or folder, such as `agentrl train-reward` writes")
    batch_size: Positive = 16
    max_tokens: Positive = Field(default=1024, description="of a turn the last so many are read")


class JudgeTerm(_Term):
    """A mark that a language model behind an endpoint gives a turn, scaled to 0..1."""

    learned = True
    kind: Literal["judge"]
    model: str = Field(description="its name at the endpoint")
    base_url: str = Field(description="of an OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1")
    rubric: str = Field(description="what is asked for, in words; or a path that ends in .txt or .md")
    highest: Positive = Field(default=10, description="marks go from 0 to this")
    max_tokens: Positive = 256
    timeout: Seconds = 60.0
    concurrency: Annotated[int, Field(gt=0, le=1024)] = Field(default=8, description="most requests at a time")


Term = LengthTerm | RuleTerm | ShapingTerm | RewardModelTerm | JudgeTerm
RewardTerm = Annotated[Term, Field(discriminator="kind")]

TERMS: dict[str, type[_Term]] = {
    "length": LengthTerm,
    "rule": RuleTerm,
    "shaping": ShapingTerm,
    "reward_model": RewardModelTerm,
    "judge": JudgeTerm,
}
"""Kind -> its schema."""
