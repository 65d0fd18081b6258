"""Roofline arithmetic for accelerators: what a step must cost at least, and why.

Everything is in SI base units (FLOP/s, byte/s, byte, s, W) and broadcasts over NumPy arrays.

>>> from course_lib import chip, ops, roofline
>>> step = roofline(ops.matmul(16, 4096, 4096), chip("h100-sxm"))
>>> step.bound
'memory-bound'
"""

from typing import TYPE_CHECKING, Any

from course_lib import ops
from course_lib._checks import CourseError
from course_lib.roofline import Estimate, Work, attainable, critical_batch, ridge, roofline, total
from course_lib.specs import Accelerator, chip, chip_of_device, chips
from course_lib.text import glossary, n, t, table

if TYPE_CHECKING:
    from course_lib import calibrate, explore, llm, network, plot, resnet, train

CourseError.__module__ = __name__

__all__ = [
    "Accelerator", "CourseError", "Estimate", "Work", "attainable", "calibrate", "chip", "chip_of_device", "chips",
    "critical_batch", "explore", "glossary", "llm", "n", "network", "ops", "plot", "resnet", "ridge", "roofline", "t",
    "table", "total", "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # matplotlib takes longer to import than all else together: only those who plot wait for it. The others come when asked for.
    if name in ("calibrate", "explore", "llm", "network", "plot", "resnet", "train"):
        from importlib import import_module

        return import_module(f"course_lib.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
