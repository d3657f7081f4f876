"""Segmentation networks: tiles give what the whole image gives, in bounded memory."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import scorewise as sw

RULES = ["log", "zero-one"]


class Net(nn.Module):
    """Sees 6 pixels to each side, with a stride of 4, and drops units before and after a skip."""

    def __init__(self, drop: type[nn.Module] = nn.Dropout2d, n_classes: int = 5) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 1)
        self.drop_inside, self.drop_last = drop(0.3), drop(0.5)
        self.head = nn.Conv2d(16, n_classes, 1)

    def forward(self, x):
        a = torch.relu(self.norm(self.first(x)))
        b = self.drop_inside(self.second(F.max_pool2d(a, 4, ceil_mode=True)))
        b = F.interpolate(b, scale_factor=4)[..., : a.shape[-2], : a.shape[-1]]
        return self.head(self.drop_last(torch.cat([a, b], dim=1)))


def net(*args, seed: int = 0) -> Net:
    torch.manual_seed(seed)
    return Net(*args)


def image(height: int, width: int) -> torch.Tensor:
    return torch.randn(3, height, width, generator=torch.Generator().manual_seed(1))


NETS = [net(seed=seed).eval() for seed in range(3)]


def by_hand(modules, x: torch.Tensor, activation=torch.softmax) -> np.ndarray:
    """The members' probabilities (M, K, H, W), all at once."""
    with torch.no_grad():
        return np.stack([activation(m(x[None])[0], 0).numpy() for m in modules])


def assert_same(one: sw.models.Segmentation, other: sw.models.Segmentation) -> None:
    for name, decomposition in one.uncertainty.items():
        for x, y in zip(decomposition, other.uncertainty[name], strict=True):
            np.testing.assert_allclose(x, y, atol=1e-5)


@pytest.mark.parametrize("size", [(40, 48), (37, 51)])
@pytest.mark.parametrize(("tile", "halo"), [(16, 8), (20, 8), (12, 16), (64, 8)])
def test_tiles_of_any_size_give_the_decomposition_of_all_members_at_once(size, tile, halo):
    x = image(*size)
    pixels = sw.segment(NETS, x, RULES, tile=tile, halo=halo)
    probs = by_hand(NETS, x)
    expected = sw.decompose(probs, RULES, member_axis=0, class_axis=1)
    assert_same(pixels, sw.models.Segmentation(pixels.prediction, expected))
    np.testing.assert_array_equal(pixels.prediction, probs.mean(axis=0).argmax(axis=0))


@pytest.mark.parametrize("drop", [nn.Dropout2d, nn.Dropout, nn.AlphaDropout])
@pytest.mark.parametrize("size", [(40, 48), (39, 21)])
def test_a_draw_is_one_network_for_all_tiles(drop, size):
    x, module = image(*size), net(drop)
    whole = sw.segment(module, x, RULES, 4, 0, tile=64)
    assert whole.uncertainty["log"].epistemic.max() > 1e-3
    for tile, halo in ((16, 8), (36, 8)):
        assert_same(sw.segment(module, x, RULES, 4, 0, tile=tile, halo=halo), whole)


def test_draws_are_those_of_predict_samples_where_channels_drop():
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Dropout2d(0.5), nn.Conv2d(4, 3, 1))
    pooled = nn.Sequential(module, nn.Flatten(1))
    x = image(1, 1)
    draws = sw.predict_samples(pooled, x[None], 6, 3).probs
    expected = sw.decompose(draws, "log")
    pixels = sw.segment(module, x, "log", 6, 3)
    np.testing.assert_allclose(pixels.uncertainty.total.ravel(), expected.total, rtol=1e-5)


def test_dropout_is_all_the_last_or_some_layers():
    x, module = image(24, 24), net()
    last = sw.segment(module, x, "brier", 5, 0, dropout="last").uncertainty.epistemic
    named = sw.segment(module, x, "brier", 5, 0, dropout=["drop_last"]).uncertainty.epistemic
    every = sw.segment(module, x, "brier", 5, 0).uncertainty.epistemic
    np.testing.assert_array_equal(last, named)
    assert not np.allclose(last, every)


