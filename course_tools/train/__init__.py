"""Training: memory, layouts, what a step takes and what a run costs."""

from course_tools.train.counts import (
    PASSES,
    backward,
    conventions,
    flops,
    hfu,
    mfu,
    tokens_per_second,
    utilisation,
)
from course_tools.train.evidence import check, published_runs, shapes
from course_tools.train.footprints import TrainingMemory, memory
from course_tools.train.parallelism import Layout, bubble, cluster, constants, frameworks, layout
from course_tools.train.steps import (
    PARTS,
    SAVE_FIXED,
    TrainingRun,
    TrainingStep,
    checkpoint_interval,
    goodput,
    layouts,
    run,
    save_time,
    step,
)
from course_tools.train.tuning import Method, method

__all__ = [
    "PARTS",
    "PASSES",
    "SAVE_FIXED",
    "Layout",
    "Method",
    "TrainingMemory",
    "TrainingRun",
    "TrainingStep",
    "backward",
    "bubble",
    "check",
    "checkpoint_interval",
    "cluster",
    "constants",
    "conventions",
    "flops",
    "frameworks",
    "goodput",
    "hfu",
    "layout",
    "layouts",
    "memory",
    "method",
    "mfu",
    "published_runs",
    "run",
    "save_time",
    "shapes",
    "step",
    "tokens_per_second",
    "utilisation",
]
