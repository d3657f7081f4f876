"""The same work on a Dask cluster: folders of predictions that do not fit one machine."""

from scorewise.scale._apply_dataset import AppliedDataset, apply_to_dataset
from scorewise.scale._cluster import cluster
from scorewise.scale._dataset import Dataset, Partition
from scorewise.scale._decide_dataset import DecidedDataset, decide_dataset
from scorewise.scale._evaluate_blocks import compare, compare_dataset, evaluate, evaluate_dataset
from scorewise.scale._job import Work, WrittenPartitions, map_in_order, write_partitions
from scorewise.scale._ranks import ScoreHistogram
from scorewise.scale._sample import RowSample
from scorewise.scale._score_dataset import ScoredDataset, score_dataset
from scorewise.scale._summary import ColumnSummary

__all__ = [
    "AppliedDataset",
    "ColumnSummary",
    "Dataset",
    "DecidedDataset",
    "Partition",
    "RowSample",
    "ScoreHistogram",
    "ScoredDataset",
    "Work",
    "WrittenPartitions",
    "apply_to_dataset",
    "cluster",
    "compare",
    "compare_dataset",
    "decide_dataset",
    "evaluate",
    "evaluate_dataset",
    "map_in_order",
    "score_dataset",
    "write_partitions",
]
