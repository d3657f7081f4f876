"""Are new predictions stored as those that a policy was certified on?

Uncertainties are compared in ten digits, and float32 has seven. The same rows in another dtype have
other digits: rows that were tied are not, and some change sides at the threshold. Predictions of a
finer dtype are therefore rounded to that of the certification rows, which gives the same numbers as
a file of that dtype.
"""

from __future__ import annotations

from scorewise._array import COARSER, is_numpy
from scorewise._inputs import StoredAs
from scorewise._rows import RawRows
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput, Remedy

_KIND = {True: "logits", False: "probabilities"}
_WITH = {True: "with", False: "without"}
_LOGITS = Remedy("from_logits", True, "if an array holds logits")
_WEIGHTS = Remedy("weights", ..., "the weights of the members, with an array")


def check_precision(stored: StoredAs, certified: StoredAs) -> None:
    """Raise if the predictions cannot be rounded to what the policy was certified on."""
    weighted, certified_weighted = (x.weights_dtype is not None for x in (stored, certified))
    if weighted != certified_weighted:
        raise InvalidInput(
            f"these predictions are {_WITH[weighted]} member weights, and the policy was "
            f"certified {_WITH[certified_weighted]}: its guarantee is for the same model",
            *(() if weighted else (_WEIGHTS,)),
        )
    if stored.from_logits != certified.from_logits:
        kind, certified_kind = _KIND[stored.from_logits], _KIND[certified.from_logits]
        raise InvalidInput(
            f"these predictions are {kind}, and the policy was certified on {certified_kind}, "
            f"which are rounded at other digits: pass {certified_kind}, or certify again on {kind}",
            *(() if stored.from_logits else (_LOGITS,)),
        )
    _check_digits("predictions", stored.dtype, certified.dtype)
    if stored.weights_dtype is not None and certified.weights_dtype is not None:
        _check_digits("weights", stored.weights_dtype, certified.weights_dtype)


def _check_digits(what: str, dtype: str, certified: str) -> None:
    if dtype != certified and certified not in COARSER[dtype]:
        raise InvalidInput(
            f"these {what} are {dtype}, and the policy was certified on {certified}: {dtype} does "
            "not hold the digits that decided, so the same rows would be decided differently; pass "
            f"the {certified} {what}, or certify again on {dtype} {what}"
        )


def rounded_samples(samples: Samples, certified: StoredAs, *, on_host: bool) -> Samples:
    """Return the samples in the precision of the policy; raises if it is too late to round."""
    if on_host:
        check_converted_on_host(samples)
    stored = samples.stored_as
    if (stored.dtype, stored.weights_dtype) == (certified.dtype, certified.weights_dtype):
        return samples
    if (conversion := _conversion(stored)) is not None:
        raise InvalidInput(
            f"these Samples of {stored.dtype} {conversion}, and can no longer be rounded to "
            f"{certified.dtype}, on which the policy was certified: {_advice(stored)}"
        )
    options = {"class_names": samples.classes_}
    return RawRows.of(samples.probs, "predictions", options, on_host=on_host).samples(certified)


def check_converted_on_host(samples: Samples) -> None:
    """Raise if another library than NumPy has converted them, with other last digits."""
    stored = samples.stored_as
    conversion = _conversion(stored)
    if conversion is None or stored.dtype == "float64" or is_numpy(samples.probs):
        return
    raise InvalidInput(
        f"these Samples {conversion} by a library whose {stored.dtype} results differ from NumPy's "
        f"in the last digit, and these digits decide: {_advice(stored)}"
    )


def _conversion(stored: StoredAs) -> str | None:
    """Return how Samples were computed from the values that were passed; None for a copy."""
    if stored.from_logits:
        return "were made from logits"
    if stored.normalized:
        return "were rescaled"
    return None if stored.weights_dtype is None else "have weights that were rescaled"


def _advice(stored: StoredAs) -> str:
    """Return how to pass the same predictions so that they can be rounded."""
    options = {
        "from_logits=True": stored.from_logits,
        "normalize=True": stored.normalized,
        "weights=…": stored.weights_dtype is not None,
    }
    return f"pass the array itself with {', '.join(x for x, used in options.items() if used)}"
