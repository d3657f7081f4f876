"""A check of what a kernel computes without rules: means, and components by class."""

from __future__ import annotations

import numpy as np

from scorewise._array import Array
from scorewise._numerics import gini_terms
from scorewise.decompose import COMPONENTS
from scorewise.errors import KernelMismatch
from scorewise.kernels import AveragingKernel
from scorewise.testing._kernel_cases import ALLOWED, Case, allowed_error, compare


def check_averages(kernel: AveragingKernel, case: Case) -> None:
    """Raise if means or components by class differ from those of the array path."""
    _check_mean(kernel, case)
    _check_components_by_class(kernel, case)


def check_averages_of_invalid(kernel: AveragingKernel, invalid: Case, value: float) -> None:
    """Raise if a kernel averages members of which one is invalid."""
    members = invalid.members()
    for function in (kernel.mean, kernel.components_by_class):
        if function(members.raw, members.weights) is not None:
            raise KernelMismatch(
                f"{function.__name__} does not detect an entry of {value}: {invalid}"
            )


def _check_mean(kernel: AveragingKernel, case: Case) -> None:
    members = case.members()
    mean = kernel.mean(members.raw, members.weights)
    if mean is None:
        raise KernelMismatch(f"mean declines valid predictions: {case}")
    samples = members.samples
    reference = samples.in_float64().mean
    if mean.shape != reference.shape or mean.dtype != np.float64:
        raise KernelMismatch(
            f"mean returns {mean.shape} of {mean.dtype} in place of {reference.shape} of float64: "
            f"{case}"
        )
    # Sums are in float64; a softmax and weights are in the precision of the members.
    in_float64 = case.weights is None and not case.is_rescaled
    relative, _ = ALLOWED["float64" if in_float64 else str(case.array.dtype)]
    tiny = float(np.finfo(case.dtype).tiny)
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(mean - reference) <= relative * reference + 4 * tiny) | (mean < 0)
    if not case.is_rescaled:
        wrong |= (mean > 0) != (reference > 0)  # possible classes stay possible, and others not
        if case.kind == "identical":
            wrong |= mean != reference
    _raise_if(wrong, "mean", mean, reference, case)


def _check_components_by_class(kernel: AveragingKernel, case: Case) -> None:
    members = case.members()
    components = kernel.components_by_class(members.raw, members.weights)
    if components is None:
        raise KernelMismatch(f"components_by_class declines valid predictions: {case}")
    if len(components) != len(COMPONENTS):
        raise KernelMismatch(f"components_by_class does not return three components: {case}")
    for values in components:
        if str(values.dtype) != case.dtype:
            raise KernelMismatch(
                f"components_by_class returns {values.dtype} in place of {case.dtype}: {case}"
            )
    wide = members.samples.in_float64()
    exact = (
        gini_terms(np, wide.mean),
        wide.average(gini_terms(np, wide.probs)),
        wide.average(wide.deviations**2),
    )
    references = dict(zip(COMPONENTS, exact, strict=True))
    allowed = {name: allowed_error(case, name, reference) for name, reference in references.items()}
    by_name = dict(zip(COMPONENTS, components, strict=True))
    is_same = case.kind == "identical"
    compare("by class,", by_name, references, allowed, case, exact=is_same)


def _raise_if(wrong: Array, name: str, values: Array, reference: Array, case: Case) -> None:
    if np.any(wrong):
        index = np.unravel_index(int(np.argmax(wrong)), np.shape(reference))
        raise KernelMismatch(
            f"{name}{list(map(int, index))} is {values[index]} by the kernel, {reference[index]} "
            f"by the array path: {case}"
        )
