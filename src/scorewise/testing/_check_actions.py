"""A check of the cheapest actions that a kernel finds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scorewise.decompose import COMPONENTS
from scorewise.errors import KernelMismatch
from scorewise.kernels import Extras, Kernel
from scorewise.rules import ScoringRule
from scorewise.rules import cost_matrix as cost_matrix_rule
from scorewise.rules.structures import Costs
from scorewise.testing._kernel_cases import (
    ALLOWED,
    Case,
    allowed_error,
    by_formulas,
    compare,
    components_by_kernel,
    is_exact,
)

_ACTIONS = Extras(actions=True)
_ROUNDING_ERRORS = 16  # that may decide between two actions


def check_actions(kernel: Kernel, rules: Sequence[ScoringRule], case: Case) -> None:
    """Raise if actions under costs are not the cheapest, where the kernel supports them."""
    for rule in rules:
        structure = rule.structure
        if isinstance(structure, Costs) and kernel.supports(rule, _ACTIONS):
            _check(kernel, rule, structure.costs, case)
            # The first action once more, at the end: it costs the same, and is never chosen.
            costs = np.column_stack([structure.costs, structure.costs[:, 0]])
            _check(kernel, cost_matrix_rule(costs), costs, case)


def _check(kernel: Kernel, rule: ScoringRule, costs: np.ndarray, case: Case) -> None:
    components = components_by_kernel(kernel, [rule], case, _ACTIONS)[0]
    action = components.pop("action")
    samples = case.members().samples
    references = dict(zip(COMPONENTS, by_formulas(samples, rule), strict=True))
    allowed = {name: allowed_error(case, name, reference) for name, reference in references.items()}
    exact = is_exact(case, rule)
    compare(repr(rule), components, references, allowed, case, ", actions", exact=exact)
    if action.shape != references["total"].shape:
        raise KernelMismatch(f"{rule!r} action has shape {action.shape}: {case}")
    excess = costs - costs.min(axis=1, keepdims=True)
    expected = samples.in_float64().mean @ excess
    close = _is_close_to_least(expected, excess, case)
    is_known = (action == np.rint(action)) & (action >= -1) & (action < costs.shape[1])
    index = np.where(is_known, action, 0).astype(int)
    chosen_is_close = np.take_along_axis(close, index[..., None], axis=-1)[..., 0]
    may_be_tied = close.sum(axis=-1) > 1
    wrong = ~is_known | ~np.where(index < 0, may_be_tied, chosen_is_close)
    for later in range(1, costs.shape[1]):
        if (costs[:, :later] == costs[:, [later]]).all(axis=0).any():
            wrong |= index == later
    if np.any(wrong):
        row = int(np.argmax(wrong))
        raise KernelMismatch(
            f"{rule!r} action[{row}] is {action[row]:g} by the kernel; the actions cost "
            f"{expected[row]} more than the cheapest of each class: {case}"
        )


def _is_close_to_least(expected: np.ndarray, excess: np.ndarray, case: Case) -> np.ndarray:
    """Return which actions may be the cheapest: their costs are equal up to rounding."""
    _, absolute = ALLOWED[str(case.array.dtype)]
    margin = _ROUNDING_ERRORS * absolute * (2 if case.is_rescaled else 1)
    tiny = 4 * float(np.finfo(case.dtype).tiny) * excess.sum()
    least = expected.min(axis=-1, keepdims=True)
    return np.asarray(expected * (1 - margin) <= least * (1 + margin) + tiny)
