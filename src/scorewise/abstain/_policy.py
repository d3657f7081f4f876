"""A policy: a certified threshold with all that is needed to apply it to new predictions.

:func:`certify`, :class:`scorewise.SelectiveClassifier` and files all hold a :class:`Policy`, so a
row is decided alike wherever it comes from: its uncertainty is rounded to ten digits and compared
with the threshold.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import COARSER, namespace
from scorewise._fields import ClassNames, check_names_of_model, checked_names
from scorewise._inputs import StoredAs, apply_floor
from scorewise._json import plain
from scorewise._losses import (
    certifiable_bound,
    losses_of_mean,
    mean_and_uncertainty,
    mean_in_float64,
)
from scorewise._notebook import TextInNotebooks, frame
from scorewise._progress import bar, counted
from scorewise._rows import LabelledSamples, class_names_of, receive_labelled, receive_raw_rows
from scorewise._sealed_json import (
    read_json,
    read_sealed,
    refusing_damage,
    unseal,
    verify_signature,
    write_sealed,
)
from scorewise._text import left_out_text, percent, quoted, shorten
from scorewise.abstain._certificate import Certificate, warn_if_too_few_rows
from scorewise.abstain._drift import Drift, compare_with_calibration, count_between
from scorewise.abstain._precision import check_converted_on_host, check_precision, rounded_samples
from scorewise.calibrate import Calibration, row_digests
from scorewise.decompose import COMPONENTS
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.io import Predictions
from scorewise.rules import RuleLike, ScoringRule, get_rule, rule_from_json

_KIND = "scorewise policy"
_FORMAT = 5  # raised if the fields of a file change, or the threshold that rows certify
_ROUNDING = 1e-9  # of the numbers of a certificate, relative, from one processor to another
# the unit is that of the rule, and drift is checked again
_CERTIFICATE_FIELDS = [f.name for f in fields(Certificate) if f.name not in ("unit", "drift")]


@dataclass(frozen=True, eq=False, repr=False)
class Policy(TextInNotebooks):
    """A certified threshold and how to use it; made by :func:`scorewise.certify`.

    Attributes
    ----------
    certificate : Certificate
        The threshold and its risk guarantee.
    rule : ScoringRule
        The loss that the guarantee is about, and whose uncertainty is compared with the threshold.
    component : "total", "aleatoric" or "epistemic"
        The component of the uncertainty that is compared, to ten digits.
    floor : float or None
        The smallest probability that counts in the loss.
    n_members, n_classes : int
        Members and classes of the predictions that it applies to.
    stored_as : StoredAs
        The dtype of the predictions that it was certified on and of their weights, and whether they
        were logits. Predictions of a finer dtype are rounded to it; others are refused.
    class_names : tuple of str or None
    calibration_uncertainty : array (n,)
        Uncertainties of the certification rows, in rising order; new ones are compared with them to
        detect drift.
    calibration_losses : array (n,)
        Losses of the same rows. The certificate follows from these two, ``loss_bound``,
        ``max_loss`` and ``confidence``.
    loss_bound : float
        The largest loss that can occur.
    calibration : Calibration or None
        Applied to predictions before their uncertainty is compared.
    n_left_out, n_files_left_out : int
        Number of invalid rows, and of files that could not be read, that were left out of the
        certification rows.
    metadata : dict
        Version, input path and its digest, or other values passed to ``certify``.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([0.05, 0.4], 100))[:, None]
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> policy = sw.certify(probs, y, max_loss=0.1)
    >>> policy.accepts([0.05, 0.4])
    array([ True, False])
    """

    certificate: Certificate
    rule: ScoringRule
    component: str
    floor: float | None
    n_members: int
    n_classes: int
    stored_as: StoredAs
    class_names: tuple[str, ...] | None
    calibration_uncertainty: np.ndarray
    calibration_losses: np.ndarray
    loss_bound: float
    calibration: Calibration | None = None
    n_left_out: int = 0
    n_files_left_out: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        method = "none" if self.calibration is None else self.calibration.method
        calibrated = "" if method == "none" else f" after {method} scaling"
        left_out = ""
        if n_left_out := self.n_left_out + self.n_files_left_out:
            left_out = (
                f" It rests on {self.certificate.n_calibration:,} valid rows, and holds for valid "
                f"rows only; {left_out_text(self.n_left_out, self.n_files_left_out)} "
                f"{'was' if n_left_out == 1 else 'were'} left out."
            )
        measure = f"By {self.component} {self.rule.name} uncertainty{calibrated}"
        return f"{measure}: {self.certificate}{left_out}"

    @property
    def prediction_names(self) -> tuple[str, ...]:
        """The names of what is predicted: of classes, or of the actions of a cost matrix."""
        names = self.class_names or tuple(map(str, range(self.n_classes)))
        return self.rule.prediction_names(names)

    def accepts(self, uncertainty: Any) -> np.ndarray:
        """Return whether rows with these uncertainties are accepted.

        Parameters
        ----------
        uncertainty : array (n,)
            As in :class:`PolicyResult`. Where the policy was certified on float64 predictions, also
            that of :func:`scorewise.decompose` for float64 predictions, which is rounded to ten
            digits here. Otherwise use ``apply``, which rounds predictions and averages members in
            float64.

        Returns
        -------
        array of bool (n,)
        """
        return self.certificate.accepts(uncertainty)

    def predict(self, mean: np.ndarray) -> np.ndarray:
        """Return the predicted class, or the action of a cost matrix, for each mean prediction.

        Parameters
        ----------
        mean : array (n, K)
            θ̄, calibrated if the policy has a calibration.

        Returns
        -------
        integer array (n,)
        """
        # the certified losses are those of the prediction with the floor
        prediction = apply_floor(mean, self.floor)
        return np.asarray(self.rule._predict(namespace(prediction), prediction))

    def check_drift(self, uncertainty: Any, false_alarm_rate: float = 0.05) -> Drift:
        """Return a test of whether new uncertainties differ from those of the certification rows.

        Parameters
        ----------
        uncertainty : array (n,)
            Of new rows, as in :class:`PolicyResult`.
        false_alarm_rate : float
            How often unchanged inputs may be reported as changed.

        Returns
        -------
        Drift
            True in an ``if`` where inputs have changed.
        """
        now = validate.vector(uncertainty, "uncertainty")
        return self.drift_from_counts(self.drift_counts(now), float(np.mean(now)), false_alarm_rate)

    def drift_counts(self, uncertainty: np.ndarray) -> np.ndarray:
        """Return what :meth:`drift_from_counts` needs of new rows.

        Use it where new rows do not fit in memory: counts of some rows are added to those of
        others.

        Parameters
        ----------
        uncertainty : array (n,)
            Of new rows, as in :class:`PolicyResult`.

        Returns
        -------
        integer array
        """
        return count_between(self.calibration_uncertainty, uncertainty)

    def drift_from_counts(
        self, counts: np.ndarray, mean: float, false_alarm_rate: float = 0.05
    ) -> Drift:
        """Return the same test as :meth:`check_drift`, from counts that were added up.

        Parameters
        ----------
        counts : integer array
            The sum of :meth:`drift_counts` over all new rows.
        mean : float
            The mean uncertainty of the new rows.
        false_alarm_rate : float
            How often unchanged inputs may be reported as changed.

        Returns
        -------
        Drift

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> rng = np.random.default_rng(0)
        >>> probs = sw.binary(rng.random(200) / 2)[:, None]
        >>> policy = sw.certify(probs, np.zeros(200, int), max_loss=0.3)
        >>> now = rng.random(500) / 2
        >>> counts = policy.drift_counts(now[:300]) + policy.drift_counts(now[300:])
        >>> policy.drift_from_counts(counts, now.mean()) == policy.check_drift(now)
        True
        """
        return compare_with_calibration(
            self.calibration_uncertainty,
            counts,
            mean,
            validate.proportion(false_alarm_rate, "false_alarm_rate"),
        )

    def with_drift(self, drift: Drift) -> Policy:
        """Return the policy with ``drift``, the result of a check, which its certificate shows."""
        return replace(self, certificate=replace(self.certificate, drift=drift))

    @validate.takes_options_of(Samples)
    def apply(
        self,
        predictions: Any,
        *,
        false_alarm_rate: float = 0.05,
        progress: bool | None = None,
        **options: Any,
    ) -> PolicyResult:
        """Return which rows are accepted, and whether they have drifted.

        Parameters
        ----------
        predictions : Predictions, array (n, M, K) or Samples
            New predictions of the same model. Files are read a part at a time. Predictions of a
            finer dtype than that of the certification rows are rounded to it first, so that the
            same rows are decided alike. The digits that a coarser dtype has lost would decide, so
            it is refused.
        false_alarm_rate : float
            How often unchanged inputs may be reported as changed.
        progress : bool, optional
            Whether to show a progress bar; by default on terminals and in notebooks, for long work.
        **options
            Options of :class:`scorewise.Samples`, as for :func:`scorewise.certify`; for Predictions
            only ``normalize`` and ``class_names``. A policy with names of classes takes only
            predictions with the same names; a policy without names takes any, as it cannot compare
            them. Classes without names are called 0, 1, ….

        Returns
        -------
        PolicyResult

        Raises
        ------
        InvalidInput
            If there are no rows, or the members, classes, class names or dtype are not those that
            it was certified for.
        """
        validate.proportion(false_alarm_rate, "false_alarm_rate")
        on_host = self.rule.runs_on_any_library
        rows = receive_raw_rows(predictions, "predictions", options, on_host=on_host)
        n_rows, m, k = rows.shape
        self._check_same_model(m, k, class_names_of(rows))
        if not n_rows:
            raise InvalidInput("there are no rows to decide about")
        check_precision(rows.stored_as, self.stored_as)
        chunks: Iterable[Samples]
        if isinstance(rows, Samples):
            chunks = [rounded_samples(rows, self.stored_as, on_host=on_host)]
        elif isinstance(rows, Predictions):
            chunks = (
                samples
                for _, _, samples in rows.sample_chunks(
                    normalize=options.get("normalize", False), rounded_as=self.stored_as
                )
            )
        else:
            chunks = rows.sample_chunks(self.stored_as)
        # the means of many classes would not fit in memory, so each chunk is dropped after use
        with bar("deciding", n_rows, progress) as advance:
            uncertainty, prediction = _concatenated(
                map(self.decide_samples, counted(iter(chunks), advance))
            )
        drift = self.check_drift(uncertainty, false_alarm_rate)
        return PolicyResult(
            self.accepts(uncertainty),
            uncertainty,
            prediction,
            self.prediction_names,
            self.with_drift(drift).certificate,
        )

    def check_predictions(self, predictions: Predictions) -> None:
        """Raise unless predictions have the members, classes and dtype that were certified.

        Parameters
        ----------
        predictions : Predictions
        """
        _, m, k = predictions.shape
        self._check_same_model(m, k, class_names_of(predictions))
        check_precision(predictions.stored_as, self.stored_as)

    def decide_samples(self, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
        """Return uncertainties and predictions of some rows, as in :class:`PolicyResult`.

        Use it where rows do not fit in memory, after :meth:`check_predictions`.

        Parameters
        ----------
        samples : Samples (n, M, K)
            Rounded to ``stored_as``, as :meth:`scorewise.io.Predictions.chunk_samples` does.

        Returns
        -------
        uncertainty : array (n,)
        prediction : integer array (n,)
        """
        if self.calibration is not None:
            samples = self.calibration.transform_for(samples, self.component)
        mean, uncertainty = mean_and_uncertainty(samples, self.rule, self.component)
        return uncertainty, self.predict(mean)

    def _check_same_model(self, m: int, k: int, class_names: ClassNames) -> None:
        """Raise if there are other members or class names than certified."""
        if (m, k) != (self.n_members, self.n_classes):
            raise InvalidInput(
                f"these predictions have {m} members and {k} classes, and the policy was certified "
                f"for {self.n_members} members and {self.n_classes} classes: its guarantee is for "
                "the same model"
            )
        why = "its guarantee is for the same model"
        check_names_of_model(class_names, self.class_names, "the policy", why)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        signing_key: str | os.PathLike[str] | None = None,
        replace: bool = False,
    ) -> None:
        """Write the policy to a JSON file, which :func:`scorewise.load_policy` reads and verifies.

        Parameters
        ----------
        path : str or path
            The file appears complete or not at all; an old one stays if writing fails.
        signing_key : str or path, optional
            A file with an Ed25519 private key in PEM format. Readers with the public key can then
            verify who wrote the policy. Needs ``pip install 'scorewise[sign]'``.
        replace : bool
            Whether a policy that accepts no row may replace one that accepts some.

        Raises
        ------
        InvalidInput
            If the rule is a function of the user's, which no file can contain, or the key is not
            such a key; or if this policy accepts no row and would replace one that accepts some.
        """
        if not replace and not self.certificate.coverage and _accepts_rows(Path(path)):
            raise InvalidInput(
                f"{os.fspath(path)!r} has a policy that accepts rows, and this one accepts none: "
                "the old one is not replaced",
                Remedy("replace", True, "to replace it all the same"),
            )
        write_sealed(Path(path), self.to_dict(), None if signing_key is None else Path(signing_key))

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the file but for digests, in lists, numbers and strings."""
        certificate = {name: getattr(self.certificate, name) for name in _CERTIFICATE_FIELDS}
        content = {
            "kind": _KIND,
            "format": _FORMAT,
            "guarantee": repr(replace(self, certificate=replace(self.certificate, drift=None))),
            "rule": self.rule.to_json(),
            "component": self.component,
            "floor": self.floor,
            "loss_bound": self.loss_bound,
            "certificate": certificate,
            "members": self.n_members,
            "classes": self.n_classes,
            "dtype": self.stored_as.dtype,
            "from_logits": self.stored_as.from_logits,
            "weights_dtype": self.stored_as.weights_dtype,
            "class_names": self.class_names,
            "rows_left_out": self.n_left_out,
            "files_left_out": self.n_files_left_out,
            "metadata": dict(self.metadata),
        }
        return {
            **plain(content),
            "calibration": None if self.calibration is None else self.calibration.to_dict(),
            "calibration_uncertainty": self.calibration_uncertainty.tolist(),
            "calibration_losses": self.calibration_losses.tolist(),
        }


