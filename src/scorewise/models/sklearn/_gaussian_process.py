"""Gaussian processes of scikit-learn: draws of the latent function from its Laplace approximation.

The posterior of the latent function f is Gaussian in every row. Member m is its quantile function
μ(x) + z_m σ(x), with the same standard normal z_m in every row. In this way a row's samples have
exactly the distribution of f there and do not depend on the other rows. A joint draw for all rows
would need their covariance, of N² numbers, and would change with the batch. So nothing may be
computed of several rows together.

The z_m are not random: they are the quantiles (m + ½)/M of the standard normal, in random order,
as means over them converge faster than over random draws. With several classes, each class has
a latent function, and an order of its own (a Latin hypercube).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_expit, ndtri, softmax
from sklearn.utils import _safe_indexing, gen_batches
from sklearn.utils.validation import _num_samples, validate_data

from scorewise._random import generator
from scorewise.errors import InvalidInput
from scorewise.models._samplers import Committee, Member, SamplingOptions
from scorewise.models.sklearn._ensembles import check_fitted

_BLOCK = 1 << 22  # numbers of a kernel matrix between training rows and new rows


def committee_of_process(process: Any, options: SamplingOptions) -> Committee:
    """Return draws of a fitted GaussianProcessClassifier as a committee."""
    check_fitted(process, type(process).__name__)
    is_binary = process.n_classes_ == 2
    if not is_binary and process.multi_class == "one_vs_one":
        raise InvalidInput(
            f"{type(process).__name__} with multi_class='one_vs_one' gives labels, not "
            "probabilities; fit it with multi_class='one_vs_rest'"
        )
    latent = [process.base_estimator_] if is_binary else process.base_estimator_.estimators_
    quantiles = ndtri((np.arange(options.n_draws) + 0.5) / options.n_draws)
    z = generator(options.seed).permuted(np.tile(quantiles, (len(latent), 1)), axis=1)
    draws = (Member(f"draw {m}", partial(_probabilities, z[:, m])) for m in range(options.n_draws))
    return Committee(tuple(draws), process.classes_, partial(_moments, process, latent))


def _probabilities(z: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return the probabilities ``(n, K)`` of one draw; as scikit-learn, of sigmoids per class."""
    mean, deviation = moments
    f = mean + z * deviation
    if f.shape[1] == 1:
        f = np.concatenate([-f, f], axis=1)
    return softmax(log_expit(f), axis=1)  # the sigmoids, divided by their sum


def _moments(process: Any, latent: list[Any], X: Any) -> np.ndarray:
    """Return mean and standard deviation ``(2, n, L)`` of the latent functions."""
    takes_vectors = process.kernel is None or process.kernel.requires_vector_input
    X = validate_data(
        process, X, ensure_2d=takes_vectors, dtype="numeric" if takes_vectors else None, reset=False
    )
    size = max(1, _BLOCK // _num_samples(latent[0].X_train_))
    blocks = [_safe_indexing(X, rows) for rows in gen_batches(_num_samples(X), size)]
    moments = [[_latent_moments(binary, block) for block in blocks] for binary in latent]
    return np.stack([np.concatenate(of_class, axis=1) for of_class in moments], axis=-1)


def _latent_moments(binary: Any, X: Any) -> np.ndarray:
    """Return mean and standard deviation ``(2, n)`` of one latent function.

    Algorithm 3.2 of Rasmussen and Williams, from the documented attributes of a fitted process.
    """
    k = binary.kernel_(binary.X_train_, X)
    mean = k.T @ (binary.y_train_ - binary.pi_)
    v = solve_triangular(binary.L_, binary.W_sr_[:, None] * k, lower=True)
    variance = binary.kernel_.diag(X) - (v * v).sum(axis=0)
    return np.stack([mean, np.sqrt(np.maximum(variance, 0))])  # below 0 by rounding alone
