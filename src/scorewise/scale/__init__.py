"""The same work on a Dask cluster: folders of predictions that do not fit one machine."""

# acquire_rows, decompose_members, predict_blocks and predict_into are what other packages pass Dask
# collections to, by scorewise._lazy.at_scale; users call those.
from scorewise.scale._acquire import acquire_rows as acquire_rows
from scorewise.scale._apply_dataset import AppliedDataset, apply_to_dataset
from scorewise.scale._cluster import cluster
from scorewise.scale._dataset import Dataset, Partition
from scorewise.scale._decide_dataset import DecidedDataset, decide_dataset
from scorewise.scale._evaluate_blocks import compare, compare_dataset, evaluate, evaluate_dataset
from scorewise.scale._held_out_rows import calibrate_dataset, certify_dataset
from scorewise.scale._job import Work, WrittenPartitions, map_in_order, write_partitions
from scorewise.scale._label_dataset import RowsToLabel, label_dataset
from scorewise.scale._member_tree import decompose_members as decompose_members
from scorewise.scale._ranks import ScoreHistogram
from scorewise.scale._row_predictions import predict_blocks as predict_blocks
from scorewise.scale._row_predictions import predict_into as predict_into
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
    "RowsToLabel",
    "ScoreHistogram",
    "ScoredDataset",
    "Work",
    "WrittenPartitions",
    "apply_to_dataset",
    "calibrate_dataset",
    "certify_dataset",
    "cluster",
    "compare",
    "compare_dataset",
    "decide_dataset",
    "evaluate",
    "evaluate_dataset",
    "label_dataset",
    "map_in_order",
    "score_dataset",
    "write_partitions",
]
