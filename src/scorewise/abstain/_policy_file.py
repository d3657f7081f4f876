"""Certificates in files, which may have been changed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise.abstain._certificate import Certificate
from scorewise.errors import InvalidInput
from scorewise.io import checked_names
from scorewise.rules import rule_from_json

KIND = "scorewise certificate"
PROMISE = (
    "threshold",
    "coverage",
    "bound",
    "loss",
    "max_loss",
    "confidence",
    "n_calibration",
    "needed",
)


def read_parts(path: Path) -> dict[str, Any]:
    """What a gate is made of."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path.name!r} is no JSON file: {error}") from None
    if not isinstance(kept, dict) or kept.get("kind") != KIND:
        raise InvalidInput(f"{path.name!r} is no certificate; scorewise certify makes them")
    try:
        return _parts(kept)
    except KeyError as error:
        raise InvalidInput(f"{path.name!r} is a damaged certificate: no {error}") from None
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"{path.name!r} is a damaged certificate: {error}") from None


def _parts(kept: dict[str, Any]) -> dict[str, Any]:
    """What a gate is made of, from a file that may have been changed by hand."""
    rule = rule_from_json(kept["rule"])
    validate.choice(kept["component"], "component", ("total",))
    shape = tuple(validate.whole(kept[x], x, at_least=1) for x in ("members", "classes"))
    rule.check_classes(shape[1])
    names = kept["class_names"]
    if not isinstance(names, list | None) or not all(isinstance(x, str) for x in names or ()):
        raise TypeError("class_names must be a list of names")
    if not isinstance(kept["weighted"], bool) or not isinstance(kept["told"], dict):
        raise TypeError("weighted must be true or false, and told a mapping")
    return {
        "certificate": _certificate(kept["certificate"]),
        "rule": rule,
        "floor": None if kept["floor"] is None else validate.floor(kept["floor"], shape[1]),
        "shape": shape,
        "class_names": checked_names(names, shape[1]),
        "weighted": kept["weighted"],
        "calibration_uncertainty": np.sort(
            validate.finite(kept["calibration_uncertainty"], "calibration_uncertainty")
        ),
        "told": kept["told"],
    }


def _certificate(kept: dict[str, Any]) -> Certificate:
    """Numbers that can be; those that are not finite are None in a file."""
    if unknown := set(kept) - set(PROMISE):
        raise ValueError(f"it has {', '.join(sorted(unknown))}, which is not known")
    coverage = validate.number(kept["coverage"], "coverage")
    max_loss = validate.number(kept["max_loss"], "max_loss")
    if not 0 <= coverage <= 1 or max_loss <= 0:
        raise ValueError(f"coverage is {coverage}, max_loss {max_loss}")
    threshold, bound, loss = -np.inf, np.nan, np.nan
    if coverage:
        threshold, bound, loss = (
            validate.number(kept[x], x) for x in ("threshold", "bound", "loss")
        )
        if not loss <= bound <= max_loss:
            raise ValueError(f"loss {loss}, bound {bound} and max_loss {max_loss} do not fit")
    elif kept["threshold"] is not None:
        raise ValueError(f"threshold is {kept['threshold']}, though nothing was certified")
    needed = kept["needed"]
    return Certificate(
        threshold,
        coverage,
        bound,
        loss,
        max_loss,
        validate.share(kept["confidence"], "confidence"),
        validate.whole(kept["n_calibration"], "n_calibration", at_least=1),
        None if needed is None else validate.whole(needed, "needed", at_least=1),
    )
