"""Images of all sizes, brought to one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from scorewise.datasets import Rows

_TOGETHER = 256  # images in a batch; the next one is decoded while it is used
_THREADS = min(8, os.cpu_count() or 1)  # that decode


def normalized(images: Tensor, mean: Sequence[float], deviation: Sequence[float]) -> Tensor:
    """Bytes to numbers around 0, channel by channel."""
    centre, scale = (
        torch.tensor(x, device=images.device)[:, None, None] for x in (mean, deviation)
    )
    scaled: Tensor = (images.float() / 255 - centre) / scale
    return scaled.contiguous(memory_format=torch.channels_last)


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
