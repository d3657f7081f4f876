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
from scorewise.calibrate._loss_calibration import (  # for scale
    calibration_of_groups as calibration_of_groups,
)
from scorewise.calibrate._loss_calibration import calibration_values as calibration_values
from scorewise.calibrate._scaling import METHODS

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
