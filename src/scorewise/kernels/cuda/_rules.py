"""Rules as the kernel reads them: a class of native/, and its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from scorewise.kernels._beta_numbers import two_class_numbers
from scorewise.kernels.cuda._plan import Needs
from scorewise.rules import ScoringRule
from scorewise.rules.structures import (
    Costs,
    CumulativeSums,
    LargestClasses,
    Norm,
    QuadraticForm,
    Separable,
    Structure,
    TwoClass,
)

_LARGEST_POWER = 64  # the largest power of a rule that keeps enough digits
_MOST_ACTIONS = 32  # whose costs a lane holds
_MOST_LARGEST = 16
_MOST_CLASSES = 256  # of a quadratic form; libraries multiply larger matrices faster

_FIRST_FOUR = ("log", "brier", "zero_one", "spherical")  # in the order of native/first_four.cuh


@dataclass(frozen=True, eq=False)
class Launch:
    """One run of the kernel, under one rule or some of the first four.

    ``places`` are where each of its rules is in the caller's list, once or several times.
    """

    places: tuple[tuple[int, ...], ...]
    needs: Needs
    constants: tuple[tuple[str, object], ...]
    structure: Structure | None = None
    parameter: float = 0.0


def is_computed(structure: Structure | None) -> bool:
    """Return whether the kernel computes rules of this structure."""
    match structure:
        case Separable(power=power) | Norm(power=power):
            return power <= _LARGEST_POWER
        case LargestClasses(k=k):
            return k <= _MOST_LARGEST
        case Costs(costs=costs):
            return bool(costs.shape[1] <= _MOST_ACTIONS)
        case QuadraticForm(distances=distances):
            return len(distances) <= _MOST_CLASSES
        case TwoClass(a=a, b=b):
            return two_class_numbers(a, b) is not None
        case CumulativeSums():
            return True
        case _:
            return False


def launches_for(rules: Sequence[ScoringRule]) -> list[Launch]:
    """Return the runs of the kernel that compute the rules: one for all of the first four."""
    names = tuple(name_of_first_four(rule.structure) for rule in rules)
    return _launches_of_first_four(names) + [
        _launch_of(i, rule.structure)
        for i, (rule, name) in enumerate(zip(rules, names, strict=True))
        if name is None
    ]


@lru_cache(maxsize=256)
def _launches_of_first_four(names: tuple[str | None, ...]) -> list[Launch]:
    """Return the run that computes rules with these names, if there are any."""
    wanted = [name for name in _FIRST_FOUR if name in names]
    if not wanted:
        return []
    slots = [wanted.index(name) if name in wanted else -1 for name in _FIRST_FOUR]
    constants = (
        ("RULE", "FirstFour"),
        ("RULE_SLOTS", ", ".join(map(str, slots))),
        ("WITH_LOG", int("log" in wanted)),
        ("WITH_SQUARES", int("brier" in wanted or "spherical" in wanted)),
        ("WITH_TOP", int("zero_one" in wanted)),
    )
    places = tuple(tuple(i for i, x in enumerate(names) if x == name) for name in wanted)
    return [Launch(places, Needs(5, 4, int("zero_one" in wanted)), constants)]


def derivatives_of_components(
    rules: Sequence[ScoringRule], upstream: Sequence[Any]
) -> dict[int, Any]:
    """Return the derivatives with respect to components, by the number of each in native/.

    Components without a derivative (None) are left out. A rule may be in the list twice.
    """
    by_component: dict[int, Any] = {}
    for i, derivative in enumerate(upstream):
        if derivative is None:
            continue
        rule = _FIRST_FOUR.index(str(name_of_first_four(rules[i // 3].structure)))
        component = 3 * rule + i % 3
        before = by_component.get(component)
        by_component[component] = derivative if before is None else before + derivative
    return by_component


def name_of_first_four(structure: Structure | None) -> str | None:
    """Return which of the first four rules has a structure; None for any other."""
    match structure:
        case Separable(power=1.0, weights=None):
            return "log"
        case Separable(power=2.0, weights=None):
            return "brier"
        case LargestClasses(k=1):
            return "zero_one"
        case Norm(power=2.0):
            return "spherical"
        case _:
            return None


def _launch_of(place: int, structure: Structure | None) -> Launch:
    def launch(name: str, values: int, columns: int = 0, parameter: float = 0.0) -> Launch:
        flags = (("WITH_LOG", 1), ("WITH_SQUARES", 1), ("WITH_TOP", 1))  # of a class not used
        constants = (("RULE", name), ("RULE_SLOTS", "0"), *flags)
        return Launch(((place,),), Needs(values, 1, columns), constants, structure, parameter)

    match structure:
        case Separable(power=power, weights=weights):
            is_log, is_weighted = str(power == 1).lower(), str(weights is not None).lower()
            return launch(f"Separable<{is_log}, {is_weighted}>", 2, parameter=power - 1)
        case Norm(power=power):
            return launch("Norm", 2, parameter=power)
        case LargestClasses(k=k):
            return launch(f"Largest<{k}>", 2, columns=2)
        case Costs(costs=costs):
            return launch(f"Costs<{costs.shape[1]}>", costs.shape[1] + 2)
        case QuadraticForm():
            return launch("Quadratic", 2)
        case TwoClass():
            return launch("TwoClass", 2)
        case _:
            return launch("Cumulative", 2)


def numbers_of(structure: Structure | None) -> np.ndarray | None:
    """Return the numbers of a rule, in float64, that native/ reads."""
    match structure:
        case Separable(weights=weights) if weights is not None:
            return np.append(weights, weights.max())
        case Costs(costs=costs):
            least = costs.min(axis=1)
            excess = costs - least[:, None]
            aligned = np.pad(excess, ((0, 0), (0, -costs.shape[1] % 4)))
            return np.concatenate([aligned.ravel(), least, excess.T.ravel()])
        case QuadraticForm(distances=distances, root=root):
            halves = distances.ravel() / 2
            return np.concatenate([halves, _square(root).ravel(), [distances.max()]])
        case TwoClass(a=a, b=b):
            return two_class_numbers(a, b)
        case _:
            return None


def _square(root: np.ndarray) -> np.ndarray:
    """Return a square matrix whose product with its transpose is that of ``root``, ``(K, R)``."""
    n_classes, n_columns = root.shape
    if n_columns > n_classes:
        return np.linalg.qr(root.T).R.T
    return np.pad(root, ((0, 0), (0, n_classes - n_columns)))
