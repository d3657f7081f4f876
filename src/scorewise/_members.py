"""Members as the caller passed them, and computations on them, lazy for Dask arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from scorewise import _validate as validate
from scorewise._array import Array, cached_property, is_array, is_dask, map_dask_rows, namespace
from scorewise._inputs import InputOptions, RawPredictions, raw_members
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.rules import ScoringRule

Rule = TypeVar("Rule", bound=ScoringRule)


def changed_options(weights: Any, *options: Any) -> str:
    """Return the names of the options that differ from their defaults, for a message."""
    names = [
        name
        for values in options
        for name, value in vars(values).items()
        if _differs(value, getattr(type(values), name))  # a class has the defaults of its fields
    ]
    return ", ".join(["weights", *names] if weights is not None else names)


def _differs(value: Any, default: Any) -> bool:
    return value is not default and not (isinstance(value, int) and value == default)


@dataclass(frozen=True)
class Members:
    """Predictions of members and their weights; values are checked when :attr:`samples` is read."""

    raw: RawPredictions
    weights: Any = None
    checked: Samples | None = None  # if the caller passed Samples

    @classmethod
    def of(cls, predictions: Any, weights: Any, options: InputOptions) -> Members:
        """Return members from an array, or from Samples, which take no options."""
        if isinstance(predictions, Members):
            return predictions
        if isinstance(predictions, Dirichlet):
            raise InvalidInput(
                "this needs members, and a Dirichlet has none; draw samples from it and pass them "
                "as an array (..., M, K)"
            )
        if isinstance(predictions, Samples):
            if names := changed_options(weights, options):
                raise InvalidInput(f"{names}: pass to Samples(...), not together with Samples")
            return cls(predictions.raw(), predictions.weights, predictions)
        raw = raw_members(predictions, options)
        raw.warn_of_many_members()
        if weights is not None and is_dask(raw.values):
            # errors that do not depend on values are raised at once
            weights = validate.weights(weights, raw.values)
        return cls(raw, weights)

    @property
    def have_several_chunks(self) -> bool:
        """Whether the members of a row are in several chunks of a Dask array."""
        return is_dask(self.raw.values) and self.raw.values.numblocks[-2] > 1

    def with_whole_rows(self, why: str | None = None) -> Members:
        """Return members of a Dask array, each prediction with all its classes in one chunk.

        If there is a reason why, each row has all its members in one chunk, too. A warning says
        what moves.
        """
        values, name = self.raw.values, self.raw.layout.name
        *_, n_members, n_classes = values.numblocks
        if n_classes > 1:
            validate.warn(
                f"{name} has its classes in {n_classes} chunks, and a rule needs all classes of a "
                "prediction; they are put into one chunk, which moves all data. Save the array "
                "with all classes in one chunk, or rechunk it once"
            )
            values = values.rechunk({values.ndim - 1: -1})
        if n_members > 1 and why is not None:
            validate.warn(
                f"{name} has its members in {n_members} chunks, and {why}; they are put into one "
                "chunk, which moves all data and must fit in the memory of a worker. Smaller "
                "chunks of rows take less of it"
            )
            values = values.rechunk({values.ndim - 2: -1})
        return replace(self, raw=replace(self.raw, values=values))

    def fit_rules(self, rules: Iterable[Rule]) -> list[Rule]:
        """Return the rules for the classes of the members; raises if one does not fit them."""
        fitting = [rule.for_classes(self.raw.classes) for rule in rules]
        for rule in fitting:
            rule.check_classes(self.raw.values.shape[-1])
        return fitting

    @cached_property
    def samples(self) -> Samples:
        """The checked samples."""
        return Samples.of(self.raw, self.weights) if self.checked is None else self.checked

    def where(self, mask: np.ndarray) -> Members:
        """Return the instances at which a boolean array ``(...)`` is true, along one axis."""
        values, weights = self.raw.values, self.weights
        if not mask.ndim:
            return Members(replace(self.raw, values=values[None, ...]), weights)
        places = tuple(namespace(values).asarray(i) for i in np.nonzero(mask))
        if weights is not None and np.ndim(weights) > 1:
            weights = weights[places] if is_array(weights) else np.asarray(weights)[places]
        return Members(replace(self.raw, values=values[places]), weights)

    def by_blocks(
        self, work: Callable[..., list[Array]], *rows: Array, parts: int = 1
    ) -> list[Array]:
        """Return the arrays that ``work`` returns, from samples that are checked in blocks.

        ``work`` also takes the block's part of the rows, arrays ``(..., R)``; ``parts`` are as for
        :meth:`Samples.by_blocks`.
        """
        if self.checked is None:
            return Samples.map_blocks(work, self.raw, self.weights, *rows, parts=parts)
        return self.checked.by_blocks(work, *rows, parts=parts)

    def compute(
        self,
        work: Callable[..., list[Array]],
        n_results: int,
        *rows: Array,
        keep_classes: bool = False,
        why: str = "this measure needs all members of a row at once",
    ) -> list[Array]:
        """Return the arrays that ``work`` returns, each ``(...)``, or ``(..., K)`` with classes.

        ``work`` also takes the rows, arrays ``(K,)`` or ``(..., K)`` of the members' library. The
        results for a Dask array are lazy; a bad row is reported when its block is computed. ``why``
        completes the warning for members in several chunks.
        """
        if not is_dask(self.raw.values):
            return work(self, *rows)
        values = self.with_whole_rows(why).raw.values
        template = replace(self.raw, values=None)  # no block needs the whole graph

        def block(
            values: Array, weights: Array | None, origin: tuple[int, ...], *rows: Array
        ) -> Array:
            results = work(Members(template.block(values, origin), weights), *rows)
            return namespace(*results).stack(results)

        stacked = map_dask_rows(
            block, values, self.weights, n_results, *rows, keep_classes=keep_classes
        )
        return [stacked[i] for i in range(n_results)]
