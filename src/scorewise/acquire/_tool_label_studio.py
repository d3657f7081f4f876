"""Tasks with predictions, in the JSON format of Label Studio.

The data of a task have the measures beside the text or image, so that the Data Manager can sort and
filter by them. The score of a prediction must be from 0 to 1 there: it is the probability.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scorewise._text import quoted
from scorewise.acquire._label_tasks import LabelTasks, LabelTool, write_json
from scorewise.errors import InvalidInput, Remedy

# The tag Choices in Label Studio's templates for classification, by the tag of the data.
_CHOICES = {"text": "sentiment", "image": "choice"}


def _question(field: str, question: str | None) -> str:
    choices = question or _CHOICES.get(field)
    if choices is None:
        raise InvalidInput(
            f"no template of Label Studio has the tag {quoted(field)}",
            Remedy("question", ..., "the name of the tag Choices in your configuration"),
        )
    return choices


def _write(tasks: LabelTasks, path: Path) -> None:
    content: list[dict[str, Any]] = [
        {
            "data": {tasks.field: task.data, "row_id": task.id, **task.measures},
            "predictions": [
                {
                    "model_version": tasks.model,
                    "score": task.probability,
                    "result": [
                        {
                            "from_name": tasks.question,
                            "to_name": tasks.field,
                            "type": "choices",
                            "value": {"choices": [task.label]},
                        }
                    ],
                }
            ],
        }
        for task in tasks.tasks
    ]
    write_json(content, path)


TOOL = LabelTool("label-studio", ".json", _write, question=_question)
