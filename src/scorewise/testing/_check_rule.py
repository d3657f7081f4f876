"""A check that a scoring rule obeys the laws of proper scoring rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._numerics import sum_product
from scorewise.errors import ImproperRule
from scorewise.rules import ScoringRule, get_rule


def check_rule(
    rule: str | ScoringRule, n_classes: int = 5, *, n_samples: int = 2000, random_state: int = 0
) -> None:
    """Raise if a scoring rule breaks a law of proper scoring rules.

    Use it on every user-defined rule. Every law is tested on random
    predictions, corners, edges, ties, points next to corners and points next to each other, and a
    local search looks for worse counterexamples next to the worst pairs.

    The laws: losses are never NaN or −∞, and entropies are finite; H(p) = L(p, p), an average of
    the losses of p and so within their bounds; H is concave; no prediction beats the truth,
    L(q, p) ≥ L(p, p); D ≥ 0 with D(p, p) = 0 exactly; L = H + D.

    Parameters
    ----------
    rule : str or ScoringRule
        The rule to check, on float64 NumPy arrays.
    n_classes : int
        Number of classes K.
    n_samples : int
        Number of random pairs.
    random_state : int
        Seed of the pairs.

    Raises
    ------
    InvalidInput
        If an argument is invalid, or the rule does not fit the number of classes.
    ImproperRule
        With a counterexample, at the first law that breaks.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> sw.check_rule("brier", n_classes=3)
    >>> linear = sw.rule_from_loss_vector(lambda p: 1 - p, name="linear")
    >>> sw.check_rule(linear, n_classes=2)
    Traceback (most recent call last):
    ...
    scorewise.errors.ImproperRule: linear is not proper: ...
    """
    rule = get_rule(rule)
    n_classes = validate.whole(n_classes, "n_classes", at_least=2)
    n_samples = validate.whole(n_samples, "n_samples", at_least=1)
    rule.check_classes(n_classes)
    rng = np.random.default_rng(validate.whole(random_state, "random_state", at_least=0))
    q, p = _pairs(n_classes, n_samples, rng)
    points = np.unique(np.concatenate([q, p]), axis=0)
    with np.errstate(all="ignore"):
        _check_values(rule, points)
        unit = _unit(rule, points)
        _check_entropy(rule, unit, points)
        _check_concavity(rule, unit, q, p, rng)
        _check_properness(rule, unit, q, p, rng)
        _check_divergence(rule, unit, q, p)


def _pairs(k: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of predictions and truths to test."""
    corners = np.eye(k)
    uniform = np.full((1, k), 1 / k)
    edges = (corners[:, None] + corners[None, :]).reshape(-1, k) / 2
    near_corners = [(1 - e) * corners + e * uniform for e in (1e-3, 1e-6, 1e-12)]
    ties = np.repeat(rng.dirichlet(np.ones(k), 1), 2, axis=0)
    ties[1] = ties[1][::-1]
    shuffled = rng.permutation(np.concatenate([edges, *near_corners, ties]))
    special = np.concatenate([uniform, corners, shuffled])[:64]
    random = np.concatenate([rng.dirichlet(np.full(k, a), n // 4) for a in (0.1, 0.5, 1.0, 5.0)])
    other_random = rng.permutation(random)
    base = random[: n // 4]
    near_base = np.concatenate(
        [(1 - e) * base + e * other_random[: n // 4] for e in (1e-1, 1e-3, 1e-5)]
    )
    bases = np.tile(base, (3, 1))
    n_special = len(special)
    grid_q, grid_p = np.repeat(special, n_special, axis=0), np.tile(special, (n_special, 1))
    special_q, special_p = special[rng.integers(n_special, size=(2, n // 2))]
    q = [grid_q, other_random, near_base, bases, special_q, random[: n // 2]]
    p = [grid_p, random, bases, near_base, random[: n // 2], special_p]
    return _simplex(np.concatenate(q)), _simplex(np.concatenate(p))


def _simplex(p: np.ndarray) -> np.ndarray:
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


def _expected(p: np.ndarray, losses: np.ndarray) -> np.ndarray:
    return np.asarray(sum_product(np, p, losses))


def _unit(rule: ScoringRule, p: np.ndarray) -> float:
    """The mean size of a loss, which makes tolerances independent of the unit of losses."""
    losses = rule.loss_vector(p)
    return float(np.abs(losses[np.isfinite(losses)]).mean())


def _tolerance(unit: float, *values: np.ndarray) -> np.ndarray:
    """The difference that rounding of these values may cause."""
    size = sum(np.where(np.isfinite(v), np.abs(v), 0) for v in values)
    return np.asarray(1e-10 * (unit + size))


def _fail(rule: ScoringRule, law: str, claim: str, **points: Any) -> None:
    shown = ", ".join(
        f"{name} = {np.array2string(np.asarray(x), precision=6, separator=', ', threshold=20)}"
        for name, x in points.items()
    )
    raise ImproperRule(law, f"{rule.name} {claim}; {shown}", points)


def _worst(broken: np.ndarray, gap: np.ndarray) -> int | None:
    """The index at which a law is broken the most, or None if it holds."""
    if not broken.any():
        return None
    return int(np.argmax(np.where(broken, np.nan_to_num(gap, nan=np.inf), -np.inf)))


def _check_values(rule: ScoringRule, p: np.ndarray) -> None:
    losses = rule.loss_vector(p)
    if losses.shape != p.shape:
        _fail(rule, "shape", f"returns losses {losses.shape} for {p.shape}", prediction=p[0])
    entropy = rule.entropy(p)
    if entropy.shape != p.shape[:-1]:
        _fail(rule, "shape", f"returns entropies {entropy.shape} for {p.shape}", prediction=p[0])
    bad = np.isnan(losses).any(axis=-1) | np.isneginf(losses).any(axis=-1)
    if (i := _worst(bad, bad)) is not None:
        _fail(rule, "losses", "has losses that are NaN or -inf", prediction=p[i], losses=losses[i])
    bad = ~np.isfinite(entropy)
    if (i := _worst(bad, bad)) is not None:
        _fail(rule, "bounds", f"has the entropy {entropy[i]}, which is not finite", p=p[i])


def _check_entropy(rule: ScoringRule, unit: float, p: np.ndarray) -> None:
    losses, entropy = rule.loss_vector(p), rule.entropy(p)
    expected = _expected(p, losses)
    gap = np.abs(entropy - expected)
    if (i := _worst(gap > _tolerance(unit, entropy, expected), gap)) is not None:
        _fail(
            rule,
            "entropy",
            f"has the entropy {entropy[i]:.6g}, but the expected loss {expected[i]:.6g}: "
            "H(p) = L(p, p) is broken",
            p=p[i],
        )


def _check_properness(
    rule: ScoringRule, unit: float, q: np.ndarray, p: np.ndarray, rng: np.random.Generator
) -> None:
    least = _expected(p, rule.loss_vector(p))
    best, gain = q, least - _expected(p, rule.loss_vector(q))
    for scale in np.repeat([0.3, 0.1, 0.03, 0.01, 1e-3], 4):
        # Step from the best wrong prediction so far towards a random point; keep improvements.
        target = rng.dirichlet(np.full(q.shape[-1], 0.5), len(q))
        trial = _simplex((1 - scale) * best + scale * target)
        trial_gain = least - _expected(p, rule.loss_vector(trial))
        better = trial_gain > gain
        best, gain = np.where(better[:, None], trial, best), np.where(better, trial_gain, gain)
    if (i := _worst(gain > _tolerance(unit, least), gain)) is not None:
        _fail(
            rule,
            "properness",
            f"is not proper: a prediction other than the truth lowers the expected loss "
            f"from {least[i]:.6g} to {least[i] - gain[i]:.6g}",
            prediction=best[i],
            truth=p[i],
        )


def _check_concavity(
    rule: ScoringRule, unit: float, q: np.ndarray, p: np.ndarray, rng: np.random.Generator
) -> None:
    share = np.concatenate([np.full(len(q) // 2, 0.5), rng.uniform(size=len(q) - len(q) // 2)])
    middle = _simplex(share[:, None] * q + (1 - share[:, None]) * p)
    chord = share * rule.entropy(q) + (1 - share) * rule.entropy(p)
    gap = chord - rule.entropy(middle)
    if (i := _worst(gap > _tolerance(unit, chord), gap)) is not None:
        _fail(
            rule,
            "concavity",
            f"has an entropy that is not concave: it lies {gap[i]:.6g} below its chord between "
            "p and q",
            p=p[i],
            q=q[i],
            between=middle[i],
        )


def _check_divergence(rule: ScoringRule, unit: float, q: np.ndarray, p: np.ndarray) -> None:
    divergence = rule.divergence(q, p)
    if (i := _worst(~(divergence >= 0), -divergence)) is not None:
        _fail(
            rule,
            "divergence",
            f"has the divergence {divergence[i]:.6g}, below 0",
            prediction=q[i],
            truth=p[i],
        )
    at_truth = rule.divergence(p, p)
    if (i := _worst(at_truth != 0, np.abs(at_truth))) is not None:
        _fail(rule, "divergence", f"has D(p, p) = {at_truth[i]:.6g}, not 0", p=p[i])
    loss, entropy = rule.expected_loss(q, p), rule.entropy(p)
    gap = np.where(np.isinf(loss) & np.isinf(divergence), 0, np.abs(loss - entropy - divergence))
    if (i := _worst(~(gap <= _tolerance(unit, loss, entropy, divergence)), gap)) is not None:
        _fail(
            rule, "decomposition", f"breaks L = H + D by {gap[i]:.6g}", prediction=q[i], truth=p[i]
        )
