"""Modules as people write them, of which some do what a sampler would not expect."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import scorewise as sw

ROWS = torch.randn(11, 6, generator=torch.Generator().manual_seed(0))


pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(autouse=True)
def _same_networks() -> None:
    torch.manual_seed(0)


def samples(model: Any, X: Any = ROWS, n_samples: int = 6, **options: Any) -> np.ndarray:
    return sw.predict_samples(model, X, n_samples, random_state=0, **options).probs


class AlwaysOn(nn.Dropout):
    def forward(self, x):
        return F.dropout(x, self.p, training=True)


class Reveals(nn.Module):
    """Shows what is left of 50 ones after dropout, as two logits of alternate halves."""

    def __init__(self, drop: nn.Module) -> None:
        super().__init__()
        self.drop, self.scale = drop, nn.Parameter(torch.ones(()))

    def forward(self, x):
        h = self.drop(torch.ones(len(x), 50) * self.scale)
        return torch.stack([h[:, ::2].mean(1), -h[:, 1::2].mean(1)], 1)


class TimeMajor(nn.Module):
    """Steps of a sequence one after the other, each with all rows, in one long axis."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        n = len(x)
        h = self.a(x.view(n, 3, 2)).transpose(0, 1).reshape(3 * n, 8)
        return self.b(self.drop(h).relu()).reshape(3, n, 3).sum(0)


class RowMajor(TimeMajor):
    """The same steps, row after row."""

    def forward(self, x):
        n = len(x)
        return self.b(self.drop(self.a(x.view(3 * n, 2))).relu()).view(n, 3, 3).sum(1)


