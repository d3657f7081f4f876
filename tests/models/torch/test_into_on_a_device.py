"""Members that go into an accumulator on a GPU, shown without one: tensors count as on a device."""

from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

import scorewise as sw

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - needs torch

RULES = ["log", "brier", "zero-one", "tsallis:1.5"]
WIDTH, N_CLASSES = 6, 5


@pytest.fixture(autouse=True)
def _device(monkeypatch):
    def is_on_device(x):
        return isinstance(x, torch.Tensor)

    for module in ("scorewise._array", "scorewise.models._predict"):
        monkeypatch.setattr(f"{module}.is_on_device", is_on_device)


def module(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Dropout(0.5), nn.Linear(WIDTH, N_CLASSES))


MODELS = {"dropout": module, "modules": lambda: [module(seed) for seed in range(4)]}


def rows(n=50):
    return torch.randn(n, WIDTH, generator=torch.Generator().manual_seed(1))


def accumulated(model, X, rules=RULES, into=None, **options):
    into = sw.Accumulator(rules) if into is None else into
    return sw.predict_samples(model, X, None, 0, into=into, **options)


def assert_same(results, expected):
    for name, decomposition in expected.items():
        for part, other in zip(results[name], decomposition, strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("model", MODELS)
def test_chunks_stay_on_the_device_and_are_never_stacked(model, monkeypatch):
    model, X, chunks = MODELS[model](), rows(), []
    update_chunks = sw.Accumulator.update_chunks

    def update(self, seen, *arguments, **options):
        def noted():
            for chunk in seen:
                chunks.append((type(chunk), len(chunk)))
                yield chunk

        update_chunks(self, noted(), *arguments, **options)

    monkeypatch.setattr(sw.Accumulator, "update_chunks", update)
    results = accumulated(model, X, batch_size=20).result()
    assert chunks == [(torch.Tensor, 20), (torch.Tensor, 20), (torch.Tensor, 10)]
    samples = sw.predict_samples(model, X, None, 0)
    assert isinstance(samples.probs, np.ndarray)
    assert_same(results, sw.decompose(samples, RULES))


def test_results_are_where_the_rows_are():
    for X, library in ((rows(), torch.Tensor), (rows().numpy(), np.ndarray)):
        accumulator = accumulated(module(), X)
        parts = [part for result in accumulator.result().values() for part in result]
        assert {type(x) for x in (*parts, accumulator.mean, accumulator.weight)} == {library}


@pytest.mark.parametrize("first", [rows(), rows().numpy()], ids=["device", "host"])
@pytest.mark.parametrize("second", [rows(), rows().numpy()], ids=["device", "host"])
def test_later_members_go_where_the_first_ones_are(first, second):
    accumulator = accumulated(module(), first)
    accumulated(module(1), second, into=accumulator)
    members = [sw.predict_samples(module(seed), rows().numpy(), None, 0).probs for seed in range(2)]
    assert type(accumulator.mean) is type(first)
    assert_same(accumulator.result(), sw.decompose(np.concatenate(members, axis=1), RULES))


def test_loaders_of_unknown_length_are_accumulated_too():
    X = rows(23)
    accumulator = accumulated(module(), (part for part in X.split(10)))
    expected = sw.predict_samples(module(), X, None, 0)
    assert_same(accumulator.result(), sw.decompose(expected, RULES))


def test_copies_of_members_are_noticed_on_a_device():
    one = module()
    with pytest.warns(sw.errors.ScorewiseWarning, match="predict the same"):
        accumulated([one, one], rows())


def test_an_error_in_a_later_batch_adds_nothing():
    accumulator = accumulated(module(), rows())
    before = accumulator.result()["log"].total.clone()
    bad = rows()
    bad[30] = torch.nan
    with pytest.raises(sw.InvalidInput, match="row 30"):
        accumulated(module(1), bad, into=accumulator, batch_size=10)
    assert accumulator.n_members == 20
    assert (accumulator.result()["log"].total == before).all()


def test_the_benchmark_accumulates_the_same_members_as_are_stacked():
    benchmark = run_path(str(Path(__file__).parents[3] / "benchmarks/gpu_imagenet.py"))
    rows = benchmark["imagenet"](benchmark["QUICK"], repeats=1)
    assert len(rows) == 4
    assert all(row.largest_difference < 1e-5 for row in rows[:3])
