"""The decomposition in memory O(N·K): members or chunks arrive one at a time, and merge."""

from scorewise.accumulate._accumulator import Accumulator

__all__ = ["Accumulator"]
