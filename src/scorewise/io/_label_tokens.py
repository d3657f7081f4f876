"""The probabilities of labels: the tokens that mean a label, and what is left for no label."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._fields import class_text
from scorewise._text import percent, quoted, quoted_names, significant
from scorewise.errors import InvalidInput, Remedy
from scorewise.io._responses import SCORES, TOLERANCE, Answer

OTHER = "other"  # the class of all that is no label
MISSING = (OTHER, "refuse", "renormalize")

_SPACES = " \u0120\u2581"  # how tokenizers write the space before a word
_MOST_TOKENS = 10_000  # that are counted for a message
_SHOWN_TOKENS = 5
_LITTLE_MASS = 0.8  # mean probability of the labels below which they are probably incomplete

Labels = Sequence[Any] | Mapping[Any, str | Sequence[str]]


@dataclass(frozen=True)
class LabelTokens:
    """The classes, and the index of the class that a token means."""

    names: tuple[str, ...]
    index_of: Mapping[str, int]

    @classmethod
    def of(cls, labels: Labels) -> LabelTokens:
        """Return the classes of labels, or of a mapping from labels to tokens."""
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise InvalidInput(
                f"labels must be the labels in a list, or a mapping to their tokens, not "
                f"{quoted(labels)}"
            )
        labels = labels if isinstance(labels, Mapping) else list(labels)
        tokens_of = labels if isinstance(labels, Mapping) else {label: label for label in labels}
        if len(tokens_of) < max(2, len(labels)):
            raise InvalidInput(f"there must be two or more different labels, not {quoted(labels)}")
        index_of: dict[str, int] = {}
        names = tuple(map(class_text, tokens_of))
        for k, tokens in enumerate(tokens_of.values()):
            listed = tokens if isinstance(tokens, list | tuple | set | frozenset) else [tokens]
            for token in map(_without_space, map(class_text, listed)):
                if not token or index_of.setdefault(token, k) != k:
                    also = f" and of {quoted(names[index_of[token]])}" if token else ""
                    raise InvalidInput(
                        f"{quoted(token)} cannot be a token of {quoted(names[k])}{also}; name a "
                        "first token that differs between the labels"
                    )
        return cls(names, index_of)

    def class_of(self, token: str) -> int | None:
        """Return the class that a token means, if any."""
        return self.index_of.get(_without_space(token))


def _without_space(token: str) -> str:
    return token.lstrip(_SPACES)


class ClassProbabilities:
    """The probabilities of the classes, answer by answer, and what is worth a warning."""

    def __init__(
        self, classes: LabelTokens, style: str, missing: str | None, min_mass: float
    ) -> None:
        self._classes = classes
        self._are_scores = style == SCORES
        self._missing = missing or ("refuse" if self._are_scores else OTHER)
        self._min_mass = min_mass
        self.class_names = classes.names
        if self._missing == OTHER:
            if OTHER in classes.names:
                raise InvalidInput(
                    f"a label is called {OTHER!r}, as is the class for all that is no label",
                    Remedy("missing", "refuse", "or rename the label"),
                )
            self.class_names = (*classes.names, OTHER)
        self._values = array("d")
        self._n_reported = [0] * len(classes.names)  # answers that report each label
        self._n_answers = self._n_incomplete = 0
        self._unreported_mass = 0.0  # of all answers that do not report a label, the largest
        self._mass = 0.0  # of labels, over all answers
        self._other_tokens: dict[str, float] = {}

    def array(self) -> np.ndarray:
        """Return the probabilities of all answers, (answers, K)."""
        return np.frombuffer(self._values).reshape(-1, len(self.class_names))

    def add(self, answer: Answer) -> None:
        """Add the probabilities of an answer."""
        probs, reported = self._label_probabilities(answer)
        total = sum(probability for _, probability in answer)
        if total > 1 + TOLERANCE:
            advice = "classes must exclude each other" if self._are_scores else "they are damaged"
            raise InvalidInput(f"the probabilities sum to {total:.6g}, more than 1; {advice}")
        mass = sum(probs)
        self._n_answers += 1
        self._mass += mass
        for k, is_reported in enumerate(reported):
            self._n_reported[k] += is_reported
        if not all(reported):
            self._n_incomplete += 1
            self._unreported_mass = max(self._unreported_mass, 1 - total)
        if self._missing == OTHER:
            probs.append(max(0.0, 1 - mass))
        else:
            self._check_mass(mass, reported)
        scale = sum(probs)  # 1 but for rounding, unless the labels are rescaled
        self._values.extend(p / scale for p in probs)

    def _label_probabilities(self, answer: Answer) -> tuple[list[float], list[bool]]:
        """Return the probability of each label, and whether the answer reports it."""
        probs = [0.0] * len(self._classes.names)
        reported = [False] * len(probs)
        tokens = set()
        for token, probability in answer:
            k = self._classes.class_of(token)
            if k is None:
                self._count_other(token, probability)
                continue
            if token in tokens:
                raise InvalidInput(f"{quoted(token)} occurs twice")
            tokens.add(token)
            probs[k] += probability
            reported[k] = True
        return probs, reported

    def _check_mass(self, mass: float, reported: list[bool]) -> None:
        if self._missing == "refuse":
            names = [
                name for name, has in zip(self._classes.names, reported, strict=True) if not has
            ]
            if self._are_scores and names:
                raise InvalidInput(
                    f"there is no score of {quoted_names(names)}; call the pipeline with "
                    "top_k=None for the scores of all labels",
                    Remedy("missing", OTHER, "for a further class"),
                )
            if mass < self._min_mass:
                raise InvalidInput(
                    f"the labels have {mass:.3g} of the probability, less than {self._min_mass:g}",
                    Remedy("missing", OTHER, "to keep the rest as a class"),
                    Remedy("missing", "renormalize", "for probabilities given a label"),
                )
        if mass == 0:
            raise InvalidInput(
                "no label has any probability", Remedy("missing", OTHER, "to keep it as a class")
            )

    def _count_other(self, token: str, probability: float) -> None:
        if token in self._other_tokens or len(self._other_tokens) < _MOST_TOKENS:
            self._other_tokens[token] = self._other_tokens.get(token, 0.0) + probability

    def check(self, argument: str) -> None:
        """Raise if no answer has a label; warn of labels that answers do not report.

        ``argument`` is the one that names the tokens of labels.
        """
        ranked = sorted(self._other_tokens, key=lambda token: -self._other_tokens[token])
        most_likely = f"the most likely other tokens are {quoted_names(ranked[:_SHOWN_TOKENS])}"
        remedy = Remedy(argument, ..., "to say which tokens mean which label")
        if not any(self._n_reported):
            raise InvalidInput(f"no answer has one of the labels; {most_likely}", remedy)
        mean_mass = self._mass / self._n_answers
        if mean_mass < _LITTLE_MASS:
            validate.warn(
                f"the labels have {percent(mean_mass)} of the probability on average; "
                f"{most_likely}",
                remedy,
            )
        if self._n_incomplete:
            validate.warn(self._unreported_text())

    def _unreported_text(self) -> str:
        """Return how many answers do not report all labels, and what follows."""
        names = zip(self._classes.names, self._n_reported, strict=True)
        never = [name for name, count in names if not count]
        never_text = f" ({quoted_names(never)} in none)" if never else ""
        place = f", and what it has is in {OTHER!r}" if self._missing == OTHER else ""
        return (
            f"{percent(self._n_incomplete / self._n_answers)} of the answers do not report all "
            f"labels{never_text}; the probability of such a label is taken as 0{place}; it is at "
            f"most {significant(max(0.0, self._unreported_mass))}, which the answers do not report"
        )
