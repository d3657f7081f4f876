"""How a model learns from the rows that have labels, whatever kind of model it is."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import BaseEnsemble, HistGradientBoostingClassifier

from scorewise._random import generator
from scorewise.errors import InvalidInput

Train = Callable[..., Any]  # from X, y, a seed, and the model before where it goes on from that

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
    parameters = model.get_params(deep=True) if hasattr(model, "get_params") else {}
    kept = (BaseEnsemble, HistGradientBoostingClassifier)
    if any(isinstance(part, kept) for part in (model, *parameters.values())):
        raise InvalidInput(
            f"{type(model).__name__} keeps its old members when it is fitted warm, and they would "
            "learn nothing from new labels; use retrain='scratch'"
        )
    if not _named("warm_start", parameters):
        raise InvalidInput(
            f"{type(model).__name__} has no warm_start; use retrain='scratch', or pass a function "
            "train(X, y, seed, previous) that goes on from the model of the round before"
        )


def fitted(model: Any, X: Any, y: np.ndarray, seed: int, previous: Any = None) -> Any:
    """A model trained on these rows: a new one, or one that goes on from the previous.

    Neither ``model`` nor ``previous`` is changed. Every ``random_state`` in it gets a seed.
    """
    if isinstance(model, list | tuple):
        before = [None] * len(model) if previous is None else previous
        seeds = generator(seed).integers(2**31 - 1, size=len(model)).tolist()
        return [
            fitted(member, X, y, own_seed, earlier)
            for member, own_seed, earlier in zip(model, seeds, before, strict=True)
        ]
    if not hasattr(model, "fit"):
        return model(X, y, seed) if previous is None else model(X, y, seed, previous)
    if hasattr(model, "get_params"):
        trained = clone(model) if previous is None else copy.deepcopy(previous)
        parameters = sorted(trained.get_params(deep=True))
        seeds = generator(seed).integers(2**31 - 1, size=len(parameters)).tolist()
        own = dict(zip(parameters, seeds, strict=True))
        settings = {name: own[name] for name in _named("random_state", parameters)}
        if previous is not None:
            settings |= dict.fromkeys(_named("warm_start", parameters), True)
        trained.set_params(**settings)
    else:
        trained = copy.deepcopy(model)
        if hasattr(trained, "random_state"):
            trained.random_state = seed
    trained.fit(X, y)
    return trained


def _named(word: str, parameters: Any) -> list[str]:
    """The parameters of this name, of the model or of what is in it."""
    return [name for name in parameters if name == word or name.endswith(f"__{word}")]


def describe(model: Any) -> str:
    """What a model is and how it is set, the same in every process; seeds left out."""
    if isinstance(model, list | tuple):
        return f"[{', '.join(map(describe, model))}]"
    if not hasattr(model, "fit"):
        return str(getattr(model, "__qualname__", type(model).__qualname__))
    if hasattr(model, "get_params"):
        settings = model.get_params(deep=True)
    else:
        settings = {k: v for k, v in vars(model).items() if not (k[0] == "_" or k[-1] == "_")}
    seeds = _named("random_state", settings)
    shown = (f"{name}={value!r}" for name, value in sorted(settings.items()) if name not in seeds)
    # addresses in memory are of one process only
    return re.sub(r" at 0x[0-9a-f]+", "", f"{type(model).__qualname__}({', '.join(shown)})")
