"""The prediction that is deployed, whose risk takes the place of that of the mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, is_frame, namespace, on_device_of, working_precision
from scorewise._fields import check_names_of_model, checked_names
from scorewise._inputs import RawPredictions, classes_last
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.kernels import Extras


def check_without_jackknife(extras: Extras) -> None:
    """Raise for a correction or errors, which the jackknife makes for the mean of the members."""
    if extras.unbiased:
        raise InvalidInput(
            "unbiased=True corrects EU for θ̄, which is the mean of the same few members; the "
            "predictor is fixed, so that E D(p, θ) has no such bias",
            Remedy("unbiased", False),
        )
    if extras.standard_errors:
        raise InvalidInput(
            "standard_errors=True leaves out members from their mean, and with predictor= each "
            "component is an average over members; its standard error is the standard deviation "
            "of what it averages, such as rule.expected_loss(predictor[..., None, :], probs), "
            "over √M",
            Remedy("standard_errors", False),
        )


def receive_predictor(
    predictor: Any, like: Array, classes: Iterable[Any] | None, *, check: bool = True
) -> RawPredictions:
    """Return predictions in the library of ``like`` ``(..., K)``; no value is checked yet.

    Raises unless they are ``(..., K)`` or ``(K,)``, for the same classes in the same order.
    """
    values, names = _values_and_names(predictor)
    values = validate.floating(values, "predictor")
    xp, shape, n_classes = namespace(like), tuple(like.shape), like.shape[-1]
    if not isinstance(values, np.ndarray) and namespace(values) is not xp:
        raise InvalidInput(
            f"predictor is an array of {type(values).__module__} and the predictions are one of "
            f"{type(like).__module__}; convert one of them"
        )
    if tuple(values.shape) not in {shape, (n_classes,)}:
        raise InvalidInput(
            f"predictor has shape {tuple(values.shape)}; it must be {shape}, a prediction for each "
            f"instance with its classes on the last axis, or {(n_classes,)}, one for all of them"
        )
    if names is not None:
        check_names_of_model(
            None if classes is None else checked_names(list(classes), n_classes),
            checked_names(names, n_classes),
            "predictor",
            "put its classes in the order of the predictions",
        )
    layout = classes_last(values.ndim, "predictor")
    return RawPredictions(on_device_of(xp, values, like), layout, check=check)


def _values_and_names(predictor: Any) -> tuple[Any, Iterable[Any] | None]:
    """Return the probabilities of a prediction, and the names of its classes if it has them."""
    if isinstance(predictor, Samples):
        n_members = predictor.shape[-2]
        if n_members > 1:
            raise InvalidInput(
                f"predictor is one prediction, and these Samples have {n_members} members; pass "
                "their mean, samples.mean"
            )
        return predictor.probs[..., 0, :], predictor.classes_
    if isinstance(predictor, Dirichlet):
        raise InvalidInput("predictor is one prediction, and not a Dirichlet; pass its mean")
    if is_frame(predictor):
        columns = list(predictor.columns)
        return predictor.to_numpy(), None if columns == [*range(len(columns))] else columns
    if hasattr(predictor, "predict_proba"):
        raise InvalidInput(
            f"predictor is a {type(predictor).__name__}; pass its probabilities, which its "
            "predict_proba returns"
        )
    return predictor, None


def probabilities_of(
    predictor: RawPredictions, values: Array, like: Array, origin: Sequence[int] = ()
) -> Array:
    """Return the checked values of a block of predictions, as probabilities like ``(..., K)``."""
    xp = namespace(like)
    block = predictor.block(values, tuple(origin) if values.ndim > 1 else ())
    try:
        q = block.probabilities()
    except InvalidInput as error:
        advice = "; from_logits and normalize are for the members only" if error.remedies else ""
        raise InvalidInput(f"{error.problem}{advice}", index=error.index) from None
    dtype = working_precision(xp, like[..., :1]).dtype
    q = xp.astype(on_device_of(xp, q, like), dtype, copy=False)
    return xp.broadcast_to(q, tuple(like.shape))
