"""Images of all sizes, brought to one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from scorewise._random import generator
from scorewise.datasets import Rows

_TOGETHER = 256  # images in a batch; the next one is decoded while it is used
_THREADS = min(8, os.cpu_count() or 1)  # that decode


def drawn_rows(rows: Rows, most: int | None, run: int) -> np.ndarray:
    """Indices of rows drawn at random for a run, all of them where there are no more."""
    chosen: np.ndarray = generator(run, 0).permutation(len(rows.x))[:most]
    return chosen


def squares(rows: Rows, chosen: np.ndarray, side: int) -> Iterator[Tensor]:
    """Batches of bytes ``(n, 3, side, side)``: the middle of each image, resized."""
    parts = [chosen[i : i + _TOGETHER] for i in range(0, len(chosen), _TOGETHER)]
    if isinstance(rows.x, np.ndarray):
        for part in parts:
            yield _resized(torch.from_numpy(rows.x[part]), side)
        return

    def decoded(i: int) -> Tensor:
        return _resized(torch.from_numpy(rows.x[i]).movedim(-1, 0)[None], side)

    with ThreadPoolExecutor(_THREADS) as pool:
        coming: Iterator[Tensor] | None = None
        for part in parts:
            ready, coming = coming, pool.map(decoded, part.tolist())
            if ready is not None:
                yield torch.cat(list(ready))
        if coming is not None:
            yield torch.cat(list(coming))


def _resized(images: Tensor, side: int) -> Tensor:
    """The shorter side made as long as wanted, the longer one cut, as torchvision does it."""
    height, width = images.shape[2:]
    if (height, width) == (side, side):
        return images
    shape = [int(side * n / min(height, width)) for n in (height, width)]
    found = functional.interpolate(
        images.float(), shape, mode="bilinear", antialias=True, align_corners=False
    )
    top, left = (round((n - side) / 2) for n in shape)
    middle = found[:, :, top : top + side, left : left + side]
    return middle.round().clamp(0, 255).to(torch.uint8)
