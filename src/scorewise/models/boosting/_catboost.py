"""CatBoost's models, and the virtual ensembles of those that sample from a posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._estimators import check_kind
from scorewise.errors import InvalidInput
from scorewise.models._samplers import Committee, SamplingOptions
from scorewise.models.boosting._truncation import (
    SEVERAL_LABELS,
    BoostedModel,
    as_columns,
    committee_of_scores,
)

_N_MEMBERS = 10  # CatBoost's default


def boosted_model(model: Any) -> BoostedModel:
    """Return a fitted CatBoost model as a sum over its iterations."""
    name = type(model).__name__
    loss = _loss(model)
    if model.is_fitted() and loss is None:
        raise InvalidInput(
            f"{name} does not say with which loss function it was trained, as results of "
            "catboost.sum_models do not; pass the models that it is made from, in a list"
        )
    check_kind(model)
    if loss is None:
        raise InvalidInput(f"{name} is not fitted; call its fit first")
    check_one_label(model)
    if loss not in {"Logloss", "CrossEntropy", "MultiClass"}:
        raise InvalidInput(
            f"{name} has the loss function {loss!r}, from whose scores no probabilities that sum "
            "to 1 follow; train it with 'Logloss' or 'MultiClass'"
        )

    def increments(rows: Any, edges: list[int]) -> Iterator[np.ndarray]:
        pool = _pool(model, rows)
        for start, stop in pairwise(edges):
            yield as_columns(
                _call(
                    model.predict,
                    pool,
                    prediction_type="RawFormulaVal",
                    ntree_start=start,
                    ntree_end=stop,
                )
            )

    return BoostedModel(name, np.asarray(model.classes_), model.tree_count_, increments)


def check_one_label(model: Any) -> None:
    """Raise if a model was trained on several labels."""
    if _loss(model) in {"MultiLogloss", "MultiCrossEntropy"}:
        raise InvalidInput(f"{type(model).__name__} {SEVERAL_LABELS}")


def _loss(model: Any) -> str | None:
    """Return the loss function of a model, without parameters; None if it is not known."""
    from catboost import CatBoostError

    try:
        return str(model.get_all_params().get("loss_function")).partition(":")[0]
    except CatBoostError:
        return None


def _pool(model: Any, rows: Any) -> Any:
    """Return rows as the Pool that CatBoost makes of them, so that it makes one for all calls."""
    from catboost import FeaturesData, Pool

    if isinstance(rows, Pool):
        return rows
    if isinstance(rows, FeaturesData):  # knows its kinds of features
        return _call(Pool, rows)
    return _call(
        Pool,
        rows,
        cat_features=model.get_cat_feature_indices(),
        text_features=model.get_text_feature_indices(),
        embedding_features=model.get_embedding_feature_indices(),
    )


def samples_its_posterior(model: Any) -> bool:
    """Return whether a model was trained by stochastic gradient Langevin boosting (SGLB)."""
    parameters = model.get_all_params()
    return bool(parameters.get("posterior_sampling") or parameters.get("langevin"))


def virtual_ensemble(model: Any, boosted: BoostedModel, options: SamplingOptions) -> Committee:
    """Return the virtual ensemble of a model trained by SGLB, which CatBoost computes.

    Its members are the model after more and more of its iterations, from half of them on. The
    noise that SGLB adds makes these states approximate samples of a posterior.
    """
    largest = boosted.n_iterations // 2
    n_members = min(_N_MEMBERS, largest)
    if options.n_samples is not None:
        n_members = validate.whole(options.n_samples, "n_samples", at_least=1)
    if not 1 <= n_members <= largest:
        raise InvalidInput(
            f"{boosted.name} has {boosted.n_iterations} iterations, enough for a virtual ensemble "
            f"of {largest} members, not of {max(n_members, 1)}; train it with more iterations"
        )

    def scores(rows: Any) -> np.ndarray:
        return _call(
            model.virtual_ensembles_predict,
            rows,
            prediction_type="VirtEnsembles",
            virtual_ensembles_count=n_members,
        )

    return committee_of_scores(boosted, scores, "state", n_members)


def _call(function: Callable[..., Any], rows: Any, **options: Any) -> Any:
    """Call CatBoost; its errors become a ValueError, as those of other libraries are."""
    from catboost import CatBoostError

    try:
        return function(rows, **options)
    except CatBoostError as error:
        raise ValueError(error) from error
