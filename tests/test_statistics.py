"""Intervals and explained variance against numbers computed by hand, by simulation and by their definition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.statistics import bootstrap_mean, explained_variance, unlock_score, wilson


def test_wilson_by_hand() -> None:
    # z = 1.959964, n = 10, p = 0.8: centre (0.8 + 3.841459/20) / 1.3841459 = 0.716739,
    # half z * sqrt(0.016 + 3.841459/400) / 1.3841459 = 0.226577.
    low, high = wilson(8, 10)
    assert low == pytest.approx(0.490162, abs=1e-6)
    assert high == pytest.approx(0.943318, abs=1e-6)


def test_wilson_at_the_ends() -> None:
    # At 0 of n the upper bound is z^2 / (n + z^2).
    z2 = 1.959963985**2
    assert wilson(0, 20) == (0.0, pytest.approx(z2 / (20 + z2), abs=1e-9))
    assert wilson(20, 20) == (pytest.approx(20 / (20 + z2), abs=1e-9), 1.0)
    assert wilson(0, 0) == (0.0, 1.0)


def test_wilson_refuses_impossible_counts() -> None:
    for successes, n in ((-1, 4), (5, 4)):
        with pytest.raises(ValueError, match=f"successes = {successes}"):
            wilson(successes, n)


@given(st.integers(1, 500), st.data())
def test_wilson_solves_the_score_equation(n: int, data: st.DataObject) -> None:
    """A bound q is where |p - q| is z standard errors of q itself."""
    successes = data.draw(st.integers(0, n))
    p = successes / n
    for q in wilson(successes, n, confidence=0.9):
        assert 0 <= q <= 1
        assert abs(p - q) == pytest.approx(1.6448536 * math.sqrt(q * (1 - q) / n), abs=1e-6)


def test_bootstrap_is_deterministic_and_of_the_sample_alone() -> None:
    values = np.random.default_rng(0).normal(size=30).tolist()
    assert bootstrap_mean(values) == bootstrap_mean(values)
    assert bootstrap_mean(values, seed=1) != bootstrap_mean(values, seed=2)
    assert bootstrap_mean([0.3] * 9) == (pytest.approx(0.3), pytest.approx(0.3))
    assert all(math.isnan(bound) for bound in bootstrap_mean([]))


def test_bootstrap_agrees_with_the_normal_approximation() -> None:
    values = np.random.default_rng(3).normal(size=400).tolist()
    mean, error = np.mean(values), np.std(values) / math.sqrt(400)
    low, high = bootstrap_mean(values, samples=4000)
    assert low == pytest.approx(mean - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(mean + 1.96 * error, abs=0.15 * error)
    wide, narrow = bootstrap_mean(values, 0.99), bootstrap_mean(values, 0.5)
    assert wide[0] < low < narrow[0] < narrow[1] < high < wide[1]


def test_unlock_score_by_hand() -> None:
    # 8 % and 0 %: sqrt(9 * 1) - 1 = 2, where the arithmetic mean is 4.
    assert unlock_score([0.08, 0.0]) == pytest.approx(2.0)
    # 24 % and 3 %: sqrt(25 * 4) - 1 = 9.
    assert unlock_score([0.24, 0.03]) == unlock_score([0.03, 0.24]) == pytest.approx(9.0)
    assert unlock_score([0.0] * 22) == 0.0
    assert unlock_score([1.0] * 22) == pytest.approx(100.0)
    assert math.isnan(unlock_score([]))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_unlock_score_lies_between_the_geometric_and_the_arithmetic_mean(rates: list[float]) -> None:
    percents = [100 * rate for rate in rates]
    assert math.prod(percents) ** (1 / len(rates)) - 1e-9 <= unlock_score(rates) <= np.mean(percents) + 1e-9


def test_explained_variance_by_hand() -> None:
    # returns 1, 2, 3, 6 have variance 3.5; residuals 0, 1, 0, 1 have 0.25.
    assert explained_variance([1, 1, 3, 5], [1, 2, 3, 6]) == pytest.approx(1 - 0.25 / 3.5)
    assert explained_variance([1, 2, 3], [1, 2, 3]) == 1
    assert explained_variance([7, 7, 7], [1, 2, 3]) == 0
    assert explained_variance([3, 2, 1], [1, 2, 3]) == pytest.approx(-3)
    # A constant offset is no residual variance.
    assert explained_variance([11, 12, 13], [1, 2, 3]) == pytest.approx(1)


@pytest.mark.parametrize("returns", [[], [5.0], [0.1, 0.1, 0.1]])
def test_nothing_to_explain_is_nan(returns: list[float]) -> None:
    assert math.isnan(explained_variance([0.3] * len(returns), returns))
