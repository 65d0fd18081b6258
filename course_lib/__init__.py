"""Roofline arithmetic for accelerators: what a step must cost at least, and why.

Everything is in SI base units (FLOP/s, byte/s, byte, s, W) and broadcasts over NumPy arrays.

>>> from course_lib import chip, ops, roofline
>>> step = roofline(ops.matmul(16, 4096, 4096), chip("h100-sxm"))
>>> step.bound
'memory-bound'
"""

from course_lib import network, ops, specs
from course_lib.core import (
    CourseError,
    Estimate,
    Work,
    attainable,
    critical_batch,
    itemsize,
    ridge,
    roofline,
    total,
)
from course_lib.specs import Accelerator, chip, chip_of_device, chips, model, models
from course_lib.workloads import block, llm, occupancy, resnet

CourseError.__module__ = __name__

__all__ = [
    "Accelerator",
    "CourseError",
    "Estimate",
    "Work",
    "attainable",
    "block",
    "chip",
    "chip_of_device",
    "chips",
    "critical_batch",
    "itemsize",
    "llm",
    "model",
    "models",
    "network",
    "occupancy",
    "ops",
    "resnet",
    "ridge",
    "roofline",
    "specs",
    "total",
]
