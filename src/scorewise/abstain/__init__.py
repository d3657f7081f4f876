"""Abstain on uncertain rows, with a guarantee on the risk of the accepted rows."""

from typing import TYPE_CHECKING

from scorewise._lazy import lazy_names
from scorewise.abstain._certificate import Certificate, certify_threshold
from scorewise.abstain._drift import Drift
from scorewise.abstain._policy import Policy, PolicyResult, certify, load_policy

# isort: split
# what scorewise.scale certifies rows of a data set with; not for users
from scorewise.abstain._certificate import warn_if_too_few_rows as warn_if_too_few_rows
from scorewise.abstain._policy import certify_rows as certify_rows
from scorewise.abstain._policy import check_calibration as check_calibration
from scorewise.abstain._policy import check_other_rows as check_other_rows
from scorewise.abstain._policy import numbers_to_certify as numbers_to_certify

if TYPE_CHECKING:
    from scorewise.abstain._selective import SelectiveClassifier

__all__ = [
    "Certificate",
    "Drift",
    "Policy",
    "PolicyResult",
    "SelectiveClassifier",
    "certify",
    "certify_threshold",
    "load_policy",
]

__getattr__, __dir__ = lazy_names(__name__, {"SelectiveClassifier": "scorewise.abstain._selective"})
