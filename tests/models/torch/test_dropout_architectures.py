"""Dropout in modules as people write them: layouts of rows, recurrence, layers in place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import scorewise as sw
from torch_support import AWKWARD, ROWS, AlwaysOn, RecurrentCell, RemembersRows, TimeMajor, samples

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(autouse=True)
def _same_networks() -> None:
    torch.manual_seed(0)


class Reveals(nn.Module):
    """Shows what is left of 50 ones after dropout, as two logits of alternate halves."""

    def __init__(self, drop: nn.Module) -> None:
        super().__init__()
        self.drop, self.scale = drop, nn.Parameter(torch.ones(()))

    def forward(self, x):
        h = self.drop(torch.ones(len(x), 50) * self.scale)
        return torch.stack([h[:, ::2].mean(1), -h[:, 1::2].mean(1)], 1)


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
    passed = np.log(probs[0, :, 0] / probs[0, :, 1]) / 4  # the sum of both halves, of 50 at 1/0.5
    assert abs(passed.mean() - 0.5) < 5 * np.sqrt(0.25 / (200 * 50))


def test_a_layer_that_is_always_on_but_not_chosen_is_off():
    model = nn.Sequential(AlwaysOn(0.9), nn.Linear(6, 9), nn.Dropout(0.5), nn.Linear(9, 3))
    again = nn.Sequential(nn.Dropout(0.9), *model[1:])
    np.testing.assert_array_equal(samples(model, dropout="last"), samples(again, dropout="last"))


def test_batches_of_other_lengths_are_planned_anew():
    model = RecurrentCell()
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
        (Silent(), "do not change the output of Silent"),
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


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_compiled_modules_are_sampled_layer_by_layer():
    model = RemembersRows()
    expected = samples(model)
    np.testing.assert_allclose(samples(torch.compile(model)), expected, atol=1e-6)
    model.compile()
    np.testing.assert_allclose(samples(model), expected, atol=1e-6)


def test_equal_first_rows_do_not_fix_the_layout_of_rows():
    model = TimeMajor()
    X = torch.cat([torch.zeros(4, 6), ROWS])
    whole = samples(model, X, batch_size=4)
    for batch_size in (1, 2, 15):
        np.testing.assert_allclose(samples(model, X, batch_size=batch_size), whole, atol=1e-6)
    np.testing.assert_allclose(whole[4:], samples(model), atol=1e-6)


def test_a_layer_may_be_chosen_by_its_name_alone():
    model = RemembersRows()
    np.testing.assert_array_equal(samples(model, dropout="drop"), samples(model, dropout=["drop"]))


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
    single = sw.predict_samples(model, ROWS, 1, random_state=seed).probs
    many = sw.predict_samples(model, ROWS, 5, random_state=seed).probs
    np.testing.assert_allclose(single[:, 0], many[:, 0], atol=1e-6)


class Asserts(RemembersRows):
    def forward(self, x):
        h = self.drop(self.a(x))
        assert h.shape == (len(x), 8)
        return self.b(h)


def test_a_module_that_insists_on_its_rows_gets_one_draw_at_a_time():
    model, plain = Asserts(), RemembersRows()
    plain.load_state_dict(model.state_dict())
    np.testing.assert_allclose(samples(model), samples(plain), atol=1e-6)
