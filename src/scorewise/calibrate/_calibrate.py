"""Calibrate the mean prediction of members on held-out rows, and move the members with it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scorewise import _validate as validate
from scorewise._array import as_dtype_of, namespace, on_device_of, to_numpy
from scorewise._fields import ClassNames, check_names_of_model, checked_names
from scorewise._json import plain
from scorewise._losses import losses_of_mean, mean_in_float64, row_chunks
from scorewise._notebook import TextInNotebooks
from scorewise._numerics import evenly_spaced
from scorewise._progress import bar
from scorewise._random import generator, seed_of
from scorewise._rows import (
    class_names_of,
    label_indices,
    receive_labelled,
    receive_raw_rows,
    receive_samples,
)
from scorewise._sealed_json import read_sealed, refusing_damage, unseal, write_sealed
from scorewise._text import left_out_text, percent
from scorewise._threads import get_num_threads, one_blas_thread, run_in_threads
from scorewise.calibrate._moving import MIXED_SHARE, move_members
from scorewise.calibrate._scaling import METHODS, Method, Scaling, fit_scaling, log_features
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.io import Predictions
from scorewise.rules import DecisionRule, RuleLike, ScoringRule, Unit, get_rule, log

_KIND, _FORMAT = "scorewise calibration", 2
_QUANTILE = 1.959964  # of the normal distribution, for intervals of 95 % confidence
# Rows from which on "auto" tries a method: with fewer, cross-validation often took a harmful one.
_FEWEST_ROWS: dict[Method, int] = {"none": 0, "temperature": 50, "vector": 100, "matrix": 100}
_ROWS_PER_CLASS = 20  # that show whether classes are in the right order
_MOST_MATRIX_CLASSES = 100  # for "auto"; a matrix of more takes long and seldom helps
_FEW_NUMBERS = 100_000  # of mean predictions, for which threads would only wait for each other
_MOST_TRIED_ROWS, _MOST_TRIED_NUMBERS = 10_000, 20_000_000  # of which the mixed share is taken
_MOST_DIGESTS = 1000  # of rows, that a calibration has
# Two sets overlap if they share so many rows that are unique within each, and more than this
# proportion of them. By chance it is at most 1/e, where each prediction is made once on average.
_FEWEST_SHARED, _SHARED = 30, 0.5
_DIGITS = 5  # to which probabilities are rounded for digests, so that those of float32 agree


@dataclass(frozen=True)
class MethodScore:
    """The cross-validated loss of a method of calibration.

    Attributes
    ----------
    method : "none", "temperature", "vector" or "matrix"
    loss : float
        Mean loss of the calibrated mean prediction, on rows that it was not fitted on.
    gain : float
        By how much that is below the loss without calibration.
    gain_interval : tuple of float
        95 % confidence interval of the gain.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> y = np.arange(500) % 2
    >>> guess = np.where(np.arange(500) % 5, y, 1 - y)  # right in 80 % of the rows
    >>> probs = sw.binary(np.where(guess, 0.99, 0.01))[:, None]  # but 99 % sure
    >>> for score in sw.fit_calibration(probs, y).scores:
    ...     print(score.method, round(score.loss, 3), round(score.gain, 3))
    none 0.929 0.0
    temperature 0.503 0.426
    vector 0.503 0.426
    matrix 0.503 0.426
    """

    method: Method
    loss: float
    gain: float
    gain_interval: tuple[float, float]


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(TextInNotebooks):
    """A calibration of mean predictions; made by ``fit_calibration``.

    It is p̂ = softmax(W z + b), with z = log θ̄ less its mean over the classes.

    Attributes
    ----------
    method : "none", "temperature", "vector" or "matrix"
        The form of W; ``"none"`` leaves predictions as they are.
    weights : array (), (K,) or (K, K)
        W: a factor for all classes (one over the temperature), the diagonal, or the matrix.
    bias : array (K,)
        b.
    floor : float
        The smallest θ̄ before the logarithm, by θ̄ → (1 − K·floor)·θ̄ + floor.
    class_names : tuple of str or None
    chosen_by : str
        The loss by which methods are compared: that of the task, or log where the task's is one of
        decisions.
    scores : tuple of MethodScore
        The cross-validated losses of the methods that were tried, ``"none"`` first.
    task_loss : str
        The loss of the task.
    task_scores : tuple of MethodScore
        The same of the task's loss.
    unit : Unit
        The unit of the task's loss.
    n_rows : int
        Number of rows of the fit.
    mixed_share : float or None
        Proportion of these rows (at most 10,000 are tried) whose members cannot be moved to p̂, such
        as those of fully grown trees, and are mixed with 1 % of it by ``transform``; None where the
        members were not at hand.
    row_digests : tuple of str
        Digests of rows of the fit, at most 1,000. No certificate may use these rows again.
    all_rows_digest : str
        A digest of all rows of the fit.
    n_left_out, n_files_left_out : int
        Number of invalid rows, and of files that could not be read, that were left out.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> y = np.arange(500) % 2
    >>> guess = np.where(np.arange(500) % 5, y, 1 - y)  # right in 80 % of the rows
    >>> probs = sw.binary(np.where(guess, 0.99, 0.01))[:, None]  # but 99 % sure
    >>> calibration = sw.fit_calibration(probs, y)
    >>> print(calibration)
    Temperature scaling by 3.29: on 500 rows the mean log loss is 0.9291, and calibrating lowers it
    to 0.5026, by 0.4265 [0.3146, 0.5383] (cross-validated).
    >>> calibration.transform(probs).mean[0].round(3)
    array([0.198, 0.802])
    """

    method: Method
    weights: np.ndarray
    bias: np.ndarray
    floor: float
    class_names: ClassNames
    chosen_by: str
    scores: tuple[MethodScore, ...]
    task_loss: str
    task_scores: tuple[MethodScore, ...]
    unit: Unit
    n_rows: int
    mixed_share: float | None
    row_digests: tuple[str, ...]
    all_rows_digest: str
    n_left_out: int = 0
    n_files_left_out: int = 0

    @property
    def _scaling(self) -> Scaling:
        return Scaling(self.method, self.weights, self.bias, self.floor)

    @property
    def n_classes(self) -> int:
        """The number of classes K."""
        return len(self.bias)

    @property
    def score(self) -> MethodScore:
        """The score of the method, by the loss that methods are compared by."""
        return next(score for score in self.scores if score.method == self.method)

    def __repr__(self) -> str:
        sentences = [self._gain()]
        if self.chosen_by != self.task_loss:
            sentences.append(self._change_of_task_loss())
        if self.mixed_share:
            sentences.append(
                f"In {percent(self.mixed_share)} of the rows the members cannot be moved to the "
                f"calibrated prediction and are mixed with {percent(MIXED_SHARE)} of it; their "
                "epistemic uncertainty depends on that share."
            )
        if n_left_out := self.n_left_out + self.n_files_left_out:
            left_out = left_out_text(self.n_left_out, self.n_files_left_out)
            sentences.append(f"{left_out} {'was' if n_left_out == 1 else 'were'} left out.")
        return " ".join(sentences)

    def _gain(self) -> str:
        """Return in a sentence what the method gains, or why there is none."""
        unit = self.unit if self.chosen_by == self.task_loss else log.unit
        before, *tried = self.scores
        start = f"on {self.n_rows:,} rows the mean {unit.noun} is {unit.format(before.loss)}"
        if self.method != "none":
            name = f"{self.method.capitalize()} scaling"
            if self.method == "temperature":
                name += f" by {1 / float(self.weights):.3g}"
            return f"{name}: {start}, and calibrating {_change(self.score, unit)}."
        text = f"Predictions are left as they are: {start}"
        if tried:
            best = min(tried, key=lambda score: score.loss)
            text += f", and {best.method} scaling {_change(best, unit, 'would ')}"
            if best.gain_interval[0] > 0:  # but the task's own loss decides against it
                text += f", but raise the mean {self.unit.noun}"
            elif best.gain > 0:
                text += ", which may be chance"
        elif self.n_rows < _FEWEST_ROWS["temperature"]:
            text += f"; fewer than {_FEWEST_ROWS['temperature']} are too few to choose a method"
        return f"{text}."

    def _change_of_task_loss(self) -> str:
        before = self.task_scores[0].loss
        after = next(score for score in self.task_scores if score.method == self.method)
        text = f"The mean {self.unit.noun} is {self.unit.format(before)}"
        if self.method == "none":
            return f"{text}."
        if after.gain_interval == (0, 0):
            return f"{text}, with and without it."
        return f"{text}, and calibrating {_change(after, self.unit)}."

    @validate.takes_options_of(Samples)
    def predict_proba(self, predictions: Any, **options: Any) -> np.ndarray:
        """Return the calibrated mean p̂ of the members, without moving them.

        Use it where only the total uncertainty or the prediction is needed.

        Parameters
        ----------
        predictions : Predictions, array (n, M, K) or Samples
        **options
            Options of :class:`scorewise.Samples` for arrays.

        Returns
        -------
        array (n, K)
            In float64.
        """
        return self._calibrated_mean(self._receive(predictions, options))

    @validate.takes_options_of(Samples)
    def transform(self, predictions: Any, **options: Any) -> Samples:
        """Return the members moved so that their mean is the calibrated prediction p̂.

        Decompose the result: its total is H(p̂), the uncertainty of the calibrated prediction, and
        aleatoric and epistemic uncertainty add up to it. Members that agree still agree. Members
        are scaled by class and renormalized, which keeps the odds ratios between them and changes
        them least in relative entropy. Where no scaling moves them to p̂ (see ``mixed_rows``), they
        are first mixed with 1 % of it, and their epistemic uncertainty depends on that share.

        Parameters
        ----------
        predictions : Predictions, array (n, M, K) or Samples
            Of the same model. For a large file, transform ``Predictions.chunks()`` one by one.
        **options
            Options of :class:`scorewise.Samples` for arrays: ``from_logits``, ``weights``, …

        Returns
        -------
        Samples
            Probabilities in the library and dtype of the predictions, with their weights.

        Raises
        ------
        InvalidInput
            If the predictions have other classes than those of the fit.
        """
        samples = self._receive(predictions, options)
        if self.method == "none":
            return samples
        moved, _ = self._moved(samples)
        probs = as_dtype_of(namespace(samples.probs), moved, samples.probs)
        return Samples(probs, samples.weights, check=False, class_names=samples.classes_)

    @validate.takes_options_of(Samples)
    def mixed_rows(self, predictions: Any, **options: Any) -> np.ndarray:
        """Return in which rows ``transform`` mixes members with p̂, as they are too certain.

        Parameters
        ----------
        predictions : Predictions, array (n, M, K) or Samples
        **options
            Options of :class:`scorewise.Samples` for arrays.

        Returns
        -------
        array of bool (n,)
        """
        samples = self._receive(predictions, options)
        if self.method == "none":
            return np.zeros(len(samples), bool)
        return self._moved(samples)[1]

    def transform_for(self, samples: Samples, component: str) -> Samples:
        """Return calibrated samples that have this component of the uncertainty.

        The total depends on the mean alone, so the members need not be moved for it.

        Parameters
        ----------
        samples : Samples (n, M, K)
        component : "total", "aleatoric" or "epistemic"
            The component that will be computed.

        Returns
        -------
        Samples
            With a single member, the mean, for the total.
        """
        if self.method == "none" or component != "total":
            return self.transform(samples)
        self._check(samples)
        xp = namespace(samples.probs)
        mean = on_device_of(xp, self._calibrated_mean(samples)[:, None], samples.probs)
        return Samples(mean, check=False, class_names=samples.classes_)

    def _calibrated_mean(self, samples: Samples) -> np.ndarray:
        """Return p̂ (n, K) of samples, some rows at a time."""
        means = [self._scaling(mean_in_float64(chunk)) for chunk in row_chunks(samples)]
        return np.concatenate(means)

    def _moved(self, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
        weights = None if samples.weights is None else to_numpy(samples.weights)
        target = self._calibrated_mean(samples)
        return move_members(to_numpy(samples.probs), weights, target)

    def _receive(self, predictions: Any, options: dict[str, Any]) -> Samples:
        samples = receive_samples(predictions, "predictions", options)
        self._check(samples)
        return samples

    def _check(self, samples: Samples) -> None:
        """Raise if the samples have other classes than those of the fit."""
        if samples.n_classes != self.n_classes:
            raise InvalidInput(
                f"the predictions have {samples.n_classes} classes, and the calibration was fitted "
                f"on {self.n_classes}; it is for the same model"
            )
        names, why = class_names_of(samples), "it is for the same model"
        check_names_of_model(names, self.class_names, "the calibration", why)

    def shares_rows_with(self, samples: Samples, labels: np.ndarray) -> bool:
        """Return whether it was fitted on most of these rows, which then cannot certify anything.

        Or whether most rows of the fit are among them. Rows are the same if their mean predictions
        are, to five digits, and their labels. A model with few different predictions makes rows
        that only look alike, so rows count that are unique within their set. Few rows, copies of
        rows, and rows of such models unless all are the same, are not recognised.

        Parameters
        ----------
        samples : Samples
            Of n rows, in any order.
        labels : integer array (n,)
            Indices of their classes.

        Returns
        -------
        bool
        """
        return self.shares_digests(row_digests(mean_in_float64(samples), labels))

    def shares_digests(self, digests: np.ndarray) -> bool:
        """Return the same as :meth:`shares_rows_with`, from ``digests`` of the rows, ``(n,)``."""
        if _digest(digests) == self.all_rows_digest:
            return True
        own = np.array(self.row_digests)
        if not len(own):
            return False
        others = _unique(digests)
        # those that would be among the smallest of the fit, if they were rows of it
        comparable = others[others <= own[-1]] if len(own) == _MOST_DIGESTS else others
        n_shared = len(np.intersect1d(own, comparable, assume_unique=True))
        n_most = min(len(own), len(comparable))
        return n_shared >= _FEWEST_SHARED and n_shared > _SHARED * n_most

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration to a JSON file, which :func:`scorewise.load_calibration` reads.

        Parameters
        ----------
        path : str or path
            The file appears complete or not at all.

        Raises
        ------
        InvalidInput
            If there is a file that is no calibration.
        """
        write_sealed(Path(path), self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the file but for digests, in lists, numbers and strings."""
        return {
            "kind": _KIND,
            "format": _FORMAT,
            "result": repr(self),
            **plain(
                {
                    "method": self.method,
                    "weights": self.weights,
                    "bias": self.bias,
                    "floor": self.floor,
                    "class_names": self.class_names,
                    "chosen_by": self.chosen_by,
                    "scores": [asdict(score) for score in self.scores],
                    "task_loss": self.task_loss,
                    "task_scores": [asdict(score) for score in self.task_scores],
                    "unit": asdict(self.unit),
                    "rows": self.n_rows,
                    "mixed_share": self.mixed_share,
                    "row_digests": self.row_digests,
                    "all_rows_digest": self.all_rows_digest,
                    "rows_left_out": self.n_left_out,
                    "files_left_out": self.n_files_left_out,
                }
            ),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Calibration:
        """Return the calibration from the ``content`` of :meth:`to_dict`; raises if damaged."""
        if content.get("kind") != _KIND or content.get("format") != _FORMAT:
            raise ValueError("it was written by another version of scorewise")
        method = METHODS[METHODS.index(validate.choice(content["method"], "method", METHODS))]
        bias = validate.finite(content["bias"], "bias")
        weights = np.asarray(content["weights"], dtype=np.float64)
        n_axes = {"none": 0, "temperature": 0, "vector": 1, "matrix": 2}[method]
        if weights.shape != (len(bias),) * n_axes or not np.isfinite(weights).all():
            raise ValueError(f"weights have shape {weights.shape}, which {method} scaling has not")
        scores, task_scores = (_scores_from(content[name]) for name in ("scores", "task_scores"))
        for tried in ([score.method for score in x] for x in (scores, task_scores)):
            if tried[:1] != ["none"] or method not in tried:
                raise ValueError(f"scores lack 'none' as the first, or {method!r}")
        mixed_share = content["mixed_share"]
        return cls(
            method=method,
            weights=weights,
            bias=bias,
            floor=validate.floor(content["floor"], len(bias)),
            class_names=checked_names(content["class_names"], len(bias)),
            chosen_by=str(content["chosen_by"]),
            scores=scores,
            task_loss=str(content["task_loss"]),
            task_scores=task_scores,
            unit=Unit(**content["unit"]),
            n_rows=validate.whole(content["rows"], "rows", at_least=1),
            mixed_share=None
            if mixed_share is None
            else validate.number(mixed_share, "mixed_share"),
            row_digests=tuple(map(str, content["row_digests"])),
            all_rows_digest=str(content["all_rows_digest"]),
            n_left_out=validate.whole(content["rows_left_out"], "rows_left_out", at_least=0),
            n_files_left_out=validate.whole(
                content["files_left_out"], "files_left_out", at_least=0
            ),
        )


def _scores_from(content: Any) -> tuple[MethodScore, ...]:
    return tuple(
        MethodScore(score["method"], score["loss"], score["gain"], tuple(score["gain_interval"]))
        for score in content
    )


def _change(score: MethodScore, unit: Unit, would: str = "") -> str:
    """Return what a method does to the loss, in words."""
    verb, sign = ("lower", 1) if score.gain >= 0 else ("raise", -1)
    gain, *ends = (
        f"{100 * sign * x:.3g}" if unit.is_proportion else unit.format(sign * x)
        for x in (score.gain, *score.gain_interval[::sign])
    )
    points = " percentage points" if unit.is_proportion else ""
    verb = f"{would}{verb}" if would else f"{verb}s"
    change = f"by {gain} [{', '.join(ends)}]{points} (cross-validated)"
    return f"{verb} it to {unit.format(score.loss)}, {change}"


@validate.takes_options_of(Samples)
def fit_calibration(
    samples: Any,
    y: Any = None,
    *,
    method: str = "auto",
    task_loss: RuleLike = "log",
    cv: int = 5,
    floor: float = 1e-6,
    labels_are: str | None = None,
    random_state: Any = 0,
    progress: bool | None = None,
    **options: Any,
) -> Calibration:
    """Return a calibration of the mean prediction, fitted on held-out rows.

    Use it before abstaining, and wherever the value of an uncertainty matters: the total under a
    loss is the loss that will be incurred, and the best order for abstaining, only if the mean
    prediction is calibrated. For OOD detection compare first: calibrating did not help there.

    What is calibrated is the mean θ̄ of the members, since it is what predicts: p̂ = softmax(W z + b)
    with z = log θ̄ less its mean over the classes, by the log loss. ``transform`` then moves the
    members with it.

    Parameters
    ----------
    samples : Predictions, array (n, M, K) or Samples
        Predictions for rows that were not used to fit the model. Do not use the same rows to
        evaluate or certify what was calibrated.
    y : array (n,), optional
        Their labels: names of classes, or indices; not needed where the predictions have labels.
    method : "auto", "none", "temperature", "vector" or "matrix"
        W is a number, a diagonal or a matrix. ``"auto"`` takes the simplest method whose
        cross-validated loss is within one standard error of the best, which may be to leave the
        predictions as they are. It tries a temperature from 50 rows on, the others from 100 rows
        on, and a matrix for at most 100 classes. Vector and matrix scaling can change which class
        is predicted.
    task_loss : str, ScoringRule, or costs (K, A)
        The loss by which ``"auto"`` chooses, and whose gain is reported. Losses of decisions
        (zero-one, top-k, cost matrices) do not see most errors of probabilities; for them the log
        loss chooses, among methods that do not raise the task's own loss, and both are reported.
    cv : int
        Number of folds.
    floor : float
        The smallest θ̄ before the logarithm, by θ̄ → (1 − K·floor)·θ̄ + floor.
    labels_are : "names" or "indices", optional
        What ``y`` holds, where numbers could be either.
    random_state : int, RandomState or Generator, optional
        Seed of the folds.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **options
        Options of :class:`scorewise.Samples`: ``class_names``, ``weights``, ``from_logits``, …

    Returns
    -------
    Calibration
        Printing it says what it gains.

    Raises
    ------
    InvalidInput
        If predictions and labels do not fit, or there are fewer than two rows.

    Warns
    -----
    ScorewiseWarning
        If labels and predictions seem not to belong together: if the classes in another order
        would be far more often right, or calibrated predictions are no better than the frequencies
        of the classes.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(4000, 1, 5)) + 0.3 * rng.normal(size=(4000, 10, 5))
    >>> calibrated = sw.Samples(logits, from_logits=True)
    >>> y = (calibrated.mean.cumsum(axis=-1) > rng.uniform(size=(4000, 1))).argmax(axis=-1)
    >>> members = sw.Samples(3 * logits, from_logits=True)  # overconfident
    >>> calibration = sw.fit_calibration(members[:2000], y[:2000])
    >>> print(calibration)
    Temperature scaling by 2.77: on 2,000 rows the mean log loss is 1.718, and calibrating lowers it
    to 1.314, by 0.4034 [0.3502, 0.4566] (cross-validated).
    >>> moved = calibration.transform(members[2000:])
    >>> losses = sw.task_losses(moved, y[2000:], "log")
    >>> print(sw.loss_calibration(losses, sw.decompose(moved, "log").total))
    expected loss 1.317, incurred 1.294 (gap -0.02285 [-0.05179, +0.006099]); calibration error
    0.02581; no sign of miscalibration (p = 0.19)
    """
    rule = get_rule(task_loss)
    if isinstance(samples, Predictions):
        mean, members = _read_file(samples, options)
        means = Samples(mean[:, None], check=False, class_names=members.classes_)
        labels = label_indices(samples, means, y, labels_are)
    else:
        # on the host, as certify does, so that the same rows have the same digest
        rows = receive_labelled(
            samples, y, options, labels_are=labels_are, on_host=rule.runs_on_any_library
        )
        mean, labels = mean_in_float64(rows.samples), rows.labels
        members = rows.samples[_rows_to_try(rows.samples.shape)]
    calibration = fit_mean_calibration(
        mean,
        labels,
        rule.for_classes(members.classes_),
        method=method,
        cv=cv,
        floor=floor,
        class_names=class_names_of(members),
        seed=seed_of(random_state),
        progress=progress,
        like=members,
    )
    warn_if_unrelated(mean, labels, calibration)
    return replace(calibration, mixed_share=float(calibration.mixed_rows(members).mean()))


def _rows_to_try(shape: tuple[int, ...]) -> np.ndarray:
    """Return the rows of members (n, M, K) of which the share that must be mixed is taken."""
    n, m, k = shape
    return evenly_spaced(n, n_rows_to_try(m, k))


def n_rows_to_try(n_members: int, n_classes: int) -> int:
    """Return the number of rows of which the share that must be mixed is taken."""
    return min(_MOST_TRIED_ROWS, max(100, _MOST_TRIED_NUMBERS // (n_members * n_classes)))


def _read_file(predictions: Predictions, options: dict[str, Any]) -> tuple[np.ndarray, Samples]:
    """Return θ̄ of all rows, and the members of some; a file is read a part at a time."""
    rows = receive_raw_rows(predictions, "predictions", options, on_host=True)
    assert isinstance(rows, Predictions)
    tried = _rows_to_try(rows.shape)
    means, parts = [], []
    for first, _, samples in rows.sample_chunks(normalize=options.get("normalize", False)):
        means.append(mean_in_float64(samples))
        places = tried[(tried >= first) & (tried < first + len(samples))]
        parts.append(samples[places - first])
    weights = parts[0].weights
    if weights is not None and weights.ndim > 1:
        weights = np.concatenate([part.weights for part in parts])
    probs = np.concatenate([part.probs for part in parts])
    members = Samples(probs, weights, check=False, class_names=parts[0].classes_)
    return np.concatenate(means), members


def fit_mean_calibration(
    mean: np.ndarray,
    labels: np.ndarray,
    rule: ScoringRule,
    *,
    method: str = "auto",
    cv: int = 5,
    floor: float = 1e-6,
    class_names: ClassNames = None,
    seed: int = 0,
    progress: bool | None = False,
    like: Samples | None = None,
) -> Calibration:
    """Return a calibration of mean predictions, whose members are not at hand.

    Use :func:`scorewise.fit_calibration` where they are.

    Parameters
    ----------
    mean : array (n, K)
        θ̄.
    labels : integer array (n,)
        Indices of classes.
    rule : ScoringRule
        The loss of the task.
    method, cv, floor
        As in :func:`scorewise.fit_calibration`.
    class_names : sequence of K str, optional
    seed : int
        Of the folds.
    progress : bool, optional
        Whether to show a progress bar.
    like : Samples, optional
        The predictions, whose library a user's own rule is written for.

    Returns
    -------
    Calibration
        Its ``mixed_share`` is None.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.calibrate import fit_mean_calibration
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (truth.cumsum(axis=-1) > rng.uniform(size=(1000, 1))).argmax(axis=-1)
    >>> overconfident = truth**3 / (truth**3).sum(axis=-1, keepdims=True)
    >>> fit_mean_calibration(overconfident, y, sw.rules.log).method
    'temperature'
    """
    n, n_classes = mean.shape
    rule.check_classes(n_classes)
    method = validate.choice(method, "method", ("auto", *METHODS))
    floor = validate.floor(floor, n_classes)
    if n < 2:
        rows = "is one row" if n else "are no rows"
        raise InvalidInput(f"there {rows}; calibration needs at least two")
    methods = _methods_to_try(labels, n_classes)
    if method != "auto":
        methods = tuple(name for name in METHODS if name in ("none", method))
    folds = _folds(n, cv, seed)
    calibrated = _cross_fit(mean, labels, methods, floor, folds, progress=progress)
    choice = _choose(calibrated, labels, rule, floor, like)
    chosen = choice.method if method == "auto" else methods[-1]
    with one_blas_thread():
        scaling = fit_scaling(log_features(mean, floor), labels, chosen, floor)
    digests = row_digests(mean, labels)
    return Calibration(
        method=scaling.method,
        weights=scaling.weights,
        bias=scaling.bias,
        floor=floor,
        class_names=class_names,
        chosen_by=choice.chosen_by,
        scores=choice.scores,
        task_loss=rule.name,
        task_scores=choice.task_scores,
        unit=rule.unit,
        n_rows=n,
        mixed_share=None,
        row_digests=tuple(_unique(digests)[:_MOST_DIGESTS].tolist()),
        all_rows_digest=_digest(digests),
    )


class CrossCalibrated(NamedTuple):
    """Mean predictions that were calibrated on other rows; made by :func:`cross_calibrate`.

    Attributes
    ----------
    method : "none", "temperature", "vector" or "matrix"
    mean : array (n, K)
        The calibrated predictions.
    fold : integer array (n,)
        The fold of each row. Rows of one fold are calibrated by one map.

    Examples
    --------
    >>> import numpy as np
    >>> from scorewise.calibrate import cross_calibrate
    >>> mean, y = np.tile([[0.99, 0.01]], (100, 1)), np.arange(100) % 10 // 8
    >>> calibrated = cross_calibrate(mean, y, "log")
    >>> calibrated.method, calibrated.mean[:2].round(1), np.bincount(calibrated.fold)
    ('temperature', array([[0.8, 0.2],
           [0.8, 0.2]]), array([20, 20, 20, 20, 20]))
    """

    method: Method
    mean: np.ndarray
    fold: np.ndarray


def cross_calibrate(
    mean: Any,
    labels: Any,
    rule: RuleLike,
    *,
    floor: float = 1e-6,
    like: Samples | Dirichlet | None = None,
) -> CrossCalibrated:
    """Return mean predictions calibrated by the best method, each by a map of other rows.

    Use it to see what calibrating would change without further rows. Compare rows of one fold with
    each other only: folds have different maps, and an order over all rows would mix them.

    Parameters
    ----------
    mean : array (n, K)
        θ̄.
    labels : integer array (n,)
    rule : str or ScoringRule
        The loss of the task.
    floor : float
        The smallest probability before the logarithm.
    like : Samples or Dirichlet, optional
        The predictions, whose library a user's own rule is written for.

    Returns
    -------
    CrossCalibrated

    Examples
    --------
    >>> import numpy as np
    >>> from scorewise.calibrate import cross_calibrate
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=1000)
    >>> right = np.where(rng.uniform(size=1000) < 0.7, y, 1 - y)
    >>> overconfident = np.where(np.arange(2) == right[:, None], 0.99, 0.01)
    >>> method, calibrated, fold = cross_calibrate(overconfident, y, "log")
    >>> method, calibrated.max(axis=-1).round(1)[:3]
    ('temperature', array([0.7, 0.7, 0.7]))
    """
    rule = get_rule(rule)
    mean = np.asarray(mean, np.float64)
    if mean.ndim != 2:
        raise InvalidInput(f"mean has shape {mean.shape}; it must be (n, K)")
    labels = np.asarray(validate.labels(np, labels, mean.shape[:1], mean.shape[1], mean))
    folds = _folds(len(mean))
    calibrated = _cross_fit(mean, labels, _methods_to_try(labels, mean.shape[1]), floor, folds)
    method = _choose(calibrated, labels, rule, floor, like).method
    return CrossCalibrated(method, calibrated[method], folds)


def _methods_to_try(labels: np.ndarray, n_classes: int) -> tuple[Method, ...]:
    """Return the methods that these labels can decide between."""
    if len(np.unique(labels)) < 2:
        return METHODS[:1]
    return tuple(
        method
        for method, fewest in _FEWEST_ROWS.items()
        if len(labels) >= fewest and (method != "matrix" or n_classes <= _MOST_MATRIX_CLASSES)
    )


def _folds(n: int, cv: int = 5, seed: int = 0) -> np.ndarray:
    """Return the fold of each row (n,), at random."""
    n_folds = min(validate.whole(cv, "cv", at_least=2), n)
    return generator(seed).permutation(n) % n_folds


def _cross_fit(
    mean: np.ndarray,
    labels: np.ndarray,
    methods: Sequence[Method],
    floor: float,
    folds: np.ndarray,
    *,
    progress: bool | None = None,
) -> dict[Method, np.ndarray]:
    """Return p̂ (n, K) by each method, of every row by a map that was fitted on other folds."""
    log_probs = log_features(mean, floor)
    calibrated = {method: np.empty(mean.shape) for method in methods}
    n_folds = int(folds.max()) + 1

    def fit(method: Method, i: int) -> bool:
        held_out = folds == i
        scaling = fit_scaling(log_probs[:, ~held_out], labels[~held_out], method, floor)
        calibrated[method][held_out] = scaling(mean[held_out])
        advance(1)
        return True

    with bar("calibrating", n_folds * len(methods), progress) as advance, one_blas_thread():
        # the slowest first, so that no thread is left with them at the end
        fits = (partial(fit, method, i) for method in reversed(methods) for i in range(n_folds))
        run_in_threads(fits, get_num_threads() if mean.size > _FEW_NUMBERS else 1)
    return calibrated


class _Choice(NamedTuple):
    method: Method
    chosen_by: str
    scores: tuple[MethodScore, ...]
    task_scores: tuple[MethodScore, ...]


def _choose(
    calibrated: Mapping[Method, np.ndarray],
    labels: np.ndarray,
    rule: ScoringRule,
    floor: float,
    like: Samples | Dirichlet | None,
) -> _Choice:
    """Return the best method and the scores of all, from cross-fitted predictions."""
    losses = _losses(calibrated, labels, rule, floor, like)
    task_scores = tuple(_score(method, losses) for method in calibrated)
    if not isinstance(rule, DecisionRule):
        return _Choice(_simplest_of_best(losses), rule.name, task_scores, task_scores)
    losses = _losses(calibrated, labels, log, floor, None)
    scores = tuple(_score(method, losses) for method in calibrated)
    harmless = [score.method for score in task_scores if score.gain_interval[1] >= 0]
    best = _simplest_of_best({method: losses[method] for method in harmless})
    return _Choice(best, log.name, scores, task_scores)


def _losses(
    calibrated: Mapping[Method, np.ndarray],
    labels: np.ndarray,
    rule: ScoringRule,
    floor: float,
    like: Samples | Dirichlet | None,
) -> dict[Method, np.ndarray]:
    """Return the losses (n,) of predictions by each method; the floor applies to all alike."""
    return {
        method: losses_of_mean(probs, labels, rule, floor, like=like)
        for method, probs in calibrated.items()
    }


def _score(method: Method, losses: Mapping[Method, np.ndarray]) -> MethodScore:
    gains = losses["none"] - losses[method]
    gain, half = float(gains.mean()), _QUANTILE * _standard_error(gains)
    return MethodScore(method, float(losses[method].mean()), gain, (gain - half, gain + half))


def _simplest_of_best(losses: Mapping[Method, np.ndarray]) -> Method:
    """Return the first method whose mean loss is within a standard error of the smallest."""
    best = min(losses.values(), key=np.mean)
    return next(
        method
        for method, values in losses.items()
        if np.mean(values - best) <= _standard_error(values - best)
    )


def _standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def warn_if_unrelated(mean: np.ndarray, labels: np.ndarray, calibration: Calibration) -> None:
    """Warn if labels and predictions seem not to belong together."""
    from scipy.optimize import linear_sum_assignment

    n, n_classes = mean.shape
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (mean.argmax(axis=-1), labels), 1)
    accuracy = np.trace(counts) / n
    reordered = counts[linear_sum_assignment(counts, maximize=True)].sum() / n
    frequencies = np.bincount(labels, minlength=n_classes) / n
    if frequencies.max() == 1:
        validate.warn(
            f"all {n:,} rows have the same label, which a calibration cannot learn from; fit it on "
            "rows of several classes"
        )
    elif n >= _ROWS_PER_CLASS * n_classes and reordered - accuracy > max(0.1, 2 / np.sqrt(n)):
        validate.warn(
            f"the most probable class is right in {percent(accuracy)} of the rows, and would be in "
            f"{percent(reordered)} if the classes were in another order; look whether the class "
            "names are in the order of the predictions, and labels belong to these rows"
        )
    elif calibration.chosen_by == log.name and calibration.n_rows >= _FEWEST_ROWS["vector"]:
        tried = [score.loss for score in calibration.scores if score.method != "none"]
        if tried and min(tried) >= -np.log(frequencies[labels]).mean():
            validate.warn(
                "after calibrating, the predictions are no better than the frequencies of the "
                "classes; look whether labels belong to these rows"
            )


def row_digests(mean: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return a digest of each row (n,), its prediction rounded so that float32 has the same."""
    rounded = np.round(mean, _DIGITS) + 0.0  # not −0.0
    rows = np.column_stack([rounded, labels])
    return np.array([hashlib.blake2b(row.tobytes(), digest_size=8).hexdigest() for row in rows])


