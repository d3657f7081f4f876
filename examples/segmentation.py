"""Segmentation: the uncertainty of every pixel, and the images to look at.

    python examples/segmentation.py

Handwritten digits of scikit-learn lie on a noisy background. A small convolutional network with
dropout learns which pixels are of a small digit (0 to 4), of a large one, or of none. Real networks
and images are larger; they are segmented in the same way.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import scorewise as sw

SIDE, IGNORE = 64, 255
N_FIT, N_NEW = 16, 20


def main() -> None:
    """Train, segment new images tile by tile, and order their pixels and the images."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # more threads wait for each other in a network as small as this
    rng = np.random.default_rng(0)
    network = trained([scene(rng, n_digits=15) for _ in range(N_FIT)])

    pixel_losses, pixel_totals, image_losses, image_totals = [], [], [], []
    for n_digits in range(N_NEW):
        image, y = scene(rng, n_digits)
        counts = y != IGNORE
        pixels = sw.segment(
            network, image, "zero-one", 10, 0, y=y, ignore_label=IGNORE, tile=32, halo=8
        )
        pixel_losses.append(pixels.losses[counts])
        pixel_totals.append(pixels.uncertainty.total[counts])
        image_losses.append(sw.aggregate(pixels.losses, (0, 1), where=counts))
        image_totals.append(sw.aggregate(pixels.uncertainty.total, (0, 1)))
    print(pixels, end="\n\n")

    curve = sw.rejection_curve(np.concatenate(pixel_losses), np.concatenate(pixel_totals))
    print(f"Error of all pixels: {curve.loss[-1]:.3f}")
    print(f"Error of the most certain 80 % of them: {curve.loss_at(0.8):.3f}")
    print("The images, in the order of their mean total:")
    print(f"  {sw.rejection_curve(image_losses, image_totals)}")
    print(f"  to look at first: {np.argsort(image_totals)[::-1][:3].tolist()}")


def scene(rng: np.random.Generator, n_digits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an image (1, H, W), and the class of each pixel; the edges of digits do not count."""
    images, digits = load_digits(return_X_y=True)
    image = np.zeros((SIDE, SIDE), dtype=np.float32)
    y = np.zeros((SIDE, SIDE), dtype=np.uint8)
    for i in rng.integers(len(images), size=n_digits):
        top, left = rng.integers(SIDE - 8, size=2)
        ink = images[i].reshape(8, 8)
        image[top : top + 8, left : left + 8] = ink
        y[top : top + 8, left : left + 8] = np.select(
            [ink > 8, ink > 0], [1 + digits[i] // 5, IGNORE]
        )
    image += 2 * rng.normal(size=image.shape).astype(np.float32)
    return image[None] / 8, y


def trained(scenes: list[tuple[np.ndarray, np.ndarray]]) -> nn.Module:
    """Return a network that sees 7 pixels to each side and has dropout before its last layer."""
    layers = [
        part
        for n_in, dilation in ((1, 1), (16, 2), (16, 4))
        for part in (nn.Conv2d(n_in, 16, 3, padding=dilation, dilation=dilation), nn.ReLU())
    ]
    network = nn.Sequential(*layers, nn.Dropout2d(0.3), nn.Conv2d(16, 3, 1))
    images = torch.from_numpy(np.stack([image for image, _ in scenes]))
    y = torch.from_numpy(np.stack([labels for _, labels in scenes])).long()
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), y, ignore_index=IGNORE).backward()
        optimizer.step()
    return network


if __name__ == "__main__":
    main()
