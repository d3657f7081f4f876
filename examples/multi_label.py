"""Several labels per row: which rows to give to a person, and which labels are in doubt.

    python examples/multi_label.py

Each picture shows two of scikit-learn's handwritten digits, one drawn over the other, and has ten
labels: is this digit in it? A forest is fitted on all labels at once.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import scorewise as sw

N_PICTURES, N_FIT, N_CERTIFY = 4_000, 2_000, 1_000
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def main() -> None:
    """Decompose labels and rows, certify a threshold for rows, and find the labels in doubt."""
    X, y = pictures()
    forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0, n_jobs=2)
    forest.fit(X[:N_FIT], y[:N_FIT])
    members = sw.predict_samples(forest, X[N_FIT:])
    y = y[N_FIT:]
    print(members, end="\n\n")

    labels = sw.decompose(members, "zero-one")  # of arrays (rows, labels)
    rows = sw.aggregate(labels, axis=-1)  # of arrays (rows,)
    losses = sw.aggregate(sw.task_losses(members, y, "zero-one"), axis=-1)
    print(f"Hamming loss: {losses.mean():.3f}; expected, the mean total: {rows.total.mean():.3f}")
    print("Accepting the most certain rows first:", sw.rejection_curve(losses, rows.total))
    certificate = sw.certify_threshold(
        losses[:N_CERTIFY], rows.total[:N_CERTIFY], max_loss=0.07, loss_bound=1
    )
    accepted = certificate.accepts(rows.total[N_CERTIFY:])
    print(f"Certified for at most 0.07: of the others {accepted.mean():.0%} are accepted, with a")
    print(f"Hamming loss of {losses[N_CERTIFY:][accepted].mean():.3f}.", end="\n\n")

    print("Each digit is a problem of its own, with its error and its mean epistemic uncertainty:")
    for (digit, samples), truth in zip(sw.by_label(members, DIGITS).items(), y.T, strict=True):
        error = sw.task_losses(samples, truth, "zero-one").mean()
        epistemic = sw.decompose(samples, "log").epistemic.mean()
        print(f"  {digit:5}  {error:.3f}  {epistemic:.3f}")


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """Return pictures (n, 64) of two digits, and whether each digit is in them (n, 10)."""
    images, digits = load_digits(return_X_y=True)
    pairs = np.random.default_rng(0).integers(len(images), size=(N_PICTURES, 2))
    y = np.zeros((N_PICTURES, 10), dtype=int)
    np.put_along_axis(y, digits[pairs], 1, axis=1)
    return images[pairs].max(axis=1), y


if __name__ == "__main__":
    main()
