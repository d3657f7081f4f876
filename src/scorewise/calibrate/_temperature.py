"""Temperature scaling: one temperature for all members, applied before they are decomposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, namespace, to_numpy
from scorewise._inputs import apply_floor, softmax
from scorewise._losses import FLOOR_REMEDY
from scorewise._rows import check_member_axis, label_indices, receive_rows
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput

_LOWEST, _HIGHEST = 0.05, 20.0
_FLAT = 1e-12  # a smaller gain in loss is rounding
_N_GRID = 13  # temperatures, before the best of them is refined


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature; made by :func:`scorewise.fit_temperature`.

    Call it with predictions to get members p^(1/T), rescaled to sum to 1.

    Attributes
    ----------
    value : float
        T: above 1 for overconfident members, below 1 for underconfident members.
    loss_before, loss_after : float
        Mean log loss of the mean prediction on the rows of the fit, without and with it.
    """

    value: float
    loss_before: float
    loss_after: float

    @overload
    def __call__(self, predictions: Samples) -> Samples: ...
    @overload
    def __call__(self, predictions: Any, **options: Any) -> Array: ...
    def __call__(self, predictions: Any, **options: Any) -> Samples | Array:
        """Return the predictions at this temperature.

        Parameters
        ----------
        predictions : array (..., M, K) or Samples
            Arrays of NumPy, torch, JAX or CuPy.
        **options
            Options of :class:`scorewise.Samples` for arrays: ``from_logits``, ``member_axis``, …

        Returns
        -------
        array (..., M, K) or Samples
            Probabilities, in the same kind of container.
        """
        if isinstance(predictions, Samples) and not options:
            return Samples(
                _at_temperature(predictions.probs, self.value),
                predictions.weights,
                class_names=predictions.classes_,
            )
        return _at_temperature(Samples(predictions, **options).probs, self.value)


def _at_temperature(probs: Array, temperature: float) -> Array:
    xp = namespace(probs)
    with np.errstate(divide="ignore"):
        return softmax(xp, xp.log(probs) / temperature)


@validate.takes_options_of(Samples)
def fit_temperature(
    probs: Any, y: Any, *, floor: float | None = None, labels_are: str | None = None, **options: Any
) -> Temperature:
    """Return the temperature at which the mean of the members has the smallest log loss.

    Use it on held-out rows to recalibrate an overconfident or underconfident model, and decompose
    the members at that temperature: ``sw.decompose(temperature(probs), rule)``. All members get the
    same temperature.

    Parameters
    ----------
    probs : array (n, M, K) or Samples
        Predictions for held-out rows.
    y : array (n,)
        Their labels: names of classes, or indices.
    floor : float, optional
        The smallest probability that counts, as in :func:`scorewise.task_losses`; needed where all
        members gave a label the probability 0, which no temperature changes.
    labels_are : "names" or "indices", optional
        What ``y`` holds, where numbers could be either.
    **options
        Options of :class:`scorewise.Samples`: ``class_names``, ``weights``, ``from_logits``, …

    Returns
    -------
    Temperature

    Raises
    ------
    InvalidInput
        If predictions and labels do not fit, or a label has probability 0 and there is no floor.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(2000, 1, 5)) + 0.3 * rng.normal(size=(2000, 10, 5))
    >>> calibrated = sw.Samples(logits, from_logits=True)
    >>> y = (calibrated.mean.cumsum(axis=-1) > rng.uniform(size=(2000, 1))).argmax(axis=-1)
    >>> temperature = sw.fit_temperature(sw.Samples(3 * logits, from_logits=True), y)
    >>> round(temperature.value, 1)
    3.2
    """
    check_member_axis(probs, y, options)
    rows = receive_rows(probs, "probs", options)
    if not isinstance(rows, Samples):
        raise InvalidInput("a Dirichlet has no members to scale; pass members, (n, M, K)")
    if not len(rows):
        raise InvalidInput("probs is empty; there must be at least one row")
    held_out = _LogLoss.of(rows, label_indices(probs, rows, y, labels_are), floor)
    grid = np.geomspace(_LOWEST, _HIGHEST, _N_GRID)
    best = int(np.argmin([held_out.loss(t) for t in grid]))
    value = held_out.best_between(grid[max(best - 1, 0)], grid[min(best + 1, _N_GRID - 1)])
    if held_out.loss(1.0) - held_out.loss(value) <= _FLAT:
        value = 1.0
    if not 1.01 * _LOWEST < value < _HIGHEST / 1.01 or held_out.loss(value) == 0:
        validate.warn(
            f"the temperature {value:.3g} is at the end of the searched range, or no better than "
            "others: there are too few rows, no wrong prediction, or members that disagree, as the "
            "trees of a forest do; a temperature cannot correct the last"
        )
    return Temperature(value, held_out.loss(1.0), held_out.loss(value))


@dataclass(frozen=True)
class _LogLoss:
    """The mean log loss of held-out rows as a function of the temperature."""

    log_probs: np.ndarray  # (n, M, K)
    labels: np.ndarray  # (n, 1, 1)
    weights: np.ndarray | None
    floor: float | None

    @classmethod
    def of(cls, samples: Samples, labels: np.ndarray, floor: float | None) -> _LogLoss:
        p = to_numpy(samples.probs).astype(np.float64)
        weights = None if samples.weights is None else to_numpy(samples.weights)
        impossible = np.take_along_axis(to_numpy(samples.mean), labels[:, None], axis=-1) == 0
        if floor is None and impossible.any():
            row = int(np.argmax(impossible))
            raise InvalidInput(
                f"label y[{row}] = {labels[row]} has probability 0 for all members, and its log "
                "loss is infinite at every temperature",
                FLOOR_REMEDY,
            )
        with np.errstate(divide="ignore"):
            return cls(np.log(p), labels[:, None, None], weights, floor)

    def loss(self, temperature: float) -> float:
        """Return the mean log loss at a temperature."""
        tempered = softmax(np, self.log_probs / temperature)
        label_probs = np.take_along_axis(tempered, self.labels, axis=-1)[..., 0]
        member_weights = 1 / label_probs.shape[-1] if self.weights is None else self.weights
        mean = np.sum(label_probs * member_weights, axis=-1)
        mean = apply_floor(mean, self.floor, tempered.shape[-1])
        with np.errstate(divide="ignore"):  # at low temperatures probabilities become 0
            return float(-np.mean(np.log(mean)))

    def best_between(self, low: float, high: float) -> float:
        """Return the best temperature between two temperatures."""
        from scipy.optimize import minimize_scalar

        minimum = minimize_scalar(
            lambda log_t: self.loss(np.exp(log_t)),
            bounds=(np.log(low), np.log(high)),
            method="bounded",
            options={"xatol": 1e-5},
        )
        return float(np.exp(minimum.x))
