import numpy as np

def instruction_sets() -> tuple[str, ...]: ...
def instruction_set() -> str: ...
def decompose(
    members: np.ndarray,  # (N, M, K), float32 or float64, of any strides
    weights: np.ndarray
    | None,  # (N or 1, M), of the same dtype, that sum to 1; None if all are equal
    predictor: np.ndarray | None,  # (N, K), of the same dtype; None for the mean
    results: np.ndarray,  # (n_components * len(rules), N), of the same dtype
    rules: tuple[tuple[int, float, np.ndarray | None], ...],  # structure, parameter, numbers
    kind: int,
    tolerance: float,
    extras: int,
    start: int,
    stop: int,
    /,
) -> bool: ...
def average(
    members: np.ndarray,  # as for decompose
    weights: np.ndarray | None,
    mean: np.ndarray | None,  # (N, K), float64
    parts: np.ndarray | None,  # TU, AU and EU of each class (3, N, K), of the members' dtype
    kind: int,
    tolerance: float,
    start: int,
    stop: int,
    /,
) -> bool: ...
