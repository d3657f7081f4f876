"""Structures refuse parameters that kernels cannot compute with."""

from __future__ import annotations

import numpy as np
import pytest

import scorewise as sw
from scorewise.rules.structures import (
    Costs,
    LargestClasses,
    Norm,
    QuadraticForm,
    Separable,
    TwoClass,
)
from support import all_rules

ROOT = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
DISTANCES = ((ROOT[:, None] - ROOT) ** 2).sum(-1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Separable(0.999), r"power of Separable must be 1 or more, not 0\.999"),
        (lambda: Separable(np.nan), "power of Separable must be a finite number"),
        (lambda: Separable(np.inf), "power of Separable must be a finite number"),
        (lambda: Separable("2"), "power of Separable must be a finite number"),
        (lambda: Separable(2.0, [1.0, 0.0]), "class weights must be positive"),
        (lambda: Separable(2.0, [1.0, -1.0]), "class weights must be positive"),
        (lambda: Separable(1.0, [1.0]), "K ≥ 2 classes"),
        (lambda: Separable(1.0, [1.0, np.nan]), r"class weights\[1\] is nan"),
        (lambda: Separable(1.0, [[1.0, 2.0]]), "2 dimensions and needs 1"),
        (lambda: Norm(1.0), r"power of Norm must be above 1, not 1\.0"),
        (lambda: Norm(-2), "power of Norm must be above 1"),
        (lambda: Norm(None), "power of Norm must be a finite number"),
        (lambda: LargestClasses(0), "k of LargestClasses must be a whole number from 1 on, not 0"),
        (lambda: LargestClasses(1.5), "k of LargestClasses must be a whole number"),
        (lambda: LargestClasses(True), "k of LargestClasses must be a whole number"),
        (lambda: Costs([[1.0, 2.0]]), r"costs have shape \(1, 2\)"),
        (lambda: Costs(np.ones((3, 0))), r"costs have shape \(3, 0\)"),
        (lambda: Costs([1.0, 2.0]), "1 dimensions and needs 2"),
        (lambda: Costs([[1.0], [np.inf]]), r"costs\[1, 0\] is inf"),
        (lambda: QuadraticForm(DISTANCES[:2], ROOT), r"shape \(2, 3\) and the root \(3, 2\)"),
        (lambda: QuadraticForm(DISTANCES, ROOT[:2]), r"shape \(3, 3\) and the root \(2, 2\)"),
        (lambda: QuadraticForm([[0.0]], [[1.0]]), "K ≥ 2 classes"),
        (lambda: QuadraticForm(DISTANCES * np.nan, ROOT), "distances must be a matrix of finite"),
        (lambda: QuadraticForm(DISTANCES, ROOT[0]), "root must be a matrix of finite"),
        (lambda: QuadraticForm(2 * DISTANCES, ROOT), r"distances\[0, 1\] are 10, and .* is 5"),
        (lambda: TwoClass(-1, 0), "a of TwoClass must be above -1, not -1"),
        (lambda: TwoClass(0, -1.5), r"b of TwoClass must be above -1, not -1\.5"),
        (lambda: TwoClass(0, np.inf), "b of TwoClass must be a finite number"),
    ],
)
def test_a_parameter_outside_its_bounds_is_refused_when_the_structure_is_made(make, message):
    with pytest.raises(sw.InvalidInput, match=message):
        make()


def test_parameters_at_their_bounds_are_taken():
    assert Separable(1).power == 1
    assert Norm(np.nextafter(1.0, 2.0)).power > 1
    assert LargestClasses(np.int64(1)).k == 1
    assert Costs([[-1], [0]]).costs.shape == (2, 1)
    assert TwoClass(-0.999, 1e5).b == 1e5
    assert QuadraticForm(DISTANCES, ROOT).fits(3)
    assert QuadraticForm(np.zeros((2, 2)), np.zeros((2, 0))).fits(2)


def test_arrays_of_a_structure_are_copies_that_cannot_be_written():
    weights, costs, distances, root = np.ones(3), np.ones((3, 2)), DISTANCES.copy(), ROOT.copy()
    form = QuadraticForm(distances, root)
    own = [Separable(2.0, weights).weights, Costs(costs).costs, form.distances, form.root]
    for given, taken in zip([weights, costs, distances, root], own, strict=True):
        given[...] = 7
        assert not (taken == 7).any()
        with pytest.raises(ValueError, match="read-only"):
            taken[...] = 7


@pytest.mark.parametrize("k", [2, 5, 300])
def test_every_rule_of_the_package_has_parameters_within_the_bounds(k):
    for name, rule in all_rules(k).items():
        assert rule.structure is not None, name
        assert rule.structure.fits(k), name
    rng = np.random.default_rng(0)
    root = rng.normal(size=(k, k))
    for matrix in (
        1e30 * np.eye(k),
        1e-30 * root @ root.T,
        root @ root.T + 1e12,  # huge along (1, …, 1), which no distance shows
        np.ones((k, k)),
        np.outer(root[0], root[0]) * 1e20,
    ):
        assert sw.rules.quadratic((matrix + matrix.T) / 2).structure.fits(k)
