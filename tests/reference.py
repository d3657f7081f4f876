"""The definitions of DESIGN's table in 50-digit arithmetic, written as plainly as they stand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import mpmath as mp
import numpy as np

import scorewise as sw

mp.mp.dps = 50
Row = list[mp.mpf]


def row(values: Sequence[float]) -> Row:
    return [mp.mpf(float(v)) for v in values]


def argmax(p: Row) -> int:
    return max(range(len(p)), key=lambda k: (p[k], -k))


def top(p: Row, k: int) -> list[int]:
    return sorted(range(len(p)), key=lambda j: (-p[j], j))[:k]


def norm(p: Row, a: mp.mpf) -> mp.mpf:
    return mp.fsum(x**a for x in p) ** (1 / mp.mpf(a))


def cumulative(p: Row) -> Row:
    return [mp.fsum(p[: i + 1]) for i in range(len(p))]


def entropy(rule: sw.rules.ScoringRule) -> Callable[[Row], mp.mpf]:
    """H, in the form that stays right when a row sums to S instead of 1."""
    family = rule.family

    def of(p: Row) -> mp.mpf:
        s = mp.fsum(p)
        if family == "log":
            return -mp.fsum(x * mp.log(x / s) for x in p if x)
        if family == "weighted_log":
            w = row(rule.weights)
            return -mp.fsum(v * x * mp.log(x / s) for v, x in zip(w, p, strict=True) if x)
        if family == "brier":
            return s * s - mp.fsum(x * x for x in p)
        if family in {"zero_one", "top_k"}:
            return s - mp.fsum(p[j] for j in top(p, rule.k))
        if family == "spherical":
            return s - norm(p, 2)
        if family == "pseudospherical":
            return s - norm(p, mp.mpf(rule.alpha))
        if family == "tsallis":
            b = mp.mpf(rule.beta)
            return s * (1 - mp.fsum((x / s) ** b for x in p)) / (b - 1)
        if family == "cost_matrix":
            return min(expected_costs(rule, p))
        if family == "quadratic":
            a = [row(r) for r in rule.matrix]
            k = range(len(p))
            diagonal = mp.fsum(a[i][i] * p[i] for i in k) * s
            return diagonal - mp.fsum(a[i][j] * p[i] * p[j] for i in k for j in k)
        if family == "rps":
            return mp.fsum(f * (s - f) for f in cumulative(p))
        if family == "beta":
            return beta_expected_loss(rule, p, p)
        raise AssertionError(family)

    return of


def expected_costs(rule: sw.rules.ScoringRule, p: Row) -> Row:
    c = [row(r) for r in rule.costs]
    return [mp.fsum(x * c[y][a] for y, x in enumerate(p)) for a in range(len(c[0]))]


BETA_DIGITS = 100


@functools.cache
def beta_losses(rule: sw.rules.ScoringRule, *p: mp.mpf) -> Row:
    """Both losses: incomplete beta functions, as Gauss's series of positive terms.

    ∫₀ˣ c^a (1−c)^{b−1} dc = x^{a+1} y^b F(1, a+b+1; a+2; x)/(a+1) with y = 1 − x.
    """

    def partial(x: mp.mpf, y: mp.mpf, a: mp.mpf, b: mp.mpf) -> mp.mpf:
        if not x:
            return mp.mpf(0)
        if not y:
            return mp.beta(a + 1, b) if b > 0 else mp.inf
        return x ** (a + 1) * y**b * mp.hyp2f1(1, a + b + 1, a + 2, x) / (a + 1)

    a, b = mp.mpf(rule.a), mp.mpf(rule.b)
    with mp.workdps(BETA_DIGITS):
        zero, one = (x / mp.fsum(p) for x in p)
        return [partial(one, zero, a, b), partial(zero, one, b, a)]


def beta_expected_loss(rule: sw.rules.ScoringRule, q: Row, p: Row) -> mp.mpf:
    with mp.workdps(BETA_DIGITS):
        pairs = zip(p, beta_losses(rule, *q), strict=True)
        return mp.fsum(x * loss for x, loss in pairs if x)


def divergence(rule: sw.rules.ScoringRule) -> Callable[[Row, Row], mp.mpf]:
    """D(q, p) as in the table."""
    family = rule.family

    def of(q: Row, p: Row) -> mp.mpf:
        pairs = list(zip(q, p, strict=True))
        if family == "log":
            return mp.fsum((y * mp.log(y / x) if y else 0) - y + x for x, y in pairs)
        if family == "weighted_log":
            terms = [(y * mp.log(y / x) if y else 0) - y + x for x, y in pairs]
            return mp.fsum(w * t for w, t in zip(row(rule.weights), terms, strict=True))
        if family == "brier":
            return mp.fsum((x - y) ** 2 for x, y in pairs)
        if family in {"zero_one", "top_k"}:
            k = rule.k
            return mp.fsum(p[j] for j in top(p, k)) - mp.fsum(p[j] for j in top(q, k))
        if family == "spherical":
            return norm(p, 2) - mp.fsum(x * y for x, y in pairs) / norm(q, 2)
        if family == "pseudospherical":
            a = mp.mpf(rule.alpha)
            return norm(p, a) - mp.fsum(y * x ** (a - 1) for x, y in pairs) / norm(q, a) ** (a - 1)
        if family == "tsallis":
            b = mp.mpf(rule.beta)
            return mp.fsum(y**b + (b - 1) * x**b - b * y * x ** (b - 1) for x, y in pairs) / (b - 1)
        if family == "cost_matrix":
            at_q, at_p = expected_costs(rule, q), expected_costs(rule, p)
            return at_p[at_q.index(min(at_q))] - min(at_p)
        if family == "quadratic":
            a = [row(r) for r in rule.matrix]
            d = [y - x for x, y in pairs]
            k = range(len(p))
            return mp.fsum(a[i][j] * d[i] * d[j] for i in k for j in k)
        if family == "rps":
            f, g = cumulative(q), cumulative(p)
            return mp.fsum((x - y) ** 2 for x, y in zip(f[:-1], g[:-1], strict=True))
        if family == "beta":
            with mp.workdps(BETA_DIGITS):  # the difference may cancel half of them
                return beta_expected_loss(rule, q, p) - beta_expected_loss(rule, p, p)
        raise AssertionError(family)

    return of


def decompose(
    rule: sw.rules.ScoringRule, theta: np.ndarray, weights: Sequence[float] | None = None
) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
    """Total, aleatoric and epistemic of members (M, K)."""
    rows = [row(r) for r in theta]
    w = row(weights) if weights is not None else [mp.mpf(1)] * len(rows)
    total = mp.fsum(w)
    h, d = entropy(rule), divergence(rule)
    mean = [
        mp.fsum(x * r[k] for x, r in zip(w, rows, strict=True)) / total for k in range(len(rows[0]))
    ]
    pairs = [(x, r) for x, r in zip(w, rows, strict=True) if x]
    return (
        h(mean),
        mp.fsum(x * h(r) for x, r in pairs) / total,
        mp.fsum(x * d(mean, r) for x, r in pairs) / total,
    )


def losses(rule: sw.rules.ScoringRule, p: Row) -> Row:
    """ℓ(p, ·): D(p, e_y) + H(e_y)."""
    if rule.family == "beta":
        return beta_losses(rule, *p)
    h, d = entropy(rule), divergence(rule)
    corners = [[mp.mpf(int(j == y)) for j in range(len(p))] for y in range(len(p))]
    return [d(p, corner) + h(corner) for corner in corners]


def gradients(
    rule: sw.rules.ScoringRule, theta: np.ndarray, kind: str = "probabilities"
) -> list[np.ndarray]:
    """Those of total, aleatoric and epistemic with respect to members (M, K) of equal weight.

    With respect to ``"probabilities"`` they are 0 in a member's largest class. The others are with
    respect to ``"logits"`` and ``"masses"``; of ``"softmax"``, theta has probabilities as they were
    rounded, and gradients are with respect to the logits before.
    """
    rows = [row(r) for r in theta]
    scale = [mp.fsum(r) if kind == "masses" else mp.mpf(1) for r in rows]
    if kind == "logits":
        rows = [[mp.exp(x) for x in r] for r in rows]
    if kind in {"logits", "masses"}:
        rows = [[x / mp.fsum(r) for x in r] for r in rows]
    m = len(rows)
    of_mean = losses(rule, [mp.fsum(column) / m for column in zip(*rows, strict=True)])
    gradient: list[list[list[float]]] = [[], [], []]
    for p, size in zip(rows, scale, strict=True):
        own = losses(rule, p)
        change = [a - b for a, b in zip(of_mean, own, strict=True)]
        for part, slopes in zip(gradient, (of_mean, own, change), strict=True):
            v = [(x - slopes[argmax(p)]) / m for x in slopes]
            if kind != "probabilities":
                mean = mp.fsum(x * y for x, y in zip(v, p, strict=True))
                v = [(x - mean) / size for x in v]
            if kind in {"logits", "softmax"}:
                v = [x * y for x, y in zip(v, p, strict=True)]
            part.append([float(x) for x in v])
    return [np.array(part) for part in gradient]
