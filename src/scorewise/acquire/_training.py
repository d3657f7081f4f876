"""How a model learns from the rows that have labels, whatever kind of model it is."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import BaseEnsemble, HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline

from scorewise._random import generator
from scorewise.errors import InvalidInput
from scorewise.models import set_seeds

RETRAIN = ("scratch", "warm")


def check_trainable(model: Any, retrain: str) -> None:
    """Refuse what cannot learn anew in each round, before anything is labelled."""
    if isinstance(model, list | tuple):
        if not model:
            raise InvalidInput("the list of models is empty")
        for member in model:
            check_trainable(member, retrain)
        return
    if isinstance(model, type):
        raise InvalidInput(f"{model.__name__} is a class; pass an instance: {model.__name__}()")
    if not hasattr(model, "fit"):
        # a module is called to predict, not to train
        if not callable(model) or hasattr(model, "forward"):
            raise InvalidInput(
                f"{type(model).__name__} cannot be trained by itself: pass a model with fit, a "
                "list of such, or a function train(X, y, seed) that returns a trained one"
            )
    elif retrain == "warm":
        _check_goes_on(model)


def _check_goes_on(model: Any) -> None:
    """Refuse models whose second fit would not go on learning from the first."""
    if isinstance(model, Pipeline):
        _check_goes_on(model.steps[-1][1])
        return
    if isinstance(model, BaseEnsemble | HistGradientBoostingClassifier):
        raise InvalidInput(
            f"{type(model).__name__} keeps its old members when it is fitted warm, and they would "
            "learn nothing from new labels; use retrain='scratch'"
        )
    if "warm_start" not in (model.get_params(deep=False) if hasattr(model, "get_params") else {}):
        raise InvalidInput(
            f"{type(model).__name__} has no warm_start; use retrain='scratch', or pass a function "
            "train(X, y, seed, previous=None) that goes on from the model of the round before"
        )


def unchanging(model: Any) -> Any:
    """The same, whatever its owner does with it from now on; functions are taken as they are."""
    if isinstance(model, list | tuple):
        return [unchanging(member) for member in model]
    if not hasattr(model, "fit"):
        return model
    return clone(model) if hasattr(model, "get_params") else copy.deepcopy(model)


def fitted(model: Any, X: Any, y: np.ndarray, seed: int, previous: Any = None) -> Any:
    """A model trained on these rows: a new one, or one that goes on from the previous.

    Neither ``model`` nor ``previous`` is changed. Every ``random_state`` in it gets a seed. What
    was trained on other classes cannot go on, and a new one is trained.
    """
    if isinstance(model, list | tuple):
        before = [None] * len(model) if previous is None else previous
        seeds = generator(seed).integers(2**31 - 1, size=len(model)).tolist()
        return [
            fitted(member, X, y, own_seed, earlier)
            for member, own_seed, earlier in zip(model, seeds, before, strict=True)
        ]
    if not hasattr(model, "fit"):
        trained = model(X, y, seed, *([] if previous is None else [copy.deepcopy(previous)]))
        if trained is None:
            raise InvalidInput("the function returned None; it must return the trained model")
        return trained
    if previous is not None and not np.array_equal(previous.classes_, np.unique(y)):
        previous = None
    trained = unchanging(model) if previous is None else copy.deepcopy(previous)
    if hasattr(trained, "get_params"):
        set_seeds(trained, generator(seed))
        if previous is not None:
            names = [n for n in trained.get_params() if n.rpartition("__")[2] == "warm_start"]
            trained.set_params(**dict.fromkeys(names, True))
    elif hasattr(trained, "random_state"):
        trained.random_state = seed
    trained.fit(X, y)
    return trained
