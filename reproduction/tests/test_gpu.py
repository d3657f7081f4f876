"""Networks trained on CUDA: as graphs, stacked or side by side, they learn what the CPU does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

# A Python with a GPU may lack packages that the experiments need: make test-gpu installs nothing.
cifar = pytest.importorskip("scorewise_paper.cifar", exc_type=ImportError)
from scorewise_paper.cifar import Recipe, train  # noqa: E402
from scorewise_paper.learning import Stack  # noqa: E402
from scorewise_paper.networks import mlp  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture
def cuda() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device("cuda", 0)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_stack_begins_anew_and_learns(optimizer: str, cuda: torch.device):
    draws = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 4
    pictures = torch.rand(4, 1, 8, 8, generator=draws)
    x = pictures[y] + 0.1 * torch.rand(200, 1, 8, 8, generator=draws)
    stack = Stack(
        lambda: mlp(64, 4),
        3,
        x.to(cuda),
        y.to(cuda),
        batch=32,
        most_rows=200,
        optimizer=optimizer,
        lr=0.01,
    )
    rows = torch.stack([torch.randperm(200, generator=draws)[:150] for _ in range(3)])
    weights = []
    for _ in range(2):
        stack.begin([1, 2, 3])
        stack.fit(rows, epochs=20, seeds=[4, 5, 6])
        network = stack.network(2)
        assert (network(x.to(cuda)).argmax(1).cpu() == y).float().mean() > 0.9
        weights.append(network.head.weight.clone())
    torch.testing.assert_close(*weights, rtol=1e-2, atol=1e-2)


def test_resnets_learn_side_by_side_and_go_on(
    cuda: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cifar, "CHECKPOINT_EVERY", 1)
    draws = torch.Generator().manual_seed(0)
    y = torch.arange(256) % 2
    noise = torch.randint(0, 128, (256, 3, 32, 32), generator=draws)
    images = (noise + 127 * y.view(-1, 1, 1, 1)).to(torch.uint8)
    recipes = [Recipe(i, 0.5 * i, 6, n_classes=2, width=8, batch=32, lr=0.05) for i in (0, 1)]
    paths = [tmp_path / f"{i}.pt" for i in (0, 1)]
    for epochs in (3, 6):  # the second goes on from the first
        short = [replace(recipe, epochs=epochs) for recipe in recipes]
        train(short, images, y, cuda, paths)
    for network in train(recipes, images, y, cuda, paths):
        logits = network(cifar.normalized(images.to(cuda)))
        assert (logits.argmax(1).cpu() == y).float().mean() > 0.9
