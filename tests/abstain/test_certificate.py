"""Certified thresholds: the guarantee in simulations, the coverage, and the messages.

A population is a position v, uniform on 0..1 from the most certain row to the least certain row: a
score of v (flat where rows are tied) and a mean loss of v. Then the true mean loss of what a
threshold accepts is known, and so is how often a guarantee about it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_distribution
from scipy.stats import binom

import scorewise as sw
from scorewise.errors import ScorewiseWarning
from support import is_at_most

# most tests are about few rows
pytestmark = pytest.mark.filterwarnings("ignore:.*cannot certify")

MAX_LOSS, CONFIDENCE = 0.08, 0.9
DRAWS, CHUNK = 2_000, 100
Array = np.ndarray


@dataclass(frozen=True)
class Population:
    mean: Callable[[Array], Array]
    score: Callable[[Array], Array] = lambda v: v
    losses: Callable[[np.random.Generator, Array], Array] | None = None  # of these means; else 0/1
    max_loss: float = MAX_LOSS
    loss_bound: float = 1.0

    def draw(self, n: int, draws: int, seed: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(seed)
        v = rng.uniform(size=(draws, n))
        mean = self.mean(v)
        losses = rng.uniform(size=v.shape) < mean if self.losses is None else self.losses(rng, mean)
        return np.asarray(losses, dtype=float), self.score(v)

    def truth(self, thresholds: Array) -> tuple[Array, Array]:
        """Coverage and mean loss of what is accepted, on a fine grid of v."""
        v = (np.arange(200_000) + 0.5) / 200_000
        accepted = np.searchsorted(self.score(v), thresholds, side="right")
        sums = np.r_[0, np.cumsum(self.mean(v))]
        return accepted / len(v), sums[accepted] / np.maximum(accepted, 1)

    def fails(self, thresholds: Array) -> Array:
        """Where the mean loss is at or above what is allowed: a limit that is just met counts."""
        coverage, loss = self.truth(thresholds)
        return (coverage > 0) & (loss >= self.max_loss * (1 - 1e-9))

    def best_coverage(self) -> float:
        coverage, loss = self.truth(self.score(np.linspace(0, 1, 100_001)))
        return float(np.max(coverage, where=loss <= self.max_loss * (1 + 1e-9), initial=0))


def steps(edges: list[float], values: list[float]) -> Callable[[Array], Array]:
    """A function that is constant between the edges."""
    return lambda v: np.asarray(values)[np.searchsorted(edges, v, side="right")]


def certified(losses: Array, scores: Array, max_loss: float, delta: float) -> float:
    return sw.certify_threshold(losses, scores, max_loss, 1 - delta).threshold


def chunks_of(
    population: Population, n: int, draws: int = DRAWS, seed: int = 0, rule: Callable = certified
) -> Iterator[Array]:
    """Thresholds of independent calibration sets of n rows, some at a time."""
    bound = population.loss_bound
    for first in range(0, draws, CHUNK):
        losses, scores = population.draw(n, min(CHUNK, draws - first), seed + first)
        yield np.array(
            [
                rule(a / bound, b, population.max_loss / bound, 1 - CONFIDENCE)
                for a, b in zip(losses, scores, strict=True)
            ]
        )


def guarantee_holds(population: Population, n: int, **options: Any) -> bool:
    """Whether the guarantee fails at most as often as stated, in up to 2,000 draws."""
    chunks = chunks_of(population, n, **options)
    return is_at_most(1 - CONFIDENCE, map(population.fails, chunks))


def mean_coverage(population: Population, n: int, draws: int, seed: int = 0) -> float:
    thresholds = np.concatenate(list(chunks_of(population, n, draws, seed)))
    return float(population.truth(thresholds)[0].mean())


def at_atoms(*edges: float) -> Callable[[Array], Array]:
    return steps(list(edges), [float(i) for i in range(len(edges) + 1)])


POPULATIONS = {
    "issue": Population(lambda v: 0.02 + 0.4 * v**2),
    "certain rows are worst": Population(steps([0.1, 0.8], [0.3, 0.02, 0.3])),
    "flat at the limit": Population(lambda v: np.full_like(v, MAX_LOSS)),
    "flat above the limit": Population(lambda v: np.full_like(v, MAX_LOSS + 0.001)),
    "crosses again and again": Population(
        lambda v: MAX_LOSS * (1 + 0.9 * np.sin(4 * np.pi * np.log2(np.maximum(v, 1e-6))))
    ),
    "huge atom at 0 below the limit": Population(
        steps([0.6, 0.8, 0.9], [0.05, 0.1, 0.25, 0.5]), at_atoms(0.6, 0.8, 0.9)
    ),
    "huge atom at 0 at the limit": Population(
        steps([0.6, 0.8], [MAX_LOSS, 0.08, 0.1]), at_atoms(0.6, 0.8)
    ),
    "few values at the limit": Population(
        lambda v: np.full_like(v, MAX_LOSS), lambda v: np.floor(v * 8)
    ),
    "crosses at an atom": Population(
        steps([0.5, 0.8], [0.02, 0.185, 0.3]), lambda v: np.where((v > 0.5) & (v <= 0.8), 0.8, v)
    ),
}

# The calibrated log loss of twenty confidences, one of which brings the mean loss to the limit.
FLOOR = 1e-6
LARGEST_LOG_LOSS = -np.log(FLOOR)
CONFIDENCES = np.linspace(0.995, 0.525, 20)
RIGHT, WRONG = (
    sw.task_losses(
        np.stack([CONFIDENCES, 1 - CONFIDENCES], 1)[:, None], np.full(20, y), "log", floor=FLOOR
    )
    for y in (0, 1)
)
LOG_LOSSES = (CONFIDENCES - 0.02) * RIGHT + (1 - CONFIDENCES + 0.02) * WRONG


def log_losses(rng: np.random.Generator, mean: Array) -> Array:
    place = np.searchsorted(LOG_LOSSES, mean * (1 - 1e-12))
    return np.where(
        rng.uniform(size=mean.shape) < CONFIDENCES[place] - 0.02, RIGHT[place], WRONG[place]
    )


def level(v: Array) -> Array:
    return np.full_like(v, MAX_LOSS)


def rare_and_large(rng: np.random.Generator, mean: Array) -> Array:
    """0.04 as a rule, and 1 as often as it takes: the variance is not seen before it strikes."""
    return np.where(rng.uniform(size=mean.shape) < (mean - 0.04) / 0.96, 1.0, 0.04)


def mostly_of_0_and_1(rng: np.random.Generator, mean: Array) -> Array:
    """One loss in 200 is a half, so that some draws hold none and are tested as 0/1 losses."""
    x = rng.uniform(size=mean.shape)
    return np.where(x < 0.005, 0.5, np.where(x < mean + 0.0025, 1.0, 0.0))


BOUNDED = {
    "issue, losses of 0.5 to 1": Population(
        lambda v: 0.75 * (0.02 + 0.4 * v**2),
        losses=lambda rng, mean: (
            (rng.uniform(size=mean.shape) < mean / 0.75) * rng.uniform(0.5, 1, mean.shape)
        ),
    ),
    "uniform losses at the limit": Population(
        level, losses=lambda rng, mean: rng.uniform(0, 2 * mean)
    ),
    "one half or nothing at the limit": Population(
        level, losses=lambda rng, mean: 0.5 * (rng.uniform(size=mean.shape) < 2 * mean)
    ),
    "rare and large at the limit": Population(level, losses=rare_and_large),
    "mostly 0 and 1 at the limit": Population(level, losses=mostly_of_0_and_1),
    "bound 2, skewed, at the limit, tied": Population(
        lambda v: np.full_like(v, 0.3),
        lambda v: np.floor(v * 8),
        losses=lambda rng, mean: 2 * rng.beta(0.2, 0.2 * (2 / mean - 1)),
        max_loss=0.3,
        loss_bound=2.0,
    ),
    "floored log loss": Population(
        lambda v: LOG_LOSSES[np.minimum((v * 20).astype(int), 19)],
        lambda v: np.minimum((v * 20).astype(int), 19) / 20,
        losses=log_losses,
        max_loss=float(np.mean(LOG_LOSSES[:12])),
        loss_bound=LARGEST_LOG_LOSS,
    ),
}


@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("name", POPULATIONS)
def test_the_guarantee_holds_for_losses_of_0_and_1(name, n):
    assert guarantee_holds(POPULATIONS[name], n)


@pytest.mark.parametrize("name", ["issue", "flat above the limit", "few values at the limit"])
def test_the_guarantee_holds_for_many_rows(name):
    assert guarantee_holds(POPULATIONS[name], 5000)


@pytest.mark.parametrize(
    ("name", "n"),
    [
        *((name, 200 if "uniform" in name or "skewed" in name else 50) for name in BOUNDED),
        *((name, 1000) for name in BOUNDED if "uniform" not in name and "skewed" not in name),
    ],
)
def test_the_guarantee_holds_for_bounded_losses(name, n):
    assert guarantee_holds(BOUNDED[name], n)


@pytest.mark.long
@pytest.mark.parametrize("n", [50, 200, 1000, 5000])
@pytest.mark.parametrize("name", [*POPULATIONS, *BOUNDED])
def test_the_guarantee_holds_in_many_more_draws(name, n):
    population, draws = (POPULATIONS | BOUNDED)[name], 10_000 if name in POPULATIONS else 4_000
    thresholds = np.concatenate(list(chunks_of(population, n, draws, seed=10**6)))
    failed, coverage = population.fails(thresholds), population.truth(thresholds)[0]
    print(
        f"{name}, n = {n}: failed {failed.mean():.4f}, mean coverage {coverage.mean():.3f} of at "
        f"best {population.best_coverage():.3f}"
    )
    assert failed.sum() <= binom.ppf(1 - 1e-4, draws, 1 - CONFIDENCE)


def without_correction(losses: Array, scores: Array, max_loss: float, delta: float) -> float:
    """The largest threshold that would pass if it were the only one; without ties."""
    order = np.argsort(scores)
    sizes = np.arange(1, len(losses) + 1)
    passed = np.flatnonzero(binom.cdf(np.cumsum(losses[order]), sizes, max_loss) <= delta)
    return float(scores[order][passed[-1]]) if len(passed) else -np.inf


def n_starts(max_loss: float, delta: float, n: int) -> int:
    """Number of starts: the k-th is at 1.5^(k-1) times the rows that could certify anything."""

    def fewest(k: int) -> float:
        return np.ceil(np.log(delta / k) / np.log1p(-max_loss))

    return next(k for k in range(1, 100) if fewest(k + 1) * 1.5**k > n)


def without_sharing(losses: Array, scores: Array, max_loss: float, delta: float) -> float:
    """Every start of the search takes all of 1 - confidence."""
    wasted = delta * n_starts(max_loss, delta, len(losses))
    return certified(losses, scores, max_loss, min(wasted, 0.99))


def by_the_mean_alone(losses: Array, scores: Array, max_loss: float, delta: float) -> float:
    order = np.argsort(scores)
    passed = np.flatnonzero(np.cumsum(losses[order]) <= max_loss * np.arange(1, len(losses) + 1))
    return float(scores[order][passed[-1]]) if len(passed) else -np.inf


@pytest.mark.parametrize("rule", [without_correction, without_sharing, by_the_mean_alone])
def test_a_careless_search_would_be_caught(rule):
    assert not guarantee_holds(POPULATIONS["flat at the limit"], 1000, rule=rule)


def test_careless_betting_would_be_caught():
    """The bet that turned out best, as if it had been chosen before, on the largest prefix."""

    def rule(losses, scores, max_loss, delta):
        bets = np.geomspace(1e-3, 0.99, 40)[:, None] / (1 - max_loss)
        wealth = np.cumsum(np.log1p(bets * (max_loss - losses[np.argsort(scores)])), 1).max(0)
        passed = np.flatnonzero(wealth >= -np.log(delta))
        return np.sort(scores)[passed[-1]] if len(passed) else -np.inf

    assert not guarantee_holds(BOUNDED["mostly 0 and 1 at the limit"], 1000, rule=rule)


def test_the_coverage_is_near_the_best_possible():
    population = POPULATIONS["issue"]
    assert abs(population.best_coverage() - np.sqrt(0.45)) < 1e-4  # where 0.02 + 0.4 t²/3 is 0.08
    for n, draws, least in ((200, 2_000, 0.12), (1000, 600, 0.45), (5000, 200, 0.6)):
        assert mean_coverage(population, n, draws, seed=7) >= least


def test_the_coverage_of_bounded_losses_is_near_the_best_possible():
    name = "issue, losses of 0.5 to 1"
    assert mean_coverage(BOUNDED[name], 1000, 500) >= 0.55  # the best is 0.806


def test_a_huge_atom_that_would_pass_alone_is_certified():
    """3,000 rows of uncertainty 0 lose 0.05: by themselves they show a loss below 0.06."""
    assert mean_coverage(POPULATIONS["huge atom at 0 below the limit"], 5000, 500) >= 0.6


@given(st.integers(1, 300), st.data(), st.floats(0.001, 0.999), st.floats(0.01, 0.99))
def test_tied_rows_of_0_and_1_are_certified_by_the_binomial_test(n, data, chance, delta):
    errors = data.draw(st.integers(0, n))
    losses = np.r_[np.ones(errors), np.zeros(n - errors)]
    p_value = binom.cdf(errors, n, chance)
    assume(abs(p_value - delta) > 1e-9)
    certificate = sw.certify_threshold(losses, np.zeros(n), chance, 1 - delta)
    assert certificate.coverage == (p_value < delta)


@pytest.mark.parametrize("delta", [0.3, 0.05])
@pytest.mark.parametrize("n", [30, 300])
@pytest.mark.parametrize("name", [name for name in BOUNDED if "at the limit" in name])
def test_tied_rows_at_the_limit_are_certified_by_betting_as_rarely_as_stated(name, n, delta):
    population = BOUNDED[name]
    limits = population.max_loss, 1 - delta

    def certified_sets() -> Iterator[Array]:
        for seed in range(5, 5 + DRAWS // CHUNK):
            losses, _ = population.draw(n, CHUNK, seed)
            certificates = [
                sw.certify_threshold(row, np.zeros(n), *limits, loss_bound=population.loss_bound)
                for row in losses
            ]
            yield np.array([certificate.coverage > 0 for certificate in certificates])

    assert is_at_most(delta, certified_sets())


def test_betting_certifies_losses_that_are_clearly_smaller():
    losses = np.random.default_rng(0).uniform(0, 0.1, 300)
    assert sw.certify_threshold(losses, np.zeros(300), 0.1, 0.999).coverage == 1
    hoeffding = losses.mean() + np.sqrt(np.log(20) / 600)
    assert sw.certify_threshold(losses, np.zeros(300), 0.2, 0.95).bound < hoeffding


def test_hopeless_losses_raise_no_warning():
    assert sw.certify_threshold(np.full(100, 0.5), np.arange(100), 0.05).n_more_rows is None


def some_certificates():
    for name, n in (("issue", 1000), ("crosses at an atom", 200), ("few values at the limit", 50)):
        for a, b in zip(*POPULATIONS[name].draw(n, 30, 3), strict=True):
            yield a, b, sw.certify_threshold(a, b, MAX_LOSS, CONFIDENCE)


def test_loss_bound_and_limit_are_in_order():
    n_certified = 0
    for losses, u, cert in some_certificates():
        if not cert.coverage:
            assert cert.threshold == -np.inf
            assert np.isnan(cert.bound)
            assert np.isnan(cert.loss)
            continue
        n_certified += 1
        accepted = cert.accepts(u)
        np.testing.assert_array_equal(accepted, u <= cert.threshold)
        assert cert.threshold == u[accepted].max()
        assert cert.coverage == accepted.mean()
        assert np.isclose(cert.loss, losses[accepted].mean())
        assert cert.loss <= cert.bound <= cert.max_loss == MAX_LOSS
        assert (cert.confidence, cert.n_calibration) == (CONFIDENCE, len(u))
        assert cert.n_more_rows is None
    assert n_certified > 30


def test_the_bound_is_clopper_and_pearsons_at_the_level_of_its_search():
    for losses, u, cert in some_certificates():
        if cert.coverage:
            k, n = losses[cert.accepts(u)].sum(), cert.accepts(u).sum()
            count = n_starts(MAX_LOSS, 1 - CONFIDENCE, len(u))
            levels = (1 - CONFIDENCE) * np.arange(1, count + 1) / count
            limits = beta_distribution.ppf(1 - levels, k + 1, n - k)
            assert np.min(np.abs(limits - cert.bound)) <= 1e-4 * MAX_LOSS
    cert = sw.certify_threshold(np.zeros(40), np.arange(40), 0.1, 0.95)  # a single start
    assert np.isclose(cert.bound, 1 - 0.05 ** (1 / 40), atol=1e-5)


def test_the_bound_of_other_losses_is_the_smallest_limit_that_is_certified():
    losses = np.random.default_rng(0).uniform(0, 0.1, 100)
    cert = sw.certify_threshold(losses, np.zeros(100), 0.2, 0.9, loss_bound=0.5)
    assert cert.coverage == 1
    assert losses.mean() < cert.bound < 0.2
    # tied rows have one threshold, whose test has the whole level: a limit above the bound passes
    for limit, coverage in ((1.001 * cert.bound, 1), (0.999 * cert.bound, 0)):
        again = sw.certify_threshold(losses, np.zeros(100), limit, 0.9, loss_bound=0.5)
        assert again.coverage == coverage


data_with_ties = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0, 0.0, 0.25, 1.0]), st.integers(0, 6)),
    min_size=5,
    max_size=60,
)


@settings(max_examples=40)
@given(data_with_ties, st.booleans(), st.randoms(use_true_random=False))
def test_shuffling_rows_changes_nothing_and_ties_are_accepted_together(rows, is_binary, random):
    def certify():
        losses, u = np.array(rows).T
        losses = np.floor(losses) if is_binary else losses
        return u, sw.certify_threshold(losses, u, 0.3, 0.8)

    u, before = certify()
    assert before.coverage * len(u) == pytest.approx(before.accepts(u).sum())
    for value in np.unique(u):
        assert len(np.unique(before.accepts(u)[u == value])) == 1
    random.shuffle(rows)
    assert certify()[1] == before


def test_the_threshold_compared_by_hand_accepts_the_certified_rows():
    rng = np.random.default_rng(0)
    for _ in range(100):
        uncertainty = rng.random(300)
        losses = (rng.random(300) < 0.1 * uncertainty).astype(float)
        certificate = sw.certify_threshold(losses, uncertainty, max_loss=0.1)
        by_hand = uncertainty <= certificate.threshold
        assert by_hand.mean() == certificate.coverage > 0
        assert (certificate.accepts(uncertainty) == by_hand).all()


def test_many_certificates_of_shuffled_rows_are_not_all_empty():
    rng = np.random.default_rng(0)
    losses, u = rng.choice([0.0, 0.25, 1.0], 60, p=[0.9, 0.08, 0.02]), rng.integers(0, 7, 60)
    assert sw.certify_threshold(losses, u, 0.3, 0.8).coverage > 0


def test_groups_are_certified_as_if_alone():
    rng = np.random.default_rng(0)
    groups = rng.choice(["north", "south", "west"], 3000, p=[0.5, 0.49, 0.01])
    u = rng.uniform(size=3000)
    losses = rng.uniform(size=3000) < np.where(groups == "north", 0.01, 0.3) * u
    certs = sw.certify_threshold(losses, u, 0.1, groups=groups)
    assert list(certs) == ["north", "south", "west"]
    for name, cert in certs.items():
        alone = groups == name
        assert cert == sw.certify_threshold(losses[alone], u[alone], 0.1)
    assert certs["north"].coverage == 1 > certs["south"].coverage > 0 == certs["west"].coverage
    numbered = sw.certify_threshold(losses, u, 0.1, groups=(groups == "south").astype(int))
    assert set(numbered) == {0, 1}
    assert numbered[1] == certs["south"]


def test_a_group_without_a_name_is_not_dropped_in_silence():
    groups = [np.nan] * 60 + [1.0] * 40
    with pytest.raises(sw.InvalidInput, match="groups"):
        sw.certify_threshold(np.zeros(100), np.arange(100), 0.05, groups=groups)


def test_groups_that_cannot_be_sorted_get_a_clear_error():
    groups = ["a"] * 60 + [None] * 40
    with pytest.raises(sw.InvalidInput, match="groups"):
        sw.certify_threshold(np.zeros(100), np.arange(100), 0.05, groups=groups)


@pytest.mark.parametrize("n", [1, 7, 20, 50, 58])
def test_the_needed_rows_certify_and_two_fewer_do_not(n):
    cert = sw.certify_threshold(np.zeros(n), np.arange(n), 0.05)
    assert (cert.coverage, cert.threshold) == (0, -np.inf)
    assert cert.n_more_rows > 0
    assert not cert.accepts(np.arange(n)).any()
    for extra, coverage in ((cert.n_more_rows, 1), (cert.n_more_rows - 2, 0)):
        rows = n + extra
        assert sw.certify_threshold(np.zeros(rows), np.arange(rows), 0.05).coverage == coverage


ONE_IN_TWENTY = np.tile([1.0] + [0.0] * 19, 2)
ONE_IN_THIRTY = np.tile([1.0] + [0.0] * 29, 2)
A_TWENTIETH = np.tile([0.04, 0.05, 0.06, 0.05], 10)


def is_certified_by(losses, copies, max_loss):
    u = np.tile(np.arange(len(losses)), copies)
    return sw.certify_threshold(np.tile(losses, copies), u, max_loss).coverage > 0


@pytest.mark.parametrize(("losses", "max_loss"), [(ONE_IN_THIRTY, 0.1), (A_TWENTIETH, 0.08)])
def test_the_needed_copies_certify_and_clearly_fewer_do_not(losses, max_loss):
    cert = sw.certify_threshold(losses, np.arange(len(losses)), max_loss)
    assert cert.coverage == 0
    enough = int(np.ceil(1 + cert.n_more_rows / len(losses)))
    assert is_certified_by(losses, enough + 1, max_loss)  # "about": the starts move with n
    assert enough >= 3
    assert not is_certified_by(losses, (enough + 1) // 2, max_loss)


def test_where_all_rows_are_tied_the_only_threshold_needs_no_search():
    losses = np.r_[np.ones(50), np.zeros(950)]
    assert beta_distribution.ppf(0.95, 51, 950) < 0.065
    assert sw.certify_threshold(losses, np.zeros(1000), 0.08).coverage == 1


def test_a_single_row_does_not_certify():
    cert = sw.certify_threshold([0], [0.1], 0.05)
    assert str(cert).startswith("Nothing can be accepted: 1 certification row does not certify a ")


def test_more_rows_would_not_help_where_the_loss_is_too_large():
    cert = sw.certify_threshold(np.ones(100), np.arange(100), 0.05)
    assert cert.n_more_rows is None
    assert str(cert) == (
        "Nothing can be accepted: 100 certification rows do not certify a mean loss of at most "
        "0.05 with 95 % confidence; more of them may not help at the losses observed: allow a "
        "larger loss, or use a better model or measure."
    )


def test_too_few_rows_need_more_whatever_their_losses():
    cert = sw.certify_threshold(np.ones(12), np.arange(12), 0.05)
    assert str(cert) == (
        "Nothing can be accepted: 12 certification rows do not certify a mean loss of at most 0.05 "
        "with 95 % confidence; at least 59 are needed, even if none incurs a loss."
    )


def test_messages():
    assert str(sw.certify_threshold(np.zeros(20), np.arange(20), 0.05)) == (
        "Nothing can be accepted: 20 certification rows do not certify a mean loss of at most 0.05 "
        "with 95 % confidence; at the losses observed, about 39 more would be needed."
    )
    losses = np.r_[0.0, 1.0, np.zeros(1998)]
    assert str(sw.certify_threshold(losses, np.zeros(2000), 0.05, 0.9)) == (
        "Accept where uncertainty <= 0: 100.0 % of 2,000 certification rows, with a mean loss of "
        "0.0005. The mean loss of new rows that are accepted is at most 0.05, with 90 % confidence."
    )


def test_the_message_is_in_the_unit_of_the_losses():
    losses = np.r_[0.0, 1.0, np.zeros(1998)]
    groups = np.repeat(["a", "b"], 1000)
    errors, costs = sw.rules.zero_one.unit, sw.rules.cost_matrix(1 - np.eye(2)).unit
    cert = sw.certify_threshold(losses, np.zeros(2000), 0.05, 0.9, unit=errors)
    assert str(cert).endswith(
        "with a mean error of 0.05 %. The mean error of new rows that are accepted is at most 5 %, "
        "with 90 % confidence."
    )
    certs = sw.certify_threshold(losses, np.zeros(2000), 0.05, groups=groups, unit=costs)
    assert "with a mean cost of 0.001. The mean cost of new rows" in str(certs["a"])
    assert {cert.unit for cert in certs.values()} == {costs}
    nothing = sw.certify_threshold(np.ones(100), np.arange(100), 0.05, unit=errors)
    assert "do not certify a mean error of at most 5 % with 95 % confidence" in str(nothing)


@pytest.mark.parametrize("n", [20, 2000])
def test_the_message_does_not_round_the_confidence(n):
    cert = sw.certify_threshold(np.zeros(n), np.arange(n), 0.05, 0.999)
    assert "99.9 % confidence" in str(cert)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"losses": [0.0, np.nan, 0]}, r"losses\[1\] is nan"),
        ({"losses": [0.0, 0, np.inf]}, r"losses\[2\] is inf"),
        ({"losses": [0.0, 1.5, 0]}, r"losses\[1\] is 1.5; losses must be from 0 to loss_bound=1"),
        ({"losses": [0.0, 1.5, 0], "loss_bound": 1.4}, "loss_bound=1.4"),
        ({"losses": [-0.1, 1, 0]}, r"losses\[0\] is -0.1"),
        ({"losses": []}, "losses is empty"),
        ({"losses": [[0.0, 0, 0]]}, "losses has 2 dimensions"),
        ({"losses": [0.0, 1]}, "2 entries, uncertainty 3"),
        ({"uncertainty": [0.0, np.nan, 0]}, r"uncertainty\[1\] is nan"),
        ({"uncertainty": []}, "uncertainty is empty"),
        ({"max_loss": 0}, "at most 0 cannot be certified"),
        ({"max_loss": -0.1}, "at most -0.1 cannot be certified"),
        ({"max_loss": 1}, "at most 1 cannot be certified"),
        ({"max_loss": 2.5, "loss_bound": 2}, "certified; the limit must be above 0 and below 2"),
        ({"max_loss": np.nan}, "max_loss must be a finite number"),
        ({"confidence": 0}, "confidence must be above 0 and below 1"),
        ({"confidence": 1}, "confidence must be above 0 and below 1"),
        ({"confidence": np.nan}, "confidence must be above 0 and below 1"),
        ({"loss_bound": np.inf}, "loss_bound must be a finite number"),
        ({"loss_bound": 0}, "loss_bound is 0; the largest loss must be above 0"),
        ({"groups": [0, 1]}, r"groups has shape \(2,\)"),
        ({"groups": "a"}, r"groups has shape \(\)"),
        ({"groups": [[0, 1, 1]]}, r"groups has shape \(1, 3\)"),
    ],
)
def test_bad_input_is_refused(change, message):
    arguments = {"losses": [0.0, 1, 0], "uncertainty": [0.1, 0.2, 0.3], "max_loss": 0.1} | change
    with pytest.raises(sw.InvalidInput, match=message):
        sw.certify_threshold(**arguments)


def test_the_arguments_are_left_unchanged():
    losses, u = np.array([1.00005, 0.0, 0.5] * 20), np.arange(60)[::-1].copy()
    before = losses.copy(), u.copy()
    sw.certify_threshold(losses, u, 0.9)  # a loss of float32 may exceed its bound by rounding
    np.testing.assert_array_equal(losses, before[0])
    np.testing.assert_array_equal(u, before[1])


def test_kinds_of_numbers_do_not_matter():
    torch = pytest.importorskip("torch")
    wrong, u = POPULATIONS["issue"].draw(1000, 1, 0)
    wrong, u = wrong[0], u[0].astype(np.float32)
    cert = sw.certify_threshold(wrong, u, MAX_LOSS, CONFIDENCE)
    assert cert.coverage > 0
    for kind in (bool, int, np.float32):
        assert sw.certify_threshold(wrong.astype(kind), u, MAX_LOSS, CONFIDENCE) == cert
    tensors = torch.from_numpy(wrong), torch.from_numpy(u)
    assert sw.certify_threshold(*tensors, MAX_LOSS, CONFIDENCE) == cert


def test_losses_scale_with_their_bound():
    rng = np.random.default_rng(0)
    losses, u = rng.uniform(0, 0.3, 300) * (rng.uniform(size=300) < 0.3), rng.uniform(size=300)
    small = sw.certify_threshold(losses, u, 0.1)
    large = sw.certify_threshold(4 * losses, u, 0.4, loss_bound=4)
    assert small.coverage > 0
    assert (small.threshold, small.coverage) == (large.threshold, large.coverage)
    assert np.allclose([4 * small.bound, 4 * small.loss], [large.bound, large.loss])
    larger = sw.certify_threshold(losses, u, 0.1, loss_bound=4)  # a larger loss could have occurred
    assert larger.coverage < small.coverage


@settings(max_examples=40)
@given(st.floats(1e-200, 1e200), st.sampled_from([-1, 1]))
def test_rows_are_tied_where_ten_digits_are_equal(size, sign):
    value = float(f"{sign * size:.9e}")
    u = value * (1 + np.linspace(-1e-13, 1e-13, 100))  # as far as rounding errors are apart
    cert = sw.certify_threshold(np.zeros(100), u, 0.05)
    assert (cert.threshold, cert.coverage) == (u.max(), 1)
    assert cert.accepts(np.r_[u, cert.threshold]).all()
    assert cert == sw.certify_threshold(np.zeros(100), np.full(100, cert.threshold), 0.05)
    assert not cert.accepts([value + 1e-8 * size]).any()


def test_infinite_uncertainties_are_legal_and_tied():
    u = np.r_[np.full(100, -np.inf), np.full(100, np.inf)]
    all_of_them = sw.certify_threshold(np.zeros(200), u, 0.05)
    assert (all_of_them.threshold, all_of_them.coverage) == (np.inf, 1)
    half = sw.certify_threshold((u > 0).astype(float), u, 0.05)
    assert (half.threshold, half.coverage) == (-np.inf, 0.5)
    assert half.accepts([-np.inf, 0]).tolist() == [True, False]


def test_nothing_is_accepted_where_nothing_is_certified():
    cert = sw.certify_threshold([1.0], [0.0], 0.05)
    assert cert.coverage == 0
    assert not cert.accepts([-np.inf, 0]).any()


@pytest.mark.parametrize(
    ("values", "message"), [([np.nan], r"uncertainty\[0\] is nan"), ([[1.0]], "2 dimensions")]
)
def test_bad_uncertainties_are_not_accepted_or_rejected_but_refused(values, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.certify_threshold(np.zeros(100), np.arange(100), 0.05).accepts(values)


def test_a_weaker_guarantee_accepts_more_rows_on_average():
    def mean_coverage(max_loss, confidence):
        draws = zip(*POPULATIONS["issue"].draw(1000, 100, 0), strict=True)
        return np.mean([sw.certify_threshold(*d, max_loss, confidence).coverage for d in draws])

    assert mean_coverage(0.06, 0.9) < mean_coverage(0.08, 0.9) < mean_coverage(0.1, 0.9)
    assert mean_coverage(0.08, 0.99) < mean_coverage(0.08, 0.9) < mean_coverage(0.08, 0.7)


def test_too_few_rows_warn_with_the_number_that_is_needed():
    with pytest.warns(ScorewiseWarning, match="20 certification rows .* at least 59 are needed"):
        sw.certify_threshold(np.zeros(20), np.arange(20), 0.05)
    with pytest.warns(ScorewiseWarning, match="1 of 2 groups have too few rows"):
        sw.certify_threshold(np.zeros(80), np.arange(80), 0.05, groups=np.repeat([0, 1], [60, 20]))


@pytest.mark.filterwarnings("error")
def test_as_many_rows_as_are_needed_do_not_warn():
    assert sw.certify_threshold(np.zeros(59), np.arange(59), 0.05).coverage == 1
