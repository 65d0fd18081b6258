"""What work is likely to take, beside the bound."""

from course_lib.calibrate.collectives import collective
from course_lib.calibrate.constants import (
    Calibration,
    CalibrationFile,
    calibration,
    calibrations,
    engines,
    from_file,
    to_toml,
)
from course_lib.calibrate.kernels import Constants, EngineConstants
from course_lib.calibrate.links import InSwitch, LinkConstants, Range
from course_lib.calibrate.prediction import (
    STATES,
    Prediction,
    achieved,
    breakdown,
    coverage,
    mean_error,
    predict,
)
from course_lib.calibrate.timing import COMPUTE, MEMORY

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
