"""Members in several chunks of a Dask array: a tree of accumulators, as decompose in memory.

Its accuracy is tested with that of the other paths, in tests/rules.
"""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scorewise as sw
from scale_support import local_cluster
from support import all_rules, assert_same, may_rechunk, members

FOUR = ["log", "brier", "zero-one", "spherical"]


@pytest.fixture(autouse=True, scope="module")
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def computed(many):
    return dict(zip(many, dask.compute(*(tuple(d) for d in many.values())), strict=True))


def chunks_of(n, cuts):
    """The lengths of the parts of n entries, with cuts at these places."""
    places = sorted({0, n, *(cut % (n + 1) for cut in cuts)})
    return tuple(int(length) for length in np.diff(places)) or (n,)


@st.composite
def chunked_members(draw):
    """Members and their weights, a chunking of them, and options."""
    n, m, k = draw(st.integers(1, 9)), draw(st.integers(2, 14)), draw(st.sampled_from([2, 3, 5]))
    seed = draw(st.integers(0, 99))
    probs = members(n, m, k, seed, draw(st.sampled_from([0.05, 1.0, 50.0])))
    if draw(st.booleans()):
        probs[draw(st.integers(0, n - 1))] = probs[0, 0]  # identical members
    cuts = st.lists(st.integers(1, 50), min_size=1, max_size=5)
    rows, parts = chunks_of(n, draw(cuts)), chunks_of(m, draw(cuts))
    weights = np.random.default_rng(seed).uniform(0.1, 1, (n, m))
    light = draw(st.integers(0, len(parts) - 1))  # a chunk without weight
    start = sum(parts[:light])
    if len(parts) > 1 and draw(st.booleans()):
        weights[n // 2 :, start : start + parts[light]] = 0
    kind = draw(st.sampled_from(["none", "members", "instances"]))
    weights = {"none": None, "members": weights[-1], "instances": weights}[kind]
    return probs, weights, (rows, parts, k)


@settings(max_examples=60)
@given(
    chunked_members(),
    st.sampled_from(["float64", "float32", "float16"]),
    st.booleans(),
    st.booleans(),
)
def test_any_chunking_gives_the_numbers_of_decompose_and_keeps_its_laws(
    case, dtype, from_logits, lazy_weights
):
    probs, weights, chunks = case
    values = np.log(np.maximum(probs, 1e-4)) if from_logits else probs
    values = values.astype(dtype)
    options = {"from_logits": from_logits, "normalize": not from_logits}
    rules = all_rules(probs.shape[-1])
    w = weights
    if weights is not None and lazy_weights:
        w = da.from_array(weights, chunks=3)
    many = sw.decompose(da.from_array(values, chunks=chunks), rules, weights=w, **options)
    expected = sw.decompose(values, rules, weights=weights, **options)
    exact = {"rtol": 1e-11, "atol": 1e-15}
    got = computed(many)
    assert_same(got, expected, **(exact if dtype == "float64" else {"rtol": 3e-4, "atol": 1e-6}))
    for name, d in many.items():
        for lazy, value in zip(d, got[name], strict=True):
            assert lazy.chunks == chunks[:1]
            assert lazy.dtype == value.dtype == ("float64" if dtype == "float64" else "float32")
        epistemic, of_decompose = got[name][2], expected[name].epistemic
        assert (epistemic >= 0).all()
        identical = (values == values[:, :1]).all(axis=(1, 2))
        assert (epistemic[identical] == 0).all(), name
        assert (of_decompose[identical] == 0).all(), name


def lazy(probs, chunks=(7, 2, -1)):
    return da.from_array(probs, chunks=chunks)


def test_nothing_is_computed_before_the_result_is():
    blocks = []

    def block(p):
        blocks.append(p.shape)
        return p

    probs = members(12, 9, 3)
    values = lazy(probs, (5, 4, 3)).map_blocks(block, meta=np.empty((0, 0, 0)))
    many = sw.decompose(values, FOUR)
    assert not blocks
    np.testing.assert_allclose(many["log"].total.compute(), sw.decompose(probs, "log").total)
    assert sorted(blocks) == sorted((n, m, 3) for n in (5, 5, 2) for m in (4, 4, 1))


def test_all_components_of_all_rules_read_each_block_once():
    blocks = []

    def block(p):
        blocks.append(p.shape)
        return p

    values = lazy(members(12, 9, 3), (5, 4, 3)).map_blocks(block, meta=np.empty((0, 0, 0)))
    computed(sw.decompose(values, FOUR))
    assert len(blocks) == 9


@pytest.mark.parametrize("split_every", [2, 3, 8])
@pytest.mark.parametrize("n_blocks", [2, 7, 9, 64])
def test_no_task_gets_more_than_one_block_of_members_or_a_few_accumulators(split_every, n_blocks):
    # What a task holds bounds the memory of a worker, whatever the number of members.
    probs = members(6, n_blocks, 3)
    values = da.from_array(probs, chunks=(4, 1, 3), name="values")
    weights = da.from_array(np.ones((6, n_blocks)), chunks=(4, 1), name="weights")
    with dask.config.set(split_every=split_every):
        d = sw.decompose(values, "log", weights=weights)
    needed = d.total.__dask_graph__().get_all_dependencies()

    def depth(key):
        """The number of merges in a row, after checking what each task gets."""
        name = str(key[0])
        names = [str(k[0]) for k in needed[key] if isinstance(k, tuple)]
        parts = [k for k in needed[key] if str(k[0]).startswith(("accumulate-", "merge-"))]
        if name.startswith("accumulate-"):
            assert (names.count("values"), names.count("weights"), parts) == (1, 1, [])
            return 0
        assert not {"values", "weights"} & set(names)
        assert 1 <= len(parts) <= (split_every if name.startswith("merge-") else 1)
        return name.startswith("merge-") + max(map(depth, parts))

    roots = [key for key in needed if str(key[0]).startswith("decompose-members-")]
    assert len(roots) == 2
    for key in roots:
        assert depth(key) == np.ceil(np.log(n_blocks) / np.log(split_every) - 1e-9)
    assert_same({"": dask.compute(*d)}, {"": sw.decompose(probs, "log")}, rtol=1e-12, atol=1e-15)


def test_the_graph_holds_the_rules_once():
    costs = sw.rules.cost_matrix(np.random.default_rng(0).uniform(size=(300, 300)))
    values = da.full((40, 40, 300), 1 / 300, chunks=(1, 1, 300))
    graph = dict(sw.decompose(values, costs).total.__dask_graph__())
    assert len(graph) > 3000
    n_with_costs = sum(isinstance(getattr(task, "value", None), tuple) for task in graph.values())
    assert n_with_costs <= 1


@pytest.mark.parametrize("n_empty", [1, 2])
def test_empty_chunks_change_nothing(n_empty):
    probs = members(7, 5, 3)
    empty = (0,) * n_empty
    values = da.from_array(probs, chunks=((4, *empty, 3), (*empty, 2, 3), 3))
    d = sw.decompose(values, "log")
    assert d.total.chunks == ((4, *empty, 3),)
    assert_same({"": dask.compute(*d)}, {"": sw.decompose(probs, "log")}, rtol=1e-12, atol=1e-15)


def test_no_rows_give_empty_results():
    d = sw.decompose(da.zeros((0, 4, 3), chunks=(1, 2, 3)), FOUR)
    for total, aleatoric, epistemic in computed(d).values():
        assert total.shape == aleatoric.shape == epistemic.shape == (0,)


def test_results_with_other_options_may_be_computed_together():
    logits = members(10, 6, 3)
    own = [
        sw.rule_from_entropy(
            lambda p, a=a: a * (1 - (p**2).sum(-1)), lambda p, a=a: -2 * a * p, name="own"
        )
        for a in (1.0, 3.0)
    ]
    calls = [
        lambda p: sw.decompose(p, "log"),
        lambda p: sw.decompose(p, "brier"),
        lambda p: sw.decompose(p, "log", from_logits=True, check=False),
        lambda p: sw.decompose(p, "log", weights=np.arange(1.0, 7)),
        lambda p: sw.decompose(p, sw.rules.cost_matrix(np.eye(3))),
        lambda p: sw.decompose(p, sw.rules.cost_matrix(2 * np.eye(3))),
        lambda p: sw.decompose(p, own[0]),
        lambda p: sw.decompose(p, own[1]),
    ]
    pool = lazy(logits)
    together = dask.compute(*(call(pool).total for call in calls))
    for got, call in zip(together, calls, strict=True):
        np.testing.assert_allclose(got, call(logits).total, rtol=1e-9)


def test_axes_may_be_anywhere_and_rows_in_any_shape():
    probs = members(60, 7, 4)
    expected = sw.decompose(probs, FOUR)
    stacked = da.from_array(np.moveaxis(probs, 1, 0), chunks=(3, 25, 4))
    got = computed(sw.decompose(stacked, FOUR, member_axis=0))
    assert_same(got, expected, rtol=1e-12, atol=1e-15)
    images = da.from_array(probs.reshape(5, 12, 7, 4), chunks=(2, 5, 3, 4))
    got = sw.decompose(images, FOUR)
    assert got["log"].total.chunks == ((2, 2, 1), (5, 5, 2))
    flat = {name: [x.reshape(-1) for x in d] for name, d in computed(got).items()}
    assert_same(flat, expected, rtol=1e-12, atol=1e-15)
    one_row = da.from_array(probs[0], chunks=(3, 4))
    assert_same(computed(sw.decompose(one_row, FOUR)), sw.decompose(probs[0], FOUR), rtol=1e-12)


def test_a_rule_of_the_user_is_merged_too():
    def own(p):
        return (p**2).sum(axis=-1, keepdims=True) + 1 - 2 * p

    probs = members(10, 7, 3)
    rule = sw.rule_from_loss_vector(own, name="own")
    got = computed(sw.decompose(lazy(probs), {"own": rule}))
    expected = sw.decompose(probs, {"own": "brier"})
    assert_same(got, expected, rtol=1e-9, atol=1e-12)


def test_samples_of_a_dask_array_are_merged():
    probs = members(10, 7, 3)
    samples = sw.Samples(lazy(probs), weights=np.arange(1.0, 8), check=False)
    expected = sw.decompose(probs, FOUR, weights=np.arange(1.0, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = sw.decompose(samples, FOUR)
    assert_same(computed(got), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("order", "axes", "place"),
    [((0, 1, 2), {}, "13, 5, 2"), ((1, 0, 2), {"member_axis": 0}, "5, 13, 2")],
)
def test_an_error_names_the_place_in_the_whole_array_and_the_callers_axes(order, axes, place):
    probs = members(20, 7, 4)
    probs[13, 5, 2] = np.nan
    chunks = tuple(4 if axis == 2 else 3 for axis in order)
    values = da.from_array(np.transpose(probs, order), chunks=chunks)
    with pytest.raises(sw.InvalidInput, match=rf"probs\[{place}\] is nan") as caught:
        sw.decompose(values, "log", **axes).total.compute()
    assert caught.value.index == (13, 5, 2)


def test_an_error_names_weights_in_the_whole_array():
    values, weights = lazy(members(20, 7, 4)), np.ones((20, 7))
    weights[13, 5] = -1
    for w, place in ((weights, "13, 5"), (weights[13], "5")):
        for eager_or_lazy in (w, da.from_array(w, chunks=4)):
            with pytest.raises(sw.InvalidInput, match=rf"weights\[{place}\] is -1.0"):
                sw.decompose(values, "log", weights=eager_or_lazy).total.compute()
    weights[13] = 0
    with pytest.raises(sw.InvalidInput, match=r"members of instance \[13\] all have weight 0"):
        sw.decompose(values, "log", weights=weights).total.compute()


def test_probabilities_in_place_of_logits_are_refused():
    probs = members(20, 7, 4)
    with pytest.raises(sw.InvalidInput, match="these are probabilities"):
        sw.decompose(lazy(probs), "log", from_logits=True).total.compute()


def test_chunked_classes_are_put_together_with_a_warning():
    probs = members(20, 7, 4)
    with pytest.warns(sw.errors.ScorewiseWarning, match="classes in 2 chunks.*all classes of a"):
        got = sw.decompose(lazy(probs, (7, 3, 2)), FOUR)
    assert_same(computed(got), sw.decompose(probs, FOUR), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("measure", "why"),
    [
        (lambda p: sw.decompose(p, "log", unbiased=True).total, "the jackknife leaves out"),
        (lambda p: sw.decompose(p, "log", standard_errors=True).total, "the jackknife leaves out"),
        (lambda p: sw.decompose(p, "log", predictor=np.full(4, 0.25)).total, "of a predictor"),
        (lambda p: sw.pairwise_epistemic(p, "log"), "needs all members of a row at once"),
        (lambda p: sw.reverse_epistemic(p, "log"), "needs all members of a row at once"),
        (lambda p: sw.label_wise(p).total, "needs all members of a row at once"),
    ],
)
def test_what_needs_all_members_of_a_row_puts_them_together_and_says_why(measure, why):
    probs = members(20, 7, 4)
    with pytest.warns(sw.errors.ScorewiseWarning, match=f"members in 4 chunks, and .*{why}"):
        got = measure(lazy(probs))
    np.testing.assert_allclose(got.compute(), measure(probs), rtol=1e-12)


def test_members_in_one_chunk_give_no_warning():
    sw.label_wise(lazy(members(20, 7, 4), (5, -1, -1)))


@pytest.mark.parametrize("measure", [lambda p: sw.decompose(p, "log"), sw.label_wise])
def test_unknown_chunk_sizes_are_refused_with_the_remedy(measure):
    values = lazy(members(20, 7, 4))
    values = values[values[:, 0, 0] > 0.1]
    with pytest.raises(
        sw.InvalidInput, match=r"unknown chunk sizes.*probs.compute_chunk_sizes\(\)"
    ):
        measure(values)
    assert sw.decompose(values.compute_chunk_sizes(), "log").total.compute().ndim == 1


@may_rechunk
def test_worker_processes_decompose_chunked_members():
    probs = members(40, 9, 5)
    probs[17, 4, 2] = np.nan
    own = sw.rule_from_entropy(lambda p: 1 - (p**2).sum(-1), lambda p: -2 * p, name="gini")
    rules = {"own": own, **all_rules(5)}
    with local_cluster() as client:
        many = sw.decompose(lazy(probs[:15], (4, 2, 5)), rules)
        futures = client.compute([list(d) for d in many.values()])
        got = dict(zip(many, client.gather(futures), strict=True))
        failing = client.compute(sw.decompose(lazy(probs, (4, 2, 5)), "log").total)
        with pytest.raises(sw.InvalidInput, match=r"probs\[17, 4, 2\] is nan"):
            failing.result()
    assert_same(got, sw.decompose(probs[:15], rules), rtol=1e-10, atol=1e-14)
