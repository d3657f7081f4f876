"""Which members answer, and how often."""

from __future__ import annotations

from scorewise import _validate as validate
from scorewise._random import generator
from scorewise.errors import InvalidInput

N_DRAWS = 20  # of a stochastic model, as in the paper


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
