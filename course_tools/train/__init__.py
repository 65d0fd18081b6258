"""Training: memory, layouts, what a step takes and what a run costs."""

from course_tools.train.counts import (
    PASSES,
    Backward,
    Recompute,
    backward,
    flops,
    hfu,
    mfu,
    tokens_per_second,
    utilisation,
)
from course_tools.train.evidence import Check, Runs, check, published_runs, shapes
from course_tools.train.footprints import MEMORIES, OPTIMIZERS, TrainingMemory, memory
from course_tools.train.machines import Cluster, TrainingConstants, cluster, constants, frameworks
from course_tools.train.parallelism import SCHEDULES, Layout, bubble, layout
from course_tools.train.reliability import (
    SAVE_FIXED,
    TrainingRun,
    checkpoint_interval,
    goodput,
    run,
    save_time,
)
from course_tools.train.steps import PARTS, Exchange, RankedLayout, TrainingStep, layouts, step

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
