"""What work is likely to take, beside the bound."""

from course_tools.calibrate.constants import (
    Calibration,
    CalibrationFile,
    calibration,
    calibrations,
    engines,
    from_file,
    to_toml,
)
from course_tools.calibrate.kernels import Constants, EngineConstants
from course_tools.calibrate.links import InSwitch, LinkConstants, Range
from course_tools.calibrate.prediction import (
    STATES,
    Prediction,
    achieved,
    breakdown,
    collective,
    coverage,
    mean_error,
    predict,
)
from course_tools.calibrate.timing import COMPUTE, MEMORY

__all__ = [
    "COMPUTE",
    "MEMORY",
    "STATES",
    "Calibration",
    "CalibrationFile",
    "Constants",
    "EngineConstants",
    "InSwitch",
    "LinkConstants",
    "Prediction",
    "Range",
    "achieved",
    "breakdown",
    "calibration",
    "calibrations",
    "collective",
    "coverage",
    "engines",
    "from_file",
    "mean_error",
    "predict",
    "to_toml",
]
