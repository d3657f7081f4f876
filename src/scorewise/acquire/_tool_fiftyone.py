"""``labels.json`` of a ``FiftyOneImageClassificationDataset``, with confidences and attributes.

An image is identified by its absolute path, or by its path in the folder of images without the
suffix. FiftyOne orders images by these; the attribute ``rank`` has the order of choice.
"""

from __future__ import annotations

import os
from pathlib import Path

from scorewise import _validate as validate
from scorewise._text import quoted
from scorewise.acquire._label_tasks import LabelTasks, LabelTool, write_json
from scorewise.errors import InvalidInput


def _write(tasks: LabelTasks, path: Path) -> None:
    images = [_image_name(task.data) for task in tasks.tasks]
    if (repeated := validate.first_repeated(images)) is not None:
        raise InvalidInput(f"two rows have the image {quoted(repeated)}, apart from its suffix")
    labels = {
        image: {
            "label": task.class_index,
            "confidence": task.probability,
            "attributes": {"row_id": task.id, **task.measures},
        }
        for image, task in zip(images, tasks.tasks, strict=True)
    }
    write_json({"classes": tasks.class_names, "labels": labels}, path)


def _image_name(image: str) -> str:
    """Return the name by which FiftyOne identifies an image."""
    normal = os.path.normpath(image)
    if "://" in image or normal.startswith(os.pardir):
        raise InvalidInput(
            f"FiftyOne cannot find the image {quoted(image)}; its path must be absolute, or "
            "relative to the folder of images"
        )
    return normal if os.path.isabs(normal) else os.path.splitext(normal)[0]


TOOL = LabelTool("fiftyone", ".json", _write, names_data=False)
