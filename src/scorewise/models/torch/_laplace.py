"""Laplace approximations of laplace-torch: fitted in one call, and sampled from."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.data import DataLoader, Dataset, TensorDataset

from scorewise.errors import InvalidInput
from scorewise.models._samplers import SamplingOptions
from scorewise.models.torch._networks import (
    OutputReader,
    call_module,
    check_rows,
    choose_device,
    errors_named,
    evaluation_mode,
    preserved_randomness,
)
from scorewise.models.torch._row_batches import (
    Batch,
    as_batch,
    check_labels,
    count_rows,
    few_rows,
    in_host_memory,
    inputs_and_labels,
    length,
    move,
    stream,
)

with warnings.catch_warnings():  # its dependencies use deprecated parts of torch
    warnings.simplefilter("ignore")
    from laplace import Laplace
    from laplace.baselaplace import BaseLaplace, ParametricLaplace
    from laplace.lllaplace import LLLaplace

Logits = Callable[[Batch], Tensor]

_BATCH = 256  # rows at a time when fitting on arrays


def fit_laplace(
    model: nn.Module,
    X: Any,
    y: Any = None,
    *,
    subset_of_weights: str = "last_layer",
    hessian_structure: str = "kron",
    prior_precision: float | str = 1.0,
    device: Any = None,
    progress: bool | None = None,
    **options: Any,
) -> Any:
    """Return a Laplace approximation of a trained network: a Gaussian over its last weights.

    Use it to measure the uncertainty of a network that was trained once and has no dropout. The
    defaults are the paper's: last layer, Kronecker-factored curvature.

    Parameters
    ----------
    model : torch.nn.Module
        A trained network that returns logits. It is copied.
    X : DataLoader, or array or tensor (n, ...)
        The training data. A loader yields pairs of rows and class indices, or mappings with
        ``labels`` (Hugging Face).
    y : array (n,), optional
        Class indices of the rows of an array.
    subset_of_weights, hessian_structure : str
        As for ``laplace.Laplace``.
    prior_precision : float or "marglik"
        Precision of the Gaussian prior, which corresponds to the weight decay; ``"marglik"``
        maximises the marginal likelihood.
    device : str or torch.device, optional
        By default CUDA where it is available; samples are drawn there too.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.
    **options
        Passed to ``laplace.Laplace``.

    Returns
    -------
    laplace.BaseLaplace
        For :func:`scorewise.predict_samples`, and for laplace-torch itself.

    Raises
    ------
    InvalidInput
        If model, data or options do not fit.

    Examples
    --------
    >>> import scorewise as sw, torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    >>> X, y = torch.randn(60, 4), torch.arange(60) % 3
    >>> la = sw.fit_laplace(net, X, y)
    >>> sw.predict_samples(la, X[:5], random_state=0)
    Samples(20 members, 3 classes, batch (5,), float32)
    """
    if not isinstance(model, nn.Module) or not any(True for _ in model.parameters()):
        raise InvalidInput(
            f"fit_laplace takes a trained torch module, not {type(model).__name__}; for a "
            "LogisticRegression use scorewise.LaplaceClassifier"
        )
    tune = prior_precision == "marglik"
    if not tune and (isinstance(prior_precision, str) or not 0 < prior_precision < float("inf")):
        raise InvalidInput(f"prior_precision={prior_precision!r} must be positive, or 'marglik'")
    device = choose_device(device, [p.device for p in model.parameters()][:1])
    network: nn.Module = copy.deepcopy(model).to(device).eval()
    loader = _loader(X, y, next(network.parameters()).dtype)
    bar = sys.stderr.isatty() if progress is None else progress
    with preserved_randomness(device), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*link_approx.*")  # we do not set it
        inputs, n_classes = _first_rows(network, loader, device)
        try:
            approximation = Laplace(
                _TakesMapping(network) if isinstance(inputs, Mapping) else network,
                "classification",
                subset_of_weights=subset_of_weights,
                hessian_structure=hessian_structure,
                prior_precision=1.0 if tune else prior_precision,
                **options,
            )
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"laplace-torch rejects these options: {error}") from error
        approximation.fit(_CheckedLoader(loader, n_classes), progress_bar=bar)
        if tune:
            approximation.optimize_prior_precision(method="marglik")
    return approximation


def _loader(X: Any, y: Any, dtype: torch.dtype) -> DataLoader[Any]:
    if isinstance(X, DataLoader):
        return X
    if isinstance(X, Dataset):
        return DataLoader(X, batch_size=_BATCH)
    if y is None or isinstance(X, Mapping):
        raise InvalidInput("pass arrays X and y, or a DataLoader of rows and labels")
    rows, y = as_batch(X), np.asarray(y)
    if y.dtype.kind not in "iu" or y.shape != (length(rows),):
        raise InvalidInput(f"y must be class indices, one for each of the {length(rows)} rows of X")
    rows = rows.to(dtype) if rows.is_floating_point() else rows
    labels = torch.from_numpy(y.astype(np.int64))
    return DataLoader(TensorDataset(rows, labels), batch_size=_BATCH)


def _first_rows(
    network: nn.Module, loader: DataLoader[Any], device: torch.device
) -> tuple[Batch, int]:
    """The first rows, and the number of classes that the network returns."""
    inputs, _ = inputs_and_labels(next(iter(loader), [torch.empty(0)]))
    if not length(inputs):
        raise InvalidInput("there are no rows to fit on")
    name = type(network).__name__
    with torch.no_grad():
        logits = call_module(network, few_rows(inputs), device, name)
    check_rows(logits, len(logits), name)
    if logits.shape[-1] < 2:
        raise InvalidInput(f"{name} returns one number per row; Laplace needs one for each class")
    return inputs, int(logits.shape[-1])


class _CheckedLoader:
    """A loader whose labels are checked: on a GPU, a wrong label would stop the process."""

    def __init__(self, loader: DataLoader[Any], n_classes: int) -> None:
        self._loader = loader
        self._n_classes = n_classes
        self.dataset = loader.dataset
        self.batch_size = loader.batch_size

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loader:
            check_labels(inputs_and_labels(batch)[1], self._n_classes)
            yield batch


class _TakesMapping(nn.Module):
    """A Hugging Face module in the form of laplace-torch, from a mapping to logits."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the logits of a batch, which may also hold labels."""
        inputs, _ = inputs_and_labels(batch)
        device = next(self.module.parameters()).device
        return call_module(self.module, inputs, device, type(self.module).__name__)