@dataclass(frozen=True, eq=False, repr=False)
class PolicyResult(TextInNotebooks):
    """Decisions about new rows; made by :meth:`Policy.apply`.

    Attributes
    ----------
    accepted : array of bool (n,)
    uncertainty : array (n,)
        To ten digits, as it is compared with the threshold.
    prediction : integer array (n,)
        The index of the class of the largest mean probability, or of the least costly action of a
        cost matrix; ``labels`` has the names.
    prediction_names : tuple of str
        Names of the classes or actions, in the order of their indices.
    certificate : Certificate
        The policy's, with the result of the drift check.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> probs = sw.binary(np.repeat([0.05, 0.4], 100))[:, None]
    >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    >>> result = sw.certify(probs, y, max_loss=0.1).apply(probs)
    >>> result.accepted[[0, -1]], result.uncertainty[[0, -1]]
    (array([ True, False]), array([0.05, 0.4 ]))
    >>> print(result)
    100 of 200 rows accepted (50.0 %); new inputs look like the certification data: mean uncertainty
    0.225 of 200 new inputs, 0.225 of the certification data, p = 1.
    """

    accepted: np.ndarray
    uncertainty: np.ndarray
    prediction: np.ndarray
    prediction_names: tuple[str, ...]
    certificate: Certificate

    @property
    def labels(self) -> np.ndarray:
        """The predictions by name, ``(n,)``: names of classes, or of actions.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> probs = sw.binary(np.repeat([0.05, 0.9], 100))[:, None]
        >>> policy = sw.certify(probs, np.repeat([0, 1], 100), max_loss=0.1)
        >>> policy.apply(probs).labels[[0, -1]]
        array(['0', '1'], dtype='<U1')
        """
        return np.asarray(np.array(self.prediction_names)[self.prediction])

    @property
    def drift(self) -> Drift:
        """The test of whether the new rows differ from the certification rows."""
        assert self.certificate.drift is not None
        return self.certificate.drift

    def __repr__(self) -> str:
        n, n_accepted = len(self.accepted), int(self.accepted.sum())
        share = percent(n_accepted / n, ".1f")
        return f"{n_accepted:,} of {n:,} rows accepted ({share}); {self.drift}"

    def to_frame(self, library: str | None = None) -> Any:
        """Return a data frame with the columns accepted, uncertainty and prediction (its name).

        Parameters
        ----------
        library : "pandas" or "polars", optional
            By default pandas, or polars where pandas is not installed.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame

        Raises
        ------
        ImportError
            Without pandas and polars.

        Examples
        --------
        >>> import numpy as np, scorewise as sw
        >>> probs = sw.binary(np.repeat([0.05, 0.4], 100))[:, None]
        >>> y = np.r_[np.zeros(100, int), np.arange(100) % 2]
        >>> policy = sw.certify(probs, y, max_loss=0.1, class_names=["well", "ill"])
        >>> policy.apply(probs, class_names=["well", "ill"]).to_frame().iloc[[0, -1]]
             accepted  uncertainty prediction
        0        True         0.05       well
        199     False         0.40       well
        """
        names = np.array(self.prediction_names, object)[self.prediction]
        columns = {"accepted": self.accepted, "uncertainty": self.uncertainty, "prediction": names}
        return frame(columns, library)


