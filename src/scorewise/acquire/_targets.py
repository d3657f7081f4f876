"""Labels for the inputs one will meet: how much a label lowers the uncertainty of other rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._fields import check_same_names
from scorewise._losses import in_library_of_rule
from scorewise._numerics import ten_digits
from scorewise._progress import bar
from scorewise._random import generator, seed_of
from scorewise._rows import class_names_of, receive_rows
from scorewise._threads import get_num_threads, one_blas_thread, run_in_threads
from scorewise.acquire._choose import (
    JOINT,
    METHODS,
    acquire,
    check_batch_size,
    check_coldness,
    unlabelled_rows,
)
from scorewise.acquire._greedy import (
    GreedySearch,
    Outcomes,
    outcomes_without_labels,
    samples_of_common_members,
    weighted_members,
)
from scorewise.decompose import decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput
from scorewise.rules import RuleLike, ScoringRule, get_rule

_BLOCK = 1 << 19  # numbers of conditional predictions that a thread computes at a time
_TASKS = 64  # blocks between two steps of the progress bar
_SHUFFLED = 100  # rows of the target, at least, that show the gains which are due to chance
_SAME_WEIGHTS = 1e-6  # tolerance, as one of the two may be stored in float32


@dataclass(frozen=True, eq=False)
class TargetBatch:
    """Rows to label for a target; made by :func:`scorewise.acquire_for`.

    Attributes
    ----------
    indices : integer array (n,)
        Rows of the pool, in the order of choice.
    gains : array (n,)
        By how much the label of each row is expected to lower the mean total uncertainty of the
        target, as :func:`scorewise.acquire.target_gains` returns it; with ``method="joint"``, once
        the labels of the rows before it (since the last restart) are known. In the units of the
        rule's loss, and never negative. Up to a restart, their sum is what all these labels
        together are expected to lower it by. Estimates, if outcomes are sampled.
    scores : array (n,)
        What the rows were chosen by: their gains adjusted for chance, and 0 where these are
        negative; with ``method="joint"``, the gains.
    starts : integer array (s,)
        Positions in ``indices`` at which the search (re)started, as in
        :class:`~scorewise.acquire.JointBatch`. Except with ``"joint"`` these are all positions.
    is_exact : bool
        Whether all joint outcomes of the labels were enumerated, rather than a sample of them.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> pool = sw.binary(np.array([[0.1, 0.9, 0.1, 0.9], [0.2, 0.2, 0.7, 0.7]]))
    >>> target = sw.binary(np.array([[0.3, 0.3, 0.8, 0.8]]))
    >>> batch = sw.acquire_for(pool, target, "log", 1, random_state=0)
    >>> batch.indices, batch.gains.round(4), batch.is_exact
    (array([1]), array([0.0324]), True)
    """

    indices: np.ndarray
    gains: np.ndarray
    scores: np.ndarray
    starts: np.ndarray
    is_exact: bool


@validate.takes_options_of(Samples)
def acquire_for(
    pool: Any,
    target: Any,
    rule: RuleLike,
    n: int,
    random_state: Any = None,
    *,
    method: str = "power",
    coldness: float = 1.0,
    labelled: Any = None,
    n_outcomes: int = 50,
    n_candidates: int = 200,
    least_members: int = 20,
    progress: bool | None = None,
    **options: Any,
) -> TargetBatch:
    """Return rows of a pool whose labels lower the uncertainty of a target.

    Use it where much of the pool has little to do with the inputs that the model will meet.
    Epistemic uncertainty is then large on rows that are irrelevant, and their labels help nobody.
    The target is a sample of those inputs; it needs no labels.

    The label y of a row x changes the weights of the members by Bayes' rule. Its gain is the
    expected reduction of the target's total uncertainty, averaged over the target's rows x*:

        gain(x; x*) = H(θ̄(x*)) − Σ_y θ̄_y(x) H(θ̄(x* | x, y)) = Σ_y θ̄_y(x) D(θ̄(x*), θ̄(x* | x, y)).

    Under log this is EPIG (Bickford Smith et al., 2023). Rows are drawn in proportion to these
    gains, adjusted for what few members have in common by chance. In the project's benchmark such
    rows were not worse than random ones. The rows of the **largest** adjusted gains, ``"top"``, are
    often alike. They were better still where seven of eight rows of the pool were irrelevant, and
    worse than random where pool and target were of one kind. For the largest gains as they are,
    such as the batch of the largest EPIG, pass :func:`scorewise.acquire.target_gains` to
    :func:`scorewise.acquire`.

    Parameters
    ----------
    pool : array (N, M, K) or Samples
        Predictions for the rows that may be labelled.
    target : array (T, M, K) or Samples
        Predictions for a sample of the inputs that the model will meet, **by the same members in
        the same order**. For a stochastic model, such as a network with dropout, pass one
        ``random_state`` to both calls of :func:`scorewise.predict_samples`: member m must be the
        same draw in both. Only the numbers of members and classes, the names of the classes and
        the weights can be verified.
    rule : str or ScoringRule
        The loss in whose units gains are measured.
    n : int
        Number of rows to choose.
    random_state : int, RandomState or Generator, optional
        Seed of the draws, of the shuffles that adjust gains, of the order of ties, and of the
        outcomes where they are sampled.
    method : "power", "softmax", "softrank", "top", "random" or "joint"
        As for :func:`scorewise.acquire`, with the adjusted gains as scores. Gains at or below those
        of chance count as 0. ``"joint"`` is a greedy batch: the row of the largest gain, then each
        row by its gain once the labels of those before are known; its gains are not adjusted.
    coldness : float
        As for :func:`scorewise.acquire`, for the stochastic methods.
    labelled : array of int, or of bool (N,), optional
        Rows that already have a label, by index or as a mask; they are never returned.
    n_outcomes : int
        For ``"joint"``: the largest number of joint outcomes of the labels to enumerate; where
        there are more, this many are sampled.
    n_candidates : int
        For ``"joint"``: the rows after the first are chosen among this many, which have the largest
        gains alone.
    least_members : int
        For ``"joint"``: the search restarts, as if no label were known, where the labels leave
        fewer members than this, as an effective number 1/Σw². Few members agree or differ about any
        two rows by chance, so that gains no longer show what a row has to do with the target. With
        the 20 draws of a stochastic model that is after every informative row: draw more, such as
        100, for batches whose rows complement each other.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **options
        Those of :class:`scorewise.Samples`, for both arrays: ``weights``, ``from_logits``, …

    Returns
    -------
    TargetBatch

    Raises
    ------
    InvalidInput
        If pool and target cannot be predictions of the same members, there is a single member, or
        fewer than ``n`` rows have no label.

    Examples
    --------
    Members disagree most about the first row of the pool. But it is the second that distinguishes
    the members that disagree about the target:

    >>> import numpy as np, scorewise as sw
    >>> pool = sw.binary(np.array([[0.1, 0.9, 0.1, 0.9], [0.2, 0.2, 0.7, 0.7]]))
    >>> target = sw.binary(np.array([[0.3, 0.3, 0.8, 0.8]]))
    >>> sw.acquire(sw.decompose(pool, "log").epistemic, 1)
    array([0])
    >>> batch = sw.acquire_for(pool, target, "log", 1, random_state=0)
    >>> batch.indices, batch.gains.round(4)
    (array([1]), array([0.0324]))
    """
    validate.choice(method, "method", (*METHODS, JOINT))
    coldness = check_coldness(coldness)
    for name, value in (
        ("n_outcomes", n_outcomes),
        ("n_candidates", n_candidates),
        ("least_members", least_members),
    ):
        validate.whole(value, name, at_least=1)
    task = _Task.of(pool, target, rule, options)
    candidates = unlabelled_rows(len(task.pool), labelled)
    n = check_batch_size(n, len(candidates))
    seed = seed_of(random_state)
    with one_blas_thread():  # as blocks are computed by threads
        if method != JOINT:
            gains, chance = task.gains_and_chance(candidates, generator(seed, 1), progress)
            # to ten digits, so that rows which differ by rounding alone are tied
            scores = ten_digits(np.maximum(gains - chance, 0))
            chosen = acquire(scores, n, method, seed, coldness=coldness)
            starts = np.arange(n)
            return TargetBatch(candidates[chosen], gains[chosen], scores[chosen], starts, True)
        rng = generator(seed)
        candidates = rng.permutation(candidates)  # so that ties are broken at random
        objective = task.objective(candidates, progress)
        probs = task.pool[candidates].astype(np.float64)
        search = GreedySearch(
            probs, task.prior, objective, n_outcomes, rng, n_candidates, least_members
        )
        with bar("choosing", n, progress) as advance:
            for _ in range(n):
                search.choose()
                advance(1)
    gains, starts = np.array(search.gains), np.array(search.starts)
    return TargetBatch(candidates[search.chosen], gains, gains, starts, search.is_exact)


@validate.takes_options_of(Samples)
def target_gains(
    pool: Any,
    target: Any,
    rule: RuleLike,
    *,
    adjusted: bool = False,
    random_state: Any = None,
    progress: bool | None = None,
    **options: Any,
) -> np.ndarray:
    """Return how much the label of each row of a pool lowers the uncertainty of a target.

    Use it to look at the gains, or to choose rows by a method of your own.
    :func:`scorewise.acquire_for` has the formula, and draws rows by the adjusted gains.

    Parameters
    ----------
    pool, target, rule
        As for :func:`scorewise.acquire_for`.
    adjusted : bool
        Whether to subtract the gains that are due to chance. Few members always agree or differ
        about two rows to some degree, so that a gain is positive even where the row has nothing to
        do with the target. What is subtracted is the gain with the members of each row of the
        target shuffled, which makes it a row that has nothing to do with the pool. It takes twice
        the time.
    random_state : int, RandomState or Generator, optional
        Seed of the shuffles.
    progress, **options
        As for :func:`scorewise.acquire_for`.

    Returns
    -------
    array (N,)
        The gain of each row alone, averaged over the target: at least 0, and exactly 0 where the
        members agree about the row. Adjusted gains may be negative; their expectation is 0 where
        the members of row and target are independent.

    Raises
    ------
    InvalidInput
        If pool and target cannot be predictions of the same members, or there is a single member.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.acquire import target_gains
    >>> pool = sw.binary(np.array([[0.1, 0.9, 0.1, 0.9], [0.2, 0.2, 0.7, 0.7]]))
    >>> target = sw.binary(np.array([[0.3, 0.3, 0.8, 0.8]]))
    >>> gains = target_gains(pool, target, "brier")
    >>> gains.round(4)
    array([0.    , 0.0316])
    >>> sw.acquire(gains, 1)
    array([1])

    Members that have nothing in common but their number:

    >>> rng = np.random.default_rng(0)
    >>> pool, target = rng.dirichlet([1, 1], (500, 10)), rng.dirichlet([1, 1], (100, 10))
    >>> print(target_gains(pool, target, "brier").mean().round(4))
    0.0052
    >>> print(target_gains(pool, target, "brier", adjusted=True, random_state=0).mean().round(4))
    0.0
    """
    task = _Task.of(pool, target, rule, options)
    rows = slice(None)
    with one_blas_thread():  # as blocks are computed by threads
        if not adjusted:
            return task.objective(rows, progress).initial_gains
        rng = generator(seed_of(random_state), 1)
        gains, chance = task.gains_and_chance(rows, rng, progress)
        return np.asarray(gains - chance)


@dataclass(frozen=True, eq=False)
class _Task:
    """Pool and target, as members that have weight ``(N, M, K)`` and ``(T, M, K)``, and the rule.

    ``like`` is an array or Samples of the library of the predictions.
    """

    pool: np.ndarray
    target: np.ndarray
    prior: np.ndarray
    rule: ScoringRule
    like: Any

    @classmethod
    def of(cls, pool: Any, target: Any, rule: RuleLike, options: dict[str, Any]) -> _Task:
        """The task of checked predictions."""
        samples, targets, rule = _checked(pool, target, rule, options)
        members, prior = weighted_members(samples)
        return cls(members, weighted_members(targets)[0], prior, rule, targets)

    def objective(
        self, rows: np.ndarray | slice, progress: bool | None, target: np.ndarray | None = None
    ) -> _TargetUncertainty:
        """The objective for these rows of the pool, with another target if one is passed."""
        target = self.target if target is None else target
        return _TargetUncertainty(
            self.pool[rows], self.prior, target, self.rule, self.like, progress
        )

    def gains_and_chance(
        self, rows: np.ndarray | slice, rng: np.random.Generator, progress: bool | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gains of rows, and those with the members of each target row shuffled."""
        target = np.repeat(self.target, -(-_SHUFFLED // len(self.target)), axis=0)
        order = rng.permuted(np.tile(np.arange(len(self.prior)), (len(target), 1)), axis=1)
        shuffled = np.take_along_axis(target, order[..., None], axis=1)
        gains, chance = (
            self.objective(rows, progress, x).initial_gains for x in (self.target, shuffled)
        )
        return gains, chance


def _checked(
    pool: Any, target: Any, rule: RuleLike, options: dict[str, Any]
) -> tuple[Samples, Samples, ScoringRule]:
    """The samples and the rule; raises if the samples cannot be those of the same members."""
    samples, targets = _received(pool, "pool", options), _received(target, "target", options)
    for axis, noun in ((-2, "members"), (-1, "classes")):
        if samples.shape[axis] != targets.shape[axis]:
            raise InvalidInput(
                f"the pool has {samples.shape[axis]:,} {noun}, and the target "
                f"{targets.shape[axis]:,}; both must be predictions of the same members, for the "
                "same classes"
            )
    if samples.classes_ is not None and targets.classes_ is not None:
        check_same_names(class_names_of(samples), class_names_of(targets), "the target")
    weights, target_weights = (
        np.full(s.shape[-2], 1 / s.shape[-2]) if s.weights is None else to_numpy(s.weights)
        for s in (samples, targets)
    )
    if not np.allclose(weights, target_weights, rtol=0, atol=_SAME_WEIGHTS):
        m = int(np.argmax(np.abs(weights - target_weights)))
        raise InvalidInput(
            f"member {m} has the weight {weights[m]:.6g} in the pool and {target_weights[m]:.6g} "
            "in the target; both must be predictions of the same members, in the same order"
        )
    if not len(targets):
        raise InvalidInput("the target is empty; there must be at least one row")
    classes = samples.classes_ if targets.classes_ is None else targets.classes_
    targets = Samples(targets.probs, samples.weights, check=False)
    return samples, targets, get_rule(rule).for_classes(classes)


def _received(predictions: Any, name: str, options: dict[str, Any]) -> Samples:
    """Return checked predictions; raises with the name of the two that a wrong number is in."""
    try:
        return samples_of_common_members(receive_rows(predictions, name, options))
    except InvalidInput as error:
        if error.index is None:
            raise
        problem = f"the {name} is invalid: {error.problem}"
        raise InvalidInput(problem, *error.remedies, index=error.index) from None


class _TargetUncertainty:
    """The expected reduction of the target's mean total uncertainty by the label of a row."""

    can_rise = True

    def __init__(
        self,
        pool: np.ndarray,
        prior: np.ndarray,
        target: np.ndarray,
        rule: ScoringRule,
        like: Any,
        progress: bool | None,
    ) -> None:
        self._pool, self._prior, self._rule, self._like = pool, prior, rule, like
        self._n_targets, n_members, self._n_classes = target.shape
        members = Samples(target.astype(np.float64), prior, check=False)
        # (M + 1, T·K), with the mean prediction as the last row
        around_mean = np.concatenate([members.deviations, members.mean[:, None]], axis=1)
        self._around_mean = around_mean.swapaxes(0, 1).reshape(n_members + 1, -1)
        # so many targets, and pairs of a row and an outcome, are computed at a time
        self._n_together = max(1, min(_BLOCK // self._n_classes**2, self._n_targets))
        width = max(n_members, self._n_together * self._n_classes)
        self._n_pairs = max(1, _BLOCK // (self._n_classes * width))
        self.size = self._n_targets * self._n_classes**2
        self.initial_gains = np.empty(len(pool))
        step = _TASKS * self._n_pairs
        with bar("scoring", len(pool), progress) as advance:
            for start in range(0, len(pool), step):
                rows = np.arange(start, min(start + step, len(pool)))
                self.initial_gains[rows] = self.gains(rows, outcomes_without_labels(prior))
                advance(len(rows))

    def gains(self, rows: np.ndarray, outcomes: Outcomes) -> np.ndarray:
        """Return the gains of rows, expected over the outcomes of earlier labels."""
        n_outcomes = len(outcomes.probabilities)
        gains = np.empty(len(rows) * n_outcomes)

        def compute(pairs: slice) -> bool:
            row, outcome = np.divmod(np.arange(len(gains))[pairs], n_outcomes)
            gains[pairs] = self._gains_under(rows[row], outcomes.weights[outcome])
            return True

        tasks = [
            partial(compute, slice(start, start + self._n_pairs))
            for start in range(0, len(gains), self._n_pairs)
        ]
        run_in_threads(tasks, get_num_threads())
        return np.asarray(gains.reshape(len(rows), n_outcomes) @ outcomes.probabilities)

    def _gains_under(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the gain of each row under members' weights ``(n, M)`` of its own.

        A conditional prediction is θ̄ + Σ_m (w_m − π_m)(θ_m − θ̄), where w are the weights given the
        label, and π and θ̄ those of the prior and its mean.
        """
        pool = Samples(self._pool[rows].astype(np.float64), weights, check=False)
        chances = pool.plain_mean  # of the labels of each row, (n, K)
        n, k = chances.shape
        # the change of each member's weight by each label, exactly 0 where members agree
        changes = weights[..., None] * pool.deviations
        changes = np.divide(
            changes, chances[:, None], out=np.zeros_like(changes), where=chances[:, None] > 0
        )
        agree = ~changes.any(axis=(1, 2))
        changes += (weights - self._prior)[..., None]
        changes = np.concatenate([changes, np.ones((n, 1, k))], axis=1)  # the mean counts once
        changes = changes.transpose(0, 2, 1).reshape(n * k, -1)
        total = np.zeros(n)
        for columns in self._columns():
            predictions = (changes @ self._around_mean[:, columns]).reshape(n, k, -1, k)
            np.maximum(predictions, 0.0, out=predictions)  # the rounding of a probability of 0
            total += self._epistemic(np.moveaxis(predictions, 1, 2), chances).sum(axis=1)
        total[agree] = 0.0  # copies of a row may be rounded differently in a product of matrices
        return np.asarray(total / self._n_targets)

    def _columns(self) -> Iterator[slice]:
        """Yield the columns of some targets at a time."""
        n_columns, step = self._n_targets * self._n_classes, self._n_together * self._n_classes
        for start in range(0, n_columns, step):
            yield slice(start, start + step)

    def _epistemic(self, predictions: np.ndarray, chances: np.ndarray) -> np.ndarray:
        """Return Σ_y θ̄_y(x) D(θ̄(x*), θ̄(x* | x, y)), which is EU with the labels as members."""
        members = in_library_of_rule(self._rule, predictions, self._like)
        weights = np.broadcast_to(chances[:, None], predictions.shape[:-1])
        epistemic = decompose(members, self._rule, weights=weights, check=False).epistemic
        return to_numpy(epistemic).astype(np.float64)
