"""Training: memory, layouts, what a step takes and what a run costs."""

from course_lib.training.clock import PARTS, Exchange
from course_lib.training.counts import (
    PASSES,
    Recompute,
    flops,
    hfu,
    mfu,
    tokens_per_second,
    utilisation,
)
from course_lib.training.evidence import Check, Runs, check, published_runs, shapes
from course_lib.training.footprints import MEMORIES, OPTIMIZERS, TrainingMemory, memory
from course_lib.training.machines import Cluster, cluster
from course_lib.training.passes import Backward, backward
from course_lib.training.reliability import (
    SAVE_FIXED,
    TrainingRun,
    checkpoint_interval,
    goodput,
    run,
    save_time,
)
from course_lib.training.software import TrainingConstants, constants, frameworks
from course_lib.training.splits import SCHEDULES, Layout, bubble, layout
from course_lib.training.steps import RankedLayout, TrainingStep, layouts, step

__all__ = [
    "MEMORIES",
    "OPTIMIZERS",
    "PARTS",
    "PASSES",
    "SAVE_FIXED",
    "SCHEDULES",
    "Backward",
    "Check",
    "Cluster",
    "Exchange",
    "Layout",
    "RankedLayout",
    "Recompute",
    "Runs",
    "TrainingConstants",
    "TrainingMemory",
    "TrainingRun",
    "TrainingStep",
    "backward",
    "bubble",
    "check",
    "checkpoint_interval",
    "cluster",
    "constants",
    "flops",
    "frameworks",
    "goodput",
    "hfu",
    "layout",
    "layouts",
    "memory",
    "mfu",
    "published_runs",
    "run",
    "save_time",
    "shapes",
    "step",
    "tokens_per_second",
    "utilisation",
]