@validate.takes_options_of(Samples)
def certify(
    predictions: Any,
    y: Any = None,
    *,
    max_loss: float,
    confidence: float = 0.95,
    task_loss: RuleLike = "zero-one",
    component: str = "total",
    floor: float | None = None,
    loss_bound: float | None = None,
    calibration: Calibration | None = None,
    labels_are: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> Policy:
    """Return a policy that abstains so that accepted rows have a mean loss of at most ``max_loss``.

    Use it with predictions for held-out rows, which were used neither to fit the model nor to
    choose the measure. Rows are accepted by the uncertainty of the task's own loss. The threshold
    is that of :func:`scorewise.certify_threshold`.

    Parameters
    ----------
    predictions : Predictions, array (n, M, K) or Samples
    y : array (n,), optional
        Names of classes, or indices; not needed where the predictions have labels.
    max_loss : float
        The largest mean loss to allow.
    confidence : float
        Confidence of the guarantee.
    task_loss : str, ScoringRule, or costs (K, A)
        The loss of the task, as for :func:`scorewise.get_rule`.
    component : "total", "aleatoric" or "epistemic"
        The component of the uncertainty to compare; theory recommends the total for abstaining.
    floor : float, optional
        The smallest probability that counts in the loss; the log loss needs one.
    loss_bound : float, optional
        The largest loss that can occur, where the rule does not define it.
    calibration : Calibration, optional
        Made by :func:`scorewise.fit_calibration` on other rows; the policy applies it to all
        predictions, and it is saved with the policy.
    labels_are : "names" or "indices", optional
        What ``y`` holds, where numbers could be either.
    metadata : mapping, optional
        Values to save with the policy, such as the name of the input file.
    **options
        Options of :class:`scorewise.Samples`: ``class_names``, ``weights``, …

    Returns
    -------
    Policy
        With ``apply(new_predictions)`` and ``save(path)``.

    Warns
    -----
    ScorewiseWarning
        If there are so few rows that nothing could be certified even if none incurred a loss.

    Raises
    ------
    InvalidInput
        If labels are missing, no guarantee on the mean of the loss exists, or the calibration was
        fitted on most of these rows.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet(np.full(3, 0.2), size=2000)
    >>> y = np.array([rng.choice(3, p=p) for p in truth])
    >>> probs = np.stack([truth, truth], axis=1)
    >>> policy = sw.certify(probs[:1000], y[:1000], max_loss=0.1)
    >>> print(policy)
    By total zero-one uncertainty: Accept where uncertainty <= 0.286135: 71.3 % of 1,000
    certification rows, with a mean error of 7.99 %. The mean error of new rows that are accepted is
    at most 10 %, with 95 % confidence.
    >>> print(policy.apply(probs[1000:]))
    691 of 1,000 rows accepted (69.1 %); new inputs look like the certification data: ...
    """
    component = validate.choice(component, "component", COMPONENTS)
    check_calibration(calibration)
    rule = get_rule(task_loss)
    on_host = rule.runs_on_any_library  # a user's own rule takes arrays of the user's library
    if isinstance(predictions, Samples) and on_host:
        check_converted_on_host(predictions)
    rows = receive_labelled(predictions, y, options, labels_are=labels_are, on_host=on_host)
    rule = rule.for_classes(rows.samples.classes_)
    rule.check_classes(rows.samples.n_classes)
    numbers = numbers_to_certify(rows, rule, component, floor, calibration)
    check_other_rows(calibration, numbers)
    policy = certify_rows(
        numbers["loss"],
        numbers["uncertainty"],
        rule,
        max_loss=max_loss,
        confidence=confidence,
        component=component,
        floor=floor,
        loss_bound=loss_bound,
        n_members=int(rows.samples.probs.shape[-2]),
        n_classes=rows.samples.n_classes,
        stored_as=rows.samples.stored_as,
        class_names=class_names_of(rows.samples),
        calibration=calibration,
        metadata=metadata,
    )
    warn_if_too_few_rows([policy.certificate])
    return policy


def numbers_to_certify(
    rows: LabelledSamples,
    rule: ScoringRule,
    component: str,
    floor: float | None,
    calibration: Calibration | None,
) -> dict[str, np.ndarray]:
    """Return the loss and the uncertainty of each row, and its digest if there is a calibration."""
    samples, numbers = rows.samples, {}
    if calibration is not None:
        numbers["digest"] = row_digests(mean_in_float64(samples), rows.labels)
        samples = calibration.transform_for(samples, component)
    mean, numbers["uncertainty"] = mean_and_uncertainty(samples, rule, component)
    numbers["loss"] = losses_of_mean(mean, rows.labels, rule, floor, like=rows.samples)
    return numbers


def check_calibration(calibration: Any) -> None:
    """Raise unless it is a calibration, or None."""
    if not isinstance(calibration, Calibration | None):
        raise InvalidInput(
            f"calibration must be a Calibration, not {quoted(calibration)}; "
            "scorewise.load_calibration reads one from a file"
        )


def check_other_rows(calibration: Calibration | None, numbers: Mapping[str, np.ndarray]) -> None:
    """Raise if the calibration was fitted on most of the rows that :func:`certify` gets."""
    if calibration is not None and calibration.shares_digests(numbers["digest"]):
        raise InvalidInput(
            "the calibration was fitted on these rows or most of them, and a guarantee needs "
            "other rows: split the held-out rows into two parts, one to calibrate and one to "
            "certify"
        )


def certify_rows(
    losses: np.ndarray,
    uncertainty: np.ndarray,
    rule: ScoringRule,
    *,
    max_loss: float,
    confidence: float,
    component: str,
    floor: float | None,
    loss_bound: float | None,
    n_members: int,
    n_classes: int,
    stored_as: StoredAs,
    class_names: tuple[str, ...] | None,
    calibration: Calibration | None = None,
    n_left_out: int = 0,
    n_files_left_out: int = 0,
    metadata: Mapping[str, Any] | None = None,
) -> Policy:
    """Return a policy from the losses and uncertainties of certification rows."""
    bound = certifiable_bound(losses, rule, n_classes, floor, loss_bound)
    order = np.lexsort((losses, uncertainty))
    return Policy(
        Certificate.of(losses, uncertainty, max_loss, confidence, loss_bound=bound, unit=rule.unit),
        rule,
        component,
        floor,
        n_members,
        n_classes,
        replace(stored_as, normalized=False),
        class_names,
        uncertainty[order],
        losses[order],
        bound,
        calibration,
        n_left_out,
        n_files_left_out,
        dict(metadata or {}),
    )


def _concatenated(chunks: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the two arrays of all rows."""
    first, second = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
    return first, second


# -- files ---------------------------------------------------------------------------------------


def load_policy(
    path: str | os.PathLike[str], *, public_key: str | os.PathLike[str] | None = None
) -> Policy:
    """Return the policy that :meth:`scorewise.abstain.Policy.save` wrote to a file.

    Use it in production, to accept new predictions or abstain by the certified threshold.

    The certificate is computed again from the uncertainties and losses of the certification rows,
    and every field is compared with its digest: a file that was damaged or edited is refused. This
    does not show who wrote the file; a signature does.

    Parameters
    ----------
    path : str or path
    public_key : str or path, optional
        A file with an Ed25519 public key in PEM format. The policy must be signed with its private
        key. Without it, a signature is not verified.

    Returns
    -------
    Policy

    Raises
    ------
    InvalidInput
        If the file is not a policy, or was damaged or edited; with ``public_key``, also if it was
        not signed with that key.

    Examples
    --------
    >>> import tempfile, numpy as np, scorewise as sw
    >>> policy = sw.certify(np.full((100, 1, 2), [0.9, 0.1]), np.zeros(100, int), max_loss=0.1)
    >>> path = tempfile.mkdtemp() + "/policy.json"
    >>> policy.save(path)
    >>> sw.load_policy(path).certificate == policy.certificate
    True
    """
    path = Path(path)
    with refusing_damage(path, "policy", "certify"):
        content = read_sealed(path, _KIND)
    if content.get("format") != _FORMAT:
        raise InvalidInput(
            f"{path.name!r} was written by another version of scorewise, and its guarantee cannot "
            "be verified; certify again"
        )
    if public_key is not None:
        verify_signature(content, Path(public_key), path.name)
    with refusing_damage(path, "policy", "certify"):
        return _policy_from_json(unseal(content, "policy"))


def _accepts_rows(path: Path) -> bool:
    """Return whether a file has a policy that accepts some of its certification rows."""
    try:
        content = read_json(path)
        return bool(content["kind"] == _KIND and content["certificate"]["coverage"] > 0)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):  # it is no policy
        return False


def _policy_from_json(content: dict[str, Any]) -> Policy:
    """Return a policy from the content of a file, which may have been changed by hand."""
    certificate = content["certificate"]
    n_members, n_classes = (
        validate.whole(content[name], name, at_least=1) for name in ("members", "classes")
    )
    rule = rule_from_json(content["rule"])
    rule.check_classes(n_classes)
    floor, names, from_logits = content["floor"], content["class_names"], content["from_logits"]
    weights_dtype = content["weights_dtype"]
    if not isinstance(names, list | None) or not all(isinstance(x, str) for x in names or ()):
        raise TypeError("class_names must be a list of names")
    if not isinstance(from_logits, bool):
        raise TypeError("from_logits must be true or false")
    if not isinstance(content["metadata"], dict):
        raise TypeError("metadata must be a mapping")
    uncertainty = validate.finite(content["calibration_uncertainty"], "calibration_uncertainty")
    if rule.never_negative and uncertainty.min() < 0:
        raise ValueError("calibration_uncertainty is negative, which this rule never is")
    policy = certify_rows(
        validate.finite(content["calibration_losses"], "calibration_losses"),
        uncertainty,
        rule,
        max_loss=certificate["max_loss"],
        confidence=certificate["confidence"],
        component=validate.choice(content["component"], "component", COMPONENTS),
        floor=None if floor is None else validate.floor(floor, n_classes),
        loss_bound=validate.number(content["loss_bound"], "loss_bound"),
        n_members=n_members,
        n_classes=n_classes,
        stored_as=StoredAs(
            validate.choice(content["dtype"], "dtype", COARSER),
            from_logits,
            False,
            None
            if weights_dtype is None
            else validate.choice(weights_dtype, "weights_dtype", COARSER),
        ),
        class_names=checked_names(names, n_classes),
        calibration=_calibration_from_json(content["calibration"], n_classes),
        n_left_out=validate.whole(content["rows_left_out"], "rows_left_out", at_least=0),
        n_files_left_out=validate.whole(content["files_left_out"], "files_left_out", at_least=0),
        metadata=content["metadata"],
    )
    _check_follows(content, policy.to_dict())
    return policy


def _calibration_from_json(content: Any, n_classes: int) -> Calibration | None:
    if content is None:
        return None
    calibration = Calibration.from_dict(content)
    if calibration.n_classes != n_classes:
        raise ValueError(f"the calibration has {calibration.n_classes} classes, not {n_classes}")
    return calibration


def _check_follows(content: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise if a field is unknown, or is not what a policy of these certification rows saves."""
    stored_numbers, numbers = content["certificate"], expected["certificate"]
    for known, names in ((expected, content), (numbers, stored_numbers)):
        if unknown := sorted(set(names) - set(known)):
            raise ValueError(f"{quoted(unknown[0])} is not a field of a policy")
    for name, number in numbers.items():
        _check_field(f"certificate.{name}", stored_numbers[name], number)
    for name, value in expected.items():
        if name != "certificate":
            _check_field(name, content[name], value)


def _check_field(name: str, stored: Any, expected: Any) -> None:
    if type(stored) is type(expected) and (
        stored == expected
        or (isinstance(expected, float) and math.isclose(stored, expected, rel_tol=_ROUNDING))
    ):
        return
    raise ValueError(
        f"{name} is {shorten(stored)}, and a policy of its certification rows has "
        f"{shorten(expected)}"
    )
