"""The same work on a Dask cluster: folders of predictions that do not fit one machine."""

from scorewise.scale._cluster import cluster
from scorewise.scale._dataset import Dataset, Partition
from scorewise.scale._job import Work, WrittenPartitions, map_in_order, write_partitions
from scorewise.scale._score_dataset import ScoredDataset, score_dataset
from scorewise.scale._summary import ColumnSummary

__all__ = [
    "ColumnSummary",
    "Dataset",
    "Partition",
    "ScoredDataset",
    "Work",
    "WrittenPartitions",
    "cluster",
    "map_in_order",
    "score_dataset",
    "write_partitions",
]
