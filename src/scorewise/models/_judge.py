"""A fitted model that says how unsure it is, about all classes that there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from scorewise._array import to_numpy
from scorewise.accumulate import Accumulator
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.models._adapters import has_members, known_classes
from scorewise.models._predict import predict_samples
from scorewise.rules import ScoringRule


@dataclass(frozen=True)
class Judge:
    """A fitted model, what is asked of it, and which classes there are."""

    model: Any
    rule: ScoringRule
    component: str
    options: dict[str, Any]  # of predict_samples
    classes: np.ndarray | None = None  # in rising order; None where they are numbered
    columns: np.ndarray | None = None  # which of them the model knows; None where it is all

    @classmethod
    def of(
        cls, model: Any, rule: ScoringRule, component: str, options: dict[str, Any], y: np.ndarray
    ) -> Judge:
        """A judge of the classes that the model or the labels know."""
        known = known_classes(model)
        if not has_members(model):
            if component != "total":
                raise InvalidInput(
                    f"{type(model).__name__} is one classifier, which has no {component} "
                    "uncertainty; scorewise.BootstrapEnsemble makes an ensemble of it"
                )
            model = [model]
        if known is None:
            return cls(model, rule, component, options)
        # labels that the model has not seen are known, and never predicted
        classes = np.union1d(known, y)
        columns = None if np.array_equal(classes, known) else np.searchsorted(classes, known)
        return cls(model, rule, component, options, classes, columns)

    def __call__(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """θ̄ (n, K) and the uncertainty (n,) of every row."""
        members = Accumulator(self.rule)
        if self.columns is None:
            predict_samples(self.model, X, into=members, **self.options)
        else:
            some = self.samples(X)
            members.update_chunks([some.probs], some.weights, check=False)
        uncertainty = to_numpy(getattr(members.result(), self.component))
        return to_numpy(members.mean), uncertainty.astype(np.float64)

    def samples(self, X: Any) -> Samples:
        """The members' probabilities of all classes."""
        if self.columns is None:
            members: Samples = predict_samples(self.model, X, **self.options)
            return members
        assert self.classes is not None
        known, weights = np.ones((_num_samples(X), 1, 1)), None  # of one class, there is no doubt
        if len(self.columns) > 1:
            some = predict_samples(self.model, X, **self.options)
            known, weights = some.probs, some.weights
        probs = np.zeros((*known.shape[:-1], len(self.classes)), dtype=known.dtype)
        probs[..., self.columns] = known
        return Samples(probs, weights, check=False)


def numbered(n_classes: int, y: np.ndarray) -> np.ndarray:
    """The classes of a model that has no labels, if these are among them."""
    wrong = ~np.isin(y, np.arange(n_classes))
    if wrong.any():
        raise InvalidInput(
            f"y[{int(np.argmax(wrong))}] is {y[np.argmax(wrong)]!r}; the model gives {n_classes} "
            f"probabilities and no labels, so labels must be from 0 to {n_classes - 1}"
        )
    return np.arange(n_classes)
