"""A threshold with a promise, kept in a file and used on new predictions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._files import replacing
from scorewise._json import dumps
from scorewise._labelled import Labelled
from scorewise._progress import bar
from scorewise.abstain._certificate import Certificate, certify_threshold
from scorewise.abstain._drift import Drift, compare_with_calibration
from scorewise.abstain._policy_file import KIND, PROMISE, read_parts
from scorewise.decompose import RuleLike, rule_name
from scorewise.distributions import Samples, apply_floor
from scorewise.errors import InvalidInput
from scorewise.io import Predictions
from scorewise.losses import losses_of_mean, promised_bound, total_of_mean
from scorewise.rules import get_rule

_KEPT = 10_000  # calibration uncertainties, evenly along the ranks, to compare new ones with


@dataclass(frozen=True, eq=False, repr=False)
class Gate:
    """A certified threshold and all that is needed to use it; made by :func:`scorewise.certify`.

    Attributes
    ----------
    certificate : Certificate
        The promise; printing the gate says it in words.
    rule : str or cost matrix
        The loss that it is about, and whose total uncertainty is compared with the threshold.
    floor : float or None
    shape : tuple of int
        Members and classes of the predictions that it is for.
    class_names : tuple of str or None
    weighted : bool
        Whether members have weights.
    calibration_uncertainty : array
        Of the rows it rests on, in rising order; at most 10,000, evenly along the ranks.
    told : dict
        What else is known: version, input, its digest.
    """

    certificate: Certificate
    rule: RuleLike
    floor: float | None
    shape: tuple[int, int]
    class_names: tuple[str, ...] | None
    weighted: bool
    calibration_uncertainty: np.ndarray
    told: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"By total {rule_name(self.rule)} uncertainty: {self.certificate}"

    def apply(
        self,
        predictions: Any,
        *,
        normalize: bool = False,
        false_alarm_rate: float = 0.05,
        progress: bool | None = None,
    ) -> Gated:
        """Whether to accept new predictions, row by row, and whether they are like the old ones.

        Parameters
        ----------
        predictions : Predictions, array (n, M, K) or Samples
            Of the same model; read a part at a time where they are in a file.
        normalize : bool
            Rescale probabilities to sum to 1.
        false_alarm_rate : float
            How often inputs that have not changed may be called changed.
        progress : bool, optional
            Show a bar; on terminals and for long work unless told.

        Returns
        -------
        Gated

        Raises
        ------
        InvalidInput
            If there are no rows, or other members or classes than those it was certified for.
        """
        rate = validate.share(false_alarm_rate, "false_alarm_rate")
        found = [
            (total_of_mean(mean, self.rule), self._prediction(mean))
            for mean in self._means(predictions, normalize, progress)
        ]
        uncertainty, prediction = (np.concatenate(x) for x in zip(*found, strict=True))
        if not len(uncertainty):
            raise InvalidInput("there are no rows to decide about")
        drift = compare_with_calibration(self.calibration_uncertainty, uncertainty, rate)
        return Gated(
            self.certificate.accepts(uncertainty),
            uncertainty,
            prediction,
            self._prediction_names(),
            replace(self.certificate, drift=drift),
        )

    def _means(
        self, predictions: Any, normalize: bool, progress: bool | None
    ) -> Iterator[np.ndarray]:
        """θ̄ of the rows, a part at a time."""
        if isinstance(predictions, Samples):
            self._check(predictions.probs.shape, None, predictions.weights is not None)
            yield to_numpy(predictions.mean)
            return
        if not isinstance(predictions, Predictions):
            predictions = Predictions(predictions)
        weighted = predictions.member_weights is not None or "weights" in predictions.fields
        self._check(predictions.shape, predictions.class_names, weighted)
        with bar("deciding", len(predictions), progress) as advance:
            for _, part, samples in predictions.sample_chunks(normalize=normalize):
                yield to_numpy(samples.mean)
                advance(len(part))

    def _check(self, shape: tuple[int, ...], names: tuple[str, ...] | None, weighted: bool) -> None:
        if tuple(shape[-2:]) != self.shape:
            (m, k), (own_m, own_k) = shape[-2:], self.shape
            raise InvalidInput(
                f"these predictions have {m} members and {k} classes, and the certificate was made "
                f"for {own_m} members and {own_k} classes: its promise is about the same model"
            )
        if weighted != self.weighted:
            one, other = ("", "out") if weighted else ("out", "")
            raise InvalidInput(
                f"these predictions are with{one} weights of members, and the certificate was made "
                f"with{other}: its promise is about the same model"
            )
        if names is None or self.class_names is None or names == self.class_names:
            return
        here, there = next(
            two for two in zip(names, self.class_names, strict=True) if two[0] != two[1]
        )
        raise InvalidInput(
            f"class {names.index(here)} is called {here!r} here and {there!r} in the certificate: "
            "its promise is about the same model"
        )

    def _prediction(self, mean: np.ndarray) -> np.ndarray:
        return to_numpy(get_rule(self.rule).predict(apply_floor(mean, self.floor)))

    def _prediction_names(self) -> tuple[str, ...]:
        names = self.class_names or tuple(map(str, range(self.shape[-1])))
        return get_rule(self.rule).prediction_names(names)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Keep it in a JSON file, whole or not at all; :meth:`read` gives it back."""
        with replacing(Path(path)) as partial:
            partial.write_text(dumps(self.to_dict(), indent=1) + "\n")

    def to_dict(self) -> dict[str, Any]:
        """All of it in lists, numbers and strings."""
        return {
            "kind": KIND,
            "promise": str(self),
            "rule": get_rule(self.rule).to_json(),
            "component": "total",
            "floor": self.floor,
            "certificate": {name: getattr(self.certificate, name) for name in PROMISE},
            "weighted": self.weighted,
            "members": self.shape[0],
            "classes": self.shape[1],
            "class_names": None if self.class_names is None else list(self.class_names),
            "calibration_uncertainty": self.calibration_uncertainty.tolist(),
            "told": dict(self.told),
        }

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Gate:
        """From a file that :meth:`write` has made.

        Raises
        ------
        InvalidInput
            If it is none.
        """
        return cls(**read_parts(Path(path)))


