"""Predictions in files (NPZ, NPY, Parquet, Arrow, CSV, safetensors), and scores for their rows."""

from scorewise.io._columns import LABEL
from scorewise.io._costs import read_costs
from scorewise.io._digests import digest, stamp
from scorewise.io._fields import UNLABELLED, checked_ids, checked_labels, checked_names
from scorewise.io._formats import read_predictions, write_predictions
from scorewise.io._predictions import Predictions
from scorewise.io._score import Scored, column_name, decomposed_chunks, described, score_file
from scorewise.io._tables import check_file_path, check_table_path, pyarrow, row_names, write_table

__all__ = [
    "LABEL",
    "UNLABELLED",
    "Predictions",
    "Scored",
    "check_file_path",
    "check_table_path",
    "checked_ids",
    "checked_labels",
    "checked_names",
    "column_name",
    "decomposed_chunks",
    "described",
    "digest",
    "pyarrow",
    "read_costs",
    "read_predictions",
    "row_names",
    "score_file",
    "stamp",
    "write_predictions",
    "write_table",
]
