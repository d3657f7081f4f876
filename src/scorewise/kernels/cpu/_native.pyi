import numpy as np

def instruction_sets() -> tuple[str, ...]: ...
def instruction_set() -> str: ...
def decompose(
    members: np.ndarray,  # (N, M, K), float32 or float64, of any strides
    weights: np.ndarray
    | None,  # (N or 1, M), of the same dtype, that sum to 1; None if all are equal
    results: np.ndarray,  # (3 * len(rules), N), of the same dtype, with contiguous rows
    rules: tuple[tuple[int, float, np.ndarray | None], ...],  # structure, parameter, numbers
    kind: int,
    tolerance: float,
    start: int,
    stop: int,
    /,
) -> bool: ...