class Twins(nn.Module):
    """Two inputs side by side in one batch."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        one, two = self.drop(self.a(torch.cat([x[:, :3], x[:, 3:]])).tanh()).chunk(2)
        return self.b(one * two)


class Recurrent(nn.Module):
    """One call of the same dropout layer for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.drop, self.out = nn.GRUCell(1, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        h = x.new_zeros(len(x), 8)
        for step in x.unbind(1):
            h = self.drop(self.cell(step[:, None], h))
        return self.out(h)


class Dense(nn.Module):
    """What was dropped is used together with what was not."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        h = self.a(x).relu()
        return self.b(torch.cat([h, self.drop(h)], 1))


class RemembersRows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        n = x.shape[0]
        return self.b(self.drop(self.a(x)).view(n, -1))


AWKWARD = {
    "always on": lambda: nn.Sequential(
        nn.Linear(6, 20), nn.ReLU(), AlwaysOn(0.5), nn.Linear(20, 3)
    ),
    "time first": TimeMajor,
    "row after row": RowMajor,
    "twins": Twins,
    "recurrent": Recurrent,
    "dense": Dense,
    "remembers rows": RemembersRows,
    "lstm": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 2)),
        nn.LSTM(2, 8, batch_first=True),
        Last(),
        nn.Dropout(0.5),
        nn.Linear(8, 3),
    ),
}


class Last(nn.Module):
    def forward(self, outputs):
        return outputs[0][:, -1]


@pytest.mark.parametrize("kind", sorted(AWKWARD))
def test_samples_do_not_depend_on_the_batch(kind):
    model = AWKWARD[kind]()
    whole = samples(model)
    assert np.abs(whole[:, 0] - whole[:, 1]).max() > 1e-3
    for batch_size in (1, 2, 4, 10):
        np.testing.assert_allclose(samples(model, batch_size=batch_size), whole, atol=1e-6)
    np.testing.assert_allclose(samples(model, ROWS[[7]]), whole[[7]], atol=1e-6)


def test_a_layer_that_is_always_on_drops_once():
    probs = samples(Reveals(AlwaysOn(0.5)), n_samples=200)
    kept = np.log(probs[0, :, 0] / probs[0, :, 1]) / 4  # the sum of both halves, of 50 at 1/0.5
    assert abs(kept.mean() - 0.5) < 5 * np.sqrt(0.25 / (200 * 50))


def test_a_layer_that_is_always_on_but_not_chosen_is_off():
    model = nn.Sequential(AlwaysOn(0.9), nn.Linear(6, 9), nn.Dropout(0.5), nn.Linear(9, 3))
    again = nn.Sequential(nn.Dropout(0.9), *model[1:])
    np.testing.assert_array_equal(samples(model, dropout="last"), samples(again, dropout="last"))


def test_batches_of_other_lengths_are_planned_anew():
    model = Recurrent()
    batches = [ROWS[:4, :2], ROWS[4:8], ROWS[8:, :2]]
    for which in ("all", "last"):
        together = samples(model, iter(batches), dropout=which)
        apart = np.concatenate([samples(model, batch, dropout=which) for batch in batches])
        np.testing.assert_allclose(together, apart, atol=1e-6)


class Silent(nn.Module):
    """Its dropout layer runs, and nobody uses what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(6, 8), nn.Dropout(0.5, inplace=True), nn.Linear(8, 3)

    def forward(self, x):
        h = self.a(x)
        self.drop(h)
        return self.b(h)


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(self.drop(F.dropout(self.a(x), 0.5, training=True)))


class Moody(nn.Module):
    """Which layers run depends on the values of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        h = self.drop(self.a(x))
        return self.b(self.drop(h) if x.abs().max() > 100 else h)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Silent(), "do not change what Silent returns"),
        (Functional(), "Functional returns different values for the same rows"),
    ],
)
def test_modules_that_would_give_wrong_draws_are_refused(model, words):
    with pytest.raises(sw.InvalidInput, match=words):
        samples(model)


def test_layers_that_run_only_for_some_values_are_refused():
    X = ROWS.clone()
    X[7] = 1000
    with pytest.raises(sw.InvalidInput, match="depends on the values of X"):
        samples(Moody(), X, batch_size=5)


class OwnTrain(nn.Module):
    """Merges weights when told to evaluate, as adapters of large models do."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.bn = nn.Linear(6, 3), nn.Dropout(0.5), nn.BatchNorm1d(3)
        self.merged = False

    def train(self, mode: bool = True):
        super().train(mode)
        if not mode and not self.merged:
            self.a.weight.data += 1
            self.merged = True
        return self

    def forward(self, x):
        return self.bn(self.a(self.drop(x)))


def test_what_a_module_does_when_it_changes_its_mode_is_not_done():
    model = OwnTrain()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    samples(model)
    samples([model, model], n_samples=2)
    assert model.training
    assert not model.merged
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


class Caches(nn.Module):
    """Keeps what it made in its first pass, as rotary embeddings do."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)
        self.table: Any = None

    def forward(self, x):
        if self.table is None:
            self.table = torch.arange(8.0).cos()
        return self.b(self.drop(self.a(x) * self.table))


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("several", [False, True])
def test_a_module_that_keeps_tensors_can_be_trained_afterwards(batch_size, several):
    model = Caches()
    samples([model, model] if several else model, n_samples=2, batch_size=batch_size)
    model(ROWS).sum().backward()
    assert model.a.weight.grad is not None


def test_a_device_without_values_is_refused_and_the_weights_stay():
    model = RemembersRows()
    with pytest.raises(sw.InvalidInput, match="device='meta' cannot be used"):
        samples(model, device="meta")
    assert model.a.weight.device.type == "cpu"


def test_a_module_that_is_not_initialised_is_refused():
    lazy = nn.Sequential(nn.LazyLinear(5), nn.Dropout(0.5), nn.Linear(5, 3))
    with pytest.raises(sw.InvalidInput, match="not initialised"):
        samples(lazy)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_compiled_modules_are_drawn_from_as_they_were_written():
    model = RemembersRows()
    expected = samples(model)
    np.testing.assert_allclose(samples(torch.compile(model)), expected, atol=1e-6)
    model.compile()
    np.testing.assert_allclose(samples(model), expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_scripted_members_answer():
    members = [nn.Linear(6, 3) for _ in range(2)]
    scripted = [torch.jit.trace(member, ROWS) for member in members]
    scripted.append(torch.jit.script(members[0]))
    expected = samples([*members, members[0]], n_samples=3)
    np.testing.assert_allclose(samples(scripted, n_samples=3), expected, atol=1e-6)


def test_threads_that_share_a_module_wait_for_each_other():
    model = AWKWARD["always on"]()
    expected, found = samples(model), []
    work = [threading.Thread(target=lambda: found.append(samples(model))) for _ in range(4)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(found) == 4
    for probs in found:
        np.testing.assert_array_equal(probs, expected)
    assert model.training


class Sigmoid(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 1), nn.Sigmoid())


def test_one_number_between_0_and_1_must_be_told_what_it_is():
    model = Sigmoid()
    for batch_size in (None, 1):
        with pytest.raises(sw.InvalidInput, match="could be probabilities"):
            samples(model, batch_size=batch_size)
    probs, logits = (samples(model, output=word) for word in ("probs", "logits"))
    np.testing.assert_allclose(probs.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(
        np.log(logits[..., 1] / logits[..., 0]), probs[..., 1], atol=1e-5
    )  # which is what was asked for


class Functionally(nn.Linear):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, training=True)


def test_members_that_are_random_by_themselves_are_refused():
    members = [nn.Linear(6, 3), Functionally(6, 3)]
    with pytest.raises(sw.InvalidInput, match="returns different values for the same rows"):
        sw.predict_samples(members, ROWS)
    with pytest.raises(sw.InvalidInput, match="returns different values for the same rows"):
        sw.predict_dirichlet(Functionally(6, 3), ROWS, output="log-alpha")


def test_rows_that_are_all_alike_do_not_tell_how_rows_lie():
    model = TimeMajor()
    X = torch.cat([torch.zeros(4, 6), ROWS])
    whole = samples(model, X, batch_size=4)
    for batch_size in (1, 2, 15):
        np.testing.assert_allclose(samples(model, X, batch_size=batch_size), whole, atol=1e-6)
    np.testing.assert_allclose(whole[4:], samples(model), atol=1e-6)


def test_a_layer_may_be_chosen_by_its_name_alone():
    model = RemembersRows()
    np.testing.assert_array_equal(samples(model, dropout="drop"), samples(model, dropout=["drop"]))


class TakesLabels(RemembersRows):
    def forward(self, x, labels=None):
        out = super().forward(x)
        return (F.cross_entropy(out, labels), out) if labels is not None else out


def test_labels_in_a_mapping_are_no_input():
    model, labels = TakesLabels(), torch.arange(11) % 3
    expected = samples(model)
    np.testing.assert_array_equal(samples(model, {"x": ROWS}), expected)
    np.testing.assert_array_equal(samples(model, {"x": ROWS, "labels": labels}), expected)


class PartlySilent(nn.Module):
    """One of two layers works in place, and nobody uses what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.quiet = nn.Linear(6, 8), nn.Dropout(0.5, inplace=True)
        self.drop, self.b = nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        h = self.a(x)
        self.quiet(h)
        return self.b(self.drop(h))


def test_a_silent_layer_beside_another_is_named():
    with pytest.raises(sw.InvalidInput, match="'quiet' works in place"):
        samples(PartlySilent())
    assert samples(PartlySilent(), dropout="last").shape == (11, 6, 3)


def test_layers_in_place_whose_results_are_used_drop():
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5, inplace=True), nn.Linear(8, 3))
    again = nn.Sequential(model[0], nn.Dropout(0.5), model[2])
    np.testing.assert_array_equal(samples(model), samples(again))


