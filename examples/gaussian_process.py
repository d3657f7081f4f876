"""A Gaussian process
==================

Where has the model seen nothing? A Gaussian process knows: far from its rows its latent function
may have any value. Here it learns to tell two species of iris by two measurements, and the map of
its epistemic uncertainty shows where flowers are missing.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_iris
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF

import scorewise as sw

X, y = load_iris(return_X_y=True)
X, y = X[y > 0][:, [2, 3]], y[y > 0]  # length and width of the petals of two species
process = GaussianProcessClassifier(2.0 * RBF([1.0, 0.5]), random_state=0).fit(X, y)
print(sw.explain_model(process))

# %%
# A member is a quantile of the latent function. So each flower has its exact posterior, and
# ``sw.decompose`` serves as for any ensemble.

grid = np.stack(np.meshgrid(np.linspace(0, 10, 80), np.linspace(-0.5, 4, 60)), axis=-1)
samples = sw.predict_samples(process, grid.reshape(-1, 2))
parts = sw.decompose(samples, "log")
flowers = sw.decompose(sw.predict_samples(process, X), "log")
figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained", sharey=True)
for ax, name in zip(axes, ("aleatoric", "epistemic"), strict=True):
    image = ax.contourf(*np.moveaxis(grid, -1, 0), getattr(parts, name).reshape(grid.shape[:2]))
    for species, marker in ((1, "o"), (2, "^")):
        ax.plot(*X[y == species].T, marker, color="white", markeredgecolor="black", markersize=4)
    ax.set(title=f"{name} (log)", xlabel="length of the petal (cm)")
    figure.colorbar(image, ax=ax)
    print(f"{name}: {getattr(flowers, name).mean():.3f} on average over the flowers, ", end="")
    print(f"{getattr(parts, name).max():.3f} at most on the map")
axes[0].set_ylabel("width of the petal (cm)")

# %%
# Between the species flowers are ambiguous, and no further flower would change that: this is
# aleatoric. Outside, nothing is known: this is epistemic.
#
# Rows are not drawn jointly, so these members serve for what is computed row by row. For
# ``sw.acquire_for`` and joint batches fit ``sw.BootstrapEnsemble(process)``.

print(sw.models.has_joint_rows(process))
