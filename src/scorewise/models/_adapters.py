"""The registry of adapters, which sample from different kinds of models.

An adapter has three functions: whether a model is of its kind (``matches``), the model's labels
(``classes``) and how to sample its members (``sampler``). User-defined adapters are tried first,
the last registered before the others; then the built-in ones, which the registry finds by file.
Fallbacks come after all others, in the same order. Models without an adapter have no members: the
same files say which ways to members there are for kinds of them (``NO_MEMBERS``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from scorewise._estimators import check_kind
from scorewise.errors import InvalidInput, Remedy
from scorewise.models._samplers import Sampler, SamplingOptions, checked

# Options that only some adapters accept: the default, and the message for any other value.
_OPTIONAL_ARGUMENTS = {
    "dropout": ("all", "dropout= is for a torch module; {} has no dropout layers to choose"),
    "output": (None, "output= is for torch modules; {} returns probabilities"),
    "device": (None, "device= is for torch models; {} runs on the CPU"),
}
ALL_OPTIONS = tuple(_OPTIONAL_ARGUMENTS)

_registered: list[Adapter] = []


def _own_classes(model: Any) -> Any:
    return getattr(model, "classes_", None)


def _always(model: Any) -> bool:
    return True


@dataclass(frozen=True)
class Adapter:
    """How scorewise samples from one kind of model.

    Attributes
    ----------
    matches : callable
        Returns whether an object is such a model. Called with all kinds of objects, so it should
        only look at the type, and import no library.
    sampler : callable
        From a fitted model and :class:`SamplingOptions` to a :class:`Sampler`;
        :func:`member_sampler` makes one from functions. Raises InvalidInput if the model is not
        fitted.
    classes : callable
        From a fitted model to its labels in the order of the probabilities, or to None where
        classes are numbered from 0; the model's ``classes_`` by default.
    options : collection of str
        Which of ``"device"``, ``"dropout"`` and ``"output"`` the sampler uses; the others raise
        if a user passes them.
    describe : callable, optional
        From a fitted model to what its members are, what they approximate and how they are biased,
        for :func:`scorewise.explain_model`: "the trees of the forest, each …".
    has_joint_rows : callable
        From a model, fitted or not, to whether a member is one draw for all rows, as
        :func:`has_joint_rows` returns; always by default.
    inside : callable, optional
        From a model of this kind to the model inside it, for kinds that are put around others. The
        adapter is for those models only whose model inside has members; it needs no ``describe``.
    is_fallback : bool
        Whether the adapter is tried only after all those that are not fallbacks. For kinds that
        include others, such as any list.

    Examples
    --------
    >>> import numpy as np
    >>> from scorewise.models import Adapter, SamplingOptions, member_sampler
    >>> class Voters(list):
    ...     "Functions from rows to probabilities of two classes."
    >>> adapter = Adapter(
    ...     matches=lambda model: isinstance(model, Voters),
    ...     sampler=lambda model, options: member_sampler(model, [0, 1], options),
    ... )
    >>> voters = Voters([lambda X: np.full((len(X), 2), 0.5)] * 3)
    >>> adapter.matches(voters), adapter.sampler(voters, SamplingOptions()).n_members
    (True, 3)

    :func:`register_adapter` makes it known to :func:`scorewise.predict_samples`.
    """

    matches: Callable[[Any], bool]
    sampler: Callable[[Any, SamplingOptions], Sampler]
    classes: Callable[[Any], Any] = _own_classes
    options: Collection[str] = ()
    describe: Callable[[Any], str] | None = None
    has_joint_rows: Callable[[Any], bool] = _always
    inside: Callable[[Any], Any] | None = None
    is_fallback: bool = False


@dataclass(frozen=True)
class NoMembers:
    """A kind of model that has no members, and the ways to get some.

    Attributes
    ----------
    matches : callable
        Returns whether an object is such a model, as that of an :class:`Adapter`.
    ways : str
        What to do instead, after "… has no members: ".
    """

    matches: Callable[[Any], bool]
    ways: str


def instance_of(*types: str) -> Callable[[Any], bool]:
    """Return a function that tells whether an object is of one of these types.

    Types are named with a module that is imported whenever such an object exists, such as
    ``"sklearn.ensemble.RandomForestClassifier"``. The function imports nothing.
    """
    places = [name.rpartition(".") for name in types]

    def matches(model: Any) -> bool:
        loaded = (getattr(sys.modules.get(module), name, None) for module, _, name in places)
        return isinstance(model, tuple(kind for kind in loaded if kind is not None))

    return matches


def register_adapter(adapter: Adapter) -> None:
    """Register an adapter, so that scorewise can sample from a new kind of model.

    Use it for ensembles and stochastic models of other libraries, or of your own. From then on
    :func:`scorewise.predict_samples`, :class:`scorewise.SelectiveClassifier` and everything else
    that takes a model takes such a model too: alone, in a list, at the end of a scikit-learn
    ``Pipeline``, or within a calibration, a search or a ``FrozenEstimator``. It takes precedence
    over earlier adapters, unless it is a fallback. Each process has its own registry.

    Parameters
    ----------
    adapter : Adapter

    Raises
    ------
    InvalidInput
        If it is not an Adapter.

    Examples
    --------
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.models import Adapter, member_sampler, register_adapter, unregister_adapter
    >>> class Panel:
    ...     labels = ["no", "yes"]
    ...     experts = [lambda X, p=p: np.tile([1 - p, p], (len(X), 1)) for p in (0.2, 0.4, 0.9)]
    >>> adapter = Adapter(
    ...     matches=lambda model: isinstance(model, Panel),
    ...     classes=lambda model: model.labels,
    ...     sampler=lambda model, options: member_sampler(model.experts, model.labels, options),
    ... )
    >>> register_adapter(adapter)
    >>> sw.predict_samples(Panel(), np.zeros((5, 2)))
    Samples(3 members, 2 classes, batch (5,), float64)
    >>> unregister_adapter(adapter)
    """
    if not isinstance(adapter, Adapter):
        raise InvalidInput(
            f"register_adapter takes a scorewise.models.Adapter, not {type(adapter).__name__}"
        )
    _registered.insert(0, adapter)


def unregister_adapter(adapter: Adapter) -> None:
    """Remove an adapter that :func:`register_adapter` added.

    Parameters
    ----------
    adapter : Adapter

    Raises
    ------
    InvalidInput
        If it is not registered.

    Examples
    --------
    >>> from scorewise.models import Adapter, has_members, register_adapter, unregister_adapter
    >>> adapter = Adapter(matches=lambda model: model == "dice", sampler=lambda model, options: ...)
    >>> register_adapter(adapter)
    >>> has_members("dice")
    True
    >>> unregister_adapter(adapter)
    >>> has_members("dice")
    False
    """
    if adapter not in _registered:
        raise InvalidInput("the adapter is not registered")
    _registered.remove(adapter)


def find_adapter(model: Any) -> Adapter | None:
    """Return the first adapter that matches the model, or None if it has no members."""
    for adapter in _adapters():
        if adapter.matches(model) and (
            adapter.inside is None or has_members(adapter.inside(model))
        ):
            return adapter
    return None


def _adapters() -> list[Adapter]:
    """Return all adapters in the order in which they are tried."""
    return sorted((*_registered, *_built_in("ADAPTERS")), key=lambda adapter: adapter.is_fallback)


@cache
def _built_in(name: str) -> tuple[Any, ...]:
    """The entries of ``ADAPTERS`` or ``NO_MEMBERS`` in all files ``_adapter_….py`` below here.

    Such a file imports the library of its models within functions, so that finding the adapter of
    one library imports no other.
    """
    folder = Path(__file__).parent
    files = sorted(file.relative_to(folder) for file in folder.rglob("_adapter_*.py"))
    modules = [".".join(("scorewise.models", *file.with_suffix("").parts)) for file in files]
    return tuple(entry for module in modules for entry in getattr(import_module(module), name, ()))


def has_members(model: Any) -> bool:
    """Return whether a model has members or draws, rather than being a single classifier.

    Use it in an adapter of your own for a model that holds another model.

    Parameters
    ----------
    model : object
        Fitted or not.

    Returns
    -------
    bool

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from scorewise.models import has_members
    >>> has_members(RandomForestClassifier()), has_members(GaussianNB())
    (True, False)
    """
    return find_adapter(model) is not None


def has_joint_rows(model: Any) -> bool:
    """Return whether each member of a model is one draw for all rows.

    Use it where rows are combined: in batches, and in gains of a row for others. If members have
    the right distribution in each row alone, as those of a ``GaussianProcessClassifier``, what is
    computed of several rows together means nothing.

    Parameters
    ----------
    model : object
        Fitted or not. A model without members has one prediction for all rows.

    Returns
    -------
    bool

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.gaussian_process import GaussianProcessClassifier
    >>> from scorewise.models import has_joint_rows
    >>> has_joint_rows(RandomForestClassifier()), has_joint_rows(GaussianProcessClassifier())
    (True, False)
    """
    adapter = find_adapter(model)
    if adapter is None:
        return True
    if adapter.inside is not None:
        return has_joint_rows(adapter.inside(model))
    return adapter.has_joint_rows(model)


def known_classes(model: Any) -> np.ndarray | None:
    """Return labels in the order of a model's probabilities; None if classes are numbered.

    Use it in an adapter of your own for a model that holds another model.

    Parameters
    ----------
    model : fitted model

    Returns
    -------
    array (K,) or None

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from scorewise.models import known_classes
    >>> known_classes(GaussianNB().fit([[0.0], [1.0]], ["no", "yes"]))
    array(['no', 'yes'], dtype='<U3')
    """
    adapter = find_adapter(model)
    labels = _own_classes(model) if adapter is None else adapter.classes(model)
    return None if labels is None else np.asarray(labels)


def make_sampler(model: Any, options: SamplingOptions) -> Sampler:
    """Return the sampler of a fitted model, from the first adapter that matches it.

    Use it in an adapter of your own for a model that holds another model.

    Parameters
    ----------
    model : fitted model
    options : SamplingOptions

    Returns
    -------
    Sampler

    Raises
    ------
    InvalidInput
        If no adapter matches the model, it is not fitted, or an option does not apply to it.

    Examples
    --------
    >>> from scorewise.models import SamplingOptions, make_sampler
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> make_sampler(forest, SamplingOptions(n_samples=10)).n_members
    10
    """
    adapter = find_adapter(model)
    if adapter is None:
        check_kind(model)
        raise InvalidInput(f"{kind_of(model)} has no members: {ways_to_members(model)}")
    check_options(type(model).__name__, adapter.options, options)
    sampler = adapter.sampler(model, options)
    return checked(sampler) if adapter in _registered else sampler


# -- words for explanations and errors ------------------------------------------------------------

_GENERAL_WAYS = (
    "pass a forest, boosted trees, bagging, soft voting, a pipeline, calibration, threshold or "
    "search around one, a list of fitted classifiers or torch modules, a module with dropout, or a "
    "Laplace approximation; scorewise.BootstrapEnsemble makes an ensemble of any classifier, "
    "scorewise.models.register_adapter adds other kinds of models"
)


def kind_of(model: Any) -> str:
    """Return the type of a model in words, such as ``"GaussianNB in Pipeline"``."""
    return " in ".join(type(part).__name__ for part in reversed(_nested(model)))


def describe_members(model: Any) -> str:
    """Return what the members of a model are, as its adapter says; nothing if it does not say."""
    adapter = find_adapter(model)
    if adapter is None:
        return ""
    if adapter.describe is not None:
        return adapter.describe(model)
    return "" if adapter.inside is None else describe_members(adapter.inside(model))


def ways_to_members(model: Any) -> str:
    """Return the ways to get members for a model that has none."""
    innermost = innermost_model(model)
    kinds = (kind for kind in _built_in("NO_MEMBERS") if kind.matches(innermost))
    return next((kind.ways for kind in kinds), _GENERAL_WAYS)


def innermost_model(model: Any) -> Any:
    """Return the model in pipelines, searches and the like; the model itself if it is in none."""
    return _nested(model)[-1]


def _nested(model: Any) -> list[Any]:
    """Return a model, the model inside it, the one inside that, and so on."""
    models = [model]
    for adapter in _adapters():
        if adapter.inside is not None and adapter.matches(model):
            return models + _nested(adapter.inside(model))
    return models


# -- options ---------------------------------------------------------------------------------------


def check_options(kind: str, accepted: Collection[str], options: SamplingOptions) -> None:
    """Raise if the user set an option that is not accepted."""
    for name, (default, message) in _OPTIONAL_ARGUMENTS.items():
        value = getattr(options, name)
        is_default = value is None if default is None else value == default
        if not is_default and name not in accepted:
            raise InvalidInput(message.format(kind), Remedy(name, default))