class Encoder(nn.Module):
    """A transformer for which torch has a fused path that calls no dropout layer."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
        self.words, self.body = nn.Embedding(9, 8), nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        return self.head(self.body(self.words(ids), src_key_padding_mask=ids == 0)[:, 0])


def test_transformers_with_padding_are_drawn_from_layer_by_layer():
    ids = torch.randint(1, 9, (7, 5), generator=torch.Generator().manual_seed(0))
    ids[2:, 3:] = 0
    model = Encoder()
    fused = torch.backends.mha.get_fastpath_enabled()
    whole = samples(model, ids)
    assert torch.backends.mha.get_fastpath_enabled() == fused
    assert np.abs(whole[:, 0] - whole[:, 1]).max() > 1e-3
    for batch_size in (1, 2, 4):
        np.testing.assert_allclose(samples(model, ids, batch_size=batch_size), whole, atol=1e-6)
    np.testing.assert_allclose(samples(model, ids[2:, :3]), whole[2:], atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_a_single_draw_may_keep_everything(seed):
    model = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.1), nn.LayerNorm(4), nn.Linear(4, 3))
    one = sw.predict_samples(model, ROWS, 1, random_state=seed).probs
    many = sw.predict_samples(model, ROWS, 5, random_state=seed).probs
    np.testing.assert_allclose(one[:, 0], many[:, 0], atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_probabilities_in_half_precision_are_no_logits(dtype):
    members = [nn.Sequential(nn.Linear(6, 10), nn.Softmax(-1)).to(dtype) for _ in range(3)]
    with pytest.raises(sw.InvalidInput, match="could be probabilities"):
        sw.predict_samples(members, ROWS)


def test_one_draw_that_is_no_probability_speaks_for_all():
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    assert samples(model, ROWS[:1], n_samples=200).shape == (1, 200, 2)


def test_a_loader_of_ready_batches_must_not_shuffle():
    ready = [ROWS[:4], ROWS[4:]]
    loader = torch.utils.data.DataLoader(ready, batch_size=None)
    np.testing.assert_allclose(samples(RemembersRows(), loader).shape, (11, 6, 3))
    with pytest.raises(sw.InvalidInput, match="shuffle=False"):
        samples(RemembersRows(), torch.utils.data.DataLoader(ready, batch_size=None, shuffle=True))


class Mixed(nn.Module):
    """Half precision for words, full precision for the rest, as models are loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 6).bfloat16()
        self.a, self.drop, self.b = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, ids, x):
        return self.b(self.drop(self.a(x + self.words(ids).float())))


def test_rows_keep_a_precision_that_the_module_has():
    X = {"ids": torch.arange(11) % 9, "x": ROWS}
    assert samples(Mixed(), X).shape == (11, 6, 3)


class Asserts(RemembersRows):
    def forward(self, x):
        h = self.drop(self.a(x))
        assert h.shape == (len(x), 8)
        return self.b(h)


def test_a_module_that_insists_on_its_rows_gets_one_draw_at_a_time():
    model, plain = Asserts(), RemembersRows()
    plain.load_state_dict(model.state_dict())
    np.testing.assert_allclose(samples(model), samples(plain), atol=1e-6)
