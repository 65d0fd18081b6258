"""What work is likely to take, beside the bound."""

from course_lib.calibrate.accuracy import coverage, mean_error
from course_lib.calibrate.constants import (
    Calibration,
    CalibrationFile,
    LinkConstants,
    Range,
    calibration,
    calibrations,
    from_file,
    to_toml,
)
from course_lib.calibrate.kernels import Constants
from course_lib.calibrate.prediction import (
    COMPUTE,
    MEMORY,
    Prediction,
    achieved,
    all_reduce,
    breakdown,
    predict,
)

__all__ = [
    "COMPUTE",
    "MEMORY",
    "Calibration",
    "CalibrationFile",
    "Constants",
    "LinkConstants",
    "Prediction",
    "Range",
    "achieved",
    "all_reduce",
    "breakdown",
    "calibration",
    "calibrations",
    "coverage",
    "from_file",
    "mean_error",
    "predict",
    "to_toml",
]
