"""A check of the risk of a predictor that a kernel computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scorewise._array import Array
from scorewise._inputs import InputOptions
from scorewise._members import Members
from scorewise.decompose import COMPONENTS, components_by_arrays
from scorewise.distributions import Samples
from scorewise.kernels import Extras, Kernel
from scorewise.rules import DecisionRule, ScoringRule
from scorewise.rules.structures import Costs
from scorewise.testing._kernel_cases import (
    ALLOWED,
    Case,
    allowed_error,
    compare,
    components_by_kernel,
    is_exact,
    is_subnormal,
    margin,
)


def check_predictor(
    kernel: Kernel, rules: Sequence[ScoringRule], case: Case, rng: np.random.Generator
) -> None:
    """Raise if the risk of predictions is not that of the array path, where it is supported."""
    samples = case.members().samples
    q = _predictions(samples, rng)
    extras = Extras(predictor=q)
    rules = [rule for rule in rules if kernel.supports(rule, extras)]
    if not rules:
        return
    if case.options.get("from_logits") and is_subnormal(samples).any():
        return  # a kernel may round it to 0, which q may call impossible
    wide = Members.of(samples.in_float64(), None, InputOptions())
    arrays = iter(components_by_arrays(wide, rules, Extras(predictor=q.astype(np.float64))))
    for rule, components in zip(
        rules, components_by_kernel(kernel, list(rules), case, extras), strict=True
    ):
        references = {name: next(arrays) for name in COMPONENTS}
        allowed = {name: _allowed(case, rule, q, name, x) for name, x in references.items()}
        exact = is_exact(case, rule) and not case.is_rescaled
        compare(repr(rule), components, references, allowed, case, ", predictor", exact=exact)


def _predictions(samples: Samples, rng: np.random.Generator) -> np.ndarray:
    """Return predictions ``(..., K)``: a member, a corner, others, or one for all instances."""
    first, k = samples.probs[..., 0, :], samples.n_classes
    drawn = rng.dirichlet(np.ones(k), first.shape[:-1])
    choices = [
        first,
        np.eye(k)[rng.integers(k, size=first.shape[:-1])],
        drawn,
        np.asfortranarray(drawn),
        np.broadcast_to(rng.dirichlet(np.ones(k)), first.shape),
    ]
    q: np.ndarray = choices[rng.integers(len(choices))]
    return q.astype(first.dtype, order="K")


def _allowed(case: Case, rule: ScoringRule, q: Array, name: str, reference: Array) -> Array:
    """Return how far a component may be from the array path's; any value where it is inf."""
    allowed = allowed_error(case, name, np.where(np.isfinite(reference), reference, 0.0))
    if isinstance(rule, DecisionRule) and isinstance(rule.structure, Costs):
        # Rounding errors choose among actions that are tied.
        _, absolute = ALLOWED[str(case.array.dtype)]
        is_tied = margin(rule, q) < 64 * absolute * (1 + np.abs(rule.structure.costs).max())
        return np.where(is_tied, np.inf, allowed)
    return allowed
