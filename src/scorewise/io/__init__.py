"""Predictions in files: NPZ, NPY, Parquet and Arrow, CSV, safetensors."""

from scorewise.io.formats import read_predictions, write_predictions
from scorewise.io.predictions import Predictions

__all__ = ["Predictions", "read_predictions", "write_predictions"]
