"""The members of a committee, asked in parallel and some rows at a time."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from scorewise.errors import InvalidInput
from scorewise.kernels import get_num_threads
from scorewise.models.checking import check_probabilities, check_shape
from scorewise.models.committees import Committee, Member, spread

_CHUNK = 1 << 24  # numbers: 128 MiB in float64


class CommitteeSampler:
    """Asks the chosen members of a committee."""

    def __init__(self, committee: Committee, chosen: Sequence[int]) -> None:
        self._committee = committee
        self._members = [committee.members[i] for i in chosen]
        weights = committee.weights
        self.weights = None if weights is None else weights[list(chosen)]
        self._n_classes = len(committee.classes)

    def n_rows(self, X: Any) -> int:
        """How many there are."""
        try:
            return int(_num_samples(X))
        except TypeError as error:
            raise InvalidInput(f"X has no rows: {error}") from None

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """All members' answers ``(n, M, K)`` about further rows."""
        n = self.n_rows(X)
        shape = (len(self._members), self._n_classes)
        if n == 0:
            yield np.empty((0, *shape))
        size = batch_size or max(1, _CHUNK // (shape[0] * shape[1]))
        X = X.tocsr() if issparse(X) else X
        threads = Parallel(n_jobs=get_num_threads(), require="sharedmem")
        with threads:
            for start in range(0, n, size):
                rows = X if size >= n else _safe_indexing(X, slice(start, start + size))
                prepared = _refusing(self._committee.prepare, rows, "the model")
                yield self._ask_all(threads, prepared, start, min(size, n - start))

    def _ask_all(self, threads: Any, rows: Any, start: int, n: int) -> np.ndarray:
        if not all(member.is_tree for member in self._members):
            answers = threads(delayed(self._ask)(m, rows, start, n) for m in self._members)
            return np.stack(answers, axis=1)
        whole = np.empty((n, len(self._members), self._n_classes))
        threads(delayed(m.answer)(rows, out=whole[:, i]) for i, m in enumerate(self._members))
        return whole

    def _ask(self, member: Member, rows: Any, start: int, n: int) -> np.ndarray:
        probs = np.asarray(_refusing(member.answer, rows, member.name))
        known = self._n_classes if member.columns is None else len(member.columns)
        check_shape(probs.shape, n, member.name, known)
        remedy = "a fitted classifier's predict_proba must give probabilities"
        check_probabilities(probs, member.name, start, remedy)
        return spread(probs, member.columns, self._n_classes)


def _refusing(work: Any, rows: Any, name: str) -> Any:
    """What scikit-learn refuses, such as a wrong number of columns, with the member's name."""
    try:
        return work(rows)
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"{name} refuses X: {error}") from error
