"""Total = aleatoric + epistemic, for any scoring rule and any second-order prediction."""

from scorewise.decompose._array_path import components_by_arrays
from scorewise.decompose._decompose import (
    COMPONENTS,
    Decomposition,
    Decompositions,
    Explanation,
    decompose,
    explain_kernel,
)
from scorewise.decompose._gradient import gradient_by_arrays
from scorewise.decompose._related import label_wise, pairwise_epistemic, reverse_epistemic

__all__ = [
    "COMPONENTS",
    "Decomposition",
    "Decompositions",
    "Explanation",
    "components_by_arrays",
    "decompose",
    "explain_kernel",
    "gradient_by_arrays",
    "label_wise",
    "pairwise_epistemic",
    "reverse_epistemic",
]
