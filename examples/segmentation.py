"""Segmentation: the uncertainty of every pixel
============================================

Handwritten zeros and ones lie on a noisy background. A small convolutional network with dropout
says which pixels are of a zero, of a one, or of the background. Which pixels, and which images,
should a person look at? Real networks and images are larger; they are segmented in the same way.
"""

import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap
from sklearn.datasets import load_digits
from torch import nn

import scorewise as sw

SIDE, IGNORE = 64, 255
inks, digits = load_digits(n_class=2, return_X_y=True)


def scene(rng, n_digits):
    """Return an image (1, H, W), and the class of each pixel; the edges of digits do not count."""
    image = rng.normal(scale=2, size=(SIDE, SIDE))
    y = np.zeros((SIDE, SIDE), dtype=np.uint8)
    for i in rng.integers(len(inks), size=n_digits):
        place = tuple(slice(corner, corner + 8) for corner in rng.integers(SIDE - 8, size=2))
        ink = inks[i].reshape(8, 8)
        image[place] += ink
        y[place] = np.select([ink > 8, ink > 0], [1 + digits[i], IGNORE], y[place])
    return image[None].astype(np.float32) / 8, y


# %%
# The network sees 7 pixels to each side. Its last layer but one is dropout, from which its members
# come: each draw is one network, for all pixels of all images.

torch.manual_seed(0)
torch.set_num_threads(1)  # more threads wait for each other in a network as small as this
rng = np.random.default_rng(0)
training = [scene(rng, 15) for _ in range(16)]
images, truth = (torch.from_numpy(np.stack(part)) for part in zip(*training, strict=True))
layers = []
for n_in, dilation in ((1, 1), (16, 2), (16, 4)):
    layers += [nn.Conv2d(n_in, 16, 3, padding=dilation, dilation=dilation), nn.ReLU()]
network = nn.Sequential(*layers, nn.Dropout2d(0.2), nn.Conv2d(16, 3, 1))
optimizer = torch.optim.Adam(network.parameters(), 1e-2)
for _ in range(100):
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(images), truth.long(), ignore_index=IGNORE).backward()
    optimizer.step()

# %%
# ``sw.segment`` predicts and decomposes tile by tile, so that large images need little memory. The
# halo is what the network sees around a tile.

new = [scene(rng, n_digits) for n_digits in range(20)]
results = [
    sw.segment(network, image, "zero-one", 10, 0, y=y, ignore_label=IGNORE, tile=32, halo=8)
    for image, y in new
]
print(results[-1])

# %%
# Total uncertainty under the zero-one loss is the probability that a pixel is wrong. It is large
# where digits touch, and at the ends of strokes, where a zero looks like a one.

image, y = new[11]
pixels = results[11]
classes = ListedColormap(["#eeeeee", sw.plots.style.BLUE, sw.plots.style.VERMILION])
figure, axes = plt.subplots(2, 2, figsize=(6.4, 6), layout="constrained")
axes = axes.ravel()
axes[0].imshow(image[0], cmap="gray")
axes[1].imshow(pixels.prediction, cmap=classes)
shown = axes[2].imshow(pixels.uncertainty.total, cmap="magma", vmin=0, vmax=0.67)
axes[3].imshow(np.where(y == IGNORE, 0, pixels.losses), cmap="gray_r")
titles = ["image", "predicted zeros (blue) and ones (red)", "expected error", "wrong pixels"]
for ax, title in zip(axes, titles, strict=True):
    ax.set_title(title)
    ax.axis("off")
figure.colorbar(shown, ax=axes[2], shrink=0.8)

# %%
# Both pixels and images can be left to a person. Edges of digits have no class here, so they do not
# count. The uncertainty of an image is the mean over its pixels: the error to expect in it.

counts = [y != IGNORE for _, y in new]
pixel_curve = sw.rejection_curve(
    np.concatenate([r.losses[c] for r, c in zip(results, counts, strict=True)]),
    np.concatenate([r.uncertainty.total[c] for r, c in zip(results, counts, strict=True)]),
)
print(f"Error of all pixels: {pixel_curve.loss[-1]:.1%}, ", end="")
print(f"of the most certain 80 % of them: {pixel_curve.loss_at(0.8):.2%}")
errors = [sw.aggregate(r.losses, (0, 1), where=c) for r, c in zip(results, counts, strict=True)]
expected = [sw.aggregate(r.uncertainty.total, (0, 1)) for r in results]
print("Images to look at first:", np.argsort(expected)[::-1][:3].tolist())

figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
ax.plot(expected, errors, "o", color=sw.plots.style.BLUE)
for n_digits in (0, 5, 10, 15, 19):
    ax.annotate(f" {n_digits} digits", (expected[n_digits], errors[n_digits]), va="top")
ax.set(xlabel="expected error of an image", ylabel="error of the image")
ax.set_title("Images with more expected errors have more errors")
sw.plots.style.percent_axis(ax.xaxis)
sw.plots.style.percent_axis(ax.yaxis)
sw.plots.style.despine(ax)
