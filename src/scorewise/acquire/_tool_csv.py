"""A table, for spreadsheets and for tools that import CSV files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scorewise._tables import write_table
from scorewise.acquire._label_tasks import LabelTasks, LabelTool


def _write(tasks: LabelTasks, path: Path) -> None:
    rows = [
        {
            "rank": task.measures["rank"],
            "id": task.id,
            "label": task.label,
            "probability": task.probability,
            **task.measures,
            **({tasks.field: task.data} if tasks.field else {}),
        }
        for task in tasks.tasks
    ]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    arrays = {
        name: np.array(values, dtype=object if isinstance(values[0], str) else None)
        for name, values in columns.items()
    }
    write_table(path, arrays, {})


TOOL = LabelTool("csv", ".csv", _write, needs_data=False)
