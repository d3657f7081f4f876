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
def check(
    members: np.ndarray,  # (N, M, K), of any strides
    kind: int,
    tolerance: float,
    start: int,
    stop: int,
    /,
) -> bool: ...
def accumulate(
    members: np.ndarray,  # (N, M, K), that were checked
    shares: np.ndarray,  # (3, N or 1, M), of the same dtype
    memory: tuple[
        np.ndarray, ...
    ],  # anchor, deviation, regrets, statistics, convex and has_zero_anchor; all flat
    rules: tuple[
        tuple[int, float, np.ndarray | None], ...
    ],  # at most one of each of the first four
    kind: int,
    tolerance: float,
    is_side_by_side: bool,
    offset: int,  # of the members' first instance in the state
    start: int,
    stop: int,
    /,
) -> bool: ...
def update_results(
    memory: tuple[np.ndarray, ...],
    totals: np.ndarray,  # (len(rules), room)
    rules: tuple[tuple[int, float, np.ndarray | None], ...],
    n_classes: int,
    is_side_by_side: bool,
    wanted: int,
    start: int,
    stop: int,
    /,
) -> bool: ...

# As in _chunks.py, __init__.py and _codes.py, which tests compare with them.
LANE_BLOCK: int
MOST_RULES: int
