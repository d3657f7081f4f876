"""Public conformance checks: does a rule keep the laws, does a kernel agree with the array path?"""

from scorewise.testing._kernel import check_kernel
from scorewise.testing._rule import check_rule

__all__ = ["check_kernel", "check_rule"]
