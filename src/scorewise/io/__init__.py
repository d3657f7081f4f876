"""Predictions in files (NPZ, NPY, Parquet, Arrow, CSV, safetensors), and scores for their rows."""

from scorewise.io._cost_matrix import read_cost_matrix
from scorewise.io._formats import prediction_suffixes, read_predictions, write_predictions
from scorewise.io._predictions import Predictions
from scorewise.io._score import ScoredFile, column_name, row_uncertainties, score_file
from scorewise.io._tables import (
    check_output_path,
    check_table_path,
    digest,
    input_metadata,
    row_column,
    write_table,
)

__all__ = [
    "Predictions",
    "ScoredFile",
    "check_output_path",
    "check_table_path",
    "column_name",
    "digest",
    "input_metadata",
    "prediction_suffixes",
    "read_cost_matrix",
    "read_predictions",
    "row_column",
    "row_uncertainties",
    "score_file",
    "write_predictions",
    "write_table",
]
