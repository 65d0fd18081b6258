"""What work is likely to take, beside the bound."""

from course_tools.calibrate.constants import Calibration, calibration, calibrations, engines
from course_tools.calibrate.prediction import (
    STATES,
    Prediction,
    breakdown,
    collective,
    mean_error,
    predict,
)
from course_tools.calibrate.timing import COMPUTE, MEMORY

__all__ = [
    "COMPUTE",
    "MEMORY",
    "STATES",
    "Calibration",
    "Prediction",
    "breakdown",
    "calibration",
    "calibrations",
    "collective",
    "engines",
    "mean_error",
    "predict",
]
