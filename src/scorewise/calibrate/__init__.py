"""Is the uncertainty calibrated, and how to recalibrate it."""

from typing import TYPE_CHECKING

from scorewise._lazy import lazy_names
from scorewise.calibrate._calibration import LossCalibration, loss_calibration
from scorewise.calibrate._temperature import Temperature, fit_temperature

if TYPE_CHECKING:
    from scorewise.calibrate._recalibration import LossRecalibrator

__all__ = [
    "LossCalibration",
    "LossRecalibrator",
    "Temperature",
    "fit_temperature",
    "loss_calibration",
]

__getattr__, __dir__ = lazy_names(
    __name__, {"LossRecalibrator": "scorewise.calibrate._recalibration"}
)
