"""Which members answer, and with which random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise import validate
from scorewise.errors import InvalidInput

N_DRAWS = 20  # of a stochastic model, as in the paper


def entropy_of(random_state: Any) -> int:
    """The one number from which all draws follow; fresh where ``random_state`` is None."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return validate.whole(random_state, "random_state", at_least=0)


def generator(entropy: int, *place: int) -> np.random.Generator:
    """Random numbers of their own for each place, such as a member or a layer."""
    return np.random.default_rng(np.random.SeedSequence([entropy, *place]))


def choose_members(n_members: int, n_samples: int | None, entropy: int) -> list[int]:
    """All members, or a random subset of them in their order."""
    if n_samples is None:
        return list(range(n_members))
    wanted = validate.whole(n_samples, "n_samples", at_least=1)
    if wanted > n_members:
        raise InvalidInput(
            f"n_samples={wanted}, but the model has {n_members} members; pass at most that, or "
            "None for all of them"
        )
    return sorted(generator(entropy).choice(n_members, wanted, replace=False).tolist())


def draw_count(n_samples: int | None) -> int:
    """How often to draw from a stochastic model."""
    return N_DRAWS if n_samples is None else validate.whole(n_samples, "n_samples", at_least=1)
