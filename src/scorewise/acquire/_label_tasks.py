"""Rows to label, in the files that labelling tools import."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from scorewise import _validate as validate
from scorewise._array import to_numpy
from scorewise._fields import checked_ids
from scorewise._files import check_output_path, replacing
from scorewise._json import dumps
from scorewise._rows import class_names_of, receive_rows
from scorewise._text import quoted
from scorewise.decompose import COMPONENTS, decompose
from scorewise.distributions import Samples
from scorewise.errors import InvalidInput, Remedy
from scorewise.rules import RuleLike, get_rule

# what stands beside the data
_OWN_NAMES = {"id", "row_id", "rank", "score", "measure", "label", "probability", *COMPONENTS}


@dataclass(frozen=True)
class LabelTask:
    """A row to label, with the model's prediction.

    Attributes
    ----------
    id : int or str
    data : str
        What annotators see: a text, a path or a URL. Empty if there are no data.
    class_index : int
        The most probable class of the mean prediction.
    label : str
        Its name.
    probability : float
        Its probability.
    measures : dict
        ``rank`` from 1, ``score``, what the score is (``measure``), and the uncertainty: ``total``,
        ``aleatoric`` and ``epistemic``.
    """

    id: int | str
    data: str
    class_index: int
    label: str
    probability: float
    measures: dict[str, Any]


@dataclass(frozen=True)
class LabelTasks:
    """Rows to label, in the order of choice, and what a tool is to call things.

    Attributes
    ----------
    tasks : list of LabelTask
    class_names : tuple of str
    field : str
        Of the data; empty if there are none.
    question : str
        Of the predictions; empty if the tool has no questions.
    model : str
    """

    tasks: list[LabelTask]
    class_names: tuple[str, ...]
    field: str
    question: str
    model: str


@dataclass(frozen=True)
class LabelTool:
    """A labelling tool, and how to write a file that it imports.

    Attributes
    ----------
    name : str
        By which users choose it.
    suffix : str
        Of the file.
    write : callable
        ``write(tasks, path)`` writes :class:`LabelTasks` to a new file.
    needs_data : bool
        Whether there are no tasks without data.
    names_data : bool
        Whether the data have a name, ``field``.
    question : callable, optional
        ``question(field, question)`` returns the name of the question, by default if it is None,
        and raises if there cannot be such names. Without it, the tool has neither questions nor
        models.
    """

    name: str
    suffix: str
    write: Callable[[LabelTasks, Path], None]
    needs_data: bool = True
    names_data: bool = True
    question: Callable[[str, str | None], str] | None = None


@cache
def _tools() -> dict[str, LabelTool]:
    """Return all tools by name: ``TOOL`` of all modules ``_tool_….py``."""
    folder = str(Path(__file__).parent)
    modules = [module.name for module in pkgutil.iter_modules([folder], "scorewise.acquire.")]
    tools = [import_module(name).TOOL for name in modules if "._tool_" in name]
    return {tool.name: tool for tool in tools}


def label_tools() -> tuple[str, ...]:
    """Return the names of the labelling tools that :func:`write_label_tasks` knows.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from scorewise.acquire import label_tools
    >>> label_tools()
    ('argilla', 'csv', 'fiftyone', 'label-studio')
    """
    return tuple(_tools())


def check_label_tasks(
    path: str | os.PathLike[str],
    tool: str,
    *,
    has_data: bool = True,
    field: str | None = None,
    question: str | None = None,
    model: str | None = None,
) -> None:
    """Raise if :func:`write_label_tasks` would refuse these arguments, before any work is done.

    A file that exists is not replaced: people may have put labels into it.

    Parameters
    ----------
    path, tool
        As for :func:`write_label_tasks`.
    has_data : bool
        Whether ``data`` will be passed.
    field, question, model
        As for :func:`write_label_tasks`.

    Raises
    ------
    InvalidInput
        If the tool needs something that is not there, or the path exists.

    Examples
    --------
    >>> from scorewise.acquire import check_label_tasks
    >>> check_label_tasks("tasks.csv", "argilla", field="text")
    Traceback (most recent call last):
    scorewise.errors.InvalidInput: 'tasks.csv' must end in .json, for argilla
    """
    path = Path(path)
    label_tool = _tools()[validate.choice(tool, "tool", label_tools())]
    if path.suffix.lower() != label_tool.suffix:
        raise InvalidInput(f"{path.name!r} must end in {label_tool.suffix}, for {tool}")
    check_output_path(path)
    if path.exists():
        raise InvalidInput(
            f"{path.name!r} exists, and may have labels by now, so it is not replaced; write to "
            "another file, or remove it first"
        )
    if label_tool.needs_data and not has_data:
        raise InvalidInput(
            f"{tool} needs what annotators are to see",
            Remedy("data", ..., "with the text, path or URL of each row"),
        )
    if not has_data and field is not None:
        raise InvalidInput("field names data, and there are none", Remedy("field", None))
    if has_data and label_tool.names_data:
        if field is None:
            raise InvalidInput("the data have no name", Remedy("field", ..., 'such as "text"'))
        if field in _OWN_NAMES:
            raise InvalidInput(
                f"{quoted(field)} is the name of something else in the tasks",
                Remedy("field", ..., "another name"),
            )
    if label_tool.question is not None:
        label_tool.question(field or "", question)
        return
    for argument, name in (("question", question), ("model", model)):
        if name is not None:
            raise InvalidInput(f"{tool} has no {argument}", Remedy(argument, None))


@validate.takes_options_of(Samples)
def write_label_tasks(
    path: str | os.PathLike[str],
    tool: str,
    predictions: Any,
    ids: Any,
    rule: RuleLike = "zero-one",
    *,
    data: Sequence[str] | None = None,
    scores: Any = None,
    measure: str = "score",
    field: str | None = None,
    question: str | None = None,
    model: str | None = None,
    **options: Any,
) -> None:
    """Write rows to label to a file that a labelling tool imports, with the model's predictions.

    Use it with the rows that :func:`scorewise.acquire` or :func:`scorewise.acquire_batch` chose.
    Tasks have the most probable class and its probability, and, to sort by, ``rank``, ``score``,
    ``measure`` and the ``total``, ``aleatoric`` and ``epistemic`` uncertainty. All arguments have
    the n rows to label, in the order of choice.

    ================  ==============================================================================
    ``label-studio``  JSON tasks with predictions
    ``argilla``       JSON records with suggestions and metadata
    ``fiftyone``      ``labels.json`` of a ``FiftyOneImageClassificationDataset``
    ``csv``           a table
    ================  ==============================================================================

    Parameters
    ----------
    path : str or path
        A file that does not exist: ``.json``, or ``.csv``.
    tool : str
        One of the above.
    predictions : array (n, M, K), Samples, Dirichlet or Predictions
        Labels are the names of the classes, or ``"0"``, ``"1"``, … if they have none.
    ids : array (n,)
        What identifies the rows, such as their numbers in the pool.
    rule : str or ScoringRule
        The loss in whose units uncertainty is measured.
    data : sequence of n str, optional
        What annotators see: texts, or paths or URLs of images. Only ``csv`` does without.
    scores : array (n,), optional
        The scores by which the rows were chosen; by default, the epistemic uncertainty.
    measure : str
        What the scores are, such as ``"joint_gain_log"``.
    field : str, optional
        The name of the data: Argilla's field, the column of the CSV file, and Label Studio's tag,
        with the same name as its variable (``<Text name="text" value="$text"/>``).
    question : str, optional
        The name of what is predicted: Argilla's question, by default ``label``; Label Studio's tag
        ``Choices``, by default that of its template for the field: ``sentiment`` for ``text``,
        ``choice`` for ``image``.
    model : str, optional
        The name of the model, for Label Studio and Argilla; by default ``scorewise``.
    **options
        Those of :class:`scorewise.Samples`, if ``predictions`` is an array.

    Raises
    ------
    InvalidInput
        If the tool needs something that is not there, or the path exists.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.acquire import write_label_tasks
    >>> pool = np.array([[[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.3, 0.7]]])
    >>> texts = np.array(["no train", "a late train"])
    >>> rows = sw.acquire(sw.decompose(pool, "zero-one").epistemic, 1)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tasks.json"
    >>> write_label_tasks(path, "label-studio", pool[rows], rows, data=texts[rows], field="text",
    ...                   class_names=["ham", "spam"])
    >>> task, = json.loads(path.read_text())
    >>> task["data"]["text"], task["predictions"][0]["result"][0]["value"]
    ('a late train', {'choices': ['ham']})
    """
    check_label_tasks(
        path, tool, has_data=data is not None, field=field, question=question, model=model
    )
    label_tool = _tools()[tool]
    distribution = receive_rows(predictions, "predictions", options)
    mean = to_numpy(distribution.mean)
    n, n_classes = mean.shape
    if not n:
        raise InvalidInput("there are no rows to write")
    decomposition = decompose(distribution, rule)
    if scores is None:
        scores, measure = to_numpy(decomposition.epistemic), f"epistemic_{get_rule(rule).name}"
    scores = validate.vector(scores, "scores")
    texts = [""] * n if data is None else _checked_texts(data)
    for name, values in (("scores", scores), ("data", texts)):
        if len(values) != n:
            raise InvalidInput(f"there are {len(values)} {name} for {n} rows")
    names = class_names_of(distribution) or tuple(map(str, range(n_classes)))
    measures = {
        "rank": range(1, n + 1),
        "score": scores.tolist(),
        "measure": [measure] * n,
        **{name: to_numpy(getattr(decomposition, name)).tolist() for name in COMPONENTS},
    }
    rows = zip(
        checked_ids(ids, n).tolist(),
        texts,
        mean.argmax(axis=-1).tolist(),
        np.minimum(mean.max(axis=-1), 1).tolist(),  # tools refuse what rounding adds to 1
        zip(*measures.values(), strict=True),
        strict=True,
    )
    tasks = [
        LabelTask(row_id, text, k, names[k], p, dict(zip(measures, values, strict=True)))
        for row_id, text, k, p, values in rows
    ]
    field = field or ""
    question = label_tool.question(field, question) if label_tool.question is not None else ""
    with replacing(Path(path)) as partial:
        label_tool.write(LabelTasks(tasks, names, field, question, model or "scorewise"), partial)


def write_json(content: Any, path: Path) -> None:
    """Write JSON, for tools that import it."""
    path.write_text(dumps(content, indent=1) + "\n", encoding="utf-8")


def _checked_texts(data: Sequence[str]) -> list[str]:
    texts: list[Any] = np.asarray(data, dtype=object).tolist()  # strings of NumPy become strings
    for i, text in enumerate(texts):
        if not isinstance(text, str) or not text:
            raise InvalidInput(f"data[{i}] is {quoted(text)}; it must be a text, a path or a URL")
    return texts
