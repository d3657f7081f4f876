"""Predictions in files (NPZ, NPY, Parquet, Arrow, CSV, safetensors), and scores for their rows."""

from scorewise.io._cost_matrix import read_cost_matrix
from scorewise.io._formats import prediction_suffixes, read_predictions, write_predictions
from scorewise.io._predictions import Predictions
from scorewise.io._score import ScoredFile, row_uncertainties, score_file

__all__ = [
    "Predictions",
    "ScoredFile",
    "prediction_suffixes",
    "read_cost_matrix",
    "read_predictions",
    "row_uncertainties",
    "score_file",
    "write_predictions",
]
