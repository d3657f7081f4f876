"""Is the uncertainty calibrated, and how to calibrate the predictions."""

from scorewise.calibrate._calibrate import (
    Calibration,
    CrossCalibrated,
    MethodScore,
    cross_calibrate,
    fit_calibration,
    fit_mean_calibration,
    load_calibration,
)
from scorewise.calibrate._loss_calibration import LossCalibration, loss_calibration
from scorewise.calibrate._scaling import METHODS

# isort: split
# what later packages compute with; not for users
from scorewise.calibrate._calibrate import n_rows_to_try as n_rows_to_try
from scorewise.calibrate._calibrate import row_digests as row_digests
from scorewise.calibrate._calibrate import warn_if_unrelated as warn_if_unrelated
from scorewise.calibrate._loss_calibration import calibration_of_groups as calibration_of_groups
from scorewise.calibrate._loss_calibration import calibration_values as calibration_values

__all__ = [
    "METHODS",
    "Calibration",
    "CrossCalibrated",
    "LossCalibration",
    "MethodScore",
    "cross_calibrate",
    "fit_calibration",
    "fit_mean_calibration",
    "load_calibration",
    "loss_calibration",
]
