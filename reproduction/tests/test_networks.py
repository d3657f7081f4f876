"""The paper's networks: stacks, dropout by hand, ResNets and their checkpoints, images."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional

from scorewise_paper import cifar
from scorewise_paper._files import save_checkpoint
from scorewise_paper.cifar import Recipe, normalized, restored, train
from scorewise_paper.datasets import ImageFiles, Rows
from scorewise_paper.learning import Stack
from scorewise_paper.networks import (
    NetworkWithHead,
    dropout_probabilities,
    features,
    lenet,
    mlp,
    resnet18,
    square_batches,
)
from scorewise_paper.runs import drawn_rows

pytestmark = pytest.mark.usefixtures("one_torch_thread")
CPU = torch.device("cpu")
ADAM = (torch.optim.Adam, {"lr": 0.01})
SGD = (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9})


# -- stacks ----------------------------------------------------------------------------------------


def small_mlp(dropout: float = 0.0) -> NetworkWithHead:
    return mlp(16, 3, wide=True, dropout=dropout)


def small_lenet() -> NetworkWithHead:
    return lenet(3, 16, 3, dropout=0.0)


@pytest.fixture(scope="module")
def grey() -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (60,), generator=draws)
    return torch.rand(60, 1, 4, 4, generator=draws) + y[:, None, None, None] / 4, y


@pytest.fixture(scope="module")
def coloured() -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(1)
    return torch.rand(40, 3, 16, 16, generator=draws), torch.arange(40) % 3


def stacked(make: Any, data: Any, n_networks: int, **options: Any) -> Stack:
    settings = {"batch": 8, "most_rows": 50, "optimizer": "adam", "lr": 0.01, **options}
    return Stack(make, n_networks, *data, **settings)


def weights(network: NetworkWithHead) -> dict[str, torch.Tensor]:
    return {name: x.detach().clone() for name, x in network.named_parameters()}


def assert_same(first: NetworkWithHead, second: NetworkWithHead, **tolerance: float) -> None:
    weights_1, weights_2 = weights(first), weights(second)
    assert list(weights_1) == list(weights_2)
    for name, x in weights_1.items():
        torch.testing.assert_close(x, weights_2[name], **{"rtol": 1e-4, "atol": 1e-5, **tolerance})


def alone(
    network: NetworkWithHead,
    data: Any,
    rows: torch.Tensor,
    i: int,
    epochs: int,
    seed: int,
    how: Any,
) -> NetworkWithHead:
    """What the i-th of a stack should come to, with nothing but torch."""
    network = copy.deepcopy(network).train()
    kind, options = how
    optimizer = kind(network.parameters(), **options)
    draws = torch.Generator().manual_seed(seed)
    x, y = data
    for _ in range(epochs):
        order = rows[i][torch.randperm(rows.shape[1], generator=draws)]
        steps = -(-len(order) // 8)
        torch.rand(steps, 8, network.head.in_features, generator=draws)  # for dropout
        for part in order.split(8):
            optimizer.zero_grad()
            functional.cross_entropy(network(x[part]), y[part]).backward()
            optimizer.step()
    return network.eval()


@pytest.mark.parametrize(("name", "how"), [("adam", ADAM), ("sgd", SGD)])
@pytest.mark.parametrize("kind", ["mlp", "lenet"])
@pytest.mark.parametrize("n", [8, 21])  # a whole batch, and one that is filled up
def test_a_stack_learns_as_its_networks_alone_would(
    name: str, how: Any, kind: str, n: int, grey: Any, coloured: Any
):
    data, make = (grey, small_mlp) if kind == "mlp" else (coloured, small_lenet)
    stack = stacked(make, data, 3, optimizer=name, lr=how[1]["lr"])
    assert len(stack) == 3
    draws = torch.Generator().manual_seed(4)
    rows = torch.stack([torch.randperm(len(data[0]), generator=draws)[:n] for _ in range(3)])
    # where a gradient is all rounding, Adam still takes a step, of 0.01
    tolerance = {"rtol": 0, "atol": 0.02} if name == "adam" else {}
    for _ in range(2):  # the second time it must have forgotten the first
        stack.begin([5, 6, 7])
        before = [copy.deepcopy(stack.network(i)) for i in range(3)]
        stack.fit(rows, epochs=3, seeds=[9] * len(stack))
        for i in range(3):
            network, expected = stack.network(i), alone(before[i], data, rows, i, 3, 9, how)
            assert_same(network, expected, **tolerance)
            for x, y in zip(network.parameters(), expected.parameters(), strict=True):
                assert (x - y).abs().mean() < 1e-4
            torch.testing.assert_close(network(data[0]), expected(data[0]), rtol=1e-3, atol=1e-3)


def test_a_network_learns_alike_whatever_networks_it_learns_with(grey: Any):
    rows = torch.stack([torch.arange(20), torch.arange(20, 40)])
    both, single = (stacked(lambda: small_mlp(0.5), grey, n) for n in (2, 1))
    both.begin([3, 4])
    both.fit(rows, epochs=2, seeds=[5, 6])
    single.begin([4])
    single.fit(rows[1:], epochs=2, seeds=[6])
    assert_same(both.network(1), single.network(0), rtol=0, atol=0)


def test_a_stack_begins_anew(grey: Any):
    rows = torch.stack([torch.arange(20), torch.arange(20, 40)])
    for optimizer in ("adam", "sgd"):
        stack = stacked(small_mlp, grey, 2, optimizer=optimizer)
        networks = []
        for _ in range(2):
            stack.begin([3, 4])
            torch.manual_seed(3)
            assert_same(stack.network(0), small_mlp(), rtol=0, atol=0)
            stack.fit(rows, epochs=2, seeds=[3] * len(stack))
            networks.append(copy.deepcopy(stack.network(1)))
        assert_same(*networks, rtol=0, atol=0)


def test_a_network_has_the_weights_of_the_stack(grey: Any):
    stack = stacked(small_mlp, grey, 2)
    stack.begin([3, 4])
    network = stack.network(1)
    assert not network.training
    before = weights(network)
    stack.fit(torch.arange(16).expand(2, 16), epochs=1, seeds=[0] * len(stack))
    after = weights(network)  # they are shared, not copied
    assert all(not torch.equal(before[name], after[name]) for name in before)
    assert_same(network, stack.network(1), rtol=0, atol=0)


def test_training_leaves_the_global_random_state_alone(grey: Any):
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    stack = stacked(lambda: small_mlp(0.5), grey, 2)
    torch.manual_seed(11)
    stack.begin([3, 4])
    stack.fit(torch.arange(16).expand(2, 16), epochs=1, seeds=[0] * len(stack))
    torch.testing.assert_close(torch.rand(3), expected)


# -- dropout by hand -------------------------------------------------------------------------------


def test_nothing_left_out_is_the_plain_head():
    network = small_mlp().eval()
    x = torch.rand(5, 1, 4, 4)
    values = features(network, x, batch=2)
    assert values.shape == (5, 100)
    probs = dropout_probabilities(values, network.head, 3, 0.0, torch.Generator().manual_seed(0))
    expected = network(x).softmax(-1)[:, None].expand(5, 3, 3)
    torch.testing.assert_close(probs, expected.detach())


def test_leaving_out_keeps_the_mean_of_logits():
    values, head = torch.rand(4, 12), torch.nn.Linear(12, 3)
    probs = dropout_probabilities(values, head, 40_000, 0.5, torch.Generator().manual_seed(0))
    logits = probs.log()
    centred = (logits - logits.mean(-1, keepdim=True)).mean(1)  # logits, up to a constant per row
    expected = head(values).detach()
    torch.testing.assert_close(
        centred, expected - expected.mean(-1, keepdim=True), rtol=0, atol=0.02
    )
    assert probs[:, :50].std(1).min() > 0
    again = dropout_probabilities(values, head, 40_000, 0.5, torch.Generator().manual_seed(0))
    assert torch.equal(again, probs)


def test_a_draw_thins_all_rows_alike():
    values, head = torch.rand(1, 12).expand(6, 12), torch.nn.Linear(12, 3)
    probs = dropout_probabilities(values, head, 4, 0.5, torch.Generator().manual_seed(0))
    assert torch.equal(probs, probs[:1].expand_as(probs))


# -- ResNets ---------------------------------------------------------------------------------------


def test_the_networks_have_the_sizes_they_should():
    def size(network: torch.nn.Module) -> int:
        return sum(x.numel() for x in network.parameters())

    assert size(resnet18(10)) == 11_173_962
    assert size(mlp(784, 10)) == 784 * 785 + 785 * 100 + 101 * 10
    assert size(mlp(784, 10, wide=False)) == 785 * 100 + 101 * 10
    assert size(lenet(3, 28, 8)) == 76 * 32 + 801 * 64 + (64 * 16 + 1) * 800 + 801 * 8
    assert resnet18(10, width=2)(torch.rand(2, 3, 32, 32)).shape == (2, 10)


@pytest.fixture(scope="module")
def pictures() -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(2)
    images = torch.randint(0, 256, (20, 3, 32, 32), generator=draws, dtype=torch.uint8)
    return images, torch.arange(20) % 10


RECIPES = [
    Recipe(seed=3, dropout=0.0, epochs=4, width=2),
    Recipe(seed=4, dropout=0.5, epochs=4, width=2),
]


def trained(recipes: list[Recipe], pictures: Any, folder: Path) -> list[NetworkWithHead]:
    checkpoints = [folder / f"{recipe.seed}.pt" for recipe in recipes]
    return train(recipes, *pictures, CPU, checkpoints, progress=False)


def assert_identical(first: NetworkWithHead, second: NetworkWithHead) -> None:
    weights_1, weights_2 = first.state_dict(), second.state_dict()
    assert list(weights_1) == list(weights_2)
    assert all(torch.equal(x, weights_2[name]) for name, x in weights_1.items())


@pytest.mark.parametrize("stop", [1, 3])
def test_training_that_was_cut_off_ends_alike(
    stop: int, pictures: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cifar, "CHECKPOINT_EVERY", 1)
    whole = trained(RECIPES, pictures, tmp_path / "one")
    inner, done = cifar._train_epoch, []

    def cut_off(*args: Any) -> None:
        if args[3] == stop:
            raise KeyboardInterrupt
        done.append(args[3])
        inner(*args)

    monkeypatch.setattr(cifar, "_train_epoch", cut_off)
    with pytest.raises(KeyboardInterrupt):
        trained(RECIPES, pictures, tmp_path / "two")
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["3.pt", "4.pt"]
    monkeypatch.setattr(cifar, "_train_epoch", lambda *args: (done.append(args[3]), inner(*args)))
    torch.rand(7)  # whatever else happens
    continued = trained(RECIPES, pictures, tmp_path / "two")
    assert done == [0, 1, 2, 3]  # nothing twice
    for first, two in zip(whole, continued, strict=True):
        assert not two.training
        assert_identical(first, two)


def test_networks_are_the_same_alone_and_together(pictures: Any, tmp_path: Path):
    together = trained(RECIPES, pictures, tmp_path / "both")
    for recipe, expected in zip(RECIPES, together, strict=True):
        assert_identical(expected, trained([recipe], pictures, tmp_path / "one")[0])
    other = trained([Recipe(seed=5, dropout=0.0, epochs=4, width=2)], pictures, tmp_path / "x.pt")
    assert not torch.equal(other[0].head.weight, together[0].head.weight)
    save_checkpoint(tmp_path / "networks" / "stored.pt", together[1].state_dict())
    assert_identical(together[1], restored(RECIPES[1], tmp_path / "networks" / "stored.pt", CPU))
    assert restored(RECIPES[1], tmp_path / "networks" / "other.pt", CPU) is None
    stored = bytearray((tmp_path / "networks" / "stored.pt").read_bytes())
    stored[len(stored) // 2] ^= 1  # torch itself does not notice
    (tmp_path / "networks" / "damaged.pt").write_bytes(stored)
    assert restored(RECIPES[1], tmp_path / "networks" / "damaged.pt", CPU) is None


def test_crops_and_mirrors(pictures: Any):
    images = pictures[0][:8]
    rows, columns = torch.tensor([[0, 8, 4, 4, 3, 0, 8, 5], [0, 8, 4, 0, 7, 8, 1, 4]])
    flipped = torch.tensor([False, False, False, True, True, True, False, True])
    changed = cifar.cropped(images, rows, columns, flipped)
    for i in range(8):
        for r in range(32):
            for c in range(32):
                column = 31 - c if flipped[i] else c
                y, x = r + int(rows[i]) - 4, column + int(columns[i]) - 4
                inside = 0 <= y < 32 and 0 <= x < 32
                expected = images[i, :, y, x].tolist() if inside else [0, 0, 0]
                assert changed[i, :, r, c].tolist() == expected
    assert torch.equal(changed[2], images[2])


def test_normalized_by_hand(pictures: Any):
    images = pictures[0]
    changed = normalized(images).numpy()
    means, deviations = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    for channel in range(3):
        values = images.numpy()[:, channel].astype(np.float64) / 255
        expected = (values - means[channel]) / deviations[channel]
        np.testing.assert_allclose(changed[:, channel], expected, rtol=1e-5, atol=1e-6)


# -- images ----------------------------------------------------------------------------------------


def rows_of(x: Any) -> Rows:
    return Rows(x, None, None, "made", "test", False, "", "", 0)


def test_squares_of_arrays():
    images = np.random.default_rng(0).integers(0, 256, (600, 3, 32, 32), np.uint8)
    chosen = drawn_rows(rows_of(images), 550, 1)
    assert len(set(chosen.tolist())) == 550
    assert not np.array_equal(chosen, drawn_rows(rows_of(images), 550, 2))
    batches = list(square_batches(rows_of(images), chosen, 32))
    assert max(map(len, batches)) < 550
    np.testing.assert_array_equal(torch.cat(batches).numpy(), images[chosen])
    (small,) = square_batches(rows_of(images[:, :, :16]), np.array([1, 0]), 16)
    assert small.shape == (2, 3, 16, 16)
    np.testing.assert_array_equal(small.numpy(), images[[1, 0], :, :16, 8:24])


def test_squares_of_files(tmp_path: Path):
    shapes = [(40, 50), (64, 33), (32, 32), (20, 31), (33, 32), (97, 32), (5, 90), (32, 320)]
    drawn = np.random.default_rng(0)
    paths = []
    for i, shape in enumerate(shapes):  # smooth, as ways to resize differ at edges
        coarse = Image.fromarray(drawn.integers(0, 256, (4, 4, 3), np.uint8))
        paths.append(tmp_path / f"{i}.png")
        coarse.resize(shape[::-1], Image.Resampling.BICUBIC).save(paths[-1])
    rows = rows_of(ImageFiles(paths))
    order = np.array([3, 0, 1, 2, 4, 7, 6, 5])
    (batch,) = square_batches(rows, order, 32)
    assert batch.shape == (8, 3, 32, 32)
    assert batch.dtype == torch.uint8
    for i, square in zip(order, batch, strict=True):
        height, width = shapes[i]
        scale = 32 / min(height, width)
        size = (int(width * scale + 1e-9), int(height * scale + 1e-9))
        with Image.open(paths[i]) as image:
            resized = np.asarray(image.resize(size, Image.Resampling.BILINEAR)).astype(int)
        top, left = round((size[1] - 32) / 2), round((size[0] - 32) / 2)
        expected = resized[top : top + 32, left : left + 32].transpose(2, 0, 1)
        assert np.abs(square.numpy().astype(int) - expected).max() <= 2
