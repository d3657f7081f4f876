"""The members of a committee, asked side by side and some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from scorewise._validate import SUM_TOLERANCE
from scorewise.errors import InvalidInput
from scorewise.kernels import get_num_threads, run
from scorewise.models.sklearn._committees import Committee, Member, spread

# Numbers in a chunk: each tree is read anew for every one, other answers are held twice.
_TREES_CHUNK, _CHUNK = 1 << 24, 1 << 22
_FEW = 1 << 17  # answers that are sooner given than handed to threads


class CommitteeSampler:
    """Asks the chosen members of a committee."""

    def __init__(self, committee: Committee, chosen: Sequence[int]) -> None:
        self._prepare = committee.prepare
        self._members = [committee.members[i] for i in chosen]
        self._are_trees = all(member.is_tree for member in self._members)
        self._n_classes = len(committee.classes)
        if self._n_classes < 2:
            raise InvalidInput("the model knows one class; there is nothing to be unsure about")
        weights = committee.weights
        self.weights = None if weights is None else _checked_weights(weights[list(chosen)])

    def n_rows(self, X: Any) -> int:
        """How many there are."""
        try:
            return int(_num_samples(X))
        except TypeError as error:
            raise InvalidInput(f"X has no rows: {error}") from None

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """All members' answers ``(n, M, K)`` about further rows."""
        n, m = self.n_rows(X), len(self._members)
        if n == 0:
            yield np.empty((0, m, self._n_classes))
        X = X.tocsr() if issparse(X) else X
        chunk = _TREES_CHUNK if self._are_trees else _CHUNK
        size = batch_size or max(1, chunk // (m * self._n_classes))
        for start in range(0, n, size):
            rows = X if size >= n else _safe_indexing(X, slice(start, start + size))
            yield self._ask_all(
                _named(self._prepare, rows, "the model"), start, min(size, n - start)
            )

    def _ask_all(self, rows: Any, start: int, n: int) -> np.ndarray:
        m = len(self._members)
        n_threads = 1 if n * m < _FEW else get_num_threads()
        if self._are_trees:
            whole = np.empty((n, m, self._n_classes))

            def write(i: int) -> bool:
                self._members[i].answer(rows, out=whole[:, i])
                return True

            run((partial(write, i) for i in range(m)), n_threads)
            return whole
        # Of other members nobody knows what they do: scikit-learn's own threads know its settings.
        ask = Parallel(n_jobs=n_threads, require="sharedmem")
        answers = ask(delayed(self._ask)(member, rows, start, n) for member in self._members)
        for answer in answers:
            if isinstance(answer, InvalidInput):
                raise answer
        return np.stack(answers, axis=1)

    def _ask(self, member: Member, rows: Any, start: int, n: int) -> np.ndarray | InvalidInput:
        """A member's answer, or what is wrong with it: in threads, any could be the first."""
        try:
            probs = np.asarray(_named(member.answer, rows, member.name))
            known = self._n_classes if member.columns is None else len(member.columns)
            _check_answer(probs, n, known, member.name, start)
        except InvalidInput as error:
            return error
        return spread(probs, member.columns, self._n_classes)


def _checked_weights(weights: np.ndarray) -> np.ndarray:
    if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
        raise InvalidInput(
            f"the members have weights {weights.tolist()}; they must be finite, not negative and "
            "not all 0"
        )
    return weights


def _named(work: Callable[[Any], Any], rows: Any, name: str) -> Any:
    """What scikit-learn refuses, such as a wrong number of columns, with the member's name."""
    try:
        return work(rows)
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"{name} refuses X: {error}") from error
    except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise InvalidInput(f"{name} fails on X: {type(error).__name__}: {error}") from error


def _check_answer(probs: np.ndarray, n_rows: int, n_classes: int, who: str, start: int) -> None:
    """Refuse what is no distribution in each row ``(n, K)``, and name the member and the row."""
    if probs.dtype.name not in SUM_TOLERANCE:
        raise InvalidInput(f"{who} answers with dtype {probs.dtype}; probabilities are floats")
    if probs.shape != (n_rows, n_classes):
        raise InvalidInput(
            f"{who} gives shape {probs.shape}; for {n_rows} rows and the {n_classes} classes that "
            f"it knows it must be {(n_rows, n_classes)}"
        )
    with np.errstate(all="ignore"):
        sums = probs.sum(axis=-1)
        wrong = ~((np.abs(sums - 1) <= SUM_TOLERANCE[probs.dtype.name]) & (probs.min(-1) >= 0))
    if not wrong.any():
        return
    i = int(np.argmax(wrong))
    row = probs[i]
    if not np.isfinite(row).all():
        k = int(np.argmax(~np.isfinite(row)))
        problem = f"gives {row[k]} for row {start + i}, class {k}"
    elif (row < 0).any():
        k = int(np.argmax(row < 0))
        problem = f"gives {row[k]:.6g} for row {start + i}, class {k}, which is negative"
    else:
        problem = f"gives row {start + i} probabilities that sum to {sums[i]:.9g}, not 1"
    raise InvalidInput(
        f"{who} {problem}; a fitted classifier's predict_proba must give probabilities"
    )
