"""What every room stands on: errors and checks, formats, work, the roofline."""

from course_lib.core.bounds import (
    BOUNDS,
    RATES,
    Chip,
    Estimate,
    attainable,
    critical_batch,
    ridge,
    roofline,
    sensitivity,
    summed,
    total,
)
from course_lib.core.checks import CourseError, known
from course_lib.core.dtypes import BITS, itemsize
from course_lib.core.links import Link
from course_lib.core.work import Kind, Unit, Work

__all__ = [
    "BITS",
    "BOUNDS",
    "RATES",
    "Chip",
    "CourseError",
    "Estimate",
    "Kind",
    "Link",
    "Unit",
    "Work",
    "attainable",
    "critical_batch",
    "itemsize",
    "known",
    "ridge",
    "roofline",
    "sensitivity",
    "summed",
    "total",
]
