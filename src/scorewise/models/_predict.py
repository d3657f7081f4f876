"""The door: whatever people have trained becomes a second-order prediction."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import closing
from typing import Any, Protocol, overload

import numpy as np

from scorewise import _validate as validate
from scorewise._progress import bar, counted
from scorewise._random import entropy_of
from scorewise.accumulate import Accumulator
from scorewise.distributions import Dirichlet, Samples
from scorewise.errors import InvalidInput
from scorewise.models._destinations import check_destination, keep
from scorewise.models.torch._choices import choose_members, draw_count


class Sampler(Protocol):
    """A model made ready to answer."""

    weights: np.ndarray | None  # (M,), of its members; None where they count alike

    def n_rows(self, X: Any) -> int | None:
        """How many rows there are, where that is known beforehand."""

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """All members' probabilities ``(n, M, K)`` for the first rows, for the next, and so on.

        ``batch_size`` is how many at a time; None fits them to memory. A chunk may be overwritten
        once the next is asked for.
        """


@overload
def predict_samples(
    model: Any,
    X: Any,
    n_samples: int | None = ...,
    random_state: Any = ...,
    batch_size: int | None = ...,
    device: Any = ...,
    *,
    dropout: Any = ...,
    output: str | None = ...,
    out: Any = ...,
    into: None = ...,
    progress: bool | None = ...,
) -> Samples: ...


@overload
def predict_samples(
    model: Any,
    X: Any,
    n_samples: int | None = ...,
    random_state: Any = ...,
    batch_size: int | None = ...,
    device: Any = ...,
    *,
    dropout: Any = ...,
    output: str | None = ...,
    out: Any = ...,
    into: Accumulator,
    progress: bool | None = ...,
) -> Accumulator: ...


def predict_samples(
    model: Any,
    X: Any,
    n_samples: int | None = None,
    random_state: Any = None,
    batch_size: int | None = None,
    device: Any = None,
    *,
    dropout: Any = "all",
    output: str | None = None,
    out: Any = None,
    into: Accumulator | None = None,
    progress: bool | None = None,
) -> Samples | Accumulator:
    """The predictions of a model's members, or of draws from a stochastic model.

    Use it to turn what you have trained into what :func:`scorewise.decompose` takes. A draw is one
    function applied to all rows (a thinned network, a set of weights), so the same seed gives the
    same samples whatever the batch size.

    Parameters
    ----------
    model : fitted model
        scikit-learn: a random forest, extra trees, bagging, soft voting; a pipeline, a calibration
        or a search around one of them; a :class:`BootstrapEnsemble`; a list of classifiers.
        PyTorch: a module with dropout, a list of modules, a :class:`DeepEnsemble`, a Laplace
        approximation of laplace-torch. The model is left as it was.
    X : rows
        What the model takes: an array, a frame, a tensor, a mapping of tensors (Hugging Face);
        for modules also a DataLoader, whose batches may hold labels after the input.
    n_samples : int, optional
        All members unless given; fewer are a random subset. Draws of a stochastic model: 20.
    random_state : int, RandomState or Generator, optional
        Seed of the subset or the draws.
    batch_size : int, optional
        Rows at a time; fitted to memory unless given.
    device : str or torch.device, optional
        For modules: CUDA where there is one unless given, and back afterwards.
    dropout : "all", "last" or list of str
        Which dropout layers of a module to draw from: all, the last one that runs, or by name.
        All else stays in evaluation mode. Layers before the first of them are computed once.
    output : "logits" or "probs", optional
        What modules return: logits unless told, but then not what looks like probabilities.
    out : path or array (N, M, K), optional
        Where to write members that do not fit in memory: a file ``.npy`` or ``.zarr`` (complete or
        absent, whatever happens), or an array of NumPy or Zarr.
    into : Accumulator, optional
        Decompose the members instead of keeping them; it gets all of them, or none on an error.
    progress : bool, optional
        Show a bar; on terminals and for long work unless told.

    Returns
    -------
    Samples, whose ``probs`` is (N, M, K), or ``into``
        Classes are in the order of the model's ``classes_``, of a list in that of the member who
        knows most, of modules in that of their logits.

    Raises
    ------
    InvalidInput
        If the model is not fitted, has no members, or a member does not answer as it must; the
        message names the member and the row.

    Examples
    --------
    >>> import scorewise as sw
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> sw.predict_samples(forest, X)
    Samples(50 members, 3 classes, batch (150,), float64)
    """
    if batch_size is not None:
        validate.whole(batch_size, "batch_size", at_least=1)
    sampler = _sampler(model, n_samples, entropy_of(random_state), device, dropout, output)
    n_rows = sampler.n_rows(X)
    check_destination(out, into, n_rows)
    with (
        closing(sampler.chunks(X, batch_size)) as chunks,
        bar("predicting", n_rows, progress) as advance,
    ):
        reported = counted(chunks, advance)
        if into is None:
            return keep(reported, n_rows, out, sampler.weights)
        if isinstance(into.dtype, np.dtype):  # the accumulator's, whatever the model's is
            reported = (chunk.astype(into.dtype, copy=False) for chunk in reported)
        into.update_chunks(reported, sampler.weights, n_instances=n_rows, check=False)
        return into


def predict_mean(model: Any, X: Any, device: Any = None) -> np.ndarray:
    """θ̄ of all members ``(N, K)``, without keeping them."""
    sampler = _sampler(model, None, 0, device)
    shares = sampler.weights

    def mean(chunk: np.ndarray) -> np.ndarray:
        return chunk.mean(axis=1) if shares is None else np.average(chunk, axis=1, weights=shares)

    with closing(sampler.chunks(X, None)) as chunks:
        return np.concatenate([mean(chunk) for chunk in chunks])


def _sampler(
    model: Any,
    n_samples: int | None,
    entropy: int,
    device: Any = None,
    dropout: Any = "all",
    output: str | None = None,
) -> Sampler:
    """What answers for a model; each library is imported only where its models are."""
    if _is_a(model, "torch.nn", "Module"):
        from scorewise.models.torch._dropout import DropoutSampler

        return DropoutSampler(model, draw_count(n_samples), entropy, dropout, output, device)
    if dropout != "all":
        raise InvalidInput("dropout= is for a torch module; this model has no dropout to draw from")
    modules = _modules(model)
    if modules is not None:
        from scorewise.models.torch._ensembles import NetworksSampler

        if not isinstance(model, list | tuple):
            output = output or "logits"  # as they were trained
        chosen = choose_members(len(modules), n_samples, entropy)
        return NetworksSampler({i: modules[i] for i in chosen}, output, device)
    if output is not None:
        raise InvalidInput("output= is for torch modules; what this model returns is known")
    if _is_a(model, "laplace.baselaplace", "BaseLaplace"):
        from scorewise.models.torch._laplace import LaplaceSampler

        return LaplaceSampler(model, draw_count(n_samples), entropy, device)
    if device is not None:
        raise InvalidInput("device= is for torch models; this one runs on the CPU")
    from scorewise.models.sklearn._committees import take_apart
    from scorewise.models.sklearn._votes import CommitteeSampler

    committee = take_apart(model)
    if committee is None:
        raise InvalidInput(
            f"{type(model).__name__} has no members to ask: pass a forest, bagging, soft voting, "
            "a pipeline, calibration or search around one, a list of fitted classifiers or torch "
            "modules, a module with dropout, or a Laplace approximation; "
            "scorewise.BootstrapEnsemble makes an ensemble of any classifier"
        )
    return CommitteeSampler(committee, choose_members(len(committee.members), n_samples, entropy))


def has_members(model: Any) -> bool:
    """Whether a fitted model has members or draws to ask, or is one classifier alone."""
    if _is_torch(model) or _modules(model) is not None:
        return True
    from scorewise.models.sklearn._committees import take_apart

    return take_apart(model) is not None


def known_classes(model: Any) -> np.ndarray | None:
    """Labels in the order of a model's probabilities; None where classes are only numbered."""
    if isinstance(model, list | tuple) and _modules(model) is None:
        from scorewise.models.sklearn._committees import of_classifiers

        return of_classifiers(model).classes
    labels = None if _is_torch(model) else getattr(model, "classes_", None)
    return None if labels is None else np.asarray(labels)


