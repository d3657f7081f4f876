"""Predictions in files (NPZ, Parquet, Arrow, CSV, JSON Lines, …), and scores for their rows."""

from scorewise.io._cost_matrix import read_cost_matrix
from scorewise.io._format_parquet import parquet_schema, predictions_of_table, read_parquet_file
from scorewise.io._formats import prediction_suffixes, read_predictions, write_predictions
from scorewise.io._logprobs import read_logprobs
from scorewise.io._predictions import Predictions
from scorewise.io._score import RowScores, ScoredFile, row_uncertainties, score_file
from scorewise.io._texts import TextColumn
from scorewise.io._truncate import TruncatedPredictions, truncate, truncation_bounds

__all__ = [
    "Predictions",
    "RowScores",
    "ScoredFile",
    "TextColumn",
    "TruncatedPredictions",
    "parquet_schema",
    "prediction_suffixes",
    "predictions_of_table",
    "read_cost_matrix",
    "read_logprobs",
    "read_parquet_file",
    "read_predictions",
    "row_uncertainties",
    "score_file",
    "truncate",
    "truncation_bounds",
    "write_predictions",
]