def test_losses_are_those_of_the_mean_prediction_and_ignored_pixels_have_none():
    x = image(30, 26)
    y = np.random.default_rng(0).integers(5, size=(30, 26)).astype(np.uint8)
    y[3:9] = 255
    pixels = sw.segment(NETS, x, RULES, y=y, ignore_label=255, tile=16, halo=8)
    members = by_hand(NETS, x)
    for name in RULES:
        expected = sw.task_losses(members, y, name, ignore_label=255, member_axis=0, class_axis=1)
        np.testing.assert_allclose(pixels.losses[name], expected, atol=1e-5)
        assert np.isnan(pixels.losses[name][3:9]).all()
    counts = y != 255
    error = sw.aggregate(pixels.losses["zero-one"], (0, 1), where=counts)
    assert float(error) == pytest.approx((pixels.prediction != y)[counts].mean())


def test_probabilities_single_logits_half_precision_and_other_outputs_are_read():
    x = image(20, 20)
    logits = sw.segment(NETS, x, RULES)

    class Softmax(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return {"out": self.inner(x).softmax(1), "aux": None}

    as_probs = sw.segment([Softmax(m) for m in NETS], x, RULES, output="probs")
    assert_same(as_probs, logits)
    with pytest.raises(sw.InvalidInput, match="could be probabilities"):
        sw.segment([Softmax(m) for m in NETS], x, RULES)
    single = [net(nn.Dropout2d, 1, seed=seed).eval() for seed in range(2)]
    p = by_hand(single, x, lambda z, _: z.sigmoid())[:, 0]
    expected = sw.decompose(sw.binary(p), "log", member_axis=0).epistemic
    got = sw.segment(single, x, "log").uncertainty.epistemic
    np.testing.assert_allclose(got, expected, atol=1e-6)
    half = [nn.Conv2d(3, 4, 1).to(torch.bfloat16) for _ in range(2)]
    assert sw.segment(half, x, "log").uncertainty.total.dtype == np.float32


def test_images_are_arrays_of_any_kind(tmp_path):
    x = image(20, 20)
    np.save(tmp_path / "image.npy", x.numpy())
    mapped = np.load(tmp_path / "image.npy", mmap_mode="r")
    assert_same(sw.segment(NETS, mapped, RULES, tile=8, halo=8), sw.segment(NETS, x, RULES))


def test_the_network_is_not_changed():
    module = net().train()
    state = {name: value.clone() for name, value in module.state_dict().items()}
    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    sw.segment(module, image(20, 20), "log", 3, 0)
    assert torch.rand(1) == before
    assert all(part.training for part in module.modules())
    assert all(torch.equal(module.state_dict()[name], value) for name, value in state.items())
    assert not any(part._forward_hooks for part in module.modules())


def test_memory_is_that_of_a_tile_and_of_the_maps():
    n_members, n_classes, side, tile = 8, 6, 256, 64
    modules = [nn.Conv2d(1, n_classes, 1) for _ in range(n_members)]
    x = np.zeros((1, side, side), dtype=np.float32)
    sw.segment(modules, x[:, :8, :8], "log")  # imports
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.segment(modules, x + np.arange(side, dtype=np.float32), "log", tile=tile, halo=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    all_members = 4 * n_members * n_classes * side**2
    maps = (3 * 4 + 8 + 4) * side**2
    of_a_tile = 4 * n_members * n_classes * tile**2
    assert peak < maps + 2.5 * of_a_tile < all_members / 2


def test_a_halo_that_is_too_small_is_noticed():
    with pytest.warns(sw.errors.ScorewiseWarning, match="a wider halo changes a probability"):
        sw.segment(NETS, image(40, 40), "log", tile=16, halo=0)

    class Pools(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 1)

        def forward(self, x):
            z = self.conv(x * torch.arange(x.shape[-1]))
            return z + 5 * z.mean(dim=(2, 3), keepdim=True)

    with pytest.warns(sw.errors.ScorewiseWarning, match="a larger tile"):
        sw.segment([Pools(), Pools()], image(40, 40), "log", tile=16, halo=8)


def test_copies_of_a_network_are_noticed():
    with pytest.warns(sw.errors.ScorewiseWarning, match="All 3 members predict the same"):
        sw.segment(NETS[:1] * 3, image(30, 30), "log")


def test_a_user_sees_the_size():
    pixels = sw.segment(NETS, image(20, 30), RULES)
    assert repr(pixels) == "Segmentation(20 × 30 pixels, rules ['log', 'zero-one'])"
    assert pixels.losses is None


class Resized(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2)

    def forward(self, x):
        return self.conv(x)


class Noisy(Resized):
    def forward(self, x):
        return F.dropout(x[:, [0, 1, 2, 0]], 0.5)


class Tokens(nn.Module):
    """Drops units of pixels that are in a row, as the tokens of a transformer."""

    def __init__(self):
        super().__init__()
        self.conv, self.drop = nn.Conv2d(3, 4, 1), nn.Dropout(0.5)

    def forward(self, x):
        tokens = self.conv(x).flatten(2).transpose(1, 2)
        return self.drop(tokens).transpose(1, 2).unflatten(2, x.shape[2:])


SQUARE = image(24, 24)


@pytest.mark.parametrize(
    ("model", "x", "options", "message"),
    [
        (NETS, SQUARE[None], {}, r"the image has shape \(1, 3, 24, 24\)"),
        (NETS, SQUARE[:, :0], {}, "one image at a time"),
        (NETS, SQUARE, {"tile": 0}, "tile must be a whole number"),
        (NETS, SQUARE, {"halo": -1}, "halo must be a whole number"),
        (NETS, SQUARE, {"output": "label-logits"}, "output"),
        (NETS, SQUARE, {"y": np.zeros((24, 23), int)}, r"y has shape \(24, 23\) for an image"),
        (NETS, SQUARE, {"y": np.full((24, 24), 5)}, r"y\[0, 0\] is 5"),
        (NETS, SQUARE, {"y": np.full((24, 24), -1)}, r"y\[0, 0\] is -1, .*ignore_label=-1"),
        ([], SQUARE, {}, "segment takes a torch module with dropout"),
        (np.zeros((3, 5, 24, 24)), SQUARE, {}, "member_axis=0, class_axis=1"),
        ([NETS[0], net(nn.Dropout2d, 4)], SQUARE, {}, "returns 4 classes, member 0"),
        (nn.Conv2d(3, 4, 1), SQUARE, {}, "no dropout layer with p > 0"),
        ([Resized()], SQUARE, {}, r"returns shape \(1, 4, 11, 11\) for \(1, 3, 24, 24\)"),
        ([Noisy()], SQUARE, {}, "different values for the same rows in evaluation mode"),
        (Tokens(), SQUARE, {}, "does not show the positions of pixels"),
        (net(nn.Dropout), SQUARE, {"tile": 10, "halo": 4}, "multiples of the network's stride"),
    ],
)
def test_what_does_not_fit_is_refused(model, x, options, message):
    with pytest.raises(sw.InvalidInput, match=message):
        sw.segment(model, x, "log", **options)


def test_a_nan_is_named_with_its_pixel():
    x = SQUARE.clone()
    x[:, 17, 5] = torch.nan
    with pytest.raises(sw.InvalidInput, match=r"member 0 \(Conv2d\), pixel \(17, 5\): a logit is"):
        sw.segment([nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)], x, "log", tile=8, halo=8)


def test_predict_samples_says_what_takes_a_segmentation_network():
    with pytest.raises(sw.InvalidInput, match=r"scorewise\.segment takes such a network"):
        sw.predict_samples(NETS, SQUARE[None])