def _is_torch(model: Any) -> bool:
    return _is_a(model, "torch.nn", "Module") or _is_a(model, "laplace.baselaplace", "BaseLaplace")


def _modules(model: Any) -> list[Any] | None:
    """The modules of a deep ensemble, or None where the model is none."""
    if _is_a(model, "scorewise.models.torch._deep", "DeepEnsemble"):
        return list(model.fitted_members())
    several = isinstance(model, list | tuple) and len(model) > 0
    if several and all(_is_a(member, "torch.nn", "Module") for member in model):
        return list(model)
    return None


def _is_a(model: Any, module: str, name: str) -> bool:
    """Whether it is of a class whose library somebody has imported to make it."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(model, getattr(loaded, name))


def predict_dirichlet(
    model: Any,
    X: Any,
    batch_size: int | None = None,
    device: Any = None,
    *,
    output: str = "alpha",
    progress: bool | None = None,
) -> Dirichlet:
    """The Dirichlet distributions that an evidential or prior network predicts.

    Use it for modules that answer with parameters α or evidence instead of probabilities.

    Parameters
    ----------
    model : torch.nn.Module
        Evaluated once, in evaluation mode, and left as it was.
    X : rows
        As for :func:`scorewise.predict_samples`.
    batch_size, device, progress
        As for :func:`scorewise.predict_samples`.
    output : "alpha", "evidence" or "log-alpha"
        What the module returns: α > 0; evidence e ≥ 0, with α = e + 1 (evidential networks); or
        logits z, with α = exp(z) (prior networks).

    Returns
    -------
    Dirichlet
        With ``alpha`` of shape (N, K).

    Raises
    ------
    InvalidInput
        If the module's answers are no parameters of a Dirichlet.

    Examples
    --------
    >>> import scorewise as sw, torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softplus())
    >>> sw.predict_dirichlet(net, torch.zeros(5, 4), output="evidence")
    Dirichlet(3 classes, batch (5,), float32)
    """
    from scorewise.models.torch._evidential import concentrations

    if batch_size is not None:
        validate.whole(batch_size, "batch_size", at_least=1)
    if not _is_a(model, "torch.nn", "Module"):
        raise InvalidInput(f"predict_dirichlet takes a torch module, not {type(model).__name__}")
    return concentrations(model, X, batch_size, device, output, progress)
