"""Conformance checks for rules and kernels of your own."""

from scorewise.testing._check_kernel import check_kernel
from scorewise.testing._check_rule import check_rule

__all__ = ["check_kernel", "check_rule"]
