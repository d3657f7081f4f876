"""Abstain on uncertain rows, with a guarantee on the risk of the accepted rows."""

from typing import TYPE_CHECKING

from scorewise._lazy import lazy_names
from scorewise.abstain._certificate import Certificate, certify_threshold
from scorewise.abstain._drift import Drift
from scorewise.abstain._policy import Policy, PolicyResult, certify, load_policy

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
