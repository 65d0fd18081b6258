"""Finds why a recorded step is slow: reads a trace of torch.profiler, or what Nsight recorded, and
names one cause.
"""

from course_tools.diagnosis.causes import CAUSES, FLOW, SEEDED, Fork, path_to, seeded
from course_tools.diagnosis.differences import Change, Comparison, compare
from course_tools.diagnosis.ncu import KernelCounters, read_counters
from course_tools.diagnosis.reading.tables import source
from course_tools.diagnosis.root_cause import Diagnosis, Evidence, Operator, diagnose
from course_tools.diagnosis.sums import NsysSums, Total, read_sums

__all__ = [
    "CAUSES",
    "FLOW",
    "SEEDED",
    "Change",
    "Comparison",
    "Diagnosis",
    "Evidence",
    "Fork",
    "KernelCounters",
    "NsysSums",
    "Operator",
    "Total",
    "compare",
    "diagnose",
    "path_to",
    "read_counters",
    "read_sums",
    "seeded",
    "source",
]
