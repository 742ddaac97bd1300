"""What an engine is: prompts in, sampled ids and their logprobs out."""

from dataclasses import dataclass, field
from typing import Protocol

from agentrl.records import FinishReason, Message


@dataclass(slots=True, frozen=True)
class Sampling:
    """How a reply is drawn. `temperature` 0 is greedy, for evaluation only.

    There is no top_p and no top_k: logprobs must be those of the distribution that was sampled.
    """

    temperature: float = 1.0
    max_tokens: int = 16


@dataclass(slots=True)
class Request:
    """One prompt. `legal` restricts the reply to these actions where the engine was given a constraint; `seed` fixes
    every draw of this reply, whatever else is in the batch."""

    messages: list[Message]
    prompt_ids: list[int] | None
    sampling: Sampling
    legal: tuple[str, ...] | None = None
    seed: int = 0


@dataclass(slots=True)
class Reply:
    """What came back. `ids` end with the end-of-turn token unless `finish_reason` is "length"; `logprobs[j]` is the
    logprob of `ids[j]` among `legal[j]` at the sampling temperature. Engines that only evaluate leave ids empty.

    Attributes:
        error: why there is no reply, in one line; the turn is then a broken one.
        prompt_tokens, reply_tokens: lengths as an endpoint reports them, of ids in process; None: not known.
    """

    text: str
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    legal: list[tuple[int, ...]] = field(default_factory=list)
    finish_reason: FinishReason = "stop"
    policy_version: int = 0
    error: str | None = None
    prompt_tokens: int | None = None
    reply_tokens: int | None = None


class Engine(Protocol):
    """Anything that answers requests in order.

    Attributes:
        in_process: the model is here, and many requests in one call cost less than each on its own. Else it is an
            endpoint, which several threads may ask at a time.
    """

    in_process: bool

    def generate(self, requests: list[Request]) -> list[Reply]: ...
