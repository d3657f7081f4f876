"""``predict_samples``: the probabilities of a fitted model's members."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any, overload

import numpy as np

from scorewise import _validate as validate
from scorewise._array import is_dask_collection, is_on_device, rounded_to
from scorewise._fields import checked_classes
from scorewise._files import check_not_input
from scorewise._lazy import at_scale
from scorewise._member_checks import MemberChecks
from scorewise._progress import bar, counted
from scorewise._random import seed_of
from scorewise.accumulate import Accumulator
from scorewise.distributions import Samples
from scorewise.models._adapters import known_classes, make_sampler
from scorewise.models._destinations import check_destination, check_lazy_destination, collect, store
from scorewise.models._samplers import Sampler, SamplingOptions, TensorSampler, mean_of


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
    """Return the probabilities of a model's members, or of draws from a stochastic model.

    Use it to make the input of :func:`scorewise.decompose` from a trained model. A draw is one
    function that is applied to all rows (a thinned network, a set of weights), so the same seed
    gives the same samples for every batch size.

    Parameters
    ----------
    model : fitted model
        scikit-learn: a random forest, extra trees, bagging, soft voting, gradient boosting; a
        pipeline, a calibration, a decision threshold or a search around one of them; a
        :class:`BootstrapEnsemble`, a :class:`LaplaceClassifier`, a Gaussian process; a list of
        classifiers; a :class:`SelectiveClassifier` or :class:`OODDetector` of one of these. TabPFN
        and TabICL.
        PyTorch: a module with dropout, a list of modules, a :class:`DeepEnsemble`, a Laplace
        approximation of laplace-torch. Hugging Face: a list of pipelines for text classification.
        LightGBM, XGBoost, CatBoost: a classifier, a native booster, a list of them.
        The model is not changed.
        :func:`scorewise.explain_model` says what the members of a model are,
        :func:`scorewise.models.register_adapter` adds other kinds.
    X : rows
        In a form that the model takes: an array, a frame, a tensor, a mapping of tensors (Hugging
        Face), a list of texts for pipelines; for modules also a DataLoader, whose batches may hold
        labels after the input. An array or a frame of Dask is predicted by its workers, see Notes.
    n_samples : int, optional
        Number of members, a random subset, or number of draws of a stochastic model. By default
        all members, or 20 draws.
    random_state : int, RandomState or Generator, optional
        Seed of the subset or the draws.
    batch_size : int, optional
        Rows at a time; by default chosen to fit in memory.
    device : str or torch.device, optional
        For modules, which are moved there and back; by default CUDA where it is available.
    dropout : "all", "last" or list of str
        The dropout layers of a module that drop: all, the last one that runs, or some by name.
        Everything else is in evaluation mode. Layers before the first of them are computed once.
    output : "logits" or "probs", optional
        What modules return. By default logits; values that could be probabilities raise.
    out : path or array (N, M, K), optional
        Where to write members that do not fit in memory: a file ``.npy`` or ``.zarr``, which is
        complete or absent, even after an error, or an array of NumPy or Zarr.
    into : Accumulator, optional
        Decomposes the members instead of storing them; it gets all of them, or none on an error.
        Members of a module on a GPU are decomposed there, some rows at a time. Results are in
        NumPy, or on the GPU if X is a tensor there or the accumulator has members there.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.

    Returns
    -------
    Samples, whose ``probs`` is (N, M, K), or ``into``
        Classes are in the order of the model's ``classes_``, which are also those of the Samples;
        of a list, in the order of the member with the most classes; of modules, in the order of
        their logits.

    Warns
    -----
    ScorewiseWarning
        If all probabilities are 0 or 1, as those of fully grown trees, so that aleatoric
        uncertainty is 0; or if members are copies of each other.

    Raises
    ------
    InvalidInput
        If the model is not fitted, has no members, or a member does not return probabilities; the
        message names the member and the row.

    Notes
    -----
    For a Dask array, whose rows may be in any chunks, and for a frame of Dask, the probabilities
    are a Dask array in the same chunks of rows, which decompose takes. Each worker gets the model
    once and predicts the chunks that it has. The first row is predicted at once, to learn the
    number of classes and the precision; the rest is lazy. So nothing warns of fully grown trees
    and copies.

    - A frame does not know how long its partitions are: they are counted first, in one pass over
      its index. A Dask array must know the lengths of its chunks.
    - ``into`` runs at once. Chunks are decomposed on the workers, and what returns has the size of
      one member. An error adds nothing, as in memory.
    - ``out`` runs at once, too. It must be a path ``.zarr`` in a folder that all workers share;
      each writes its chunks.
    - A process predicts one chunk at a time, on the threads of :func:`scorewise.set_num_threads`.

    Examples
    --------
    >>> import scorewise as sw
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> sw.predict_samples(forest, X)
    Samples(50 members, 3 classes, batch (150,), float64)
    """
    if batch_size is not None:
        validate.whole(batch_size, "batch_size", at_least=1)
    options = SamplingOptions(n_samples, seed_of(random_state), device, dropout, output)
    if is_dask_collection(X):
        return _predict_collection(model, X, options, batch_size, out, into)
    sampler = make_sampler(model, options)
    n_rows = sampler.n_rows(X)
    check_destination(out, into, n_rows)
    if isinstance(out, str | os.PathLike) and isinstance(X, np.memmap) and X.filename is not None:
        check_not_input(Path(out), Path(X.filename))
    checks = MemberChecks()
    with (
        closing(_chunks(sampler, X, batch_size, into)) as chunks,
        bar("predicting", n_rows, progress) as advance,
    ):
        watched = checks.watch(counted(chunks, advance))
        samples: Samples | Accumulator
        if into is None:
            samples = collect(watched, n_rows, out, sampler.weights)
            samples.classes_ = checked_classes(known_classes(model), samples.n_classes)
        else:
            samples = into
            is_empty, in_numpy = into.dtype is None, isinstance(into.dtype, np.dtype)
            if not is_empty:  # the accumulator's precision, not the model's
                dtype = str(into.dtype).rpartition(".")[2]
                watched = (rounded_to(chunk, dtype) for chunk in watched)
            on_host = in_numpy or (is_empty and not is_on_device(X))
            into.update_chunks(
                watched, sampler.weights, n_instances=n_rows, check=False, on_host=on_host
            )
    for problem in checks.problems():
        validate.warn(problem)
    return samples


def _chunks(
    sampler: Sampler, X: Any, batch_size: int | None, into: Accumulator | None
) -> Generator[Any]:
    """Yield the chunks of a sampler: on the device of its modules if they are not stored."""
    if into is None or not isinstance(sampler, TensorSampler):
        yield from sampler.chunks(X, batch_size)
        return
    with closing(sampler.tensors(X, batch_size)) as chunks:
        for chunk in chunks:
            yield chunk if is_on_device(chunk) else chunk.numpy()


def _predict_collection(
    model: Any,
    X: Any,
    options: SamplingOptions,
    batch_size: int | None,
    out: Any,
    into: Accumulator | None,
) -> Samples | Accumulator:
    """As predict_samples, for a collection of Dask: its parts are predicted where they are."""
    check_destination(out, into, None)
    check_lazy_destination(out)
    if into is not None:
        for problem in at_scale("predict_into")(model, X, options, batch_size, into):
            validate.warn(problem)
        return into
    probs, weights = at_scale("predict_blocks")(model, X, options, batch_size)
    if out is not None:
        probs = store(probs, Path(out))
    samples = Samples(probs, weights, check=False)
    samples.classes_ = checked_classes(known_classes(model), samples.n_classes)
    return samples


def predict_mean(model: Any, X: Any, device: Any = None) -> np.ndarray:
    """Return θ̄ of all members ``(N, K)``, without storing them."""
    return mean_of(make_sampler(model, SamplingOptions(device=device)), X)
