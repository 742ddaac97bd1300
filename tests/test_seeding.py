"""Randomness by key: the same key, the same draw; another key, another draw."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.seeding import _STREAMS, key, permutation, training_seed, uniforms


def test_keys_are_for_ever() -> None:
    """Resumed runs and published figures hang on them."""
    assert key("sample", 0, 1, 2, 3) == 7863059010980298294
    assert uniforms(7, 3).tolist() == [0.8720734548204873, 0.29536538151378355, 0.4200976785072422]
    assert permutation(7, 5).tolist() == [2, 3, 1, 0, 4]


def test_no_two_uses_share_a_key() -> None:
    keys = [key(stream, *numbers) for stream in _STREAMS for numbers in product(range(3), range(8), range(8), range(8))]
    assert len(set(keys)) == len(keys)
    assert len(set(_STREAMS.values())) == len(_STREAMS)


def test_games_of_a_run_hardly_meet_the_same_seed() -> None:
    seeds = [training_seed(0, slot, episode) for slot in range(32) for episode in range(100)]
    assert len(set(seeds)) >= len(seeds) - 1  # 3200 of 2**30: a collision has a chance of 0.005


@given(seed=st.integers(0, 2**64 - 1), count=st.integers(0, 40), more=st.integers(0, 40))
def test_draws_depend_on_the_key_alone(seed: int, count: int, more: int) -> None:
    draws = uniforms(seed, count + more)
    assert ((draws >= 0) & (draws < 1)).all()
    assert (draws[:count] == uniforms(seed, count)).all()
    assert sorted(permutation(seed, count)) == list(range(count))
    state = np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    uniforms(seed, 3)
    assert np.random.get_state()[1].tolist() == state  # type: ignore[index, union-attr]


def test_an_unknown_stream_is_an_error() -> None:
    with pytest.raises(KeyError):
        key("other", 0)
