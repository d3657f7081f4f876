"""The same work on a Dask cluster: folders of predictions that do not fit one machine."""

from scorewise.scale._evaluate_blocks import compare, evaluate
from scorewise.scale._ranks import ScoreHistogram
from scorewise.scale._sample import RowSample

__all__ = ["RowSample", "ScoreHistogram", "compare", "evaluate"]
