"""Records with suggestions and metadata, as ``records.from_json`` of Argilla 2 reads them."""

from __future__ import annotations

import re
from pathlib import Path

from scorewise._text import quoted
from scorewise.acquire._label_tasks import LabelTasks, LabelTool, write_json
from scorewise.errors import InvalidInput, Remedy

_NAME = re.compile(r"(?=.*[a-z0-9])[a-z0-9_-]+")  # what the server accepts


def _question(field: str, question: str | None) -> str:
    question = question or "label"
    for argument, name in (("field", field), ("question", question)):
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                f"{quoted(name)} cannot be the name of a {argument} of Argilla, which consists of "
                "small letters, digits, - and _",
                Remedy(argument, ..., "such a name"),
            )
    return question


def _write(tasks: LabelTasks, path: Path) -> None:
    content = [
        {
            "id": str(task.id),
            "fields": {tasks.field: task.data},
            "metadata": task.measures,
            "suggestions": {
                tasks.question: {
                    "value": task.label,
                    "score": task.probability,
                    "agent": tasks.model,
                }
            },
        }
        for task in tasks.tasks
    ]
    write_json(content, path)


TOOL = LabelTool("argilla", ".json", _write, question=_question)
