"""Roofline arithmetic for accelerators: what a step must cost at least, and why.

Everything is in SI base units (FLOP/s, byte/s, byte, s, W) and broadcasts over NumPy arrays.

>>> from course_lib import chip, ops, roofline
>>> step = roofline(ops.matmul(16, 4096, 4096), chip("h100-sxm"))
>>> step.bound
'memory-bound'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from course_lib import ops
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

if TYPE_CHECKING:
    from course_lib import bench, calibrate, diagnosis, measured, network, serve
    from course_lib import training as train
    from course_lib.book import exercises, explore, moving, plot, rent, reports, tables, teaching
    from course_lib.book.text import glossary, n, t, table
    from course_lib.measured import results, trace
    from course_lib.workloads import block, llm, occupancy, resnet

ROOMS = {
    "bench": "bench",
    "block": "workloads.block",
    "calibrate": "calibrate",
    "diagnosis": "diagnosis",
    "exercises": "book.exercises",
    "explore": "book.explore",
    "llm": "workloads.llm",
    "measured": "measured",
    "moving": "book.moving",
    "network": "network",
    "occupancy": "workloads.occupancy",
    "plot": "book.plot",
    "rent": "book.rent",
    "reports": "book.reports",
    "resnet": "workloads.resnet",
    "results": "measured.results",
    "serve": "serve",
    "tables": "book.tables",
    "teaching": "book.teaching",
    "trace": "measured.trace",
    "train": "training",
}
"""What `from course_lib import llm` gives, imported when it is asked for: who plots waits for
matplotlib, nobody else.
"""

WORDS = ("glossary", "n", "t", "table")
"""Of `course_lib.book.text`, likewise."""

CourseError.__module__ = __name__

__all__ = [
    "Accelerator",
    "CourseError",
    "Estimate",
    "Work",
    "attainable",
    "bench",
    "block",
    "calibrate",
    "chip",
    "chip_of_device",
    "chips",
    "critical_batch",
    "diagnosis",
    "exercises",
    "explore",
    "glossary",
    "itemsize",
    "llm",
    "measured",
    "model",
    "models",
    "moving",
    "n",
    "network",
    "occupancy",
    "ops",
    "plot",
    "rent",
    "reports",
    "resnet",
    "results",
    "ridge",
    "roofline",
    "serve",
    "t",
    "table",
    "tables",
    "teaching",
    "total",
    "trace",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return import_module(f"course_lib.{ROOMS[name]}")
    if name in WORDS:
        return getattr(import_module("course_lib.book.text"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
