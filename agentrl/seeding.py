"""Where every random number of a run comes from: generators keyed by what they are for, never by order of use.

Keys make a run resumable and replayable: the seed of slot 3's episode 7, or of a reply's first token, can be told
without having run anything before. Training and held-out seeds lie in disjoint ranges.
"""

import numpy as np

HELD_OUT = 2**30
"""Training seeds lie below, held-out seeds from here on."""

_STREAMS = {
    "episode": 0,
    "sample": 1,
    "minibatch": 2,
    "random_player": 3,
    "imitation": 4,
    "model": 5,
    "value_head": 6,
    "evaluation": 7,
    "reward_model": 8,
    "dpo": 9,
    "demonstration": 10,
    "bench": 11,
}


def key(stream: str, *numbers: int) -> int:
    """A 64-bit key for one use of randomness, from its stream and its non-negative coordinates."""
    sequence = np.random.SeedSequence((_STREAMS[stream], *numbers))
    return int(sequence.generate_state(1, np.uint64)[0])


def training_seed(run_seed: int, slot: int, episode: int) -> int:
    """The game seed of a training episode, in [0, HELD_OUT)."""
    return key("episode", run_seed, slot, episode) % HELD_OUT


def held_out_seed(index: int) -> int:
    """The game seed of held-out episode `index`, the same in every run."""
    return HELD_OUT + index


def uniforms(seed: int, count: int) -> np.ndarray:
    """`count` float64 numbers in [0, 1) from the Philox generator (Salmon et al., 2011) keyed by `seed`."""
    return np.random.Generator(np.random.Philox(key=seed)).random(count)


def permutation(seed: int, count: int) -> np.ndarray:
    """A permutation of `count` items keyed by `seed`."""
    return np.random.Generator(np.random.Philox(key=seed)).permutation(count)
