"""``explain_model``: which members a fitted model has, and what they approximate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scorewise._estimators import check_kind
from scorewise._notebook import TextInNotebooks
from scorewise._text import quoted_names
from scorewise.models._adapters import (
    describe_members,
    find_adapter,
    innermost_model,
    kind_of,
    known_classes,
    make_sampler,
    ways_to_members,
)
from scorewise.models._samplers import SamplingOptions


@dataclass(frozen=True, repr=False)
class ModelExplanation(TextInNotebooks):
    """The members of a model, or the ways to get some; made by :func:`scorewise.explain_model`.

    Attributes
    ----------
    model : str
        The type of the model, and of what is around it, such as ``"GaussianNB in Pipeline"``.
    n_members : int
        Number of members or draws that :func:`scorewise.predict_samples` returns by default; 0 if
        the model has none.
    reason : str
        What the members are, what they approximate and how they are biased. Without members, the
        ways to get some.
    weights : tuple of float or None
        Weights of the members; None where they are equal.
    classes : tuple or None
        Labels in the order of the probabilities; None where they are numbered or not known.

    Examples
    --------
    >>> import scorewise as sw
    >>> from sklearn.naive_bayes import GaussianNB
    >>> explanation = sw.explain_model(GaussianNB())
    >>> explanation.n_members
    0
    >>> explanation.reason
    'scorewise.BootstrapEnsemble makes an ensemble of it: ...'
    """

    model: str
    n_members: int
    reason: str
    weights: tuple[float, ...] | None = None
    classes: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        n = self.n_members
        members = f"{n} member{'s' * (n != 1)}" if n else "no members"
        lines = [f"{self.model} has {members}{self.reason and ': '}{self.reason}."]
        if self.weights is not None:
            lines.append(f"Weights: {quoted_names(self.weights)}.")
        if self.classes is not None:
            lines.append(f"Classes: {quoted_names(self.classes)}.")
        return "\n".join(lines)


def explain_model(model: Any) -> ModelExplanation:
    """Return which members :func:`scorewise.predict_samples` would take from a model, and why.

    Use it before you rely on aleatoric and epistemic uncertainty: they are those of the members,
    and each kind of members has its own bias. Nothing is predicted.

    Parameters
    ----------
    model : fitted model
        As for :func:`scorewise.predict_samples`.

    Returns
    -------
    ModelExplanation
        Printing it says how many members there are, what they approximate and how they are biased;
        for a kind of models without members, which ways there are to get some.

    Raises
    ------
    InvalidInput
        If the model is not fitted or is no classifier, or if it has no members although its kind
        has: hard voting, boosting by DART or of fewer than 10 iterations, and whatever else
        :func:`scorewise.predict_samples` refuses before it looks at rows.

    Examples
    --------
    >>> import scorewise as sw
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> sw.explain_model(RandomForestClassifier(50, min_samples_leaf=5, random_state=0).fit(X, y))
    RandomForestClassifier has 50 members: the trees of the forest, each grown on a bootstrap
    sample of the rows with random splits; they differ as forests differ that are fitted again, not
    as draws from a posterior.
    Classes: 0, 1, 2.
    >>> print(sw.explain_model(GaussianNB()).reason)
    scorewise.BootstrapEnsemble makes an ensemble of it: the same rows give the same model, so each
    member is fitted on its own sample of them
    """
    if find_adapter(model) is None:
        check_kind(innermost_model(model))
        return ModelExplanation(kind_of(model), 0, ways_to_members(model))
    sampler = make_sampler(model, SamplingOptions())
    weights, classes = sampler.weights, known_classes(model)
    return ModelExplanation(
        kind_of(model),
        sampler.n_members,
        describe_members(model),
        None if weights is None else tuple(weights.tolist()),
        None if classes is None else tuple(classes.tolist()),
    )
