"""Conformance checks for user-defined rules and kernels."""

from scorewise.testing._check_kernel import check_kernel
from scorewise.testing._check_rule import check_rule

__all__ = ["check_kernel", "check_rule"]
