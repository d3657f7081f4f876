"""Members in several chunks of a Dask array, decomposed by a tree of accumulators.

Every block of members becomes an :class:`scorewise.Accumulator` where it is, and accumulators of
the same rows are merged a few at a time, until one has all members. So what moves between workers
has the size of one member, and no task has more than one block of members, or a few accumulators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count, product
from typing import Any, cast

from scorewise import _validate as validate
from scorewise._array import Array, namespace, working_dtype
from scorewise._inputs import RawPredictions
from scorewise._members import Members
from scorewise.accumulate import Accumulator
from scorewise.decompose import Decompositions
from scorewise.rules import ScoringRule
from scorewise.scale._tree import SPLIT_EVERY, reduce_by_groups

Graph = dict[tuple[Any, ...], Any]
_PER_RULE = 3  # total, aleatoric, epistemic


def decompose_members(members: Members, rules: Sequence[ScoringRule]) -> list[Array]:
    """Return total, aleatoric and epistemic uncertainty of each rule as lazy Dask arrays.

    ``scorewise.decompose`` calls it for a Dask array whose members are in several chunks. A task
    merges at most 8 accumulators, or as many as ``split_every`` in Dask's configuration says.

    Parameters
    ----------
    members : Members
        Of a Dask array ``(..., M, K)``, with its weights.
    rules : sequence of ScoringRule
        For the classes of the members.

    Returns
    -------
    list of Dask arrays (...)
        Three for each rule, in chunks of the rows of the predictions.
    """
    import dask.array as da
    from dask import config
    from dask.array.utils import meta_from_array
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    split_every = validate.whole(config.get("split_every", None) or SPLIT_EVERY, "split_every", 2)
    members = members.with_whole_rows()
    values, weights = members.raw.values, _aligned(members.weights, members.raw.values)
    template = _Template(replace(members.raw, values=None), tuple(rules))
    token = tokenize(values, weights, template, split_every)
    graph, roots = _tree(template, values, weights, token, split_every)

    name, batch = f"decompose-members-{token}", values.ndim - 2
    n_results = _PER_RULE * len(rules)
    starts = [_starts(chunks) for chunks in values.chunks[:batch]]
    for rows, root in roots.items():
        origin = [start[i] for start, i in zip(starts, rows, strict=True)]
        graph[(name, 0, *rows)] = (_components, root, origin)
    parts = [values] if weights is None else [values, weights]
    dtype = working_dtype(values)
    stacked = da.Array(
        HighLevelGraph.from_collections(name, graph, dependencies=parts),
        name,
        chunks=((n_results,), *values.chunks[:batch]),
        meta=meta_from_array(values, ndim=1 + batch, dtype=dtype),
    )
    return [stacked[i] for i in range(n_results)]


@dataclass(frozen=True)
class _Template:
    """What every block of members needs besides its values."""

    raw: RawPredictions  # without values
    rules: tuple[ScoringRule, ...]

    def new_accumulator(self) -> Accumulator:
        return Accumulator({str(i): rule for i, rule in enumerate(self.rules)})


def _starts(chunks: Sequence[int]) -> list[int]:
    """Return the place at which each chunk of an axis starts."""
    return [0, *accumulate(chunks)][:-1]


def _aligned(weights: Array | None, values: Array) -> Array | None:
    """Return weights ``(M,)`` or ``(..., M)`` in the chunks of members ``(..., M, K)``."""
    return None if weights is None else weights.rechunk(values.chunks[-1 - weights.ndim : -1])


def _tree(
    template: _Template, values: Array, weights: Array | None, token: str, split_every: int
) -> tuple[Graph, dict[tuple[int, ...], Any]]:
    """Return the tasks of the tree, and for each block of rows the key of its accumulator."""
    *row_chunks, member_chunks, _ = values.chunks
    constant = f"members-{token}"  # once in the graph, and once on each worker
    graph: Graph = {(constant,): template}
    starts = [_starts(chunks) for chunks in (*row_chunks, member_chunks)]
    roots, numbers = {}, count()
    for rows in product(*(range(len(chunks)) for chunks in row_chunks)):
        keys: list[Any] = []
        for m, n_members in enumerate(member_chunks):
            if not n_members:
                continue
            place = (*rows, m)
            of_weights = None
            if weights is not None:
                of_weights = (weights.name, *(place if weights.ndim > 1 else (m,)))
            origin = [start[i] for start, i in zip(starts, place, strict=True)]
            keys.append((f"accumulate-{token}", *place))
            block = (values.name, *place, 0)
            graph[keys[-1]] = (_accumulate, (constant,), block, of_weights, origin)

        def merged(group: list[Any], rows: tuple[int, ...] = rows) -> Any:
            key = (f"merge-{token}", *rows, next(numbers))
            graph[key] = (_merge, (constant,), group)
            return key

        roots[rows] = reduce_by_groups(keys, merged, split_every)
    return graph, roots


def _accumulate(
    template: _Template, values: Array, weights: Array | None, origin: list[int]
) -> Accumulator:
    """Return the accumulator of a block of members; errors name the place in the whole array."""
    accumulator = template.new_accumulator()
    accumulator.update_members(Members(template.raw.block(values, tuple(origin)), weights))
    return accumulator


def _merge(template: _Template, parts: list[Accumulator]) -> Accumulator:
    """Return the accumulator of the members of all parts, which stay as they are."""
    whole = template.new_accumulator()
    for part in parts:
        whole.merge(part, check_rules=False)  # each process has a copy of a rule's functions
    return whole


def _components(accumulator: Accumulator, origin: list[int]) -> Array:
    """Return the components of all rules, stacked along a new first axis."""
    validate.require_positive_weight(accumulator.weight, tuple(origin))
    results = cast(Decompositions, accumulator.result())
    components = [x for result in results.values() for x in result]
    return namespace(*components).stack(components)
