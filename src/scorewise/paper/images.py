"""Images of all sizes, brought to one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from scorewise._random import generator
from scorewise.datasets import Rows

_TOGETHER = 256  # images that are decoded before the next are


def drawn_rows(rows: Rows, most: int | None, run: int) -> np.ndarray:
    """Indices of rows drawn at random for a run, all of them where there are no more."""
    chosen: np.ndarray = generator(run, 0).permutation(len(rows.x))[:most]
    return chosen


def squares(rows: Rows, chosen: np.ndarray, side: int) -> Iterator[Tensor]:
    """Batches of bytes ``(n, 3, side, side)``: the middle of each image, resized."""
    for start in range(0, len(chosen), _TOGETHER):
        part = chosen[start : start + _TOGETHER]
        if isinstance(rows.x, np.ndarray):
            yield _resized(torch.from_numpy(rows.x[part]), side)
        else:
            made = (torch.from_numpy(np.array(rows.x[int(i)])).movedim(-1, 0)[None] for i in part)
            yield torch.cat([_resized(one, side) for one in made])


def _resized(images: Tensor, side: int) -> Tensor:
    """The shorter side made as long as wanted, the longer one cut."""
    height, width = images.shape[2:]
    if (height, width) == (side, side):
        return images
    scale = side / min(height, width)
    shape = (max(side, round(height * scale)), max(side, round(width * scale)))
    found = functional.interpolate(
        images.float(), shape, mode="bilinear", antialias=True, align_corners=False
    )
    top, left = (shape[0] - side) // 2, (shape[1] - side) // 2
    middle = found[:, :, top : top + side, left : left + side]
    return middle.round().clamp(0, 255).to(torch.uint8)
