"""Random generators that depend on a seed alone, not on the order of execution."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise import _validate as validate


def seed_of(random_state: Any) -> int:
    """Return the seed of all draws; a fresh one if ``random_state`` is None."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return validate.whole(random_state, "random_state", at_least=0)


def generator(seed: int, *keys: int) -> np.random.Generator:
    """Return an independent generator for each tuple of keys, such as a member or a layer."""
    return np.random.default_rng(np.random.SeedSequence([seed, *keys]))