@dataclass(frozen=True, eq=False, repr=False)
class Gated:
    """What a gate decided about new rows; made by :meth:`Gate.apply`.

    Attributes
    ----------
    accept : array of bool (n,)
    uncertainty : array (n,)
    prediction : integer array (n,)
        The likeliest class, or the least costly action of a cost matrix.
    prediction_names : tuple of str
    certificate : Certificate
        The promise, with the check whether the new rows are like those it was made for.
    """

    accept: np.ndarray
    uncertainty: np.ndarray
    prediction: np.ndarray
    prediction_names: tuple[str, ...]
    certificate: Certificate

    @property
    def drift(self) -> Drift:
        """Whether the new rows are like those that the promise was made for."""
        assert self.certificate.drift is not None
        return self.certificate.drift

    def __repr__(self) -> str:
        n, kept = len(self.accept), int(self.accept.sum())
        return f"{kept:,} of {n:,} rows accepted ({kept / n:.1%}); {self.drift}"


def certify(
    predictions: Any,
    y: Any = None,
    *,
    max_loss: float,
    confidence: float = 0.95,
    task_loss: RuleLike = "zero-one",
    floor: float | None = None,
    loss_bound: float | None = None,
    told: Mapping[str, Any] | None = None,
    **options: Any,
) -> Gate:
    """A threshold on saved predictions that promises a mean loss on new ones.

    Use it with predictions for held-out rows, which neither the model nor the choice of the measure
    has seen: rows are accepted by the total uncertainty of the task's own loss. It wraps
    :func:`scorewise.certify_threshold`, and can be kept in a file.

    Parameters
    ----------
    predictions : Predictions, array (n, M, K) or Samples
    y : integer array (n,), optional
        Class indices, unless the predictions have labels.
    max_loss : float
        The mean loss to allow.
    confidence : float
        Of the promise.
    task_loss : str, ScoringRule or cost matrix
        The loss that is paid.
    floor : float, optional
        The smallest probability that counts in the loss; the log loss needs one.
    loss_bound : float, optional
        The largest loss that can occur, where the rule does not tell.
    told : mapping, optional
        What to keep beside it, such as the name of the file.
    **options
        Those of :class:`scorewise.Samples`.

    Returns
    -------
    Gate
        With ``apply(new_predictions)``, ``write(path)`` and ``Gate.read(path)``.

    Raises
    ------
    InvalidInput
        If labels are missing, or no mean of the loss can be promised.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet(np.full(3, 0.2), size=2000)
    >>> y = np.array([rng.choice(3, p=p) for p in truth])
    >>> probs = np.stack([truth, truth], axis=1)
    >>> gate = sw.certify(probs[:1000], y[:1000], max_loss=0.1)
    >>> print(gate)
    By total zero-one uncertainty: Accept where uncertainty <= 0.286135: 71.3% of 1,000 calibration
    rows, which lost 0.07994 on average; new ones lose at most 0.1, with 95% confidence.
    >>> gated = gate.apply(probs[1000:])
    >>> print(gated)
    691 of 1,000 rows accepted (69.1%); new inputs look like the calibration data: ...
    """
    rows = Labelled.of(predictions, y, None, None, options)
    given = predictions.class_names if isinstance(predictions, Predictions) else None
    _, m, k = rows.samples.probs.shape
    mean = to_numpy(rows.samples.mean)
    bound = promised_bound(task_loss, k, floor, loss_bound)
    losses = losses_of_mean(mean, rows.labels, task_loss, floor)
    if (losses < 0).any():
        raise InvalidInput("costs below 0 have no bound to be promised; add what makes them 0")
    uncertainty = total_of_mean(mean, task_loss)
    certificate = certify_threshold(losses, uncertainty, max_loss, confidence, loss_bound=bound)
    n = len(uncertainty)
    kept = min(n, _KEPT)
    evenly = (2 * np.arange(kept) + 1) * n // (2 * kept)
    return Gate(
        certificate,
        get_rule(task_loss),
        floor,
        (int(m), int(k)),
        given,
        rows.samples.weights is not None,
        np.sort(uncertainty)[evenly],
        dict(told or {}),
    )
