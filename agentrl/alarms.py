"""Alarms: metrics that say a run is going wrong, each with a sentence that says what to try.

A run whose policy collapses rarely recovers: its replies become one token repeated, its entropy nothing. The signs come
some updates before; see `AlarmsConfig` for the thresholds.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from agentrl.callbacks import Callback, TrainerView
from agentrl.config import AlarmsConfig
from agentrl.errors import UserError
from agentrl.progress import say

RECENT = 20
"""Updates whose median a gradient norm is compared with; none is before there are `ENOUGH`."""
ENOUGH = 5

WINDOW = 10
"""Updates; reward hacking shows between the last so many and those before them."""


class Alarmed(UserError):
    """A run was stopped after `alarms.stop_after` updates in a row with an alarm."""


@dataclass(frozen=True)
class Alarm:
    """One metric on the wrong side of its threshold."""

    metric: str
    value: float
    threshold: float
    advice: str

    def __str__(self) -> str:
        return f"{self.metric} = {self.value:.3g} (threshold {self.threshold:g}): {self.advice}"


ABOVE = {
    "approx_kl": "the policy moves far in one update; lower optimizer.lr or algorithm.epochs",
    "clip_fraction": "most ratios are clipped; lower optimizer.lr or algorithm.epochs, or take more minibatches",
    "length_stop_fraction": "replies are cut; raise engine.max_reply_tokens, or look at what they repeat",
    "repetition": "replies repeat themselves; lower optimizer.lr, raise algorithm.kl_coef, and read turns/*.parquet",
    "invalid_fraction": "most replies hold no legal action; imitate first, or set engine.constrain = actions",
}
BELOW = {
    "entropy": "the policy has stopped exploring; raise algorithm.entropy_coef or kl_coef, lower optimizer.lr",
    "explained_variance": "the critic misleads; warm it up (critic_warmup.max_updates), or change optimizer.value_lr",
    "effective_sample_size": "sampler and trainer disagree; look at logprob_diff/max, set algorithm.is_correction_cap",
}
PREFIXES = ("", "turns/")


def alarms(metrics: Mapping[str, float], config: AlarmsConfig, norms: list[float]) -> list[Alarm]:
    """What is wrong in one update's metrics. `norms` are the policy's gradient norms of recent updates."""
    found = []
    for above, table in ((True, ABOVE), (False, BELOW)):
        for name, advice in table.items():
            threshold = getattr(config, name)
            metric = next((prefix + name for prefix in PREFIXES if prefix + name in metrics), None)
            if threshold is None or metric is None:
                continue
            value = metrics[metric]
            if (value > threshold) if above else (value < threshold):
                found.append(Alarm(metric, value, threshold, advice))
    norm = metrics.get("grad_norm/policy")
    if config.grad_norm_ratio is not None and norm is not None and len(norms) >= ENOUGH:
        ratio = norm / max(median(norms), 1e-12)
        if ratio > config.grad_norm_ratio:
            advice = "so many times its median of late; lower optimizer.lr or optimizer.max_grad_norm"
            found.append(Alarm("grad_norm/policy", ratio, config.grad_norm_ratio, advice))
    if metrics.get("optimizer/skipped_steps"):
        advice = "optimizer steps were left out, their gradients were not finite; lower optimizer.lr"
        found.append(Alarm("optimizer/skipped_steps", metrics["optimizer/skipped_steps"], 0, advice))
    return found


def reward_hacking(recent: Sequence[Mapping[str, float]], learned: Sequence[str], threshold: float) -> list[Alarm]:
    """The policy pleases a learned reward and plays worse: the game's success fell by more than `threshold` from the
    first half of `recent` metrics to the second, and the mean of a learned term rose."""
    half = len(recent) // 2

    def rise(name: str) -> float | None:
        before, after = ([m[name] for m in part if name in m] for part in (recent[:half], recent[half:]))
        return None if not before or not after else sum(after) / len(after) - sum(before) / len(before)

    success = rise("episode/success")
    if success is None or -success <= threshold:
        return []
    advice = "rises while the game's success falls by {:.2f}; lower the term's weight, and read turns/*.parquet"
    found = []
    for name in learned:
        more = rise(f"rewards/{name}")
        if more is not None and more > 0:
            found.append(Alarm(f"rewards/{name}", more, 0.0, advice.format(-success)))
    return found


class Alarms(Callback):
    """Says each alarm when it begins, counts them in `alarms`, and stops the run if the config asks for it.

    Args:
        learned: names of the terms of the reward that a model gives.
    """

    def __init__(self, config: AlarmsConfig, learned: Sequence[str] = ()) -> None:
        self.config = config
        self._learned = learned
        self._metrics: deque[Mapping[str, float]] = deque(maxlen=2 * WINDOW)
        self._norms: deque[float] = deque(maxlen=RECENT)
        self._ringing: set[str] = set()
        self._in_a_row = 0

    def on_update(self, trainer: TrainerView, metrics: dict[str, float]) -> None:
        """
        Raises:
            Alarmed: too many updates in a row had an alarm.
        """
        found = alarms(metrics, self.config, list(self._norms))
        self._metrics.append(dict(metrics))
        if self.config.reward_hacking is not None and len(self._metrics) == 2 * WINDOW:
            found += reward_hacking(list(self._metrics), self._learned, self.config.reward_hacking)
        if "grad_norm/policy" in metrics:
            self._norms.append(metrics["grad_norm/policy"])
        metrics["alarms"] = float(len(found))
        for alarm in found:
            if alarm.metric not in self._ringing and trainer.is_main:
                say(f"alarm at update {trainer.update}: {alarm}")
        self._ringing = {alarm.metric for alarm in found}
        self._in_a_row = self._in_a_row + 1 if found else 0
        if self.config.stop_after and self._in_a_row >= self.config.stop_after:
            told = "; ".join(map(str, found))
            raise Alarmed(f"stopped at update {trainer.update} (alarms.stop_after = {self.config.stop_after}): {told}")
