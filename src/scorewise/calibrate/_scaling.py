"""Temperature, vector and matrix scaling: linear maps of log probabilities, fitted by likelihood.

All three are p̂ = softmax(W z + b), with z the log probabilities less their mean over the classes:
with W = a·I and b = 0, with a diagonal W, or with any W. Each is fitted by maximum a posteriori:
the deviation of W from that of the temperature, and b, have a normal prior of mean 0. Its standard
deviation is 1, and 1/K for entries off the diagonal, of which each class has K − 1. The prior
hardly matters where a class has many rows; it keeps the parameters of rare classes finite, and a
matrix of many classes from fitting noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from scorewise._inputs import apply_floor

Method = Literal["none", "temperature", "vector", "matrix"]
METHODS: tuple[Method, ...] = ("none", "temperature", "vector", "matrix")  # simplest first

_LOWEST, _HIGHEST = 0.01, 100.0  # factors that a temperature may have
_RIDGE = 1e-3  # of the variances that features are divided by, besides 1/n from the prior
_TOLERANCE = 1e-10  # of the mean loss, relative, at which the search stops
_MOST_STEPS = 500
_SMALLEST = 1e-100  # probability of p̂, so that quotients of probabilities stay finite


@dataclass(frozen=True, eq=False)
class Scaling:
    """A map p̂ = softmax(W z + b) of probabilities, with z = log p less its mean over the classes.

    Attributes
    ----------
    method : "none", "temperature", "vector" or "matrix"
    weights : array (), (K,) or (K, K)
        W: a factor for all classes, its diagonal, or the matrix.
    bias : array (K,)
        b.
    floor : float
        The smallest probability before the logarithm, by p → (1 − K·floor)·p + floor.
    """

    method: Method
    weights: np.ndarray
    bias: np.ndarray
    floor: float

    def __call__(self, probs: np.ndarray) -> np.ndarray:
        """Return p̂ (n, K) for probabilities (n, K)."""
        if self.method == "none":
            return probs
        log_probs = log_features(probs, self.floor)
        linear = self.weights @ log_probs if self.weights.ndim == 2 else log_probs
        if self.weights.ndim < 2:
            linear *= self.weights[..., None]
        linear += self.bias[:, None]
        _softmax_in_place(linear)
        return np.ascontiguousarray(np.maximum(linear, _SMALLEST).T)


def log_features(probs: np.ndarray, floor: float) -> np.ndarray:
    """Return log probabilities (K, n) of mean 0 for each row; those of classes are contiguous."""
    log_probs = np.log(apply_floor(probs, floor)).T
    return np.ascontiguousarray(log_probs - log_probs.mean(axis=0))


def fit_scaling(log_probs: np.ndarray, labels: np.ndarray, method: Method, floor: float) -> Scaling:
    """Return the map of this method with the smallest penalized log loss.

    ``log_probs`` (K, n) are those of :func:`log_features`.
    """
    n_classes = len(log_probs)
    if method == "none":
        return Scaling(method, np.ones(()), np.zeros(n_classes), floor)
    factor = _fit_temperature(log_probs, labels)
    if method == "temperature":
        return Scaling(method, np.asarray(factor), np.zeros(n_classes), floor)
    weights, bias = _fit_weights(log_probs, labels, factor, is_matrix=method == "matrix")
    return Scaling(method, weights, bias, floor)


def _fit_temperature(log_probs: np.ndarray, labels: np.ndarray) -> float:
    """Return the factor of log probabilities with the smallest penalized log loss."""
    from scipy.optimize import minimize_scalar

    of_labels = float(np.take_along_axis(log_probs, labels[None], axis=0).sum())

    def penalized_loss(log_factor: float) -> float:
        factor = np.exp(log_factor)
        linear = factor * log_probs
        loss = _softmax_in_place(linear).sum() - factor * of_labels
        return float(loss + log_factor**2 / 2)

    minimum = minimize_scalar(
        penalized_loss,
        bounds=(np.log(_LOWEST), np.log(_HIGHEST)),
        method="bounded",
        options={"xatol": 1e-4},
    )
    return float(np.exp(minimum.x))


def _fit_weights(
    log_probs: np.ndarray, labels: np.ndarray, factor: float, *, is_matrix: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return W, (K, K) or its diagonal (K,), and b, with the smallest penalized log loss.

    The search is over V and c with W z + b = V u + c, for features u of mean 0 and variance 1
    that a matrix also decorrelates, where it takes few steps.
    """
    from scipy.optimize import minimize

    n_classes, n = log_probs.shape
    mean = log_probs.mean(axis=1)
    features = log_probs - mean[:, None]
    if is_matrix:
        covariance = features @ features.T / n
        ridge = _RIDGE * np.trace(covariance) / n_classes + 1 / n
        variances, directions = np.linalg.eigh(covariance + ridge * np.eye(n_classes))
        to_features = (directions / np.sqrt(variances)).T  # u = to_features @ (z − mean)
        features = to_features @ features
        start, prior = factor * np.linalg.inv(to_features), factor * np.eye(n_classes)
        precision = np.where(np.eye(n_classes, dtype=bool), 1.0, n_classes**2)
    else:
        variances = np.mean(features**2, axis=1)
        variances += _RIDGE * variances.mean() + 1 / n
        to_features = 1 / np.sqrt(variances)
        features *= to_features[:, None]
        start, prior = factor / to_features, np.full(n_classes, factor)
        precision = np.ones(n_classes)

    counts = np.bincount(labels, minlength=n_classes).astype(float)
    # the sums of features over the rows of each class, the gradient of the labels' part
    is_label = np.zeros((n, n_classes))
    is_label[np.arange(n), labels] = 1
    of_labels = (features @ is_label).T if is_matrix else np.diagonal(features @ is_label)
    del is_label

    def weights_and_bias(parameters: np.ndarray) -> tuple[np.ndarray, ...]:
        v, c = parameters[:-n_classes].reshape(start.shape), parameters[-n_classes:]
        weights = v @ to_features if is_matrix else v * to_features
        bias = c - (weights @ mean if is_matrix else weights * mean)
        return v, c, weights, bias

    def penalized_loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        v, c, weights, bias = weights_and_bias(parameters)
        linear = v @ features if is_matrix else v[:, None] * features
        linear += c[:, None]
        loss = _softmax_in_place(linear).sum() - np.sum(v * of_labels) - c @ counts
        away = weights - prior
        loss += (np.sum(precision * away**2) + bias @ bias) / 2
        if is_matrix:
            by_weights = precision * away - np.outer(bias, mean)
            gradient = linear @ features.T - of_labels + by_weights @ to_features.T
        else:
            by_weights = precision * away - bias * mean
            gradient = np.sum(linear * features, axis=1) - of_labels + by_weights * to_features
        by_c = linear.sum(axis=1) - counts + bias
        return loss / n, np.concatenate([gradient.ravel(), by_c]) / n

    start_bias = factor * mean  # so that b is 0
    minimum = minimize(
        penalized_loss,
        np.concatenate([start.ravel(), start_bias]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _MOST_STEPS, "ftol": _TOLERANCE, "gtol": 1e-8},
    )
    _, _, weights, bias = weights_and_bias(minimum.x)
    return weights, bias


def _softmax_in_place(linear: np.ndarray) -> np.ndarray:
    """Turn logits (K, n) into probabilities, and return the logs of their sums of exponentials."""
    largest = linear.max(axis=0)
    linear -= largest
    np.exp(linear, out=linear)
    sums = linear.sum(axis=0)
    linear /= sums
    return np.asarray(np.log(sums) + largest)
