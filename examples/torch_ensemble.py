"""A deep ensemble in PyTorch
==========================

Five small networks learn the same handwritten digits, each from other initial weights. Where they
disagree, none of them should be trusted alone: on digits that are hard to read, and on images that
are no digits at all. ``sw.DeepEnsemble`` trains them; a list of networks of your own is an
ensemble, too.
"""

import numpy as np
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits, load_sample_image
from sklearn.model_selection import train_test_split
from torch import nn

import scorewise as sw

torch.set_num_threads(1)  # more threads wait for each other in networks as small as these
images, digits = load_digits(return_X_y=True)
images = images.reshape(-1, 1, 8, 8).astype(np.float32) / 16
X, X_new, y, y_new = train_test_split(images, digits, test_size=0.5, random_state=0)


def make_network():
    """Return an untrained network, which returns logits."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


ensemble = sw.DeepEnsemble(make_network, 5, epochs=15, batch_size=32, lr=5e-3, random_state=0)
samples = ensemble.fit(X, y).predict_samples(X_new)
print(samples)

# %%
# Total uncertainty under the zero-one loss is the error to expect in a digit. Its epistemic part is
# what is lost because the members disagree; a single network has none.

uncertainty = sw.decompose(samples, "zero-one")
wrong = sw.task_losses(samples, y_new, "zero-one")
print(f"Error {wrong.mean():.1%}, expected {uncertainty.total.mean():.1%}")
display = sw.plots.DecompositionDisplay(uncertainty, sw.rules.zero_one.unit).plot()
display.ax_.set_title("Most digits are certain, and members disagree about a few")

# %%
# **Leave digits to a person**, the most uncertain first.

curve = sw.rejection_curve(wrong, uncertainty.total)
display = sw.plots.RejectionCurveDisplay({"total zero-one": curve}, sw.rules.zero_one.unit).plot()
accepted_error = curve.loss_at(0.9)
display.ax_.set_title(f"Without the most uncertain 10 % the error is {accepted_error:.1%}")
sw.plots.style.percent_axis(display.ax_.yaxis)

# %%
# **Notice what is no digit.** These images are cut from a photograph of a temple. The networks give
# each the label of a digit, but not the same one.

photo = 255 - load_sample_image("china.jpg").mean(axis=-1)[::4, ::4]
corners = np.random.default_rng(0).integers(0, np.array(photo.shape) - 8, size=(300, 2))
pieces = np.stack([photo[i : i + 8, j : j + 8] for i, j in corners])
pieces -= pieces.min(axis=(1, 2), keepdims=True)
pieces /= pieces.max(axis=(1, 2), keepdims=True)
outside = ensemble.predict_samples(pieces[:, None].astype(np.float32))
epistemic, epistemic_outside = (sw.decompose(q, "log").epistemic for q in (samples, outside))
display = sw.plots.OODDisplay.from_scores(
    epistemic, epistemic_outside, score_name="epistemic uncertainty (log)"
).plot()
auroc = display.metrics.auroc
display.figure_.suptitle(f"Pieces of a photograph are detected with AUROC {auroc:.2f}")

# %%
# Digits and pieces of the photograph about which the members disagree most, with their five labels:

figure, axes = plt.subplots(2, 6, figsize=(6.4, 3), layout="constrained")
for row, (shown, q, u) in zip(
    axes, [(X_new[:, 0], samples, epistemic), (pieces, outside, epistemic_outside)], strict=True
):
    for ax, i in zip(row, np.argsort(u)[::-1], strict=False):
        ax.imshow(shown[i], cmap="gray_r")
        ax.axis("off")
        labels = " ".join(map(str, q.probs[i].argmax(axis=-1)))
        ax.text(0.5, -0.02, labels, transform=ax.transAxes, ha="center", va="top")
figure.suptitle("The labels that five networks give")

# sphinx_gallery_thumbnail_number = 4