def _unique(digests: np.ndarray) -> np.ndarray:
    """Return the digests that occur once, in rising order."""
    values, counts = np.unique(digests, return_counts=True)
    return np.asarray(values[counts == 1])


def _digest(row_digests: np.ndarray) -> str:
    """Return a digest of rows that does not depend on their order."""
    return hashlib.sha256("".join(sorted(row_digests.tolist())).encode()).hexdigest()


def load_calibration(path: str | os.PathLike[str]) -> Calibration:
    """Return the calibration that :meth:`scorewise.calibrate.Calibration.save` wrote to a file.

    Use it to calibrate new predictions of the same model. Every field is compared with its digest:
    a file that was damaged or edited is refused.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Calibration

    Raises
    ------
    InvalidInput
        If the file is not a calibration, or was damaged or edited.

    Examples
    --------
    >>> import tempfile, numpy as np, scorewise as sw
    >>> probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(200, 5))
    >>> calibration = sw.fit_calibration(probs, probs.mean(1).argmax(1), method="vector")
    >>> path = tempfile.mkdtemp() + "/calibration.json"
    >>> calibration.save(path)
    >>> (sw.load_calibration(path).bias == calibration.bias).all()
    np.True_
    """
    path = Path(path)
    with refusing_damage(path, "calibration", "calibrate"):
        return Calibration.from_dict(unseal(read_sealed(path, _KIND), "calibration"))
