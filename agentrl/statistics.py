"""Intervals and scores for what a run reports, and how much of the returns a critic explains."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of a proportion (Wilson 1927, doi:10.1080/01621459.1927.10502953).

    Unlike the normal approximation it stays inside [0, 1] and keeps a width at 0 or n successes. No trial at all says
    nothing: (0, 1). Raises ValueError if successes are not in 0..n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"wilson: successes = {successes}, but it must lie in 0..n = 0..{n}")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At 0 and n the exact bound is 0 and 1; rounding would miss it by an ulp.
    low = 0.0 if successes == 0 else (centre - half) / scale
    high = 1.0 if successes == n else (centre + half) / scale
    return low, high


def bootstrap_mean(
    values: Sequence[float], confidence: float = 0.95, seed: int = 0, samples: int = 2000
) -> tuple[float, float]:
    """Percentile bootstrap interval of a mean (Efron 1979, doi:10.1214/aos/1176344552), the same for the same seed.

    An empty sample gives (nan, nan).
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        return float("nan"), float("nan")
    rng = np.random.default_rng(seed)
    at_a_time = max(1, 2**22 // array.size)  # numbers in memory, not samples
    means = np.concatenate(
        [
            array[rng.integers(0, array.size, (min(at_a_time, samples - start), array.size))].mean(axis=1)
            for start in range(0, samples, at_a_time)
        ]
    )
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def unlock_score(rates: Sequence[float]) -> float:
    """One figure for the rates in [0, 1] at which achievements are unlocked, in percent: exp(mean ln(1 + s)) - 1.

    The geometric mean over all achievements, s being a rate in percent (Hafner 2021, arXiv:2109.06780): a first unlock
    of a rare one counts for more than some percent of a common one. No rate at all gives nan.
    """
    if not len(rates):
        return float("nan")
    return float(np.expm1(np.mean(np.log1p(100 * np.asarray(rates, dtype=np.float64)))))


def explained_variance(values: ArrayLike, returns: ArrayLike) -> float:
    """1 - Var(returns - values) / Var(returns): 1 is a perfect critic, 0 no better than a constant, below 0 worse.

    `values` and `returns` have one shape. Returns that are all equal have nothing to explain: nan, as for empty input.
    """
    values_N = np.asarray(values, dtype=np.float64)
    returns_N = np.asarray(returns, dtype=np.float64)
    # Not var == 0: the variance of equal floats can come out as 1e-34, and the ratio as any number.
    if returns_N.size == 0 or np.ptp(returns_N) == 0:
        return float("nan")
    return float(1 - np.var(returns_N - values_N) / np.var(returns_N))


def paired_difference(
    ours: Sequence[float], theirs: Sequence[float], confidence: float = 0.95, seed: int = 0, samples: int = 2000
) -> tuple[float, float, float]:
    """Mean of ours - theirs over episodes of the same seeds, and its percentile bootstrap interval over the pairs.

    Raises:
        ValueError: the lengths differ; there is no pair.
    """
    if len(ours) != len(theirs) or not len(ours):
        raise ValueError(f"paired_difference: {len(ours)} and {len(theirs)} values; pairs are needed")
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    return float(differences.mean()), *bootstrap_mean(differences.tolist(), confidence, seed, samples)


def bootstrap_seeds(
    runs: Sequence[Sequence[float]], confidence: float = 0.95, seed: int = 0, samples: int = 2000
) -> tuple[float, float]:
    """Interval of the mean over training seeds, each the mean of its episodes: runs are drawn with replacement, then
    the episodes of each.

    An empty sample, and a run without episodes, give (nan, nan).
    """
    if not runs or not all(len(run) for run in runs):
        return float("nan"), float("nan")
    arrays, rng = [np.asarray(run, dtype=np.float64) for run in runs], np.random.default_rng(seed)
    means = np.empty(samples)
    for sample in range(samples):
        chosen = rng.integers(0, len(arrays), len(arrays))
        means[sample] = np.mean([arrays[i][rng.integers(0, len(arrays[i]), len(arrays[i]))].mean() for i in chosen])
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def interquartile_mean(values: Sequence[float]) -> float:
    """Mean of the middle half (Agarwal et al. 2021, arXiv 2108.13264): what is cut off weighs by its share, so that any
    number of values has one. No value gives nan."""
    array = np.sort(np.asarray(values, dtype=np.float64))
    if not array.size:
        return float("nan")
    # Each value covers 1/n of [0, 1]; it weighs what of that lies within [1/4, 3/4].
    edges = np.arange(array.size + 1) / array.size
    weights = np.clip(edges[1:], 0.25, 0.75) - np.clip(edges[:-1], 0.25, 0.75)
    return float(array @ weights / weights.sum())