class LaplaceSampler:
    """Draws from a fitted Laplace approximation: each is one function for all rows."""

    weights: np.ndarray | None = None

    def __init__(self, laplace: BaseLaplace, options: SamplingOptions) -> None:
        if laplace.likelihood != "classification":
            raise InvalidInput(
                f"the Laplace approximation is for {laplace.likelihood}, not classification"
            )
        if not (laplace.n_data or getattr(laplace, "_fitted", False)):
            raise InvalidInput("the Laplace approximation is not fitted; call its fit first")
        self.n_members = options.n_draws
        self._laplace = laplace
        self._seed = options.seed
        self._device = laplace._device
        self._name = f"{type(laplace).__name__} of {type(laplace.model).__name__}"
        names = [f"{self._name}, draw {m}" for m in range(self.n_members)]
        self._reader = OutputReader(names, "logits")
        device = options.device
        if device is not None and choose_device(device) != self._device:
            raise InvalidInput(
                f"the Laplace approximation is on {self._device}; fit it on {device}"
            )

    def n_rows(self, X: Any) -> int | None:
        """Return the number of rows of X, or None if it is not known."""
        return count_rows(X)

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """Yield all draws' probabilities ``(n, M, K)`` of consecutive rows."""
        return in_host_memory(self.tensors(X, batch_size))

    def tensors(self, X: Any, batch_size: int | None) -> Generator[Tensor]:
        """Yield the chunks where they are computed."""
        random = torch.Generator(self._device).manual_seed(self._seed % 2**63)
        with evaluation_mode([self._laplace.model], self._device):
            logits = self._functions(random)

            def draw(batch: Batch, first_row: int) -> Tensor:
                batch = move(batch, self._device, [self._laplace._dtype])
                with errors_named(self._name, batch):
                    values = logits(batch)
                return self._reader.samples(values.flatten(0, 1), first_row)

            yield from stream(X, draw, self._laplace.model, self._device, batch_size)

    def _functions(self, random: torch.Generator) -> Logits:
        """The function from rows to all draws' logits ``(M, n, K)``."""
        if not isinstance(self._laplace, ParametricLaplace):
            return self._of_moments(random)
        with torch.no_grad():
            drawn = self._laplace.sample(self.n_members, random)
        if isinstance(self._laplace, LLLaplace):
            return self._of_last_layer(drawn)
        return self._of_network(drawn, self._laplace.params)

    def _of_last_layer(self, drawn: Tensor) -> Logits:
        """Return logits by the last layer; features are computed once if it is really the last."""
        network, last = self._laplace.model, self._laplace.model.last_layer
        heads = [_named(vector, dict(last.named_parameters())) for vector in drawn]
        whole = self._of_network(drawn, list(last.parameters()))

        def logits(batch: Batch) -> Tensor:
            plain, features = network.forward_with_features(batch)
            if not torch.allclose(plain, last(features), rtol=1e-4, atol=1e-5):
                return whole(batch)
            return torch.stack([functional_call(last, head, (features,)) for head in heads])

        return logits

    def _of_network(self, drawn: Tensor, parameters: Sequence[Tensor]) -> Logits:
        network = self._laplace.model
        names = {parameter: name for name, parameter in network.named_parameters()}
        shaped_like = {names[parameter]: parameter for parameter in parameters}
        weights = [_named(vector, shaped_like) for vector in drawn]

        def logits(batch: Batch) -> Tensor:
            return torch.stack([functional_call(network, draw, (batch,)) for draw in weights])

        return logits

    def _of_moments(self, random: torch.Generator) -> Logits:
        """Return logits of function-space approximations, without weights; noise is drawn once."""
        moments = getattr(
            self._laplace, "predictive_moments", self._laplace._glm_predictive_distribution
        )
        noise: Tensor | None = None

        def logits(batch: Batch) -> Tensor:
            nonlocal noise
            with torch.inference_mode(mode=False):  # the moments need gradients
                mean, covariance = moments(batch.clone() if isinstance(batch, Tensor) else batch)
            values, vectors = torch.linalg.eigh(covariance)
            root = vectors * values.clamp(min=0).sqrt()[..., None, :] @ vectors.mT
            if noise is None:
                shape = (self.n_members, mean.shape[-1])
                noise = torch.randn(shape, generator=random, device=mean.device, dtype=mean.dtype)
            return mean + torch.einsum("nkl,ml->mnk", root, noise)

        return logits


def _named(vector: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a vector of weights, split into named parameters."""
    parts = vector.split([parameter.numel() for parameter in like.values()])
    return {
        name: part.view_as(parameter)
        for (name, parameter), part in zip(like.items(), parts, strict=True)
    }
